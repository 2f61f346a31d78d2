"""The number of examples under add-remove: taken from the data it leaks, and a declared one does not depend on the data."""

import json
import math
from itertools import product

import numpy as np
import pytest
import torch
from scipy.stats import chi2
from torch import nn

from privet.accounting import account
from privet.adjacency import AddRemove, ReplaceOne, ZeroOut
from privet.auditing import ClopperPearson
from privet.caveats import Caveat
from privet.errors import InvalidArgument, NotProved
from privet.events import Gaussian
from privet.ledger import Ledger
from privet.pipeline import audit
from privet.randomness import SecureNoise, SeededNoise
from privet.scores import Scores
from privet.training.canaries.kinds import Canaries, OutOfDistribution
from privet.training.clipping import Flat
from privet.training.loop.checkpoint import Checkpoint
from privet.training.loop.distributed import SingleProcess
from privet.training.loop.make_private import make_private
from privet.training.loop.options import RunOptions
from privet.training.loop.private_loop import PrivateLoop
from privet.training.loop.run import train
from privet.training.loop.setup import make_plan
from privet.training.noise.correlated import BandedNoise, IndependentNoise, TreeNoise
from privet.training.noise.distributions import Normal
from privet.training.plan import TrainingPlan
from privet.training.sampling.reading import as_examples
from privet.training.sampling.schemes import (
    CyclicPoissonSampling,
    CyclicSampling,
    FixedSizeSampling,
    PoissonSampling,
    ShuffledSampling,
)

PUBLIC = Caveat.SIZE_TAKEN_AS_PUBLIC


def data(count, width=3):
    generator = torch.Generator().manual_seed(count)
    return torch.randn(count, width, generator=generator), torch.arange(count) % 2


def planned(population, *, declared, epsilon=0.5, delta=1e-3, steps=4, lot=5):
    options = RunOptions(
        epsilon=epsilon, delta=delta, epochs=None, steps=steps, lot_size=lot, sampling=None, clip=Flat(1.0), optimizer=None,
        schedule=None, adjacency=AddRemove(), population=population if declared else None, correlation=IndependentNoise(),
        noise_distribution=Normal(), augmentation=None, encoding=None, denoising=None, average=None, micro_batch=None,
        canaries=None, checkpoint=None, process_group=SingleProcess(), noise=SecureNoise(),
    )  # fmt: skip
    return make_plan(population, options)


# The effect -----------------------------------------------------------------------------------------------------------


def noise_leak(first: TrainingPlan, second: TrainingPlan, numbers: int, delta: float) -> float:
    """The ε that a sum of squares of pure noise shows: exact, by the chi-square law, at the best of many thresholds.

    What a step releases has the deviation z·C/L in every weight that no example has a gradient in.
    """
    variances = [(plan.standard_deviation / plan.expected_lot) ** 2 for plan in (first, second)]
    at = np.linspace(0.8, 1.2, 4001) * numbers * np.mean(variances)
    best = 0.0
    for one, other in ((0, 1), (1, 0)):
        for side in (chi2.sf, chi2.cdf):
            gain, loss = side(at / variances[one], numbers), side(at / variances[other], numbers)
            with np.errstate(divide="ignore", invalid="ignore"):
                found = np.log(gain - delta) - np.log(loss)
            best = max(best, float(np.max(found[gain > 2 * delta], initial=0.0)))
    return best


def test_the_noise_of_many_weights_tells_n_from_n_minus_one_far_beyond_epsilon():
    """1000 steps of a model with 1000 weights, whose data has 100 examples or 99: ε = 1 is claimed, and 20 is exceeded."""
    settings = {"epsilon": 1.0, "delta": 1e-5, "steps": 1000, "lot": 10}
    first, second = planned(100, declared=False, **settings), planned(99, declared=False, **settings)
    for plan in (first, second):
        assert plan.guarantee().epsilon(delta=1e-5) <= 1.0
        assert PUBLIC in plan.guarantee().caveats
    assert noise_leak(first, second, 10**6, 1e-5) > 20
    same = planned(100, declared=True, **settings)
    assert PUBLIC not in same.guarantee().caveats
    assert noise_leak(same, same, 10**6, 1e-5) == 0


def mixture(rates, gradients, at, deviation):
    """The density of a Poisson lot's noisy sum, by every subset."""
    total = np.zeros_like(at)
    for taken in product((0, 1), repeat=len(rates)):
        weight = math.prod(rate if hit else 1 - rate for rate, hit in zip(rates, taken, strict=True))
        mean = sum(gradient * hit for gradient, hit in zip(gradients, taken, strict=True))
        total += weight * np.exp(-((at - mean) ** 2) / (2 * deviation**2))
    return total / (deviation * math.sqrt(2 * math.pi))


@pytest.mark.parametrize(("declared", "holds"), [(False, False), (True, True)])
def test_rates_that_follow_n_break_the_claim_and_declared_ones_do_not(declared, holds):
    """One step, by every subset: others pull one way and the target the other, and all others are drawn at the rate of n."""
    first = planned(4, declared=declared, epsilon=0.5, delta=1e-2, steps=1, lot=2)
    second = first if declared else planned(3, declared=False, epsilon=0.5, delta=1e-2, steps=1, lot=2)
    at = np.linspace(-40, 40, 80_001)
    in_, out = (
        mixture([plan.sampling.rate] * count, ([1.0] * 3 + [-1.0])[:count], at, plan.standard_deviation)
        for plan, count in ((first, 4), (second, 3))
    )
    for epsilon in (0.0, 0.1, 0.25, 0.5):
        step = float(at[1] - at[0])
        for one, other in ((in_, out), (out, in_)):
            truth = float(np.maximum(one - math.exp(epsilon) * other, 0).sum()) * step
            claimed = max(plan.guarantee().delta(epsilon=epsilon) for plan in (first, second))
            if holds:
                assert truth <= claimed + 1e-9
    worst = float(np.maximum(out - math.exp(0.25) * in_, 0).sum()) * float(at[1] - at[0])
    assert (worst <= first.guarantee().delta(epsilon=0.25)) == holds


def trained_weights(count, plan):
    """How far a run has moved 8,000 weights, in which no example has a gradient."""
    model = nn.Linear(4000, 2, bias=False)
    before = model.weight.detach().clone()
    rows = as_examples((torch.zeros(count, 4000), torch.zeros(count, dtype=torch.int64)))
    run = PrivateLoop(model, torch.optim.SGD(model.parameters(), 1.0), rows, plan, Flat(1.0))
    for lot in run.lots():
        run.step(lot, nn.CrossEntropyLoss())
    return float((model.weight.detach() - before).double().square().sum())


@pytest.mark.parametrize("declared", [False, True])
def test_an_audit_of_whole_runs_finds_it(declared):
    """60 runs on 20 examples, 60 on 19: released weights alone. False alarm: 0.1 % where the claim holds.

    The variance of the noise differs by 11 %, and is estimated to 1.6 %, so a miss is rarer than one in 10⁴.
    """
    first = planned(20, declared=declared)
    second = first if declared else planned(19, declared=False)
    values = [trained_weights(20, first) for _ in range(60)] + [
        trained_weights(19, second) for _ in range(60)
    ]
    scores = Scores(-np.array(values), np.arange(120) < 60, "norm of the update")
    found = ClopperPearson(confidence=0.999).epsilon(scores, delta=1e-3)
    claimed = max(plan.guarantee().epsilon(delta=1e-3) for plan in (first, second))
    assert claimed <= 0.5
    assert (found > claimed) == (not declared)


@pytest.mark.parametrize("sampling", [CyclicSampling(2), CyclicPoissonSampling(2, 1.0)])
def test_places_that_move_up_break_the_claim_and_the_caveat_says_so(sampling):
    """Records pull in turn one way and the other. Without the first of a list, a lot has those that pulled the other way."""
    fields = {"population": 20, "sampling": sampling, "steps": 1, "noise_multiplier": 2.0, "clip_bound": 1.0}
    gradients = torch.tensor([1.0, -1.0] * 10)
    sums = [
        float(part[sampling.make_sampler(len(part), SeededNoise(1)).draw()].sum())
        for part in (gradients, gradients[1:])
    ]
    plan = TrainingPlan(**fields, size_is_public=True)
    claimed = plan.guarantee()
    truth = account(Gaussian(plan.standard_deviation / abs(sums[0] - sums[1])), adjacency=AddRemove())
    assert sums == [10.0, -10.0]
    assert truth.epsilon_bounds(delta=1e-5).lower > 10 * claimed.epsilon(delta=1e-5)
    assert Caveat.PLACES_TAKEN_AS_PUBLIC in claimed.caveats
    gap = gradients.clone()
    gap[0] = 0.0  # zero-out: the place is kept
    assert abs(float(gap[sampling.make_sampler(20, SeededNoise(1)).draw()].sum()) - sums[0]) <= 1
    for adjacency in (ZeroOut(), ReplaceOne()):
        assert (
            Caveat.PLACES_TAKEN_AS_PUBLIC
            not in TrainingPlan(**fields, adjacency=adjacency).guarantee().caveats
        )
    fair = TrainingPlan(**(fields | {"sampling": PoissonSampling(0.5)}))
    assert Caveat.PLACES_TAKEN_AS_PUBLIC not in fair.guarantee().caveats


# The declaration ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [90, 100, 250])
def test_a_declared_size_sets_everything_whatever_the_data_has(count):
    settings = {"epsilon": 2.0, "delta": 1e-4, "epochs": 2, "lot_size": 20, "clip": Flat(1.0)}
    model = nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    run = make_private(model, optimizer, data(count), population=100, **settings)
    assert run.plan == make_private(model, optimizer, data(100), population=100, **settings).plan
    assert run.plan.expected_lot == 20
    assert run.plan.sampling == PoissonSampling(0.2)
    assert run.plan.steps == 10
    assert run._gradient.divisor == 20
    drawn = set()
    for lot in run.lots():
        drawn |= set(lot.indices.tolist())
        run.step(lot, nn.CrossEntropyLoss())
    assert max(drawn) >= 0.7 * count  # all of the examples are drawn from; fails in 1 of 10¹⁰ runs
    assert PUBLIC not in run.ledger.caveats


def test_the_short_way_declares_it_too():
    settings = {"epsilon": 2.0, "delta": 1e-5, "epochs": 1}
    for count in (900, 1100):
        trained = train(nn.Linear(3, 2), data(count), population=1000, **settings)
        assert trained.plan.population == 1000
        assert trained.plan.size_is_public
        assert trained.ledger.caveats == frozenset()
    assert PUBLIC in train(nn.Linear(3, 2), data(900), **settings).ledger.caveats
    with pytest.raises(InvalidArgument, match="'population'"):
        train(nn.Linear(3, 2), data(900), population=0, **settings)


def test_the_caveat_travels_and_other_adjacencies_do_not_have_it():
    fields = {"population": 100, "steps": 5, "noise_multiplier": 2.0, "clip_bound": 1.0}
    plan = TrainingPlan(sampling=PoissonSampling(0.1), **fields)
    ledger = plan.ledger(3)
    assert PUBLIC in Ledger.from_json(ledger.to_json()).caveats
    assert PUBLIC in account(ledger).caveats
    assert PUBLIC in plan.caveats(delta=1e-5)
    for adjacency in (ZeroOut(), ReplaceOne()):
        assert (
            PUBLIC
            not in TrainingPlan(sampling=PoissonSampling(0.1), adjacency=adjacency, **fields)
            .ledger(3)
            .caveats
        )


@pytest.mark.parametrize("population", [None, 300])
def test_the_caveat_reaches_the_report(population, tmp_path):
    trained = train(nn.Linear(3, 2), data(300), population=population, epsilon=2.0, delta=1e-5, epochs=1)
    others = torch.randn(300, 3), torch.arange(300) % 2
    report = audit(trained, data(300), others, delta=1e-5, attacks=["loss"])
    for name in ("report.json", "report.html"):
        report.save(tmp_path / name)
    expected = population is None
    assert ("SIZE_TAKEN_AS_PUBLIC" in (tmp_path / "report.json").read_text()) == expected
    assert ("does not hide the number itself" in (tmp_path / "report.html").read_text()) == expected


@pytest.mark.parametrize(
    ("sampling", "correlation"),
    [
        (CyclicPoissonSampling(4, 0.3), BandedNoise((1.0, 0.5))),
        (CyclicSampling(5), TreeNoise()),
        (CyclicSampling(200), IndependentNoise()),
    ],
)
def test_lots_in_turn_take_any_number_of_examples(sampling, correlation):
    """More parts than there are examples are fine: some lots are empty, as a secret number may have it."""
    plan = TrainingPlan(
        population=400, sampling=sampling, steps=8, noise_multiplier=2.0, clip_bound=1.0, correlation=correlation,
        size_is_public=True,
    )  # fmt: skip
    for count in (3, 500):
        model = nn.Linear(3, 2)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        run = PrivateLoop(model, optimizer, as_examples(data(count)), plan, Flat(1.0))
        for lot in run.lots():
            assert all(index < count for index in lot.indices.tolist())
            run.step(lot, nn.CrossEntropyLoss())
        assert run.steps_done == 8


def test_lots_that_need_the_number_are_refused_where_it_is_secret():
    fields = {
        "population": 100,
        "steps": 5,
        "noise_multiplier": 2.0,
        "clip_bound": 1.0,
        "size_is_public": True,
    }
    for sampling in (FixedSizeSampling(10), ShuffledSampling(10, accept=Caveat.UNVETTED)):
        with pytest.raises(NotProved, match="add-remove adjacency keeps secret"):
            TrainingPlan(sampling=sampling, **fields)
        TrainingPlan(sampling=sampling, adjacency=ReplaceOne(), **fields).require_size(100)
        with pytest.raises(InvalidArgument, match="plan's 100 examples"):
            TrainingPlan(sampling=sampling, adjacency=ReplaceOne(), **fields).require_size(99)
    with pytest.raises(InvalidArgument, match="'size_is_public'"):
        TrainingPlan(sampling=PoissonSampling(0.1), **(fields | {"size_is_public": 1}))
    with pytest.raises(InvalidArgument, match="plan's 100 examples"):
        TrainingPlan(sampling=PoissonSampling(0.1), **(fields | {"size_is_public": False})).require_size(99)


def test_a_mistyped_size_does_not_plan_a_run_without_an_end():
    """It planned 1e8 steps without a word. What is refused depends on what was declared, and not on the data."""
    model = nn.Linear(3, 2)
    before = model.weight.clone()
    with pytest.raises(InvalidArgument, match=r"at most 10,000,000 steps, and make [\d,]{10,}"):
        train(model, data(900), population=10**9, epsilon=1.0, delta=1e-11, epochs=10, lot_size=100)
    assert torch.equal(model.weight, before)


def test_canaries_have_places_beside_the_declared_size():
    wanted = Canaries(40, OutOfDistribution(), seed=1)
    trained = train(
        nn.Linear(3, 2),
        data(190),
        epsilon=2.0,
        delta=1e-5,
        epochs=1,
        lot_size=20,
        population=200,
        canaries=wanted,
    )
    assert trained.plan.population == 240
    assert trained.plan.sampling == PoissonSampling(0.1)
    assert len(trained.canaries.scores) == 40


def test_a_declared_size_is_another_plan(tmp_path):
    fields = {"population": 100, "steps": 5, "noise_multiplier": 2.0, "clip_bound": 1.0}
    plan = TrainingPlan(sampling=PoissonSampling(0.1), **fields)
    with Checkpoint(tmp_path, plan) as kept:
        kept.reserve(1)
        kept.save(1, {})
    assert json.loads((tmp_path / "spent.json").read_text())["plan"]["size_is_public"] is False
    public = TrainingPlan(sampling=PoissonSampling(0.1), size_is_public=True, **fields)
    with pytest.raises(InvalidArgument, match="another plan"), Checkpoint(tmp_path, public):
        pass
