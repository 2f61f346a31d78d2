"""Examples that a model mixes in training mode only, in a model that draws random numbers by functions.

Found by a hostile review: losses were made to repeat by evaluation mode, which switched the mixing off, so it
was not seen. Values behind ``detach`` are not seen in the graph either.
"""

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from privet.training.per_example import ClippedSums, CrossExample, per_example_loss
from privet.training.per_example.graph.constant_draws import ConstantDraws

LOSS = per_example_loss(nn.CrossEntropyLoss())


class Flat:
    ceiling = 0.2

    def factors(self, squared_norms):
        return (0.2 / squared_norms.sqrt()).clamp(max=1.0)


class Model(nn.Module):
    """A linear layer, what a model does in training only, and a head."""

    def __init__(self, in_training):
        super().__init__()
        self.in_training, self.first, self.head = in_training, nn.Linear(6, 6), nn.Linear(6, 3)

    def forward(self, x):
        h = self.first(x).tanh()
        return self.head((self.in_training(h) if self.training else h).mean(1))


def run(in_training, sizes=(8, 12, 6, 9)):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        sums = ClippedSums(Model(in_training), LOSS, Flat())
        for size in sizes:
            sums.add((torch.randn(size, 5, 6),), torch.randint(0, 3, (size,)), sums.layout.zeros())
    return sums


class CentredBackward(torch.autograd.Function):
    """The identity, with a gradient that the examples of the batch share."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        return gradient - gradient.mean(0, keepdim=True)


COUPLED = {
    "centred": lambda h: F.dropout(h - h.mean(0).detach(), 0.2),
    "scaled": lambda h: F.dropout(h / h.detach().std(0), 0.2),
    "mixed with another example": lambda h: 0.7 * h + 0.3 * h[torch.randperm(len(h))].detach(),
    "centred, with paths left out": lambda h: h + (torch.rand(len(h), 1, 1) > 0.1) * (h - h.mean(0).detach()),
    "centred on the way back": lambda h: F.dropout(CentredBackward.apply(h), 0.2),
    "centred on the way back, nn.Dropout": lambda h: nn.Dropout(0.2)(CentredBackward.apply(h)),
    "shifted": lambda h: h + 0.1 * torch.randn_like(h) + h.roll(1, 0).detach(),
}

SEPARATE = {
    "dropout": lambda h: F.dropout(h, 0.2),
    "dropout of channels": lambda h: F.dropout1d(h, 0.2),
    "noise": lambda h: h + 0.1 * torch.randn_like(h),
    "paths left out": lambda h: h * (0.9 + torch.rand(len(h), 1, 1)).floor(),
    "paths left out by coin": lambda h: h * h.new_empty(len(h), 1, 1).bernoulli_(0.8),
    "tokens in random order": lambda h: h.gather(
        1, torch.rand(h.shape[:2]).argsort(1).unsqueeze(2).expand_as(h)
    )[:, :3],
    "attention": lambda h: F.scaled_dot_product_attention(h, h, h, dropout_p=0.1),
    "slopes": lambda h: F.rrelu(h, training=True),
    "gumbel": F.gumbel_softmax,
    "uniform": lambda h: h + torch.empty_like(h).uniform_(-0.1, 0.1) + torch.normal(0.0, 0.1, h.shape),
}


@pytest.mark.parametrize("name", COUPLED)
def test_examples_that_are_mixed_in_training_only_are_refused(name):
    with pytest.raises(CrossExample):
        run(COUPLED[name])


@pytest.mark.parametrize("name", SEPARATE)
def test_random_models_that_keep_examples_apart_are_accepted(name):
    run(SEPARATE[name])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_constant_draws_leave_the_generator_alone(dtype):
    state, x = torch.get_rng_state(), torch.ones(3, 4, dtype=dtype)
    with ConstantDraws():
        assert torch.equal(F.dropout(x, 0.5), x) or torch.equal(F.dropout(x, 0.5), 2 * x)
        assert torch.equal(torch.randperm(3), torch.tensor([2, 1, 0]))
        draws = [torch.rand(2, dtype=dtype), torch.rand_like(x), torch.empty_like(x).uniform_()]
        assert all(bool((t == 0.5).all()) and t.dtype is dtype for t in draws)
        assert not torch.randn(2, 3).any()
    assert torch.equal(state, torch.get_rng_state())
