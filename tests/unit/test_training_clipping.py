"""Clip factors against their formulas, and that no gradient stays longer than its bound."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from privet.errors import InvalidArgument
from privet.randomness import SeededNoise
from privet.training import Adaptive, Automatic, ClippedSums, Flat, PerLayer, per_example_loss
from privet.training.loop.step import NoisyGradient
from privet.training.plan import QuantileClip
from privet.training.sampling.reading import as_examples

NORMS = torch.tensor([0.0, 0.3, 1.0, 5.0, 1e6], dtype=torch.float64)


@pytest.mark.parametrize("clip", [Flat(0.7), Automatic(0.7), Automatic(0.7, gamma=1e-9), Adaptive(0.7)])
@given(squares=st.lists(st.floats(0, 1e30), min_size=1, max_size=8))
def test_what_is_added_is_never_longer_than_the_bound(clip, squares):
    squared = torch.tensor(squares, dtype=torch.float64)
    lengths = clip.factors(squared).float().double() * squared.sqrt()
    assert float(lengths.max()) <= clip.bound


def test_flat_keeps_short_gradients_and_shortens_long_ones():
    expected = [min(1.0, 0.7 / n) if n else 1.0 for n in NORMS.tolist()]
    assert torch.allclose(Flat(0.7).factors(NORMS**2), torch.tensor(expected, dtype=torch.float64), rtol=1e-5)


def test_automatic_is_the_formula():
    assert torch.allclose(Automatic(2.0, gamma=0.1).factors(NORMS**2), 2.0 / (NORMS + 0.1), rtol=1e-5)


def test_layers_share_the_bound():
    clip = PerLayer(3.0)
    assert clip.groups(["a.weight", "a.bias", "b.c.weight"]) == [["a.weight", "a.bias"], ["b.c.weight"]]
    squared = torch.full((4, 9), 1e6, dtype=torch.float64)
    lengths = clip.factors(squared) * 1e3
    assert torch.allclose(lengths, torch.ones_like(lengths), rtol=1e-5)  # 3/√9
    assert float(lengths.norm(dim=1).max()) <= 3.0


def test_layers_with_bounds_of_their_own():
    clip = PerLayer.of((("head", 4.0), ("body", 3.0)))
    assert clip.bound == 5.0
    assert clip.groups(["body.0.weight", "head.weight"]) == [["head.weight"], ["body.0.weight"]]
    lengths = clip.factors(torch.full((1, 2), 1e6, dtype=torch.float64)) * 1e3
    assert lengths[0].tolist() == pytest.approx([4.0, 3.0], rel=1e-5)
    with pytest.raises(InvalidArgument, match="every layer"):
        clip.groups(["body.0.weight", "neck.weight", "head.weight"])
    with pytest.raises(InvalidArgument, match="every layer"):
        clip.groups(["body.0.weight"])


def test_layers_in_the_engine():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    clip = PerLayer(0.1)
    names = [name for name, _ in model.named_parameters()]
    sums = ClippedSums(model, per_example_loss(nn.CrossEntropyLoss()), clip, groups=clip.groups(names))
    total = sums.layout.zeros()
    sums.add((torch.randn(1, 3),), torch.tensor([1]), total)
    first, second = total[:16].norm(), total[16:].norm()
    assert float(first) == pytest.approx(0.1 / math.sqrt(2), rel=1e-4)
    assert float(second) == pytest.approx(0.1 / math.sqrt(2), rel=1e-4)


def test_adaptive_moves_as_the_paper_says():
    clip = Adaptive(2.0, quantile=0.3, learning_rate=0.5)
    assert clip.adapt(0.8).bound == pytest.approx(2.0 * math.exp(-0.5 * (0.8 - 0.3)))
    assert clip.adapt(1e9).bound >= 1e-10
    assert clip.count(torch.tensor([1.0, 4.0, 9.0, 16.0, 25.0])) == 2 - 2.5
    assert clip.quantile_clip(100.0, 1.0) == QuantileClip(0.3, 5.0, 0.5)
    assert clip.quantile_clip(100.0, 4.0).count_deviation == 8.0
    assert clip.quantile_clip(1.0, 4.0).gradient_multiplier(4.0) <= 4.0 * 1.0328
    assert Adaptive(2.0, count_deviation=7.0).quantile_clip(100.0, 9.0).count_deviation == 7.0


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Flat(0.0),
        lambda: Flat(math.inf),
        lambda: Automatic(1.0, gamma=0.0),
        lambda: Adaptive(1.0, quantile=1.0),
        lambda: Adaptive(1.0, learning_rate=-1.0),
        lambda: Adaptive(1.0, count_deviation=0.0),
        lambda: PerLayer(1.0, (("a", 0.0),)),
    ],
)
def test_wrong_parameters_are_refused(wrong):
    with pytest.raises(InvalidArgument):
        wrong()


RULES = [Flat(0.7), Automatic(0.7), PerLayer(0.7), Adaptive(0.7)]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: type(rule).__name__)
def test_the_ceiling_is_what_the_factors_say(rule):
    """An engine may take min(1, ceiling/‖g‖) in place of the factors."""
    squares = torch.tensor([0.0, 1e-12, 0.3, 0.7**2, 0.5, 2.0, 1e20], dtype=torch.float64)
    if rule.ceiling is None:
        assert isinstance(rule, Automatic | PerLayer)
        return
    found = (rule.ceiling / squares.sqrt()).clamp(max=1.0)
    assert torch.equal(found, rule.factors(squares))
    assert rule.ceiling < rule.bound


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: type(rule).__name__)
@pytest.mark.parametrize("extra", [[], [nn.LayerNorm(3)]], ids=["a chain", "no chain"])
def test_no_example_adds_more_than_the_bound(rule, extra):
    """One example with a gradient far above the bound, in the first lot, which learns, and in those after it."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3), *extra)
    rows = as_examples((100 * torch.randn(20, 4), torch.randint(0, 3, (20,))))
    noisy = NoisyGradient(model, rule, divisor=1, multiplier=0.0, source=SeededNoise(1))
    for example in range(20):
        noisy.collect(rows, torch.tensor([example]), nn.CrossEntropyLoss())
        assert float(noisy.buffer.double().norm()) <= rule.bound
