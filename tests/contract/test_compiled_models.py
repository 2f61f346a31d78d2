"""Models that torch has compiled, whole or in part: sums are those of a loop over the examples."""

import shutil

import pytest
import torch
from torch import nn

from privet.training import ClippedSums

BACKENDS = [
    "eager",
    pytest.param("aot_eager", marks=pytest.mark.slow),
    pytest.param(
        "inductor",
        marks=[pytest.mark.slow, pytest.mark.skipif(shutil.which("g++") is None, reason="no C++ compiler")],
    ),
]


class Flat:
    ceiling = None

    def factors(self, squared_norms):
        return (0.5 / squared_norms.sqrt()).clamp(max=1.0)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm, self.scale = nn.Linear(6, 8), nn.LayerNorm(8), nn.Parameter(torch.rand(8))

    def forward(self, x):
        return torch.relu(self.norm(self.first(x)) * self.scale)


def per_example(outputs, targets):
    each = nn.functional.cross_entropy(outputs.flatten(0, 1), targets.flatten(), reduction="none")
    return each.view(len(targets), -1).sum(1)


def whole(model, backend):
    return torch.compile(model, backend=backend)


def whole_in_place(model, backend):
    model.compile(backend=backend)
    return model


def part(model, backend):
    model[0] = torch.compile(model[0], backend=backend)
    return model


def part_in_place(model, backend):
    model[0].compile(backend=backend)
    return model


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("compile_model", [whole, whole_in_place, part, part_in_place])
@pytest.mark.filterwarnings("ignore")
def test_sums_of_compiled_models_are_exact(compile_model, backend):
    torch.manual_seed(0)
    model = compile_model(nn.Sequential(Block(), nn.Linear(8, 3)), backend)
    sums = ClippedSums(model, per_example, Flat())
    for batch in (7, 7, 5):
        x, y = torch.randn(batch, 4, 6), torch.randint(0, 3, (batch, 4))
        total = sums.layout.zeros()
        sums.add((x,), y, total)
        truth = torch.zeros_like(total)
        for i in range(batch):
            value = per_example(model(x[i : i + 1]), y[i : i + 1]).sum()
            flat = torch.cat([g.flatten() for g in torch.autograd.grad(value, list(model.parameters()))])
            truth += flat * min(1.0, 0.5 / float(flat.norm()))
        torch.testing.assert_close(total, truth, rtol=1e-4, atol=1e-6)
