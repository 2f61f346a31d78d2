"""Arguments as people write them: numbers, lists, dictionaries, classes and schedulers of torch; and one-line reprs."""

import functools
import html
import inspect
from dataclasses import fields, replace

import pytest
import torch
from torch import nn
from torch.optim import SGD, Adam
from torch.optim.lr_scheduler import CosineAnnealingLR, LambdaLR, ReduceLROnPlateau, StepLR

import privet
from privet import lazy_loading
from privet.errors import InvalidArgument
from privet.randomness import SeededNoise
from privet.training import (
    Adaptive,
    Automatic,
    Canaries,
    CorrectedAdam,
    CrossExample,
    FixedSizeSampling,
    Flat,
    LoRA,
    PerLayer,
    TrainingPlan,
    fix,
    make_private,
    train,
)
from privet.training.loop.options import RunOptions
from privet.training.loop.step import NoisyGradient

LOSS = nn.CrossEntropyLoss()


def enough(plan, target):
    return replace(plan, noise_multiplier=4.0)


@pytest.fixture(autouse=True)
def uncalibrated(monkeypatch):
    monkeypatch.setattr(TrainingPlan, "with_least_noise", enough)


def data(count=200):
    generator = torch.Generator().manual_seed(0)
    return torch.randn(count, 3, generator=generator), torch.randint(0, 2, (count,), generator=generator)


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))


def trained(model=None, **more):
    settings = {"epsilon": 3.0, "delta": 1e-6, "epochs": 1, "lot_size": 50, "noise": SeededNoise(1)} | more
    return train(network() if model is None else model, data(), **settings)


def private(model=None, optimizer=None, **more):
    model = network() if model is None else model
    settings = {"epsilon": 3.0, "delta": 1e-6, "clip": 1.0, "steps": 4, "noise": SeededNoise(1)} | more
    if "sampling" not in settings:
        settings.setdefault("lot_size", 50)
    optimizer = SGD(model.parameters(), 0.1) if optimizer is None else optimizer
    return make_private(model, optimizer, data(), **settings)


def weights(model):
    return torch.cat([p.detach().flatten() for p in model.parameters()])


# Options --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("function", [train, make_private])
def test_every_argument_is_explicit_documented_and_an_option(function):
    """A new option cannot be forgotten in one of the two: it is a field of the options, and has no default there."""
    names = {
        name for name, p in inspect.signature(function).parameters.items() if p.kind is not p.VAR_KEYWORD
    }
    options = {field.name for field in fields(RunOptions)}
    own = {"model", "data", "loss", "watch", "collate", "classes"}
    assert names - own <= options
    assert options - names <= {"steps", "schedule"}
    section = inspect.getdoc(function).split("Args:")[1]
    assert all(f"\n    {name}: " in section for name in names)
    assert not any(p.kind is p.VAR_KEYWORD for p in inspect.signature(function).parameters.values())


# Clipping -------------------------------------------------------------------------------------------------------------


def test_a_number_is_a_flat_clip():
    assert private(clip=0.5).clip == private(clip=Flat(0.5)).clip == Flat(0.5)
    assert private(clip=1).clip == Flat(1.0)
    once, again = trained(clip=0.5), trained(clip=Flat(0.5))
    assert once.plan == again.plan
    assert torch.equal(weights(once.model), weights(again.model))
    assert trained().plan.clip_bound == Automatic(1.0).bound


@pytest.mark.parametrize("clip", ["flat", True, None, -1.0, 0.0, float("nan"), [1.0]])
def test_other_clips_are_refused_in_our_words(clip):
    with pytest.raises(InvalidArgument, match="'clip' must be"):
        private(clip=clip)


def test_bounds_of_layers_may_be_a_list_or_a_dictionary():
    pairs = (("0", 3.0), ("2", 4.0))
    assert (
        PerLayer.of(pairs)
        == PerLayer.of(list(pairs))
        == PerLayer.of(dict(pairs))
        == PerLayer(5.0, dict(pairs))
    )
    assert hash(PerLayer.of(dict(pairs))) == hash(PerLayer.of(pairs))
    assert PerLayer.of(map(tuple, pairs)).bound == 5.0
    private(clip=PerLayer(1.0, [["0", 1.0], ["2", 2.0]]))
    with pytest.raises(InvalidArgument, match="pairs of a layer's name"):
        PerLayer(1.0, ["0", "head"])


# Names and numbers ----------------------------------------------------------------------------------------------------


def test_names_may_be_a_list_or_one_name():
    assert LoRA(layers="0") == LoRA(layers=["0"]) == LoRA(layers=("0",))
    assert LoRA(also="2") == LoRA(also=["2"])
    found = [n for n, p in LoRA(also="2").apply_to(network()).named_parameters() if p.requires_grad]
    assert found == ["0.down.weight", "0.up.weight", "2.weight", "2.bias"]
    with pytest.raises(InvalidArgument, match="names of submodules"):
        LoRA(layers=3)


def test_betas_may_be_a_list():
    assert CorrectedAdam(network().parameters(), betas=[0.8, 0.9]).param_groups[0]["betas"] == (0.8, 0.9)
    with pytest.raises(InvalidArgument, match="two numbers"):
        CorrectedAdam(network().parameters(), betas=[0.8])


def test_data_may_be_a_list():
    columns = list(data())
    settings = {"epsilon": 3.0, "delta": 1e-6, "epochs": 1, "lot_size": 50}
    assert train(network(), columns, **settings).plan == train(network(), tuple(columns), **settings).plan
    arrays = [c.numpy() for c in columns]
    assert train(network(), [arrays[0].astype("float64"), arrays[1]], **settings).plan.population == 200
    assert train(network(), tuple(c.tolist() for c in columns), **settings).plan.population == 200
    assert train(network(), [([0.0, 1.0, 2.0], 1)] * 200, **settings).plan.population == 200
    with pytest.raises(InvalidArgument, match="tuple of arrays"):
        train(network(), [0.0, 1.0, 2.0] * 200, **settings)


# Optimisers and schedulers --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "optimizer",
    [Adam, functools.partial(SGD, lr=0.3), lambda parameters: SGD(parameters, lr=0.3), CorrectedAdam],
)
def test_an_optimizer_may_be_a_class_or_a_function(optimizer):
    model = network()
    made = optimizer(model.parameters())
    once, again = trained(optimizer=optimizer), trained(model, optimizer=made)
    assert torch.equal(weights(once.model), weights(again.model))
    run = private(optimizer=optimizer)
    assert type(run.optimizer) is type(made)
    run.step(next(run.lots()), LOSS)


class Picky(SGD):
    def __init__(self, params, must):
        super().__init__(params, must)


@pytest.mark.parametrize(
    "optimizer", [0.1, "sgd", nn.Linear(3, 2), lambda parameters: None, Picky, nn.Linear]
)
def test_what_is_no_optimizer_is_refused_before_anything_is_spent(optimizer, tmp_path):
    for run in (trained, private):
        with pytest.raises(InvalidArgument, match="'optimizer' must"):
            run(optimizer=optimizer, checkpoint=tmp_path / "run")
    with pytest.raises(InvalidArgument, match="'optimizer' must"):
        make_private(network(), None, data(), epsilon=3, delta=1e-6, clip=1.0, steps=4, lot_size=50)
    assert not (tmp_path / "run").exists()


def test_a_schedule_may_be_a_scheduler_a_class_or_a_function():
    def run(schedule):
        model = network()
        optimizer = SGD(model.parameters(), 0.5)
        result = trained(model, optimizer=optimizer, schedule=schedule(optimizer))
        return weights(result.model), optimizer.param_groups[0]["lr"]

    plain = run(lambda optimizer: None)
    halves = [
        run(lambda optimizer: StepLR(optimizer, 1, 0.5)),
        run(lambda optimizer: functools.partial(StepLR, step_size=1, gamma=0.5)),
        run(lambda optimizer: lambda own: LambdaLR(own, lambda step: 0.5**step)),
    ]
    assert plain[1] == 0.5
    assert all(rate == 0.5**5 for _, rate in halves)  # four steps
    assert all(torch.equal(found, halves[0][0]) for found, _ in halves)
    assert not torch.equal(plain[0], halves[0][0])


@pytest.mark.parametrize(
    ("schedule", "words"),
    [
        (CosineAnnealingLR, "functools.partial"),
        (0.1, "LRScheduler"),
        (lambda optimizer: None, "torch.optim.lr_scheduler"),
        (ReduceLROnPlateau, "would not be private"),
        (StepLR(SGD(network().parameters(), 0.1), 1), "another one"),
    ],
)
def test_other_schedules_are_refused_before_anything_is_spent(schedule, words, tmp_path):
    model = network()
    before = weights(model)
    with pytest.raises(InvalidArgument, match="'schedule' must") as refusal:
        trained(model, schedule=schedule, checkpoint=tmp_path / "run")
    assert words in str(refusal.value)
    assert torch.equal(weights(model), before)
    assert not (tmp_path / "run").exists()


# What is shown --------------------------------------------------------------------------------------------------------


def test_reprs_have_one_line_and_no_tensors():
    result = trained(
        nn.Sequential(nn.Linear(3, 20), nn.Linear(20, 2)), canaries=Canaries(40, seed=1), clip=Adaptive(1.0)
    )
    run = private()
    run.step(next(run.lots()), LOSS)
    for shown in (repr(result), repr(run), repr(fix(network()))):
        assert "\n" not in shown
        assert len(shown) < 200
        assert "tensor" not in shown
        assert "Linear(" not in shown
    assert repr(result).startswith("Trained(Sequential: 4 steps, Poisson lots at rate 0.25 of 240")
    assert repr(run).startswith(
        "PrivateLoop(Sequential, step 1 of 4: 4 steps, Poisson lots at rate 0.25 of 200"
    )
    assert str(result.canaries.included) not in repr(result)


def test_a_notebook_shows_the_run_and_its_guarantee_and_escapes_names():
    network_type = type("<b>Net</b>", (nn.Sequential,), {})
    result = trained(network_type(nn.Linear(3, 20), nn.Linear(20, 2)), canaries=Canaries(40, seed=1))
    shown = result._repr_html_()
    assert "<b>" not in shown
    assert "<td>&lt;b&gt;Net&lt;/b&gt;</td>" in shown
    assert f"<td>{html.escape(str(result.plan))}</td>" in shown
    assert "<tr><th>Canaries</th><td>40</td></tr>" in shown
    assert result.guarantee()._repr_html_() in shown
    assert "Steps not run" not in shown
    cut = replace(result, interrupted=True, canaries=None, steps_cut=3)._repr_html_()
    assert ", interrupted</td>" in cut
    assert "<tr><th>Steps not run</th><td>3</td></tr>" in cut
    assert "Canaries" not in cut


def test_train_is_listed_if_torch_is_installed(monkeypatch):
    names = {"train", "training"}
    assert names <= set(dir(privet))
    assert not names & set(privet.__all__)  # a star-import must not import torch
    monkeypatch.setattr(lazy_loading, "find_spec", lambda name: None)
    assert not names & set(dir(privet))  # so that help(privet) works without torch
    assert {"account", "release"} <= set(dir(privet))


# The last lot ---------------------------------------------------------------------------------------------------------


class Coupled(nn.Module):
    """From some lot on, outputs depend on the other examples, behind detach()."""

    def __init__(self):
        super().__init__()
        self.layers, self.late = nn.Sequential(nn.Linear(3, 64), nn.Dropout(0.5), nn.Linear(64, 2)), False

    def forward(self, x):
        y = self.layers(x)
        return y + y.mean(0, keepdim=True).detach() if self.late else y


def refused_in(run):
    for lot in run.lots():
        run.model.late = lot.number >= 5
        try:
            run.step(lot, LOSS)
        except CrossExample:
            return lot.number
    return None


def test_a_dependence_that_appears_late_is_found_in_the_last_lot(monkeypatch):
    settings = {"steps": 7, "sampling": FixedSizeSampling(50)}
    run = private(Coupled(), **settings)
    assert refused_in(run) == 7
    assert run.steps_done == 6
    monkeypatch.setattr(NoisyGradient, "check_independence", lambda *_: None)  # mutation
    assert refused_in(private(Coupled(), **settings)) is None


@pytest.mark.parametrize("micro_batch", [None, 1, 7])
def test_the_check_of_the_last_lot_passes_independent_examples(micro_batch):
    model = Coupled()
    run = private(model, steps=2, micro_batch=micro_batch)
    for lot in run.lots():
        run.step(lot, LOSS)
    assert run.steps_done == 2
