"""Models that torch has compiled, whole or in part: sums are those of a loop over the examples."""

import shutil

import pytest
import torch
from torch import nn

from privet.errors import InvalidArgument
from privet.training import ClippedSums, CrossExample, make_private, train

SLOW = pytest.mark.slow
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
@pytest.mark.parametrize(
    "compile_model",
    [whole, pytest.param(whole_in_place, marks=SLOW), pytest.param(part, marks=SLOW), part_in_place],
)
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


# TorchScript and exported programs: they work, or are refused in one sentence.


def small():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.ReLU(), nn.Linear(8, 3))


def worst_norm(model):
    """The worst relative error of a norm, over lots that learn and lots that know the model."""
    x, y, loss = torch.randn(7, 6), torch.arange(7) % 3, nn.CrossEntropyLoss(reduction="none")
    sums = ClippedSums(model, loss, Flat())
    for _ in range(3):
        norms = sums.add((x,), y, sums.layout.zeros())
    each = [torch.autograd.grad(loss(model(x), y)[i], list(model.parameters())) for i in range(7)]
    truth = torch.stack([sum(g.double().square().sum() for g in gradients) for gradients in each])
    return float((norms / truth - 1).abs().max())


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("place", [None, 0, 3])
def test_scripted_and_traced_modules_are_refused(place):
    for convert in (
        torch.jit.script,
        lambda module: torch.jit.trace(module, torch.zeros(2, module[0].in_features)),
    ):
        model = small()
        if place is None:
            model = convert(model)
        else:
            model[place] = convert(nn.Sequential(model[place]))
        with pytest.raises(
            InvalidArgument, match="TorchScript module at .* Give the module that was scripted"
        ):
            ClippedSums(model, nn.CrossEntropyLoss(reduction="none"), Flat())


def _scale(h: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return torch.tanh(h) * weight


def _centre(h: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return torch.tanh(h - h.mean(0)) * weight


class Scripted(nn.Module):
    """A model that calls a scripted function, with a parameter."""

    def __init__(self, function):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.last, self.weight = nn.Linear(6, 8), nn.Linear(8, 3), nn.Parameter(torch.rand(8))
        self.function = function

    def forward(self, x):
        return self.last(self.function(self.first(x), self.weight))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_scripted_functions_are_exact_and_tested_for_what_they_mix():
    assert worst_norm(Scripted(torch.jit.script(_scale))) < 1e-5
    with pytest.raises(CrossExample):
        worst_norm(Scripted(torch.jit.script(_centre)))


@pytest.mark.slow
def test_exported_programs_are_exact_if_the_number_of_examples_is_free():
    x, y = torch.randn(200, 6), torch.arange(200) % 3
    free = torch.export.export(small(), (x,), dynamic_shapes=({0: torch.export.Dim.DYNAMIC},))
    assert worst_norm(free.module()) < 1e-5
    settings = {"epsilon": 3.0, "delta": 1e-6, "clip": 1.0, "epochs": 1, "lot_size": 50}
    fixed = torch.export.export(small(), (x,)).module()
    optimizer = torch.optim.SGD(fixed.parameters(), 0.1)
    with pytest.raises(InvalidArgument, match="'model' must take the columns of 'data'"):
        train(fixed, (x, y), **settings)
    with pytest.raises(
        InvalidArgument, match="'model' must be a Module, got a value of type ExportedProgram"
    ):
        make_private(free, optimizer, (x, y), **settings)
