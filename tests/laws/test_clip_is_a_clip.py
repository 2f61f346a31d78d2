"""A clipped sum is that of a loop over the examples, or is refused, for models that nobody here thought of.

The oracle is a loop: one example at a time through the plain model, autograd in float64, norm, clip, add. See ``model_zoo`` for the models.
"""

import importlib.util
import sys
import warnings
from pathlib import Path

import pytest
import torch
from torch import nn

from privet.training.gradients import ClippedSums, CrossExample, per_example

_PATH = Path(__file__).with_name("model_zoo.py")
_SPEC = importlib.util.spec_from_file_location("privet_tests_model_zoo", _PATH)
zoo = importlib.util.module_from_spec(_SPEC)
sys.modules["privet_tests_model_zoo"] = zoo
_SPEC.loader.exec_module(zoo)

LOSS = per_example(nn.CrossEntropyLoss())


class Flat:
    def __init__(self, bound):
        self.bound = self.ceiling = bound

    def factors(self, squared_norms):
        return (self.bound / squared_norms.sqrt()).clamp(max=1.0)


def rows_of(model, inputs, targets):
    """The gradient of every example, from the example alone."""
    parameters = [p for p in model.parameters() if p.requires_grad]
    rows = []
    for i in range(len(targets)):
        value = LOSS(model(*[x[i : i + 1] for x in inputs]), targets[i : i + 1]).sum()
        found = torch.autograd.grad(value, parameters, allow_unused=True)
        each = [torch.zeros_like(p) if g is None else g for p, g in zip(parameters, found, strict=True)]
        rows.append(torch.cat([g.flatten() for g in each]))
    return torch.stack(rows)


@pytest.fixture(autouse=True)
def _one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield
    torch.set_num_threads(threads)


def lot_of(entry, batch, generator, dtype):
    inputs = tuple(x.to(dtype) if x.is_floating_point() else x for x in entry.draw(batch, generator))
    return inputs, torch.randint(0, zoo.CLASSES, (batch,), generator=generator)


def distance(entry, seed, sizes, dtype=torch.float64):
    """The largest relative error over lots of these sizes, of norms and of sums."""
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    model = entry.make().to(dtype)
    twin = entry.make().double()
    sums, worst = None, 0.0
    for batch in sizes:
        twin.load_state_dict({k: v.double() for k, v in model.state_dict().items()})
        inputs, targets = lot_of(entry, batch, generator, dtype)
        exact = tuple(x.double() if x.is_floating_point() else x for x in inputs)
        rows = rows_of(twin, exact, targets)
        lengths = rows.norm(dim=1)
        if sums is None:
            sums = ClippedSums(model, LOSS, Flat(float(lengths.median())))
        total = (rows * (sums.clipping.bound / lengths).clamp(max=1.0)[:, None]).sum(0)
        out = sums.layout.zeros()
        norms = sums.add(inputs, targets, out)
        worst = max(
            worst,
            float(((norms.sqrt() - lengths).abs() / lengths.clamp(min=1e-2 * sums.clipping.bound)).max()),
            float((out - total).norm() / sums.clipping.bound),
        )
        with torch.no_grad():  # as if an optimiser had made a step
            for p in model.parameters():
                p.add_(0.05 * torch.randn(p.shape, generator=generator).to(dtype))
    return worst


def test_the_zoo_is_large():
    assert len({entry.name for entry in zoo.ENTRIES}) >= 150


@pytest.mark.parametrize("entry", zoo.ENTRIES, ids=lambda entry: entry.name)
def test_sums_are_those_of_a_loop(entry):
    number = zoo.ENTRIES.index(entry)
    assert distance(entry, number, (5, 4, 6)) < 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_sums_are_those_of_a_loop_from_any_first_lot(seed):
    for number, entry in enumerate(zoo.ENTRIES):
        sizes = torch.Generator().manual_seed(1000 * seed + number)
        lots = torch.randint(1, 10, (6,), generator=sizes).tolist()
        assert distance(entry, 1000 * seed + number, lots) < 1e-6, (entry.name, lots)
        assert distance(entry, 1000 * seed + number, lots, torch.float32) < 2e-3, (entry.name, lots)


@pytest.mark.parametrize("entry", zoo.COUPLED, ids=lambda entry: entry.name)
@pytest.mark.parametrize("sizes", [(6,), (3, 9)], ids=str)
def test_examples_that_depend_on_each_other_are_refused(entry, sizes):
    with pytest.raises(CrossExample):
        distance(entry, 3, sizes)
