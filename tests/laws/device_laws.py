"""What holds of private training on a second device. ``test_second_device`` runs this in a process of its own."""

import copy
import random
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from fractions import Fraction

import pytest
import test_autocast
import torch
from second_device import DEVICE, with_float64
from torch import nn

from privet.randomness import SeededNoise
from privet.training import (
    Adaptive,
    Augmentation,
    BandedNoise,
    Canaries,
    ClippedSums,
    CyclicPoissonSampling,
    CyclicSampling,
    DiracGradient,
    Flat,
    MovingAverage,
    PerLayer,
    Signs,
    Student,
    TrainingPlan,
    TreeNoise,
    crops_and_flips,
    double_precision,
    make_private,
    train,
)
from privet.training.per_example import rounding
from privet.training.per_example.forms.gradient_form import OutputGradient, squared_row_norms
from privet.training.per_example.forms.linear_form import gram_squared_norms

LOSS = nn.CrossEntropyLoss(reduction="none")
SETTINGS = {"epsilon": 3.0, "delta": 1e-5, "lot_size": 16}


SLOW = (
    "by layer",
    "tree",
    "signs",
    "student",
    "average",
    "micro-batches",
    "lstm",
    "gru",
    "weight norm",
    "mlp",
    "encoder",
    "banded",
    "adaptive",
)


def mark_slow(names):
    return [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in names]


@pytest.fixture(autouse=True)
def _noise_without_a_search(monkeypatch):
    monkeypatch.setattr(TrainingPlan, "with_least_noise", lambda plan, _: replace(plan, noise_multiplier=4.0))


@contextmanager
def kind_of_device(has_float64):
    """The device with or without float64, for those who asked before, too."""
    double_precision._try_float64.cache_clear()
    with with_float64() if has_float64 else nullcontext():
        assert double_precision.has_float64(DEVICE) == has_float64
        yield
    double_precision._try_float64.cache_clear()


def test_the_device_is_another_one():
    """Nothing of the CPU reaches a tensor of the device by accident."""
    x = torch.randn(3).to(DEVICE)
    assert not x.is_cpu
    assert type(x) is torch.Tensor
    with pytest.raises(TypeError, match="can't convert"):
        x.numpy()
    with pytest.raises(RuntimeError, match="two devices"):
        x + torch.randn(3)
    with pytest.raises(TypeError, match="no float64"):
        x.double()
    assert not double_precision.has_float64(DEVICE)


@pytest.mark.parametrize("name", mark_slow(test_autocast.MODELS))
def test_sums_and_norms_are_those_of_the_processor(name):
    for has_float64 in (False, True) if name == "convolutions" else (False,):
        with kind_of_device(has_float64):
            compare_with_the_processor(*test_autocast.make(name))


def compare_with_the_processor(model, x, y):
    there = copy.deepcopy(model).to(DEVICE)
    here, far = (ClippedSums(m, LOSS, test_autocast.Flat()) for m in (model, there))
    for _ in range(2):  # the second lot goes by what was learnt from the first
        total, sums = here.layout.zeros(), far.layout.zeros(DEVICE)
        norms = here.add((x,), y, total)
        found = far.add((x.to(DEVICE),), y.to(DEVICE), sums).cpu()
        assert found.dtype is torch.float64
        torch.testing.assert_close(found, norms, rtol=2e-4, atol=0)
        assert float((sums.cpu() - total).norm()) < 1e-4 * float(total.norm())
        assert bool((found >= norms * (1 - 1e-6)).all())  # the margin raises norms
    assert far.brute_forced == here.brute_forced


def small(device=DEVICE):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 2)).to(device)


def rows(count=128):
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(count, 6, generator=generator)
    return x, (x[:, 0] > 0).long()


RULES = {
    "plain": {},
    "adaptive": {"clip": Adaptive(1.0)},
    "by layer": {"clip": PerLayer(1.0)},
    "banded": {"correlation": BandedNoise((1.0, 0.5)), "sampling": CyclicPoissonSampling(4, 0.5)},
    "tree": {"correlation": TreeNoise(), "sampling": CyclicSampling(4)},
    "signs": {"encoding": Signs(0.25)},
    "student": {"noise_distribution": Student(5.0)},
    "average": {"average": MovingAverage(0.9)},
    "canaries": {"canaries": Canaries(32, DiracGradient(), seed=1)},
    "micro-batches": {"micro_batch": 5},
}


@pytest.mark.parametrize("name", mark_slow(RULES))
def test_training_runs_where_the_model_is_and_gives_the_same_model(name):
    """The data are on the processor. The same seed gives the same lots and the same noise on both devices."""
    options = SETTINGS | {"clip": 1.0, "epochs": 1} | RULES[name]
    if "sampling" in options:
        del options["lot_size"]
    near, far = (
        train(small(device), rows(), noise=SeededNoise(3), **options).model for device in ("cpu", DEVICE)
    )
    for here, there in zip(near.parameters(), far.parameters(), strict=True):
        assert there.device == DEVICE
        slack = 0.05 if name == "signs" else 1e-3  # a sign may change by rounding
        torch.testing.assert_close(there.detach().cpu(), here.detach(), rtol=1e-2, atol=slack)


def test_an_own_loop_with_checkpoint_and_autocast_and_augmentation(tmp_path):
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.GroupNorm(2, 4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 2)
    ).to(DEVICE)
    data = torch.randn(64, 1, 8, 8), torch.arange(64) % 2
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    options = SETTINGS | {"clip": 1.0, "epochs": 1, "checkpoint": tmp_path / "state"}
    augmentation = Augmentation(crops_and_flips(1), copies=2, seed=1)
    private = make_private(model, optimizer, data, augmentation=augmentation, **options)
    for lot in private.lots():
        private.step(lot, nn.CrossEntropyLoss())
    assert private.steps_done == 4
    assert all(p.grad.device == DEVICE and bool(p.isfinite().all()) for p in model.parameters())


# Rounding: oracles in exact arithmetic.


def exact_squares(row):
    return sum(Fraction(value) ** 2 for value in row.double().tolist())


def bad_rows():
    """Rows whose float32 sum of squares is too low: a large number first, then many that are rounded away."""
    generator = random.Random(5)
    for size in (1, 7, 1024, 3000):
        small_number = 2.0**-12.5  # its square is just below half of the last place of 1
        yield torch.tensor([1.0] + [small_number] * (size - 1))
        yield torch.tensor([generator.choice([1e-3, 1.0, 1e3]) * generator.gauss(0, 1) for _ in range(size)])
        yield torch.full((size,), 1.1e-20)  # the squares are below the smallest number
        yield torch.full((size,), 0.1)


@pytest.fixture
def _one_after_another(monkeypatch):
    """The worst device: it adds squares one after another, in float32, and has no numbers below 2⁻¹²⁶."""

    def norms(rows, dim):
        total = torch.zeros([n for i, n in enumerate(rows.shape) if i != dim % rows.dim()])
        for column in rows.cpu().unbind(dim):
            square = column * column
            total = total + torch.where(square.abs() < 2.0**-126, 0.0, square)
        return total.sqrt().to(rows.device)

    monkeypatch.setattr(torch.linalg, "vector_norm", norms)


def worst_row_ratio():
    """The largest true squared norm, divided by the one that was found."""
    worst = Fraction(0)
    for row in bad_rows():
        found = float(squared_row_norms(row.to(DEVICE).unsqueeze(0))[0])
        worst = max(worst, exact_squares(row) / Fraction(found) if found else Fraction(10))
    return worst


@pytest.mark.usefixtures("_one_after_another")
def test_norms_of_rows_are_never_too_low_whatever_the_order():
    assert worst_row_ratio() <= 1


@pytest.mark.usefixtures("_one_after_another")
def test_mutation_norms_of_rows_without_the_margin(monkeypatch):
    monkeypatch.setattr(
        "privet.training.per_example.forms.gradient_form.raise_row_norms", lambda squares, size: squares
    )
    assert worst_row_ratio() > 1 + Fraction(1, 20_000)


def gram_cases():
    """Tokens that cancel almost: the sum is far below its terms, and rounding can make it negative."""
    generator = torch.Generator().manual_seed(2)
    for tokens, width, height in ((2, 3, 4), (16, 40, 6), (40, 16, 8)):
        x, g = (torch.randn(1, tokens, n, generator=generator) for n in (width, height))
        half = tokens // 2
        x[:, half:] = x[:, :half]
        g[:, half:] = -g[:, :half] * (1 + 2.0**-20)
        yield x, g
        yield 1e-18 * x, 1e15 * g
        yield (
            torch.randn(1, tokens, width, generator=generator),
            torch.randn(1, tokens, height, generator=generator),
        )


def exact_gram(x, g):
    xs, gs = ([[Fraction(v) for v in row] for row in t[0].double().tolist()] for t in (x, g))
    total = Fraction(0)
    for i in range(len(gs[0])):
        for j in range(len(xs[0])):
            total += sum(gs[t][i] * xs[t][j] for t in range(len(xs))) ** 2
    return total


def worst_gram_ratio():
    worst = Fraction(0)
    for x, g in gram_cases():
        found = float(gram_squared_norms(x.to(DEVICE), OutputGradient(g.to(DEVICE), own=False))[0])
        truth = exact_gram(x, g)
        worst = max(worst, truth / Fraction(found) if found else Fraction(10))
    return worst


def test_gram_sums_are_never_too_low():
    assert worst_gram_ratio() <= 1


def test_mutation_gram_sums_without_the_guard(monkeypatch):
    monkeypatch.setattr(rounding, "unit_errors", lambda count, dtype: 0.0)
    assert worst_gram_ratio() > 1


@pytest.mark.usefixtures("_one_after_another")
def test_no_share_of_a_sum_is_longer_than_the_clip():
    """One example, one layer: c·g·xᵀ in exact arithmetic, with the factor that the device used."""
    for row in bad_rows():
        if row.numel() > 1024:
            continue
        model = nn.Linear(row.numel(), 1, bias=False).to(DEVICE)
        used = []

        class Spy:
            ceiling = None

            def factors(self, squared_norms, used=used):
                factors = Flat(1e-3).factors(squared_norms)
                used.append(factors.to(torch.float32))
                return factors

        sums = ClippedSums(model, lambda y, t: y[:, 0] * 1.0 + 0 * t, Spy())
        sums.add((row.unsqueeze(0).to(DEVICE),), torch.zeros(1, device=DEVICE), sums.layout.zeros(DEVICE))
        factor = Fraction(float(used[-1][0]))
        assert factor**2 * exact_squares(row) <= Fraction(1, 10**6)
