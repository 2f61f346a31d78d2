"""A server that is killed anywhere resumes, and its journal never has less than it may have spent."""

import importlib.util
import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import torch

import privet
from privet.accounting import account
from privet.caveats import Caveat
from privet.errors import InvalidArgument
from privet.federated import (
    CentralNoise,
    FederatedApp,
    InProcessGrid,
    LocalNoise,
    NoNoise,
    rounds,
    server_run,
)
from privet.federated.model_layout import ModelLayout
from privet.ledger import Ledger
from privet.observed_rounds import Observer
from privet.randomness import SeededNoise
from privet.training import Flat, PoissonSampling, ShuffledSampling, TreeNoise
from privet.training.sampling.schemes import CyclicSampling

_SPEC = importlib.util.spec_from_file_location(
    "privet_tests_federated", Path(__file__).with_name("federated_tools.py")
)
tools = importlib.util.module_from_spec(_SPEC)
sys.modules["privet_tests_federated"] = tools
_SPEC.loader.exec_module(tools)
make_clients, make_model, FaultyGrid, Spy = tools.make_clients, tools.make_model, tools.FaultyGrid, tools.Spy

pytestmark = [
    pytest.mark.filterwarnings("ignore:δ is at least"),
    pytest.mark.filterwarnings("ignore:Crashes lost"),
]
DELTA, EPSILON, ROUNDS = 1e-3, 4.0, 5
CENTRAL = CentralNoise(clip=1.0)


class Killed(BaseException):
    """Stands for a signal that ends the process: nothing is cleaned up, as no handler catches it."""


def federate(folder, **arguments):
    given = {"rounds": ROUNDS, "epsilon": EPSILON, "delta": DELTA, "privacy": CENTRAL, **arguments}
    return privet.federate(make_model(), make_clients(6), checkpoint=folder, **given)


def journal(folder):
    return json.loads((Path(folder) / "spent.json").read_text())


def weights_of(result):
    return ModelLayout(result.model).read(result.model)


@pytest.mark.parametrize("at", range(1, ROUNDS + 1))
@pytest.mark.parametrize("place", ["draw_cohort", "collect", "step", "show", "watch"])
def test_a_kill_anywhere_costs_at_most_a_round_and_never_exceeds_epsilon(tmp_path, monkeypatch, at, place):
    """Rounds whose noise was drawn are counted in ``used``, by the test itself."""
    used, original = [], getattr(server_run.ServerRun, place)
    step = server_run.ServerRun.step

    def count(server, *arguments):
        used.append(server.rounds_done + 1)
        return step(server, *arguments)

    def fail(server, *arguments):
        number = server.rounds_done + (0 if place in ("show", "watch") else 1)
        if number == at:
            if place == "step":
                count(server, *arguments)
            raise Killed
        return (count if place == "step" else original)(server, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(server_run.ServerRun, "step", count)
        patch.setattr(server_run.ServerRun, place, fail)
        with pytest.raises(Killed):
            federate(tmp_path)
    spent = journal(tmp_path)
    assert spent["reserved"] >= len(used)
    assert account(Ledger.from_json(json.dumps(spent["ledger"]))).epsilon(delta=DELTA) > 0
    result = federate(tmp_path)
    executed = len(used) + len(result.history) - sum(1 for n in used if n <= len(result.history))
    assert len(result.ledger) >= executed
    assert result.epsilon(delta=DELTA) <= EPSILON
    assert len(result.history) + result.rounds_cut == ROUNDS
    assert result.rounds_cut <= 1
    assert Caveat.SEEDED_NOISE not in result.ledger.caveats


def test_nothing_leaves_before_it_is_written_down(tmp_path):
    """At every moment at which weights leave the server, the journal has their round, and so has the state."""
    seen = []

    def check(number):
        reserved = journal(tmp_path)["reserved"]
        saved = torch.load(tmp_path / "state.pt", weights_only=True)["step"] if number else 0
        seen.append((number, reserved, saved))
        assert reserved >= number
        assert saved == number

    class Checking(Spy):
        def observe(self, observed):
            check(observed.number)

    app = FederatedApp(
        make_model(),
        make_clients(6),
        rounds=3,
        epsilon=EPSILON,
        delta=DELTA,
        privacy=CENTRAL,
        checkpoint=tmp_path,
        observers=[Checking(Observer.SERVER)],
        watch=lambda model: check(len(seen) // 3 + 1) or 0.0,
    )

    def before(messages):
        if messages[0].metadata.message_type == "train":
            check(int(messages[0].metadata.group_id) - 1)

    app.run(FaultyGrid(InProcessGrid(app.client_app, 6), lambda message: [message], before=before))
    assert [number for number, _, _ in seen] == [0, 1, 1, 1, 2, 2, 2, 3, 3]


@pytest.mark.parametrize("mutation", ["shown first", "never reserved"])
def test_a_model_that_leaves_first_would_be_noticed(tmp_path, monkeypatch, mutation):
    """The mutations of the test above: it must fail for each."""

    class Unwritten:
        def __init__(self, checkpoint):
            self._checkpoint = checkpoint

        def reserve(self, step):
            self._checkpoint.reserve(step)

        def save(self, step, state):
            pass

    original = rounds._take_round
    if mutation == "shown first":
        monkeypatch.setattr(
            rounds, "_take_round", lambda s, c, k: original(s, c, None if k is None else Unwritten(k))
        )
    else:
        monkeypatch.setattr(rounds, "_take_round", lambda s, c, k: original(s, c, None))
    with pytest.raises((AssertionError, FileNotFoundError)):
        test_nothing_leaves_before_it_is_written_down(tmp_path)


PLANS = {
    "adaptive": CentralNoise(),
    "no noise": NoNoise(),
    "local": LocalNoise(clip=1.0),
    "shuffled": CentralNoise(clip=1.0, sampling=ShuffledSampling(3)),
    "tree": CentralNoise(clip=1.0, sampling=CyclicSampling(3), correlation=TreeNoise()),
}


@pytest.mark.parametrize("name", PLANS)
def test_each_kind_of_run_resumes_where_it_was(tmp_path, name):
    given = {"privacy": PLANS[name], "rounds": 6}
    if name == "no noise":
        given |= {"epsilon": None, "delta": None}

    def stop(model):
        stop.calls += 1
        if stop.calls == 3:
            raise Killed
        return 0.0

    stop.calls = 0
    with pytest.raises(Killed):
        federate(tmp_path, watch=stop, **given)
    result = federate(tmp_path, **given)
    taken = 4 if name == "shuffled" else 6  # the second epoch, of two rounds, was broken off and runs again
    assert [record.number for record in result.history] == list(range(1, taken + 1))
    assert result.rounds_cut == 6 - taken
    if name == "no noise":
        assert journal(tmp_path)["ledger"] is None
        whole = privet.federate(make_model(), make_clients(6), rounds=6, privacy=NoNoise())
        assert torch.equal(weights_of(result), weights_of(whole))
    else:
        assert result.epsilon(delta=DELTA) <= EPSILON


def test_a_shuffled_run_resumes_at_the_beginning_of_an_epoch(tmp_path):
    """Rounds of a broken-off epoch run again, and count twice."""

    def stop(model):
        stop.calls += 1
        if stop.calls == 3:
            raise Killed
        return 0.0

    stop.calls = 0
    given = {"privacy": CentralNoise(clip=1.0, sampling=ShuffledSampling(2)), "rounds": 6}
    with pytest.raises(Killed):
        federate(tmp_path, watch=stop, **given)  # three rounds are an epoch
    again = federate(tmp_path, **given)
    assert again.epsilon(delta=DELTA) <= EPSILON
    assert [record.number for record in again.history] == list(range(1, 7))


def test_a_run_with_other_settings_is_refused(tmp_path):
    federate(tmp_path, rounds=1)
    for arguments, field in (
        ({"rounds": 2}, "rounds"),
        ({"rounds": 1, "seed": 5}, "seed"),
        ({"rounds": 1, "privacy": CentralNoise(clip=Flat(2.0))}, "clip"),
        ({"rounds": 1, "privacy": CentralNoise(clip=1.0, sampling=PoissonSampling(0.5))}, "sampling"),
    ):
        with pytest.raises(InvalidArgument, match=rf"another plan \(it differs in .*{field}"):
            federate(tmp_path, **arguments)


def test_a_seed_is_not_used_twice(tmp_path):
    """A run that resumes with the same seed has fresh noise, or the difference of two models would show it."""

    def stop(model):
        raise Killed

    with pytest.raises(Killed):
        federate(tmp_path, watch=stop, noise=SeededNoise(1), rounds=2)
    result = federate(tmp_path, noise=SeededNoise(1), rounds=2)
    assert Caveat.SEEDED_NOISE in result.ledger.caveats
    first = federate(tmp_path / "one", noise=SeededNoise(1), rounds=1)
    assert not torch.equal(weights_of(result), weights_of(first))


def test_an_interrupted_run_ends_after_its_round_and_resumes(tmp_path):
    def interrupt(model):
        os.kill(os.getpid(), signal.SIGINT)
        return 0.0

    stopped = federate(tmp_path, watch=interrupt)
    assert stopped.interrupted
    assert len(stopped.history) == 1
    assert Caveat.STOPPED_EARLY in stopped.ledger.caveats
    resumed = federate(tmp_path)
    assert len(resumed.history) == ROUNDS
    assert not resumed.interrupted


@pytest.mark.slow
def test_a_process_that_is_killed_for_real_resumes(tmp_path):
    """SIGKILL in the middle of a round, again and again until the run ends."""
    program = textwrap.dedent(
        f"""
        import os, random, sys, torch, privet
        from torch import nn
        clients = [(torch.randn(8, 3), torch.randint(0, 2, (8,))) for _ in range(30)]
        def watch(model):
            if random.random() < 0.4:
                os.kill(os.getpid(), 9)
            return 0.0
        result = privet.federate(nn.Linear(3, 2), clients, rounds=8, epsilon=3, delta=1e-3,
                                 checkpoint={str(tmp_path / "run")!r}, watch=watch)
        print(result.epsilon(delta=1e-3), len(result.history), result.rounds_cut)
        """
    )
    for _ in range(40):
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, check=False
        )
        if done.returncode == 0:
            break
        assert done.returncode == -signal.SIGKILL, done.stderr
    epsilon, history, cut = done.stdout.split()
    assert float(epsilon) <= 3
    assert int(history) + int(cut) == 8
