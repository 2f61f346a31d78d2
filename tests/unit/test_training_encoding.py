"""Encoded gradients, Student's t noise and denoising: bounds, accounting, and that it trains."""

import functools
import math

import numpy as np
import pytest
import torch
from scipy import special, stats
from torch import nn

from privet.accounting import account
from privet.accounting.normal import gaussian_delta
from privet.caveats import Caveat
from privet.errors import InvalidArgument, NotProved
from privet.events import Poisson, Repeat
from privet.randomness import SeededNoise
from privet.training import (
    Adaptive,
    Automatic,
    CorrectedAdam,
    CyclicSampling,
    Denoising,
    Flat,
    NotFinite,
    PerLayer,
    PoissonSampling,
    Signs,
    Student,
    TrainingPlan,
    TreeNoise,
    make_private,
    per_example_loss,
    train,
)
from privet.training.extras.encoded_sums import EncodedSums
from privet.training.noise.distributions import Normal

DELTA = 1e-6
LOSS = per_example_loss(nn.CrossEntropyLoss())

_calibrated = functools.cache(TrainingPlan.calibrated)


@pytest.fixture(autouse=True)
def calibrated_once(monkeypatch):
    monkeypatch.setattr(TrainingPlan, "calibrated", staticmethod(_calibrated))


# --- the bound on Student's t ---


def best_rate(degrees, lower):
    """J(p) and p of the sets of largest scores, by where they begin."""
    law = stats.t(degrees)
    upper = degrees / lower
    return law.pdf(lower) - law.pdf(upper), law.sf(lower) - law.sf(upper)


@pytest.mark.parametrize("degrees", [2.001, 2.5, 3.0, 4.0, 7.0, 20.0, 100.0, 1000.0])
def test_the_rate_of_every_set_is_below_that_of_the_normal_law(degrees):
    starts = np.geomspace(1e-6, math.sqrt(degrees) * (1 - 1e-7), 20_001)
    rate, probability = best_rate(degrees, starts)
    quantile = special.ndtri(probability)
    ratio = rate[probability > 1e-13] / stats.norm.pdf(quantile[probability > 1e-13])
    shift = Student(degrees).shift
    assert ratio.max() <= shift * (1 + 1e-9)
    assert ratio.max() > shift * (1 - 1e-4)  # no smaller constant would do
    assert shift == pytest.approx(stats.t(degrees).pdf(0) / stats.norm.pdf(0))


def hockey_stick(degrees, distance, epsilon):
    """δ(ε) of a shift of Student's t at ε > 0: the loss is above ε between the roots of a quadratic."""
    ratio = np.exp(2 * epsilon / (degrees + 1))  # of ν + x² to ν + (x − a)²
    middle = ratio * distance / (ratio - 1)
    spread = middle**2 - (ratio * (degrees + distance**2) - degrees) / (ratio - 1)
    half = np.sqrt(np.maximum(spread, 0.0))
    left, right = middle - half, middle + half

    def between(shift):
        return special.stdtr(degrees, shift - left) - special.stdtr(degrees, shift - right)

    return between(distance) - np.exp(epsilon) * between(0.0)


@pytest.mark.parametrize("degrees", [2.001, 3.0, 5.0, 30.0])
@pytest.mark.parametrize("distance", [0.01, 0.1, 0.5, 1.0, 2.0, 5.0, 15.0])
def test_a_shift_is_never_easier_to_tell_than_that_of_the_normal_law(degrees, distance):
    """Independent of the derivation: the profiles themselves; and a mutation, a constant that is 3 % smaller."""
    epsilons = np.linspace(0.01, 4, 40) * min(1.0, 2 * distance)
    found = hockey_stick(degrees, distance, epsilons)
    shift = Student(degrees).shift
    allowed = gaussian_delta(shift * distance, epsilons)
    assert (found <= allowed + 1e-12).all()
    at_zero = 2 * stats.t(degrees).cdf(distance / 2) - 1
    assert at_zero <= gaussian_delta(shift * distance, np.zeros(1))[0] + 1e-12
    if distance <= 0.5:
        assert at_zero > gaussian_delta(0.97 * shift * distance, np.zeros(1))[0]


def test_two_coordinates_compose():
    """A shift by (a, b) in the plane, by a midpoint rule in the quantiles, against a normal law that is shifted by L‖(a, b)‖."""
    degrees, shift = 3.0, Student(3.0).shift
    points = special.stdtrit(degrees, (np.arange(1000) + 0.5) / 1000)

    def loss(distance):
        return (degrees + 1) / 2 * np.log((degrees + points**2) / (degrees + (points - distance) ** 2))

    for first, second in ((0.7, 0.7), (1.5, 0.3), (3.0, 2.0)):
        ratio = np.exp(loss(first)[:, None] + loss(second)[None, :])
        for epsilon in (0.0, 0.3, 0.8, 2.0):
            found = np.maximum(ratio - math.exp(epsilon), 0.0).mean()
            allowed = gaussian_delta(shift * math.hypot(first, second), np.array([epsilon]))[0]
            assert found <= allowed + 1e-4
            assert epsilon or found > 0.8 * allowed  # so that the comparison says something


@pytest.mark.parametrize("degrees", [3.0, 6.0])
def test_the_noise_has_the_scale_that_is_proved(degrees):
    law, found = Student(degrees), torch.zeros(200_000)
    law.add_(found, 2.0, SeededNoise(1), 4.0)
    scaled = found.numpy() * 4.0 / (2.0 * law.shift)
    assert stats.kstest(scaled, stats.t(degrees).cdf).statistic < 0.005
    assert Normal().relative_deviation == 1.0
    assert law.relative_deviation == pytest.approx(law.shift * stats.t(degrees).std())


def test_the_event_is_that_of_normal_noise_and_the_caveats_say_so():
    plan = TrainingPlan(
        population=1000,
        sampling=PoissonSampling(0.1),
        steps=5,
        noise_multiplier=2.0,
        clip_bound=1.5,
        noise_distribution=Student(4.0),
    )
    ledger = plan.ledger(5)
    assert isinstance(ledger.entries[0].event, Repeat)
    assert isinstance(ledger.entries[0].event.inner, Poisson)
    assert {Caveat.UNVETTED, Caveat.WORST_OF_CLASS} <= ledger.caveats
    assert plan.standard_deviation == pytest.approx(3.0 * Student(4.0).relative_deviation)
    normal = TrainingPlan(
        population=1000, sampling=PoissonSampling(0.1), steps=5, noise_multiplier=2.0, clip_bound=1.5
    )
    assert Caveat.UNVETTED not in normal.ledger(5).caveats
    assert account(ledger).epsilon(delta=1e-5) == account(normal.ledger(5)).epsilon(delta=1e-5)


# --- the code ---


def network(width=8, classes=2):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, width), nn.Tanh(), nn.Linear(width, classes))


def separable(count=3000, *, seed=0):
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(count, 5, generator=generator)
    return inputs, (inputs[:, 0] + inputs[:, 1] > 0).long()


def looped(model, inputs, targets, share, bound):
    parameters = list(model.parameters())
    total = torch.zeros(sum(p.numel() for p in parameters))
    for x, y in zip(inputs, targets, strict=True):
        found = torch.autograd.grad(LOSS(model(x[None]), y[None]).sum(), parameters)
        row = torch.cat([g.flatten() for g in found])
        kept = max(1, round(share * row.numel()))
        places = row.abs().argsort(descending=True)[:kept]
        total[places] += row[places].sign() * bound / math.sqrt(kept)
    return total


@pytest.mark.parametrize("share", [0.1, 0.5, 1.0])
@pytest.mark.parametrize("chunk", [1, 200, 1 << 25])
def test_sums_of_codes_equal_a_loop(share, chunk, monkeypatch):
    monkeypatch.setattr("privet.training.extras.encoded_sums._NUMBERS", chunk)
    model, (inputs, targets) = network(classes=3), separable(9)  # two classes would have equal coordinates
    sums = EncodedSums(model, LOSS, Flat(0.7), Signs(share))
    out = sums.layout.zeros() + 5.0
    norms = sums.add((inputs,), targets, out)
    expected = looped(model, inputs, targets, share, 0.7)
    assert torch.allclose(out - 5.0, expected, atol=1e-5)
    assert norms.shape == (9,)
    sums.add((inputs,), targets, out, overwrite=True)
    assert torch.allclose(out, expected, atol=1e-5)


@pytest.mark.parametrize("share", [1e-9, 0.01, 0.3, 1.0])
@pytest.mark.parametrize("size", [1, 7, 100_000])
def test_no_code_is_longer_than_the_bound(share, size):
    rows = torch.randn(4, size) * torch.tensor([[0.0], [1e-20], [1.0], [1e20]])
    codes = Signs(share).encode(rows, 0.3).double()
    assert (codes.norm(dim=1) <= 0.3).all()
    assert (codes.unique().abs() > 0).sum() <= 2  # three letters
    assert torch.equal(codes[0], torch.zeros(size, dtype=torch.float64))


def test_gradients_that_are_not_finite_add_nothing():
    model, (inputs, targets) = network(), separable(9)
    inputs[7] = math.nan
    sums = EncodedSums(model, LOSS, Flat(0.7), Signs())
    out = sums.layout.zeros() + 5.0
    with pytest.raises(NotFinite):
        sums.add((inputs,), targets, out)
    assert torch.equal(out, torch.full_like(out, 5.0))


# --- denoising ---


def test_weights_are_signal_over_signal_and_noise():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(100, 200), nn.Linear(200, 100))
    denoising = Denoising(decay=0.9, least=0.01)
    denoising.begin(model)
    powers = (3.0, 0.0, 0.5, 0.0)
    for _ in range(60):
        gradients = [
            math.sqrt(power) + 2.0 * torch.randn(p.shape)
            for power, p in zip(powers, model.parameters(), strict=True)
        ]
        before = [g.clone() for g in gradients]
        denoising.apply(gradients, 2.0)
    for weight, power, old, new in zip(denoising.weights, powers, before, gradients, strict=True):
        assert weight == pytest.approx(max(power / (power + 4), 0.01), abs=0.04)
        assert torch.allclose(new, weight * old)
    other = Denoising(decay=0.9, least=0.01)
    other.begin(model)
    other.resume(denoising.state())
    assert other.weights == denoising.weights
    with pytest.raises(InvalidArgument, match="4 parameters"):
        denoising.apply(gradients[:2], 2.0)


# --- all of it ---


def accuracy(model, data):
    with torch.no_grad():
        return float((model(data[0]).argmax(1) == data[1]).float().mean())


def trained(**more):
    torch.manual_seed(0)
    settings = {"epsilon": 2.0, "delta": DELTA, "epochs": 8, "lot_size": 500, "noise": SeededNoise(1)} | more
    return train(network(), separable(), **settings)


def sgd(rate):
    return lambda parameters: torch.optim.SGD(parameters, rate, momentum=0.9)


def test_it_trains_within_its_budget():
    """Beside plain DP-SGD at the same ε. It learns as well here, and not better."""
    fresh = separable(2000, seed=1)
    plain = trained()
    encoded = trained(
        encoding=Signs(0.5),
        noise_distribution=Student(5.0),
        denoising=Denoising(least=0.2),
        optimizer=sgd(4.0),
    )
    assert encoded.plan.noise_multiplier == plain.plan.noise_multiplier
    assert 1.9 < encoded.epsilon(delta=DELTA) <= 2.0
    assert Caveat.UNVETTED in encoded.ledger.caveats
    assert accuracy(encoded.model, fresh) > 0.9
    assert abs(accuracy(encoded.model, fresh) - accuracy(plain.model, fresh)) < 0.05


@pytest.mark.parametrize(
    "more",
    [
        {"encoding": Signs(0.2)},
        {"noise_distribution": Student(3.0)},
        {"denoising": True},
        {
            "encoding": Signs(0.2),
            "noise_distribution": Student(3.0),
            "clip": Adaptive(0.5),
            "denoising": True,
        },
        {"noise_distribution": Student(3.0), "optimizer": CorrectedAdam},
    ],
)
def test_each_goes_without_the_others_and_resumes(more, tmp_path):
    def run(steps):
        model = network()
        settings = {"clip": Automatic(1.0), "optimizer": torch.optim.SGD} | more
        if "denoising" in settings:
            settings["denoising"] = Denoising()
        optimizer = settings.pop("optimizer")(model.parameters(), 0.1)
        with make_private(
            model,
            optimizer,
            separable(600),
            epsilon=2.0,
            delta=DELTA,
            steps=6,
            lot_size=100,
            noise=SeededNoise(1),
            checkpoint=tmp_path,
            **settings,
        ) as private:
            for lot in private.lots():
                private.step(lot, nn.CrossEntropyLoss())
                if private.steps_done == steps:
                    break
        return private

    run(3)
    private = run(6)
    assert private.steps_done == 6
    assert private.ledger.event == private.plan.ledger(6).event
    assert all(bool(p.isfinite().all()) for p in private.model.parameters())


def test_refusals():
    with pytest.raises(InvalidArgument, match="one bound for a gradient"):
        trained(encoding=Signs(), clip=PerLayer(1.0))
    with pytest.raises(NotProved, match="normal noise only"):
        trained(
            noise_distribution=Student(4.0),
            lot_size=None,
            sampling=CyclicSampling(6),
            correlation=TreeNoise(),
        )
    with pytest.raises(InvalidArgument, match="subtracts itself"):
        trained(denoising=Denoising(), optimizer=CorrectedAdam)
    with pytest.raises(InvalidArgument, match="'noise_distribution' must be"):
        trained(noise_distribution="student")
    with pytest.raises(InvalidArgument, match="'encoding' must be"):
        trained(encoding="signs")
    for degrees in (1.0, 2.0, 1e4, math.nan):
        with pytest.raises(InvalidArgument, match="'degrees' must"):
            Student(degrees)
    with pytest.raises(InvalidArgument, match="'share'"):
        Signs(0.0)
