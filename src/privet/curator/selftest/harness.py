"""The crash harness: kill everything at any time, and look whether one answer is missing from the ledger.

Gateway and worker are processes of their own, and so is PostgreSQL. They are killed with SIGKILL: at random
times while analysts ask; and the gateway at every line of the curator's code between a request and its
reply, one after the other. Every line is also made to raise. After each round the database is opened,
judged, recovered and judged again.

*What is covered*: the death of processes. *What is not*: a power cut, of which SQLite's and PostgreSQL's own
promises about fsync are trusted; the settings that these promises need are checked at every start.
"""

import json
import os
import secrets
import shutil
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any, final

from sqlalchemy import select

from privet.curator.principals import Principal
from privet.curator.refusals import CuratorUnavailable
from privet.curator.selftest.analysts import Analysts
from privet.curator.selftest.judging import RoundCounts, judge_round
from privet.curator.selftest.nursery import Nursery
from privet.curator.selftest.scratch import ScratchDatabase, choose_scratch
from privet.curator.selftest.toys import ADJACENCY, DATASET, FINGERPRINT, DrawingWorker, NumberPlanner
from privet.curator.storage import tables
from privet.curator.storage.database_curator import DatabaseCurator
from privet.curator.storage.heads import HeadFile
from privet.curator.storage.stewardship import Stewardship
from privet.errors import InvalidArgument
from privet.releasing.budget import Budget

__all__ = ["SelftestReport", "run_selftest"]

_ROUND = 80  # kills with one database
_GROUPS = 4
_ATTEMPTS, _PAUSE = 3000, 0.01


@final
@dataclass(frozen=True, kw_only=True)
class SelftestReport:
    """What the harness did and found. ``chain_ok`` and the four zeros are the verdict, ``is_sound``."""

    kills: int
    kills_by_target: dict[str, int]
    raised: int
    statements: int
    analysts: int
    asked: int
    answers: int
    charged: int
    failed: int
    uncharged_answers: int
    overspends: int
    lost_answers: int
    doubled_answers: int
    broken: int
    chain_ok: bool
    problems: tuple[str, ...]
    rounds: int
    seconds: float

    @property
    def is_sound(self) -> bool:
        """Whether nothing went wrong."""
        wrong = (
            self.uncharged_answers,
            self.overspends,
            self.lost_answers,
            self.doubled_answers,
            self.broken,
        )
        return self.chain_ok and not any(wrong)

    def to_json(self) -> str:
        """One document."""
        return json.dumps({**asdict(self), "is_sound": self.is_sound}, indent=2)


def run_selftest(
    address: str,
    *,
    kills: int,
    analysts: int = 32,
    scratch: ScratchDatabase | None = None,
    seed: int | None = None,
    tell: Callable[[int], None] | None = None,
    stop: float | None = None,
) -> SelftestReport:
    """Kill a curator on a scratch database beside ``address`` so many times, and judge what is left.

    ``scratch`` is given where the database itself may be killed too. ``tell`` hears how many kills were
    done. After ``stop``, by the monotonic clock, no further round begins. Ctrl-C ends it, leaves no
    process, and reports the rounds that were judged.
    """
    if kills < 1 or analysts < 1:
        raise InvalidArgument(
            f"'kills' and 'analysts' must be at least 1, got {kills} and {analysts}. Ask for 100 and 32, say."
        )
    began = time.monotonic()
    harness = _Harness(scratch or choose_scratch(address), analysts, Random(seed), tell)
    try:
        while harness.done < kills and (stop is None or time.monotonic() < stop):
            harness.run_round(min(_ROUND, kills - harness.done))
    except KeyboardInterrupt:
        pass  # what was found so far is reported
    finally:
        harness.close()
    return harness.report(time.monotonic() - began)


@final
class _Harness:
    """Counts over all rounds, and the nursery that they share."""

    def __init__(
        self, scratch: ScratchDatabase, analysts: int, chance: Random, tell: Callable[[int], None] | None
    ) -> None:
        self._scratch = scratch
        self._analysts = analysts
        self._chance = chance
        self._tell = tell
        self._nursery = Nursery()
        self._targets: Counter[str] = Counter()
        self._total = RoundCounts()
        self._problems: list[str] = []
        self._line = 0  # the next line to die at
        self._raise_line = 0
        self._lines = 0  # how many there are
        self._raised = 0
        self._rounds = 0

    @property
    def done(self) -> int:
        """Kills so far."""
        return self._targets.total()

    def close(self) -> None:
        """End all processes."""
        self._nursery.close()

    def run_round(self, kills: int) -> None:
        """One database: filled, killed, judged, recovered, judged again."""
        folder = Path(tempfile.mkdtemp(prefix="privet-selftest-"))
        try:
            address = self._scratch.open()
            try:
                _Round(self, folder, address).run(kills)
            finally:
                self._scratch.drop()
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        self._rounds += 1

    def report(self, seconds: float) -> SelftestReport:
        """All counts."""
        total = self._total
        return SelftestReport(
            kills=self.done,
            kills_by_target=dict(self._targets),
            raised=self._raised,
            statements=self._lines,
            analysts=self._analysts,
            asked=total.asked,
            answers=total.answers,
            charged=total.charged,
            failed=total.failed,
            uncharged_answers=total.uncharged_answers,
            overspends=total.overspends,
            lost_answers=total.lost_answers,
            doubled_answers=total.doubled_answers,
            broken=total.broken,
            chain_ok=total.chain_problems == 0,
            problems=tuple(self._problems[:20]),
            rounds=self._rounds,
            seconds=round(seconds, 1),
        )


@final
class _Round:
    """One scratch database with its processes and analysts."""

    def __init__(self, harness: _Harness, folder: Path, address: str) -> None:
        self._harness = harness
        self._chance = harness._chance
        self._address = address
        self._gateway_socket, self._worker_socket = folder / "gateway", folder / "worker"
        self._head, self._draws = folder / "head", folder / "draws"
        self._gateway = self._worker = 0

    def run(self, kills: int) -> None:
        accounts, caps = self._fill()
        self._start_worker()
        self._start_gateway()
        crowd = Analysts(self._gateway_socket, accounts, questions=8 * len(accounts))
        crowd.start()
        try:
            before = self._harness.done
            while self._harness.done - before < kills:
                self._kill_something(crowd, accounts)
                if self._harness._tell is not None:
                    self._harness._tell(self._harness.done)
        finally:
            crowd.stop()
            for process in (self._gateway, self._worker):
                _kill(process)
        self._judge(crowd, caps)

    def _fill(self) -> tuple[list[Principal], dict[int, Fraction]]:
        """Accounts and caps such that the caps of the dataset, of groups and of analysts are all reached."""
        curator = self._open()
        try:
            steward = Stewardship(curator.database, curator.heads)
            analysts = self._harness._analysts
            steward.add_dataset(
                DATASET, fingerprint=FINGERPRINT, adjacency=ADJACENCY, cap=Budget(epsilon=analysts / 8)
            )
            for group in range(_GROUPS):
                steward.add_group(f"group {group}")
                steward.cap_group(f"group {group}", DATASET, cap=Budget(epsilon=analysts / 24))
            accounts = []
            for number in range(analysts):
                name = f"analyst {number}"
                accounts.append(steward.add_analyst(name, group=f"group {number % _GROUPS}"))
                steward.grant(name, DATASET, cap=Budget(epsilon=0.25))
            with curator.database.read() as connection:
                rows = connection.execute(select(tables.budgets.c.id, tables.budgets.c.epsilon)).all()
            return accounts, {row.id: Fraction(row.epsilon).limit_denominator(1000) for row in rows}
        finally:
            curator.close()

    def _kill_something(self, crowd: Analysts, accounts: list[Principal]) -> None:
        kind = self._chance.random()
        if kind < 0.45:
            self._kill_at_line(crowd, self._chance.choice(accounts))
        elif kind < 0.55:
            self._raise_at_line(crowd, self._chance.choice(accounts))
        elif kind < 0.85:
            time.sleep(self._chance.uniform(0.0, 0.08))
            self._end("gateway", self._gateway)
            self._start_gateway()
        elif kind < 0.97:
            time.sleep(self._chance.uniform(0.0, 0.04))
            self._end("worker", self._worker)
            self._start_worker()
        else:
            time.sleep(self._chance.uniform(0.0, 0.08))
            if self._harness._scratch.kill(self._chance):
                self._harness._targets["database"] += 1

    def _end(self, target: str, process: int) -> None:
        _kill(process)
        self._harness._targets[target] += 1

    def _kill_at_line(self, crowd: Analysts, account: Principal) -> None:
        """A question of its own, at one of whose lines the gateway dies: the next line each time."""
        harness = self._harness
        harness._line += 1
        key = secrets.token_hex(8)
        number = self._chance.randrange(10**6, 10**9)
        found = crowd.ask(account, number, key, die_at=harness._line)
        if found is None and _has_ended(self._gateway):
            harness._targets["gateway at a line"] += 1
            self._start_gateway()
            crowd.ask(account, number, key)  # once more with the same key, as a client does
        elif found is not None and found["status"] in ("answered", "failed"):
            harness._lines = max(harness._lines, int(str(found["lines"])))
            harness._line = 0  # every line was a place to die

    def _raise_at_line(self, crowd: Analysts, account: Principal) -> None:
        """The same, with an error in place of death."""
        harness = self._harness
        harness._raise_line += 1
        key = secrets.token_hex(8)
        number = self._chance.randrange(10**6, 10**9)
        found = crowd.ask(account, number, key, raise_at=harness._raise_line)
        harness._raised += 1
        if found is not None and int(str(found.get("lines", 0))) < harness._raise_line:
            harness._raise_line = 0
        if found is not None and found["status"] == "unavailable":
            crowd.errors.add((account.account, key))  # it said that nothing was spent
        elif found is not None and found["status"] != "broken":
            crowd.ask(account, number, key)

    def _start_gateway(self) -> None:
        self._gateway = self._fork("gateway", self._gateway_socket)

    def _start_worker(self) -> None:
        self._worker = self._fork("worker", self._worker_socket)

    def _fork(self, task: str, socket: Path) -> int:
        """A process that listens. While the database is away a gateway ends, and another one is tried."""
        options = {"socket": str(socket)}
        if task == "gateway":
            options |= {"address": self._address, "worker": str(self._worker_socket), "head": str(self._head)}
        else:
            options["draws"] = str(self._draws)
        with suppress(FileNotFoundError):
            socket.unlink()
        process = self._harness._nursery.fork(task, options)
        for _ in range(_ATTEMPTS):
            if socket.exists():
                return process
            if _has_ended(process):
                process = self._harness._nursery.fork(task, options)
            time.sleep(_PAUSE)
        raise TimeoutError(f"the {task} of the selftest does not start")

    def _judge(self, crowd: Analysts, caps: dict[int, Fraction]) -> None:
        """Before the recovery, with reservations under way; and after it."""
        curator = DatabaseCurator(
            self._open_database(),
            planner=NumberPlanner(),
            worker=DrawingWorker(self._draws),
            heads=HeadFile(self._head),
        )
        try:
            before, problems = judge_round(
                curator.database, self._head, self._draws, crowd.seen, caps=caps, errors=crowd.errors
            )
            curator.recover()
            tally, later = judge_round(
                curator.database, self._head, self._draws, crowd.seen, caps=caps, errors=crowd.errors
            )
            for name in (
                "uncharged_answers",
                "overspends",
                "lost_answers",
                "doubled_answers",
                "chain_problems",
            ):
                setattr(tally, name, max(getattr(before, name), getattr(tally, name)))
            tally.asked, tally.broken = crowd.asked, tally.broken + curator.read_only
            self._harness._total.add(tally)
            self._harness._problems += [*problems, *later]
        finally:
            curator.close()

    def _open(self) -> DatabaseCurator:
        return DatabaseCurator.open(
            self._address,
            planner=NumberPlanner(),
            worker=DrawingWorker(self._draws),
            heads=HeadFile(self._head),
        )

    def _open_database(self) -> Any:  # noqa: ANN401
        from privet.curator.storage.database_curator import open_database

        for _ in range(_ATTEMPTS):
            with suppress(CuratorUnavailable):
                return open_database(self._address)
            time.sleep(_PAUSE)
        raise TimeoutError("the database of the selftest does not come back")


def _kill(process: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)
    for _ in range(_ATTEMPTS):
        if _has_ended(process):
            return
        time.sleep(0.0005)


def _has_ended(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    return False
