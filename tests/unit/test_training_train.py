"""``train``: its defaults, its refusals, its ends; and ``fix``."""

import functools
import io
import json
import os
import signal
import sys

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import Dataset, TensorDataset

from privet.accounting import account
from privet.adjacency import ZeroOut
from privet.caveats import Caveat
from privet.errors import InvalidArgument
from privet.randomness import SeededNoise
from privet.training import (
    Adaptive,
    Augmentation,
    Automatic,
    CrossExample,
    CyclicSampling,
    Flat,
    MovingAverage,
    NotFinite,
    PoissonSampling,
    ShuffledSampling,
    TreeNoise,
    fix,
    train,
)
from privet.training.loop import run as module
from privet.training.loop.inputs import default_learning_rate, default_lot_size, prepare_data
from privet.training.loop.progress import TrainingProgress
from privet.training.plan import TrainingPlan

DELTA = 1e-6


_calibrated = functools.cache(TrainingPlan.calibrated)


@pytest.fixture(autouse=True)
def calibrated_once(monkeypatch):
    """The same plan is asked for again and again; it takes most of the time of a test."""
    monkeypatch.setattr(TrainingPlan, "calibrated", staticmethod(_calibrated))


def separable(count=2000, *, seed=0):
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(count, 5, generator=generator)
    return inputs, (inputs[:, 0] + inputs[:, 1] > 0).long()


def accuracy(model, data):
    with torch.no_grad():
        return float((model(data[0]).argmax(1) == data[1]).float().mean())


def quick(model=None, data=None, **more):
    model = nn.Linear(5, 2) if model is None else model
    settings = {
        "epsilon": 3.0,
        "delta": DELTA,
        "epochs": 2.0,
        "lot_size": 200,
        "noise": SeededNoise(1),
    } | more
    return train(model, separable() if data is None else data, **settings)


def test_the_short_way_learns_within_its_budget():
    torch.manual_seed(0)
    data, fresh = separable(4000), separable(2000, seed=1)
    trained = train(nn.Linear(5, 2), data, epsilon=2.0, delta=DELTA, epochs=10)
    assert accuracy(trained.model, fresh) > 0.9
    assert 1.9 < trained.epsilon(delta=DELTA) <= 2.0
    assert trained.ledger.caveats == {
        Caveat.SIZE_TAKEN_AS_PUBLIC
    }  # secure noise, Poisson lots; n is that of the data
    assert not trained.model.training
    assert not trained.interrupted
    assert trained.history[-1].step == trained.plan.steps
    assert trained.plan.clip_bound == 1.0
    assert trained.plan.expected_lot == pytest.approx(default_lot_size(4000))


def test_the_history_is_what_watch_saw():
    fresh = separable(500, seed=1)
    modes = []

    def watch(model):
        modes.append(model.training)
        return accuracy(model, fresh)

    trained = quick(watch=watch, epochs=3.0)
    assert [m.step for m in trained.history] == [10, 20, 30]
    assert modes == [False] * 3
    assert all(m.watched is not None and 0 <= m.watched <= 1 for m in trained.history)


class Pairs(Dataset):
    def __init__(self):
        self.data = separable(600)

    def __len__(self):
        return 600

    def __getitem__(self, index):
        return self.data[0][index], self.data[1][index]


@pytest.mark.parametrize(
    "data",
    [
        TensorDataset(*separable()),
        tuple(x.numpy() for x in separable()),
        (separable()[0].double().numpy(), separable()[1].numpy().astype(np.uint8)),
        [separable()[0], separable()[1].to(torch.int32)],
        Pairs(),
    ],
)
def test_kinds_of_data(data):
    assert quick(data=data, epochs=1.0).history


def test_data_frames():
    pandas = pytest.importorskip("pandas")
    inputs, targets = (x.numpy() for x in separable())
    assert quick(data=(pandas.DataFrame(inputs), pandas.Series(targets)), epochs=1.0).history
    assert quick(data=(inputs[::-1], targets[::-1]), epochs=1.0).history


@pytest.mark.parametrize(
    "more",
    [
        {"clip": Flat(0.5)},
        {"clip": Adaptive(0.5)},
        {"optimizer": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9)},
        {"schedule": lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, 20)},
        {"average": MovingAverage(0.9)},
        {"augmentation": Augmentation(lambda x, g: x + 0.1 * torch.randn(x.shape, generator=g), copies=2)},
        {"sampling": CyclicSampling(10), "lot_size": None, "correlation": TreeNoise()},
        {"loss": lambda outputs, targets: nn.functional.cross_entropy(outputs, targets, reduction="none")},
    ],
)
def test_everything_that_can_be_chosen(more):
    trained = quick(**more)
    assert trained.ledger.event == trained.plan.ledger(trained.plan.steps).event
    assert all(bool(p.isfinite().all()) for p in trained.model.parameters())


def test_a_given_optimiser_and_other_losses():
    model = nn.Linear(5, 1)
    inputs, targets = separable()
    data = inputs, targets.float()[:, None]
    optimizer = torch.optim.SGD(model.parameters(), 0.5)
    trained = quick(model, data, loss=nn.BCEWithLogitsLoss(), optimizer=optimizer)
    assert trained.model is model


def test_the_average_is_what_comes_out():
    torch.manual_seed(0)
    model, average = nn.Linear(5, 2), MovingAverage(0.99)
    trained = quick(model, average=average)
    assert torch.equal(trained.model.weight.detach(), average.state()["weights"][0])


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"lot_size": 3000}, "number of examples 2000"),
        ({"data": (separable()[0], separable()[1] + 1)}, "labels from 0 to 1"),
        ({"data": (separable()[0], separable()[1] - 1)}, "labels from 0 to 1"),
        ({"data": (separable()[0], separable()[1].float())}, "'loss' must be given"),
        ({"data": (separable()[0].to(torch.uint8), separable()[1])}, "torch.uint8"),
        ({"data": (separable()[0][:, :4], separable()[1])}, "must take the columns"),
        ({"data": (separable()[0], separable()[1][:-1])}, "one length"),
        ({"data": (separable()[0][:0], separable()[1][:0])}, "must have examples"),
        ({"data": (np.array(["a", "b"]), np.array([0, 1]))}, "arrays of numbers"),
        ({"data": iter([separable()])}, "read at any position"),
        ({"loss": lambda outputs, targets: outputs}, 'reduction="none"'),
        ({"optimizer": lambda p: "adam"}, "'optimizer' must be"),
        ({"epochs": 0}, "'epochs'"),
        ({"epsilon": -1.0}, "epsilon"),
        ({"model": "linear"}, "'model' must be"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_spent(more, says):
    with pytest.raises(InvalidArgument, match=says):
        quick(**more)


def test_inputs_that_are_not_finite():
    inputs, targets = separable()
    inputs[:] = float("nan")
    with pytest.raises(NotFinite):
        quick(data=(inputs, targets))


def test_batch_normalisation_is_refused_and_fixed():
    model = nn.Sequential(nn.Linear(5, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 2))
    with pytest.raises(CrossExample, match=r"privet\.training\.fix\(model\)"):
        quick(model)
    fixed = fix(model)
    assert isinstance(model[1], nn.BatchNorm1d)  # the model itself stays as it is
    assert isinstance(fixed.model[1], nn.GroupNorm)
    assert str(fixed) == "1: BatchNorm1d(32) → GroupNorm(2, 32), because it mixes the examples of a batch"
    assert quick(fixed.model).history


def test_fix_of_every_kind():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.one = nn.BatchNorm2d(12)
            self.same = self.one
            self.inner = nn.Sequential(nn.InstanceNorm2d(3, track_running_stats=True), nn.BatchNorm3d(7))
            self.words = nn.Embedding(5, 2, scale_grad_by_freq=True)

    with torch.no_grad():
        model = Twice()
        model.one.weight.fill_(2.0)
    fixed = fix(model)
    assert len(fixed.changes) == 4
    assert fixed.model.one is fixed.model.same
    assert fixed.model.one.weight.detach()[0] == 2.0
    assert fixed.model.one(torch.randn(2, 12, 3, 3)).shape == (2, 12, 3, 3)
    assert not fixed.model.inner[0].track_running_stats
    assert fixed.model.inner[0](torch.randn(2, 3, 4, 4)).shape == (2, 3, 4, 4)
    assert not fixed.model.words.scale_grad_by_freq
    assert isinstance(fix(nn.BatchNorm2d(8)).model, nn.GroupNorm)
    assert str(fix(nn.Linear(2, 2))) == "No layer had to be replaced."


def weights(trained):
    return torch.cat([p.detach().flatten() for p in trained.model.parameters()])


class Stop(Exception):
    pass


def stopping(at):
    """A watch that brings the run down at that epoch."""
    seen = []

    def watch(model):
        seen.append(model)
        if len(seen) == at:
            raise Stop
        return 0.0

    return watch


def test_a_run_that_was_ended_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_BETWEEN_SAVES", 0.0)  # after every step
    more = {
        "epochs": 3.0,
        "checkpoint": tmp_path,
        "clip": Adaptive(0.5),
        "schedule": lambda o: torch.optim.lr_scheduler.ExponentialLR(o, 0.9),
    }
    with pytest.raises(Stop):
        quick(watch=stopping(2), average=MovingAverage(0.9), **more)
    with pytest.warns(UserWarning, match="ends after step 29 of 30"):
        trained = quick(average=MovingAverage(0.9), **more)
    assert trained.history[0].step == 10
    assert trained.history[-1].step == 29
    assert trained.steps_cut == 1
    assert trained.epsilon(delta=DELTA) <= 3.0
    assert "that a crash lost" in trained.ledger.entries[0].label
    with pytest.warns(UserWarning, match="ends after step 29 of 30"):
        again = quick(average=MovingAverage(0.9), **more)
    assert again.ledger == trained.ledger
    assert torch.equal(weights(again), weights(trained))


def test_a_run_in_two_parts_has_the_ledger_of_one(tmp_path):
    torch.manual_seed(0)
    whole = quick(epochs=3.0)
    first = quick(epochs=3.0, checkpoint=tmp_path, watch=interrupt_at(1))
    assert first.interrupted
    assert account(first.ledger).epsilon(delta=DELTA) < whole.epsilon(delta=DELTA)
    second = quick(epochs=3.0, checkpoint=tmp_path)
    assert not second.interrupted
    assert second.ledger == whole.ledger
    assert [m.step for m in second.history] == [10, 20, 30]


def test_a_refused_step_gives_back_what_was_reserved(tmp_path):
    inputs, targets = separable()
    calls = []

    def loss(outputs, labels):
        calls.append(len(labels))
        losses = nn.functional.cross_entropy(outputs, labels, reduction="none")
        return losses * float("nan") if len(calls) > 22 else losses

    with pytest.raises(NotFinite):
        quick(data=(inputs, targets), loss=loss, checkpoint=tmp_path)
    document = json.loads((tmp_path / "spent.json").read_text())
    assert 0 < document["reserved"] < 8
    assert document["abandoned"] == []


def test_shuffled_runs_are_kept_where_epochs_end(tmp_path):
    more = {
        "sampling": ShuffledSampling(200),
        "lot_size": None,
        "adjacency": ZeroOut(),
        "checkpoint": tmp_path,
    }
    with pytest.raises(Stop):
        quick(watch=stopping(2), **more)
    with pytest.warns(
        UserWarning, match="ends after step 10 of 20"
    ):  # a lost part of an epoch costs an epoch
        trained = quick(**more)
    assert [m.step for m in trained.history] == [10]
    assert trained.epsilon(delta=DELTA) <= 3.0


def interrupt_at(epoch):
    seen = []

    def watch(model):
        seen.append(model)
        if len(seen) == epoch:
            os.kill(os.getpid(), signal.SIGINT)
        return 0.0

    return watch


def test_ctrl_c_keeps_what_was_reached():
    handler = signal.getsignal(signal.SIGINT)
    trained = quick(watch=interrupt_at(1))
    assert trained.interrupted
    assert trained.history[-1].step == 10
    assert trained.ledger == trained.plan.ledger(10, caveats=frozenset({Caveat.SEEDED_NOISE}))
    assert signal.getsignal(signal.SIGINT) is handler


def test_a_second_ctrl_c_ends_at_once():
    def watch(model):
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
        return 0.0

    with pytest.raises(KeyboardInterrupt):
        quick(watch=watch)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_ctrl_c_works_where_somebody_else_handles_it():
    """A Spark session installs a handler that raises in the middle of a step, and leaves it there."""

    class Second(Exception):
        pass

    def raises(number, frame):
        raise Second

    def twice(model):
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
        return 0.0

    before = signal.signal(signal.SIGINT, raises)
    try:
        assert quick(watch=interrupt_at(1)).interrupted
        with pytest.raises(Second):
            quick(watch=twice)
        assert signal.getsignal(signal.SIGINT) is raises
    finally:
        signal.signal(signal.SIGINT, before)


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_the_bar_shows_epsilon_and_no_loss(monkeypatch):
    now = iter(range(0, 1000, 3))
    monkeypatch.setattr("time.monotonic", lambda: float(next(now)))
    stream = Terminal()
    with TrainingProgress(10, lambda step: 0.1 * step, stream) as bar:
        bar.begin(0)
        for step in range(1, 11):
            bar.show(step)
    text = stream.getvalue()
    assert "ε 1.000" in text
    assert "10/10" in text
    assert "loss" not in text


def test_silent_in_a_pipe(capsys):
    quick()
    out, err = capsys.readouterr()
    assert out == err == ""


def test_silent_where_it_is_quick(monkeypatch):
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    with TrainingProgress(10, lambda step: 0.0) as bar:
        bar.show(3)
    assert stream.getvalue() == ""


def test_defaults_do_not_look_at_the_data():
    one = quick(lot_size=None).plan
    other = quick(data=(separable()[0] * 1e-3, separable()[1]), lot_size=None).plan
    assert one == other
    assert Automatic(1.0).bound == one.clip_bound


def test_trying_the_model_changes_nothing_in_it():
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(5, 2)
            self.register_buffer("calls", torch.zeros(1))

        def forward(self, inputs):
            self.calls += 1
            return self.layer(inputs)

    model = Counting()
    state = torch.random.get_rng_state()
    prepare_data(model, separable(), None)
    assert float(model.calls) == 0
    assert torch.equal(state, torch.random.get_rng_state())


@pytest.mark.parametrize("noise", [0.5, 20.0])
def test_the_rate_is_that_of_a_clip_at_1_over_the_bound(noise):
    """A gradient that is clipped at C, with its noise, is C times one that is clipped at 1: steps must stay as long."""
    rates = [
        default_learning_rate(
            TrainingPlan(
                population=3000,
                sampling=PoissonSampling(0.3),
                steps=80,
                noise_multiplier=noise,
                clip_bound=bound,
            ),
            0.9,
        )
        for bound in (1.0, 0.1, 4.0)
    ]
    assert rates == pytest.approx([rates[0], 10 * rates[0], rates[0] / 4])
    assert rates[0] <= 2.0
