"""Without clip and noise a private step is a plain step; with a clip it is the slow sum over examples, one at a time."""

import copy
import math

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from privet.randomness import SeededNoise
from privet.training import (
    Adaptive,
    Augmentation,
    Automatic,
    CorrectedAdam,
    Flat,
    MovingAverage,
    PerLayer,
    crops_and_flips,
)
from privet.training.clipping import Clip
from privet.training.loop.step import NoisyGradient
from privet.training.sampling.reading import as_examples

LOSS = nn.CrossEntropyLoss()
COUNT = 23


class Unclipped(Clip):
    """Not private: for the comparison with plain training."""

    def factors(self, squared_norms):
        return torch.ones_like(squared_norms)


def network() -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(
        nn.Conv2d(2, 4, 3, padding=1),
        nn.GroupNorm(2, 4),
        nn.Tanh(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(36, 8),
        nn.ReLU(),
        nn.Linear(8, 3),
    )


@pytest.fixture
def data():
    torch.manual_seed(4)
    return torch.randn(COUNT, 2, 6, 6), torch.randint(0, 3, (COUNT,))


def gradient(model, clip, *, multiplier=0.0, micro_batch=None, augmentation=None, divisor=float(COUNT)):
    return NoisyGradient(
        model,
        clip,
        divisor=divisor,
        multiplier=multiplier,
        source=SeededNoise(5),
        micro_batch=micro_batch,
        augmentation=augmentation,
    )


def slow_sum(model, data, factor_of, variants=lambda x: x[None]):
    """Σ_i factor(‖g_i‖ for each parameter) g_i, one example at a time, in plain autograd."""
    total = [torch.zeros_like(p, dtype=torch.float64) for p in model.parameters()]
    for image, label in zip(*data, strict=True):
        batch = variants(image)
        loss = F.cross_entropy(model(batch), label.expand(len(batch)))
        found = torch.autograd.grad(loss, list(model.parameters()))
        factors = factor_of([g.double().norm() for g in found])
        for t, g, f in zip(total, found, factors, strict=True):
            t.add_(f * g.double())
    return torch.cat([t.flatten() for t in total])


@pytest.mark.parametrize("micro_batch", [None, 7, 1])
@pytest.mark.parametrize(
    "optimizer",
    [
        lambda p: torch.optim.SGD(p, lr=0.3),
        lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
        lambda p: torch.optim.RMSprop(p, lr=0.01, eps=1e-3),
        lambda p: torch.optim.Adam(p, lr=0.01, eps=1e-3),
    ],
)
def test_without_clip_and_noise_a_step_is_plain(data, optimizer, micro_batch):
    plain, private = network(), network()
    one, other = optimizer(plain.parameters()), optimizer(private.parameters())
    step = gradient(private, Unclipped(1.0), micro_batch=micro_batch)
    for _ in range(3):
        one.zero_grad()
        LOSS(plain(data[0]), data[1]).backward()
        one.step()
        other.zero_grad()
        step.collect(as_examples(data), torch.arange(COUNT), LOSS)
        step.release()
        other.step()
    for a, b in zip(plain.parameters(), private.parameters(), strict=True):
        assert torch.allclose(a, b, rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize(
    ("clip", "factor_of"),
    [
        (Flat(0.2), lambda n: [min(1.0, 0.2 / math.hypot(*n))] * len(n)),
        (Adaptive(0.2, count_deviation=1.0), lambda n: [min(1.0, 0.2 / math.hypot(*n))] * len(n)),
        (Automatic(0.2, gamma=0.05), lambda n: [0.2 / (math.hypot(*n) + 0.05)] * len(n)),
        (
            PerLayer(0.2),
            lambda n: [min(1.0, 0.1 / math.hypot(*n[i - i % 2 : i - i % 2 + 2])) for i in range(len(n))],
        ),
    ],
)
@pytest.mark.parametrize("micro_batch", [None, 5])
def test_a_clipped_sum_is_the_slow_one(data, clip, factor_of, micro_batch):
    model = network()
    step = gradient(model, clip, micro_batch=micro_batch)
    indices = torch.tensor([0, 3, 4, 8, 9, 11, 17, 22])
    step.collect(as_examples(data), indices, LOSS)
    expected = slow_sum(model, (data[0][indices], data[1][indices]), factor_of)
    assert torch.allclose(step.buffer.double(), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("clip", [Flat(0.2), PerLayer(0.2)])
def test_variants_are_averaged_before_the_clip(data, clip):
    model, change, copies = network(), crops_and_flips(1), 3
    step = gradient(model, clip, augmentation=Augmentation(change, copies=copies, seed=6))
    step.collect(as_examples(data), torch.arange(COUNT), LOSS)
    generator = torch.Generator().manual_seed(6)
    made = iter(change(data[0].repeat_interleave(copies, 0), generator).split(copies))

    def factor_of(norms):
        if isinstance(clip, Flat):
            return [min(1.0, 0.2 / math.hypot(*norms))] * len(norms)
        return [min(1.0, 0.1 / math.hypot(*norms[i - i % 2 : i - i % 2 + 2])) for i in range(len(norms))]

    expected = slow_sum(model, data, factor_of, lambda _: next(made))
    assert torch.allclose(step.buffer.double(), expected, rtol=1e-4, atol=1e-5)
    assert step._sums is not None
    assert not step._sums.brute_forced  # variants go through the fast ways too


def test_crops_move_and_flip():
    image = torch.arange(16.0).view(1, 1, 4, 4)
    generator = torch.Generator().manual_seed(0)
    seen = {tuple(v.flatten().tolist()) for v in crops_and_flips(1)(image.repeat(400, 1, 1, 1), generator)}
    wide = F.pad(image, (1, 1, 1, 1), mode="reflect")
    crops = [wide[:, :, i : i + 4, j : j + 4] for i in range(3) for j in range(3)]
    assert seen == {tuple(c.flatten().tolist()) for crop in crops for c in (crop, crop.flip(3))}


def test_noise_is_added_once_and_is_that_of_the_bound():
    """Size: 6 standard errors, a false alarm in 5·10⁸. Power: noise that is 1.5 % off is seen."""
    model = nn.Linear(400, 400)
    step = gradient(model, Flat(0.5), multiplier=3.0, divisor=20.0)
    step.collect(
        as_examples((torch.zeros(4, 400), torch.zeros(4, dtype=torch.int64))),
        torch.zeros(0, dtype=torch.int64),
        LOSS,
    )
    step.release()
    wanted = 3.0 * 0.5 / 20.0
    assert step.deviation == wanted
    count = step.buffer.numel()
    assert abs(float(step.buffer.double().std()) / wanted - 1) < 6 / math.sqrt(2 * count) + 2e-4
    assert model.weight.grad is not None
    assert float(model.weight.grad.std()) == pytest.approx(wanted, rel=0.02)
    before = step.buffer.clone()
    step.collect(
        as_examples((torch.zeros(4, 400), torch.zeros(4, dtype=torch.int64))),
        torch.zeros(0, dtype=torch.int64),
        LOSS,
    )
    step.release()
    correlation = float((before * step.buffer).double().mean()) / wanted**2
    assert abs(correlation) < 6 / math.sqrt(count)


def test_half_the_noise_would_be_seen():
    model = nn.Linear(400, 400)
    step = gradient(model, Flat(0.5), multiplier=1.5, divisor=20.0)
    step.release()
    assert abs(float(step.buffer.double().std()) / (3.0 * 0.5 / 20.0) - 1) > 0.4


@pytest.mark.parametrize("deviations", [[0.0] * 6, [0.1] * 6, [0.1, 0.3, 0.2, 0.0, 0.1, 0.4]])
def test_corrected_adam_is_the_formula(deviations):
    torch.manual_seed(1)
    weight = nn.Parameter(torch.randn(50, dtype=torch.float64))
    slow, rate, floor = weight.detach().clone(), 0.01, 1e-4
    optimizer = CorrectedAdam([weight], rate, betas=(0.8, 0.95), floor=floor)
    gradients = torch.randn(6, 50, dtype=torch.float64) * 0.3
    for t, deviation in enumerate(deviations, start=1):
        weight.grad = gradients[t - 1].clone()
        optimizer.noise_deviation = deviation
        optimizer.step()
        past = gradients[:t]
        ages = torch.arange(t - 1, -1, -1, dtype=torch.float64)
        first, second = 0.8**ages, 0.95**ages
        mean = (first[:, None] * past).sum(0) / first.sum()
        square = (second[:, None] * past**2).sum(0) / second.sum()
        noise = float((second * torch.tensor(deviations[:t], dtype=torch.float64) ** 2).sum() / second.sum())
        slow -= rate * mean / (square - noise).clamp(min=floor).sqrt()
        assert torch.allclose(weight.detach(), slow, rtol=1e-10, atol=1e-12)


def test_without_noise_corrected_adam_is_adam():
    one, other = (nn.Parameter(torch.ones(7)) for _ in range(2))
    plain = torch.optim.Adam([one], 0.01, eps=0.0)
    corrected = CorrectedAdam([other], 0.01, floor=1e-30)
    for seed in range(5):
        torch.manual_seed(seed)
        one.grad = torch.randn(7)
        other.grad = one.grad.clone()
        plain.step()
        corrected.step()
    assert torch.allclose(one, other, rtol=1e-5)


def test_a_moving_average_is_the_weighted_sum():
    model, average = nn.Linear(3, 2), MovingAverage(0.7)
    average.begin(model)
    slow = [p.detach().double().clone() for p in model.parameters()]
    for t in range(1, 25):
        with torch.no_grad():
            for p in model.parameters():
                p.add_(torch.randn_like(p))
        average.update(model)
        kept = min(0.7, (1 + t) / (10 + t))
        slow = [
            kept * s + (1 - kept) * p.detach().double() for s, p in zip(slow, model.parameters(), strict=True)
        ]
    other = copy.deepcopy(model)
    average.load_into(other)
    for p, s in zip(other.parameters(), slow, strict=True):
        assert torch.allclose(p.detach().double(), s, atol=1e-5)


@pytest.mark.parametrize("scale", [1e-4, 1.0, 1e4])
@pytest.mark.parametrize(
    "clip", [Flat(0.3), Automatic(0.3), PerLayer(0.3), Adaptive(0.3, count_deviation=1.0)]
)
@pytest.mark.parametrize("copies", [1, 2])
def test_neighbours_are_no_further_apart_than_the_bound(data, clip, scale, copies):
    """One example more moves the sum by the bound at most, up to the rounding of a float32 sum."""
    images, labels = data
    images = images.clone()
    images[7] *= scale
    without = torch.tensor([i for i in range(COUNT) if i != 7])
    found = []
    for indices in (torch.arange(COUNT), without):
        change = crops_and_flips(0, flip=False)
        augmentation = None if copies == 1 else Augmentation(change, copies=copies)
        step = gradient(network(), clip, micro_batch=6, augmentation=augmentation)
        step.collect(as_examples((images, labels)), indices, LOSS)
        found.append(step.buffer.double())
    assert float((found[0] - found[1]).norm()) <= 0.3 * (1 + 1e-5)
