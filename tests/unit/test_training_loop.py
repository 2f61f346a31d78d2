"""Loops of one's own: lots, steps, ledger; every kind of lot and noise."""

import functools

import pytest
import torch
from torch import nn
from torch.utils.data import Dataset, TensorDataset

from privet.accounting import account
from privet.adjacency import ZeroOut
from privet.caveats import Caveat
from privet.errors import InvalidArgument, NotProved
from privet.randomness import SeededNoise
from privet.training import (
    Adaptive,
    BandedNoise,
    CorrectedAdam,
    CrossExample,
    CyclicPoissonSampling,
    CyclicSampling,
    FixedSizeSampling,
    Flat,
    Lot,
    MovingAverage,
    ShuffledSampling,
    TrainingPlan,
    TreeNoise,
    make_private,
    square_root_coefficients,
)

LOSS = nn.CrossEntropyLoss()

_calibrated = functools.cache(TrainingPlan.calibrated)


@pytest.fixture(autouse=True)
def calibrated_once(monkeypatch):
    """The same plan is asked for again and again; it takes most of the time of a test."""
    monkeypatch.setattr(TrainingPlan, "calibrated", staticmethod(_calibrated))


def data(count=120):
    torch.manual_seed(0)
    return torch.randn(count, 3), torch.randint(0, 2, (count,))


def private(rows=None, **more):
    model = nn.Linear(3, 2)
    settings = {"epsilon": 3.0, "delta": 1e-6, "clip": Flat(1.0), "steps": 6, "noise": SeededNoise(1)} | more
    if "sampling" not in settings:
        settings.setdefault("lot_size", 30)
    optimizer = settings.pop("optimizer", torch.optim.SGD)(model.parameters(), 0.1)
    return make_private(model, optimizer, data() if rows is None else rows, **settings)


def test_three_lines():
    run = private()
    for lot in run.lots():
        run.step(lot, LOSS)
    assert run.steps_done == 6
    assert run.ledger.event == run.plan.ledger(6).event
    assert account(run.ledger).epsilon(delta=1e-6) <= 3.0
    assert Caveat.SEEDED_NOISE in run.ledger.caveats
    assert list(run.lots()) == []


def test_ending_early_costs_what_was_taken():
    run = private()
    for lot in run.lots():
        run.step(lot, LOSS)
        if run.steps_done == 2:
            break
    assert run.ledger.event == run.plan.ledger(2).event
    for lot in run.lots():
        run.step(lot, LOSS)
    assert run.steps_done == 6


def test_lots_cannot_be_left_out_or_used_twice():
    run = private()
    lots = run.lots()
    first = next(lots)
    with pytest.raises(InvalidArgument, match="Lot 1 must be used"):
        next(lots)
    run.step(first, LOSS)
    with pytest.raises(InvalidArgument, match="not used yet"):
        run.step(first, LOSS)
    with pytest.raises(InvalidArgument, match="not used yet"):
        run.step(Lot(2, torch.arange(5)), LOSS)
    assert "tensor" not in repr(first)  # which examples they are is a secret


def test_a_zeroed_gradient_comes_back():
    run = private()
    for lot in run.lots():
        run.optimizer.zero_grad(set_to_none=True)
        run.step(lot, LOSS)
        assert run.model.weight.grad is not None


def test_another_loss_from_one_step_to_the_next():
    run = private()
    for lot in run.lots():
        run.step(lot, LOSS if lot.number % 2 else lambda outputs, _: outputs.square().mean(1))
    assert run.steps_done == 6


class Squares(Dataset):
    def __len__(self):
        return 120

    def __getitem__(self, index):
        return torch.tensor([float(index), 1.0, 0.0]) / 120, index % 2


@pytest.mark.parametrize(
    "rows", [data(), TensorDataset(*data()), tuple(x.numpy() for x in data()), Squares()]
)
def test_kinds_of_data(rows):
    run = private(rows)
    for lot in run.lots():
        run.step(lot, LOSS)
    assert run.steps_done == 6


@pytest.mark.parametrize(
    "more",
    [
        {"sampling": FixedSizeSampling(30)},
        {"sampling": CyclicSampling(4)},
        {"sampling": CyclicSampling(4), "correlation": TreeNoise()},
        {"sampling": CyclicSampling(4), "correlation": BandedNoise(square_root_coefficients(4))},
        {"sampling": CyclicPoissonSampling(2, 0.5), "correlation": BandedNoise(square_root_coefficients(2))},
        {"sampling": ShuffledSampling(30), "adjacency": ZeroOut()},
        {"average": MovingAverage(0.9)},
        {"optimizer": CorrectedAdam},
        {"micro_batch": 7},
        {"adjacency": ZeroOut()},
    ],
)
def test_lots_and_noise_of_every_kind(more):
    run = private(**more)
    for lot in run.lots():
        run.step(lot, LOSS)
    assert run.ledger.event == run.plan.ledger(run.plan.steps).event
    assert all(bool(p.isfinite().all()) for p in run.model.parameters())


def test_correlated_noise_is_that_of_the_stream():
    """On empty data the running sum of the gradients is the stream's own noise, over the divisor."""
    coefficients = square_root_coefficients(3)
    zeros = torch.zeros(120, 3), torch.zeros(120, dtype=torch.int64)

    def nothing(outputs, _):
        return outputs.sum(1) * 0.0

    run = private(zeros, sampling=CyclicSampling(4), correlation=BandedNoise(coefficients))
    stream = BandedNoise(coefficients).stream(8, run.plan.standard_deviation, SeededNoise(1))
    for lot in run.lots():
        run.step(lot, nothing)
        expected = stream.add_(torch.zeros(8)) / run.plan.expected_lot
        found = torch.cat([p.grad.flatten() for p in run.model.parameters()])
        assert torch.allclose(found, expected, rtol=1e-6)


def test_what_is_not_proved_is_refused_before_it_runs():
    with pytest.raises(NotProved):
        private(correlation=TreeNoise())
    with pytest.raises(NotProved):
        private(sampling=ShuffledSampling(30))
    with pytest.raises(InvalidArgument, match="independent noise"):
        private(sampling=CyclicSampling(4), correlation=TreeNoise(), optimizer=CorrectedAdam)


def test_sizes_that_do_not_fit():
    with pytest.raises(InvalidArgument, match="number of examples 120"):
        private(lot_size=121)
    with pytest.raises(InvalidArgument, match="Exactly one of 'lot_size' and 'sampling'"):
        private(sampling=CyclicSampling(4), lot_size=3)
    with pytest.raises(InvalidArgument, match="Exactly one of 'epochs' and 'steps'"):
        private(epochs=2)


class Stop(Exception):
    pass


def kept(folder, *, last=None, fails=None, every=2, **more):
    """A loop that saves after every second step, leaves after ``last`` and falls over after ``fails``."""
    with private(checkpoint=folder, steps=8, **more) as run:
        first = run.steps_done
        for lot in run.lots():
            run.step(lot, LOSS)
            if run.steps_done == fails:
                raise Stop
            if run.steps_done % every == 0 and run.can_save:
                run.save({"seen": run.steps_done})
            if run.steps_done == last:
                break
    return first, run


def weights(run):
    return torch.cat([p.detach().flatten() for p in run.model.parameters()])


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"clip": Adaptive(0.5)},
        {"average": True},
        {"optimizer": CorrectedAdam},
        {"sampling": CyclicSampling(4), "correlation": TreeNoise()},
    ],
)
def test_a_loop_goes_on_where_it_was_left(tmp_path, more):
    def settings():
        return more | {"average": MovingAverage(0.9)} if "average" in more else more

    first, run = kept(tmp_path, last=3, **settings())
    assert (first, run.steps_done) == (0, 3)
    assert run.ledger == run.plan.ledger(3, caveats=run.ledger.caveats)  # exactly, without what was reserved
    left, bound = weights(run), run.clip.bound
    with private(checkpoint=tmp_path, steps=8, **settings()) as again:
        assert again.steps_done == 3
        assert again.user_state == {"seen": 2}
        assert torch.equal(weights(again), left)
        assert again.clip.bound == bound
    first, run = kept(tmp_path, **settings())
    assert (first, run.steps_done) == (3, 8)
    assert run.ledger == run.plan.ledger(8, caveats=run.ledger.caveats)
    assert kept(tmp_path, **settings())[0] == 8  # nothing is left to do


def test_an_exception_between_steps_loses_nothing(tmp_path):
    with pytest.raises(Stop):
        kept(tmp_path, fails=5)
    first, run = kept(tmp_path)
    assert first == 5
    assert run.ledger.event == run.plan.ledger(8).event


class Broken(torch.optim.SGD):
    def step(self, closure=None):
        super().step(closure)
        raise Stop


def test_a_step_that_was_broken_off_is_not_saved_and_counts(tmp_path):
    kept(tmp_path, last=2)
    with pytest.raises(Stop):
        kept(tmp_path, optimizer=Broken)
    early = "ends after step 7 of 8"
    with pytest.warns(UserWarning, match=early):
        run = private(checkpoint=tmp_path, steps=8)
    with pytest.raises(InvalidArgument, match="can_save"), run:
        run._between_steps = False
        run.save()
    with pytest.warns(UserWarning, match=early):
        first, run = kept(tmp_path)
    assert first == 2
    assert "1 that a crash lost" in run.ledger.entries[0].label
    assert run.final_step == 7
    assert account(run.ledger).epsilon(delta=1e-6) <= 3.0
    assert run.steps_done == run.final_step


def test_shuffled_loops_are_saved_where_epochs_end(tmp_path):
    more = {"sampling": ShuffledSampling(30), "adjacency": ZeroOut()}
    kept(tmp_path / "early", last=3, every=1, **more)
    with pytest.warns(UserWarning, match="ends after step 4 of 8"):
        assert kept(tmp_path / "early", last=3, **more)[0] == 0  # the epoch has four lots
    kept(tmp_path / "late", last=4, **more)
    assert kept(tmp_path / "late", last=5, **more)[0] == 4
    with private(checkpoint=tmp_path / "refused", steps=8, **more) as run:
        run.step(next(run.lots()), LOSS)
        with pytest.raises(InvalidArgument, match="shuffled epoch"):
            run.save()


def test_a_folder_belongs_to_one_loop_at_a_time(tmp_path):
    with (
        private(checkpoint=tmp_path),
        pytest.raises(InvalidArgument, match="another run"),
        private(checkpoint=tmp_path),
    ):
        pass
    with pytest.raises(InvalidArgument, match="optimizer"):
        private(checkpoint=tmp_path, optimizer=lambda p, _: torch.optim.SGD([nn.Parameter(torch.ones(1))]))
    with private(checkpoint=tmp_path):  # the refusal has let it go
        pass
    with pytest.raises(InvalidArgument, match="must have a checkpoint"):
        private().save()


def test_layers_that_mix_examples_are_refused_before_anything_is_calibrated(monkeypatch):
    monkeypatch.setattr(TrainingPlan, "calibrated", None)
    model = nn.Sequential(nn.BatchNorm1d(3), nn.Linear(3, 2))
    with pytest.raises(CrossExample, match=r"privet\.training\.fix"):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        make_private(model, optimizer, data(), epsilon=3.0, delta=1e-6, clip=Flat(1.0), lot_size=30, steps=6)
