"""Two processes, one run: the lots, the noise, the ledger and the refusals of one process."""

import json
import math
import multiprocessing
import os
import signal
from dataclasses import replace
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist
from torch import nn

from privet.adjacency import ZeroOut
from privet.caveats import Caveat
from privet.errors import InvalidArgument
from privet.randomness import SecureNoise, SeededNoise
from privet.training import (
    Adaptive,
    Automatic,
    CorrectedAdam,
    CyclicSampling,
    Distributed,
    Flat,
    MovingAverage,
    NotFinite,
    PerLayer,
    PoissonSampling,
    ProcessFailed,
    ProcessGroup,
    SingleProcess,
    TrainingPlan,
    TreeNoise,
    make_private,
    train,
)
from privet.training.loop.distributed import resolve_process_group

LOSS = nn.CrossEntropyLoss()
WORLD = 2
DEADLINE = 60  # seconds


def enough(plan, target):
    """More noise than any of these runs needs. To find the least takes longer than all the rest."""
    return replace(plan, noise_multiplier=4.0)


@pytest.fixture(autouse=True)
def uncalibrated(monkeypatch):
    monkeypatch.setattr(TrainingPlan, "with_least_noise", enough)


def serve(rank, folder, pipe):
    """What each of the processes does: run what it is told, and say what came of it."""
    TrainingPlan.with_least_noise = enough
    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    dist.init_process_group(
        "gloo",
        init_method=f"file://{folder}/meeting",
        rank=rank,
        world_size=WORLD,
        timeout=timedelta(seconds=30),
    )
    while True:
        function, arguments = pipe.recv()
        try:
            pipe.send((True, function(rank, *arguments)))
        except BaseException as failure:
            pipe.send((False, (type(failure).__name__, str(failure))))


class Pair:
    """Two processes on loopback that live as long as this file's tests."""

    def __init__(self, folder):
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["torch.distributed", "privet.training.loop.run"])  # once for both
        self._pipes, self._processes = [], []
        for rank in range(WORLD):
            mine, theirs = context.Pipe()
            process = context.Process(target=serve, args=(rank, folder, theirs), daemon=True)
            process.start()
            self._pipes.append(mine)
            self._processes.append(process)

    def outcomes(self, function, *arguments):
        for pipe in self._pipes:
            pipe.send((function, arguments))
        found = []
        for pipe in self._pipes:
            assert pipe.poll(DEADLINE), "a process waits for ever"
            found.append(pipe.recv())
        return found

    def __call__(self, function, *arguments):
        found = self.outcomes(function, *arguments)
        assert all(fine for fine, _ in found), found
        return [value for _, value in found]

    def failures(self, function, *arguments):
        found = self.outcomes(function, *arguments)
        assert not any(fine for fine, _ in found), found
        return [value for _, value in found]

    def left(self, rank, function, *arguments):
        """What the process of this rank says where another one does not live to answer."""
        for pipe in self._pipes:
            pipe.send((function, arguments))
        assert self._pipes[rank].poll(DEADLINE), "a process waits for ever"
        fine, value = self._pipes[rank].recv()
        assert fine, value
        return value

    def close(self):
        for process in self._processes:
            process.kill()
            process.join()


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    found = Pair(tmp_path_factory.mktemp("together"))
    yield found
    found.close()


def data(count=120):
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(count, 3, generator=generator)
    return inputs, (inputs[:, 0] > 0).long()


def network(seed):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))


SETTINGS = {
    "flat": {"clip": Flat(0.5)},
    "automatic": {"clip": Automatic(1.0), "micro_batch": 7},
    "per layer": {"clip": PerLayer(1.0)},
    "adaptive": {"clip": Adaptive(0.5)},
    "cyclic": {"sampling": CyclicSampling(4), "clip": Flat(1.0)},
    "tree": {"sampling": CyclicSampling(4), "correlation": TreeNoise(), "clip": Flat(1.0)},
    "one by one": {"sampling": PoissonSampling(1 / 120), "clip": Flat(1.0)},
    "empty": {"sampling": PoissonSampling(1e-9), "clip": Flat(1.0)},
    "zero-out": {"clip": Flat(1.0), "adjacency": ZeroOut()},
    "average": {"clip": Flat(1.0), "average": True},
    "adam": {"clip": Flat(1.0), "optimizer": CorrectedAdam},
}


def weights(model):
    return torch.cat([p.detach().flatten() for p in model.parameters()]).tolist()


def private(rank, name, *, rows=None, process_group=None, **more):
    """Processes begin with weights of their own, and must end with the same."""
    settings = {"epsilon": 3.0, "delta": 1e-6, "steps": 6} | SETTINGS[name] | more
    if "sampling" not in settings:
        settings.setdefault("lot_size", 30)
    if settings.pop("average", False):
        settings["average"] = MovingAverage(0.9)
    model = network(rank)
    optimizer = settings.pop("optimizer", torch.optim.SGD)(model.parameters(), 0.1)
    noise = SeededNoise(1) if rank == 0 else SecureNoise()  # that of others is not asked
    return make_private(
        model,
        optimizer,
        data() if rows is None else rows,
        noise=noise,
        process_group=process_group,
        **settings,
    )


def loop(rank, name, process_group=None):
    run = private(rank, name, process_group=None if process_group is None else process_group())
    seen = []
    for lot in run.lots():
        seen.append(lot.indices.tolist())
        run.step(lot, LOSS)
    return weights(run.model), run.ledger.to_json(), seen, run.clip.bound


@pytest.mark.parametrize("name", SETTINGS)
def test_two_processes_are_one_run(pair, name):
    alone, ledger, lots, bound = loop(0, name)
    first, second = pair(loop, name)
    assert first[0] == second[0]  # to the last bit
    assert torch.allclose(torch.tensor(first[0]), torch.tensor(alone), rtol=1e-3, atol=1e-4)
    assert first[1] == second[1] == ledger
    assert "SEEDED_NOISE" in ledger
    assert first[3] == second[3] == pytest.approx(bound, rel=1e-6)
    for whole, one, other in zip(lots, first[2], second[2], strict=True):
        assert sorted(one + other) == whole
        assert 0 <= len(one) - len(other) <= 1


class EachAddsNoise(ProcessGroup):
    """A mistake: every process adds noise to its own part, and the noisy parts are added up."""

    def __init__(self):
        self._right = Distributed()

    is_leader = property(lambda self: True)

    def scatter(self, lot):
        return self._right.scatter(lot if self._right.is_leader else None)

    def reduce_(self, numbers):
        pass

    def broadcast_(self, numbers):
        dist.all_reduce(numbers)

    def broadcast_object(self, value):
        return self._right.broadcast_object(value)

    def any(self, *flags):
        return self._right.any(*flags)

    def all_or_none(self):
        return self._right.all_or_none()

    def broadcast_model(self, model):
        self._right.broadcast_model(model)


class EachDrawsItsLot(EachAddsNoise):
    """Another: the noise is right, and every process draws a lot of its own."""

    is_leader = property(lambda self: self._right.is_leader)

    def scatter(self, lot):
        return torch.arange(0, 120, 4) if lot is None else lot

    def reduce_(self, numbers):
        self._right.reduce_(numbers)

    def broadcast_(self, numbers):
        self._right.broadcast_(numbers)


def noise_alone(rank, process_group):
    """The gradient of a loss without a gradient: all noise."""
    run = private(rank, "cyclic", process_group=process_group())
    squares = []
    for lot in run.lots():
        run.step(lot, lambda outputs, _: outputs.sum(1) * 0.0)
        squares += [float(p.grad.square().sum()) for p in run.model.parameters()]
    size = sum(p.numel() for p in run.model.parameters())
    expected = run.plan.standard_deviation / run.plan.expected_lot
    return math.sqrt(sum(squares) / (size * run.plan.steps)) / expected


def test_the_noise_is_that_of_one_process(pair):
    right = pair(noise_alone, Distributed)
    wrong = pair(noise_alone, EachAddsNoise)
    assert right[0] == right[1] == pytest.approx(noise_alone(0, SingleProcess), rel=1e-5)
    assert abs(right[0] - 1) < 0.2
    assert abs(wrong[0] - math.sqrt(2)) < 0.25  # the mutation: twice the variance


@pytest.mark.parametrize("mistake", [EachAddsNoise, EachDrawsItsLot])
def test_mistakes_are_not_one_run(pair, mistake):
    alone, *_ = loop(0, "flat")
    (found, *_), _ = pair(loop, "flat", mistake)
    assert not torch.allclose(torch.tensor(found), torch.tensor(alone), rtol=1e-3, atol=1e-4)


def refused(rank, kind):
    """The second process's data, or code, is at fault in its first try."""
    at_fault = [rank == 1]

    def loss(outputs, targets):
        losses = nn.functional.cross_entropy(outputs, targets, reduction="none")
        if not at_fault[0]:
            return losses
        if kind == "foreign":
            raise ZeroDivisionError
        return losses * math.nan if kind == "nan" else outputs

    run = private(rank, "cyclic")
    before = weights(run.model)
    lot = next(run.lots())
    try:
        run.step(lot, loss)
        told = ""
    except Exception as failure:
        told = type(failure).__name__
    nothing = run.steps_done == 0 and len(run.ledger) == 0 and weights(run.model) == before
    at_fault[0] = False
    run.step(lot, loss)  # the lot waits for another try
    return told, nothing, run.steps_done, weights(run.model)


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("nan", (NotFinite, NotFinite)),
        ("matrix", (InvalidArgument, InvalidArgument)),
        ("foreign", (ProcessFailed, ZeroDivisionError)),
    ],
)
def test_what_one_refuses_all_refuse_before_anything_is_spent(pair, kind, told):
    found = pair(refused, kind)
    assert [name for name, *_ in found] == [kind.__name__ for kind in told]
    assert all(nothing and taken == 1 for _, nothing, taken, _ in found)
    assert found[0][3] == found[1][3]


def trained(rank, more, poisoned=None):
    inputs, targets = data(400)
    if poisoned == rank:
        inputs = inputs * math.nan
    settings = {"epsilon": 3.0, "delta": 1e-6, "epochs": 2.0, "lot_size": 80} | more
    found = train(network(rank), (inputs, targets), noise=SeededNoise(1), **settings)
    return weights(found.model), found.ledger.to_json(), [m.step for m in found.history]


def test_train_with_two_processes(pair):
    alone = trained(0, {})
    first, second = pair(trained, {})
    assert first[0] == second[0]
    assert first[1:] == second[1:] == alone[1:]
    assert torch.allclose(torch.tensor(first[0]), torch.tensor(alone[0]), rtol=1e-3, atol=1e-4)


def test_train_refuses_together(pair, tmp_path):
    kept = {"checkpoint": str(tmp_path / "run")}
    failures = pair.failures(trained, kept, 1)
    assert [name for name, _ in failures] == ["NotFinite"] * 2
    assert "another process" in failures[0][1]
    assert json.loads((tmp_path / "run" / "spent.json").read_text())["reserved"] == 0


def other_settings(rank, change):
    more = {
        "lot": {"lot_size": 30 + rank},
        "clip": {"clip": (Flat, Automatic)[rank](0.5)},
        "checkpoint": {"checkpoint": "/nowhere" if rank else None},
    }.get(change, {})
    rows = data(120 + rank) if change == "rows" else None
    if change == "model" and rank:
        model = nn.Linear(3, 2)
        make_private(
            model,
            torch.optim.SGD(model.parameters(), 0.1),
            data(),
            epsilon=3.0,
            delta=1e-6,
            steps=6,
            lot_size=30,
            clip=Flat(0.5),
        )
    private(rank, "flat", rows=rows, **more)


@pytest.mark.parametrize("change", ["lot", "rows", "model", "clip", "checkpoint"])
def test_processes_with_other_settings_are_refused(pair, change):
    first, second = pair.failures(other_settings, change)
    assert first[0] == second[0] == "InvalidArgument"
    assert "Run the same program" in second[1]


class Stop(Exception):
    pass


def ended(rank, folder, at, by):
    """Ended by one process in its second epoch: by an exception, or by Ctrl-C."""
    seen = []

    def watch(model):
        seen.append(1)
        if len(seen) == 2 and rank == at:
            if by == "signal":
                os.kill(os.getpid(), signal.SIGINT)
            else:
                raise Stop
        return 0.0

    inputs, targets = data(400)
    found = train(
        network(rank),
        (inputs, targets),
        epsilon=3.0,
        delta=1e-6,
        epochs=4.0,
        lot_size=80,
        noise=SeededNoise(1),
        checkpoint=folder,
        watch=watch if by else None,
    )
    return found.interrupted, weights(found.model), found.ledger.to_json(), [m.step for m in found.history]


@pytest.mark.parametrize("at", range(WORLD))
def test_a_signal_to_one_process_ends_all_after_the_same_step(pair, tmp_path, at):
    first, second = pair(ended, str(tmp_path), at, "signal")
    assert first == second
    assert first[0]
    assert first[3] == [5, 10]
    first, second = pair(ended, str(tmp_path), at, None)  # goes on, by the leader's state
    assert first == second
    assert first[3] == [5, 10, 15, 20]
    assert json.loads((tmp_path / "spent.json").read_text())["ledger"] == json.loads(first[2])


def test_a_run_that_one_process_brought_down_goes_on(pair, tmp_path):
    failures = pair.failures(ended, str(tmp_path), 1, "exception")
    assert [name for name, _ in failures] == ["ProcessFailed", "Stop"]
    first, second = pair(ended, str(tmp_path), 1, None)
    assert first == second
    (entry,) = json.loads(first[2])["entries"]
    assert "that a crash lost" in entry["label"]  # and counts


def dying(rank, folder, dies):
    """Process ``dies`` is killed after its fifth step, as by the system; the other tells what it is told."""

    def watch(model):
        if rank == dies:
            os.kill(os.getpid(), signal.SIGKILL)
        return 0.0

    try:
        settings = {"epsilon": 3.0, "delta": 1e-6, "epochs": 4.0, "lot_size": 80, "checkpoint": folder}
        found = train(network(rank), data(400), watch=watch, noise=SeededNoise(1), **settings)
    except ProcessFailed as failure:
        return str(failure), failure.ledger.to_json()
    return found.ledger.to_json(), [m.step for m in found.history]


@pytest.mark.parametrize("dies", [1, pytest.param(0, marks=pytest.mark.slow)])
def test_a_process_that_dies_is_told_of_in_plain_words_and_the_run_goes_on(pair, tmp_path, dies):
    folder, together = tmp_path / "run", tmp_path / "first"
    together.mkdir()
    found = Pair(together)
    try:
        told, ledger = found.left(1 - dies, dying, str(folder), dies)
    finally:
        found.close()
    assert f"process {1 - dies} of 2" in told
    assert f"It must be process {dies}" in told
    assert "checkpoint" in told
    kept = json.loads((folder / "spent.json").read_text())["ledger"]
    spent = [row["entries"][0]["event"]["times"] for row in (json.loads(ledger), kept)]
    assert spent == [5, 5]  # steps
    first, second = pair(dying, str(folder), None)  # all of them, started again
    assert first == second
    assert "that a crash lost" in first[0]


def test_a_lost_process_is_asked_once(tmp_path, monkeypatch):
    """Blocks that agree lie within each other. Each question to a process that does not answer takes the group's timeout."""
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/meeting", rank=0, world_size=1)
    try:
        team, asked = Distributed(), []

        def unanswered(*_, **__):
            asked.append(1)
            raise RuntimeError("Timed out waiting 1800000ms for recv operation to complete")

        monkeypatch.setattr(dist, "all_reduce", unanswered)
        with (
            pytest.raises(ProcessFailed, match="died or cannot be reached"),
            team.all_or_none(),
            team.all_or_none(),
        ):
            pass
        assert len(asked) == 1
        with pytest.raises(ValueError, match="mine"), team.all_or_none():
            raise ValueError("mine")  # its own failure tells more
        assert len(asked) == 2
    finally:
        dist.destroy_process_group()


def wrapped(rank):
    model = nn.parallel.DistributedDataParallel(network(rank))
    train(model, data(), epsilon=3.0, delta=1e-6, epochs=1)


def test_wrapped_models_are_refused(pair):
    assert all("model.module" in text for _, text in pair.failures(wrapped))


def apart(rank):
    assert isinstance(resolve_process_group(None), Distributed)
    return loop(rank, "flat", SingleProcess)[0]


def test_runs_of_their_own_are_asked_for(pair):
    first, second = pair(apart)
    assert first != second


def test_one_process_is_alone():
    assert isinstance(resolve_process_group(None), SingleProcess)
    with pytest.raises(InvalidArgument, match="has not been started"):
        Distributed()
    with pytest.raises(InvalidArgument, match="'process_group' must be"):
        resolve_process_group("all")
    assert Caveat.SEEDED_NOISE in private(0, "flat").ledger.caveats
