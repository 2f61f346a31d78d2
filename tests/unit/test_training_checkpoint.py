"""A run that is killed anywhere resumes with a ledger that is exact or too large, never too small."""

import json
import os
import pickle
import signal
from pathlib import Path

import pytest
import torch

from privet.accounting import account
from privet.adjacency import ZeroOut
from privet.caveats import Caveat
from privet.errors import InvalidArgument, Unreadable
from privet.events import Repeat
from privet.ledger import Ledger
from privet.training.loop import checkpoint
from privet.training.loop.checkpoint import Checkpoint
from privet.training.noise.correlated import TreeNoise
from privet.training.plan import TrainingPlan
from privet.training.sampling.schemes import CyclicSampling, PoissonSampling

STEPS = 7
PLAN = TrainingPlan(
    population=1000, sampling=PoissonSampling(0.01), steps=STEPS, noise_multiplier=1.0, clip_bound=1.0
)
AHEAD = 4
OPERATIONS = ("fsync", "write", "open", "replace", "unlink")


def run(folder: Path, used: Path, *, plan: TrainingPlan = PLAN, last: int = STEPS, every: int = 3) -> Ledger:
    """A toy loop: a byte in ``used`` is a noisy gradient that was used. Whatever was written survives a kill.

    Its ε pays for all steps again, so that the run reaches its end; see test_training_kills.py for those that do not.
    """
    with Checkpoint(folder, plan, ahead=AHEAD, epsilon=100.0, delta=1e-5) as kept:
        weights = torch.zeros(3) if kept.state is None else kept.state["weights"]
        descriptor = os.open(used, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        try:
            for step in range(kept.step + 1, last + 1):
                kept.reserve(step)
                os.write(descriptor, b"x")
                weights = weights + 1
                if step % every == 0 or step == STEPS:
                    kept.save(step, {"weights": weights})
        finally:
            os.close(descriptor)
        assert last < STEPS or float(weights[0]) == STEPS
        return kept.ledger()


def counted(ledger: Ledger) -> int:
    return sum(entry.event.times for entry in ledger if isinstance(entry.event, Repeat))


class Killer:
    """Kills its own process at the n-th durable operation, before it or after it."""

    def __init__(self, at: int, *, after: bool) -> None:
        self.at, self.after, self.seen = at, after, 0

    def __call__(self, real):
        def operation(*arguments, **options):
            self.seen += 1
            if self.seen == self.at and not self.after:
                os.kill(os.getpid(), signal.SIGKILL)
            found = real(*arguments, **options)
            if self.seen == self.at and self.after:
                os.kill(os.getpid(), signal.SIGKILL)
            return found

        return operation


def killed(folder: Path, used: Path, at: int, *, after: bool, plan: TrainingPlan = PLAN) -> bool:
    """Run in a child that is killed at that operation; whether it lived that long."""
    child = os.fork()
    if child == 0:
        try:
            strike = Killer(at, after=after)
            for name in OPERATIONS:
                setattr(os, name, strike(getattr(os, name)))
            run(folder, used, plan=plan)
        except BaseException:
            os._exit(3)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return True
    assert os.WEXITSTATUS(status) == 0
    return False


class Death(BaseException):
    """The end of a process, played in this one."""


class Dying:
    """From the n-th durable operation on, which is or is not done, nothing reaches the disk any more."""

    def __init__(self, at: int, *, after: bool) -> None:
        self.at, self.after, self.seen = at, after, 0

    def __call__(self, real):
        def operation(*arguments, **options):
            self.seen += 1
            if self.seen > self.at or (self.seen == self.at and not self.after):
                raise Death
            found = real(*arguments, **options)
            if self.seen == self.at:
                raise Death
            return found

        return operation


def died(folder: Path, used: Path, at: int, *, after: bool) -> bool:
    """As ``killed``, without a child, which takes most of the time."""
    with pytest.MonkeyPatch.context() as patched:
        strike = Dying(at, after=after)
        for name in OPERATIONS:
            patched.setattr(os, name, strike(getattr(os, name)))
        try:
            run(folder, used)
        except Death:
            return True
    return False


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("after", [True, False])
@pytest.mark.parametrize("end", [died, pytest.param(killed, marks=pytest.mark.slow)])
def test_a_kill_at_any_operation_never_makes_the_ledger_too_small(tmp_path, after, end, monkeypatch):
    if end is died:
        monkeypatch.setattr(os, "fsync", lambda _: None)  # a process that dies takes nothing off the disk
    # A death in Python is tried at every fourth place, and two places later on the other side; a kill at all of them.
    stride = 4 if end is died else 1
    at, kills = 1 + (stride // 2) * after, 0
    while True:
        folder, used = tmp_path / str(at), tmp_path / f"{at}.used"
        if not end(folder, used, at, after=after):
            break
        ledger = run(folder, used)
        spent, counts = used.stat().st_size, counted(ledger)
        assert spent <= counts <= spent + AHEAD, at
        assert counts >= STEPS
        on_disk = json.loads((folder / "spent.json").read_text())["ledger"]
        assert Ledger.from_json(json.dumps(on_disk)) == ledger
        at, kills = at + stride, kills + 1
    assert kills > 25 // stride  # every open, write, sync and rename of the run was a place to die


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_two_kills_in_one_run_are_both_counted(tmp_path):
    for first in (8, 30):
        folder, used = tmp_path / str(first), tmp_path / f"{first}.used"
        killed(folder, used, first, after=True)
        killed(folder, used, 20, after=False)
        assert used.stat().st_size <= counted(run(folder, used))


def test_a_run_without_a_crash_is_exact(tmp_path):
    ledger = run(tmp_path / "run", tmp_path / "used")
    assert ledger == PLAN.ledger(STEPS)
    assert run(tmp_path / "run", tmp_path / "used") == ledger  # nothing is left to do, and nothing is spent
    assert (tmp_path / "used").stat().st_size == STEPS


def test_an_interrupted_run_reports_what_it_used_or_more(tmp_path):
    ledger = run(tmp_path / "run", tmp_path / "used", last=5)
    assert 5 <= counted(ledger) <= 5 + AHEAD
    after = run(tmp_path / "run", tmp_path / "used")
    assert counted(after) >= (tmp_path / "used").stat().st_size


def test_a_journal_written_after_the_step_is_caught(tmp_path, monkeypatch):
    """Mutation: reserving one step too few must fail the bound that the kill test checks."""
    real = Checkpoint._write

    def late(self, journal):
        real(self, checkpoint.Journal(max(journal.reserved - AHEAD, 0), journal.abandoned))

    monkeypatch.setattr(Checkpoint, "_write", late)
    with Checkpoint(tmp_path / "run", PLAN, ahead=AHEAD) as kept:
        kept.reserve(1)
        assert counted(kept.ledger()) < 1


def test_lost_steps_of_correlated_noise_count_when_they_run_again(tmp_path):
    plan = TrainingPlan(
        population=100,
        sampling=CyclicSampling(5),
        steps=STEPS,
        noise_multiplier=2.0,
        clip_bound=1.0,
        adjacency=ZeroOut(),
        correlation=TreeNoise(),
    )
    run(tmp_path / "run", tmp_path / "used", plan=plan, last=5)
    with Checkpoint(tmp_path / "run", plan, ahead=AHEAD, epsilon=100.0, delta=1e-5) as kept:
        assert kept.step == 3
        assert kept.ledger().event == plan.ledger(STEPS).event  # what was reserved
    clean = account(plan.ledger(STEPS)).epsilon(delta=1e-5)
    final = run(tmp_path / "run", tmp_path / "used", plan=plan)
    assert account(final).epsilon(delta=1e-5) > clean


def test_a_seeded_stretch_is_never_forgotten(tmp_path):
    with Checkpoint(tmp_path, PLAN, caveats=frozenset({Caveat.SEEDED_NOISE})) as kept:
        kept.reserve(1)
    with Checkpoint(tmp_path, PLAN, epsilon=100.0, delta=1e-5) as kept:
        assert Caveat.SEEDED_NOISE in kept.ledger().caveats
        kept.reserve(1)
    with Checkpoint(tmp_path, PLAN, epsilon=100.0, delta=1e-5) as kept:
        assert Caveat.SEEDED_NOISE in kept.ledger().caveats


def test_optimizer_and_model_come_back(tmp_path):
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    with Checkpoint(tmp_path, PLAN) as kept:
        kept.reserve(1)
        kept.save(1, {"model": model.state_dict(), "optimizer": optimizer.state_dict()})
    with Checkpoint(tmp_path, PLAN) as kept:
        assert kept.step == 1
        assert kept.state is not None
        other = torch.nn.Linear(3, 2)
        other.load_state_dict(kept.state["model"])
        torch.optim.Adam(other.parameters()).load_state_dict(kept.state["optimizer"])
        assert torch.equal(other.weight, model.weight)


def test_only_its_owner_reads_it(tmp_path):
    run(tmp_path / "run", tmp_path / "used")
    assert (tmp_path / "run").stat().st_mode & 0o077 == 0
    assert (tmp_path / "run" / "state.pt").stat().st_mode & 0o077 == 0


class Exploit:
    """What a pickle of unknown origin can do."""

    def __reduce__(self):
        return os.mkdir, ("exploited",)


def test_a_state_from_elsewhere_runs_no_code(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run(tmp_path / "run", tmp_path / "used", last=4)
    (tmp_path / "run" / "state.pt").write_bytes(pickle.dumps({"step": 3, "plan": "", "state": Exploit()}))
    with pytest.raises(Unreadable, match="Remove it"), Checkpoint(tmp_path / "run", PLAN):
        pass
    assert not (tmp_path / "exploited").exists()


def test_refusals(tmp_path):
    run(tmp_path / "run", tmp_path / "used", last=5)
    folder = tmp_path / "run"
    with Checkpoint(folder, PLAN, epsilon=100.0, delta=1e-5) as kept:
        with pytest.raises(InvalidArgument, match="another run"), Checkpoint(folder, PLAN):
            pass
        with pytest.raises(InvalidArgument, match="Reserve every step"):
            kept.reserve(kept.step + 2)
        with pytest.raises(InvalidArgument, match="Save the state"):
            kept.save(kept.step + 1, {})
    with pytest.raises(InvalidArgument, match="not open"):
        kept.reserve(4)
    other = TrainingPlan(
        population=1000, sampling=PoissonSampling(0.01), steps=8, noise_multiplier=1.0, clip_bound=1.0
    )
    with pytest.raises(InvalidArgument, match="another plan"), Checkpoint(folder, other):
        pass
    text = (folder / "spent.json").read_text()
    broken = {"reserved": 2}, {"reserved": -1}, {"reserved": 8}, {"abandoned": [[3, 2]]}, {"ledger": {}}
    for change in broken:
        (folder / "spent.json").write_text(json.dumps(json.loads(text) | change))
        with pytest.raises(Unreadable), Checkpoint(folder, PLAN):
            pass
    (folder / "spent.json").unlink()
    with pytest.raises(Unreadable, match="what was spent is unknown"), Checkpoint(folder, PLAN):
        pass
