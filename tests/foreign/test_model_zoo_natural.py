"""A zoo of models that we did not write, trained as a user would write it: accepted and exact, or refused with the reason.

Each is trained for two private steps by ``privet.train(model, data, …)``, and its clipped sums are those of a loop over the
examples, in which the loss of an example is that of a batch of one. Models that couple examples are refused. Skipped where the
packages are not installed; nothing is downloaded. ``pytest -rA`` prints the table of names.
"""

import copy
import importlib.util
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F  # noqa: N812

import privet
from privet.errors import InvalidArgument
from privet.training import ClippedSums, TrainingPlan
from privet.training.loop.inputs import prepare_data
from privet.training.loop.model_calls import get_parameters
from privet.training.loop.objectives import Objective
from privet.training.loop.own_losses import has_own_loss


def load(name):
    spec = importlib.util.spec_from_file_location(
        f"privet_tests_{name}", Path(__file__).with_name(f"{name}.py")
    )
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


OF_TORCH, OF_TRANSFORMERS, OF_TIMM = map(load, ("zoo_of_torch", "zoo_of_transformers", "zoo_of_timm"))
REFUSED = OF_TORCH.REFUSED | OF_TRANSFORMERS.REFUSED | OF_TIMM.REFUSED
EXAMPLES = 6
FOREIGN = [*OF_TRANSFORMERS.MODELS, *OF_TIMM.MODELS]


class Flat:
    def __init__(self, bound):
        self.bound = self.ceiling = bound

    def factors(self, squared_norms):
        return (self.bound / squared_norms.sqrt()).clamp(max=1.0)


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Two steps need no calibration, and packages of others warn."""
    monkeypatch.setattr(
        TrainingPlan, "with_least_noise", lambda plan, target: replace(plan, noise_multiplier=4.0)
    )
    with warnings.catch_warnings(), torch.random.fork_rng(devices=[]):
        warnings.simplefilter("ignore")
        torch.manual_seed(0)
        yield


def sample(names):
    """Every second model, and each one that is refused; the others are slow."""
    for place, name in enumerate(names):
        often = place % 2 == 0 or name in REFUSED
        yield pytest.param(name, id=name, marks=() if often else pytest.mark.slow)


def call_alone(model, examples, row, loss, alone):
    """The loss of one example, as everybody computes it: a batch of one."""
    *inputs, target = row if len(row) > 1 else (*row, *row)
    names = examples.input_names

    def call(**more):
        return model(**dict(zip(names, inputs, strict=True)), **more) if names else model(*inputs, **more)

    if loss is not None or not has_own_loss(model):
        return (alone or loss or F.cross_entropy)(call(), target)
    if target.dim() == 2 and "start_positions" in get_parameters(model):
        return call(start_positions=target[:, 0], end_positions=target[:, 1]).loss
    return call(labels=target).loss


def check_sums(model, data, loss, alone, more):
    """Clipped sums in float64, without dropout, are those of a loop over the examples."""
    model = copy.deepcopy(model).double().eval()
    examples, chosen = prepare_data(model, data, loss, **more)  # the default loss, and labels in its form
    part = next(iter(examples.split(torch.arange(EXAMPLES))))
    columns = examples.take(part)
    parameters = [p for p in model.parameters() if p.requires_grad]
    rows = []
    for i in range(len(part)):
        value = call_alone(model, examples, [c[i : i + 1] for c in columns], chosen, alone)
        gradients = torch.autograd.grad(value.sum(), parameters, allow_unused=True)
        pairs = zip(parameters, gradients, strict=True)
        rows.append(torch.cat([(torch.zeros_like(p) if g is None else g).flatten() for p, g in pairs]))
    norms = torch.stack(rows).norm(dim=1)
    bound = float(norms.median())
    total = sum(row * min(1.0, bound / float(n)) for row, n in zip(rows, norms, strict=True))
    objective = Objective(model, chosen, examples.input_names, None)
    inputs, targets = (columns[:-1], columns[-1]) if len(columns) > 1 else (columns, columns[0])
    objective.check(inputs, targets)
    sums = ClippedSums(objective.model, objective.loss, Flat(bound), original_loss=objective.original_loss)
    for _ in range(2):  # the second lot takes the ways that the first has learnt
        out = sums.layout.zeros()
        found = sums.add(objective.extend(inputs, targets), targets, out)
        assert float(((found.sqrt() - norms).abs() / norms).max()) < 1e-5
        assert float((out - total).norm()) < 1e-5 * bound


def check(name, made, record_property):
    model, data, loss, alone = (*made, None, None)[:4]
    more = {"classes": ("no", "yes")} if "words as labels" in name else {}
    settings = {"epsilon": 3.0, "delta": 1e-4, "epochs": 1, "lot_size": 8}
    if name in REFUSED:
        with pytest.raises(InvalidArgument, match=REFUSED[name]):
            privet.train(model, data, loss=loss, **more, **settings)
        record_property(name, f"refused: {REFUSED[name]}")
        print(f"{name}: refused, {REFUSED[name]}")
        return
    check_sums(model, data, loss, alone, more)
    trained = privet.train(model, data, loss=loss, **more, **settings)
    assert trained.plan.steps == 2
    assert all(bool(p.isfinite().all()) for p in trained.model.parameters())
    record_property(name, "accepted")
    print(f"{name}: accepted")


@pytest.mark.parametrize("name", OF_TORCH.MODELS)
def test_models_of_plain_torch(name, record_property):
    check(name, OF_TORCH.MODELS[name](), record_property)


@pytest.mark.parametrize("name", list(sample(FOREIGN)))
def test_models_of_packages(name, packages, record_property):
    makers = OF_TRANSFORMERS.MODELS | OF_TIMM.MODELS
    check(name, makers[name](packages), record_property)


def test_the_zoo_has_sixty_models_of_others():
    assert len(FOREIGN) >= 60
