"""Loops of one's own: lots, steps, ledger; every kind of lot and noise."""

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
    Banded,
    CorrectedAdam,
    CyclicSampling,
    FixedSizeSampling,
    Flat,
    Lot,
    MovingAverage,
    PartSampling,
    ShuffledSampling,
    Tree,
    make_private,
    square_root_coefficients,
)

LOSS = nn.CrossEntropyLoss()


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
    assert run.taken == 6
    assert run.ledger.event == run.plan.ledger(6).event
    assert account(run.ledger).epsilon(delta=1e-6) <= 3.0
    assert Caveat.SEEDED_NOISE in run.ledger.caveats
    assert list(run.lots()) == []


def test_ending_early_costs_what_was_taken():
    run = private()
    for lot in run.lots():
        run.step(lot, LOSS)
        if run.taken == 2:
            break
    assert run.ledger.event == run.plan.ledger(2).event
    for lot in run.lots():
        run.step(lot, LOSS)
    assert run.taken == 6


def test_lots_cannot_be_left_out_or_used_twice():
    run = private()
    lots = run.lots()
    first = next(lots)
    with pytest.raises(InvalidArgument, match="Lot 1 must be given"):
        next(lots)
    run.step(first, LOSS)
    with pytest.raises(InvalidArgument, match="not yet used"):
        run.step(first, LOSS)
    with pytest.raises(InvalidArgument, match="not yet used"):
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
    assert run.taken == 6


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
    assert run.taken == 6


@pytest.mark.parametrize(
    "more",
    [
        {"sampling": FixedSizeSampling(30)},
        {"sampling": CyclicSampling(4)},
        {"sampling": CyclicSampling(4), "correlation": Tree()},
        {"sampling": CyclicSampling(4), "correlation": Banded(square_root_coefficients(4))},
        {"sampling": PartSampling(2, 0.5), "correlation": Banded(square_root_coefficients(2))},
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

    run = private(zeros, sampling=CyclicSampling(4), correlation=Banded(coefficients))
    stream = Banded(coefficients).stream(8, run.plan.standard_deviation, SeededNoise(1))
    for lot in run.lots():
        run.step(lot, nothing)
        expected = stream.add_(torch.zeros(8)) / run.plan.expected_lot
        found = torch.cat([p.grad.flatten() for p in run.model.parameters()])
        assert torch.allclose(found, expected, rtol=1e-6)


def test_what_is_not_proved_is_refused_before_it_runs():
    with pytest.raises(NotProved):
        private(correlation=Tree())
    with pytest.raises(NotProved):
        private(sampling=ShuffledSampling(30))
    with pytest.raises(InvalidArgument, match="independent noise"):
        private(sampling=CyclicSampling(4), correlation=Tree(), optimizer=CorrectedAdam)


def test_sizes_that_do_not_fit():
    with pytest.raises(InvalidArgument, match="number of examples 120"):
        private(lot_size=121)
    with pytest.raises(InvalidArgument, match="Exactly one of 'lot_size' and 'sampling'"):
        private(sampling=CyclicSampling(4), lot_size=3)
    with pytest.raises(InvalidArgument, match="Exactly one of 'epochs' and 'steps'"):
        private(epochs=2)
