"""SIGKILL: at every call of the system on the way, before it and after it; and at random times, with two processes at once."""

import os
import random
import shutil
import signal
import time
from contextlib import suppress
from pathlib import Path

from calls import dying, watched
from scenarios import Found, Scenario, teller, told_in

from privet.errors import PrivetError

_ROUNDS = 15  # kills in one folder, before a fresh one is taken


def kill_at_calls(scenario: Scenario, root: Path, kills: int) -> tuple[int, Found]:
    """Sweep over the calls, round and round, each process starting from what the dead ones before it left."""
    found, done, at, after, left = Found(), 0, 0, False, 0
    folder = root
    while done < kills:
        if left == 0:
            folder, left = _emptied(root / "calls"), _ROUNDS
        at += 1
        child = os.fork()
        if child == 0:
            _end(scenario, folder, at, after=after)
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status):
            done, left = done + 1, left - 1
        else:
            found.broken += os.WEXITSTATUS(status) != 0
            at, after, left = 0, not after, 0  # every call of this piece of work was a place to die
        found.add(scenario.check(folder / "kept", told_in(folder / "told")))
    return done, found


def _end(scenario: Scenario, folder: Path, at: int, *, after: bool) -> None:
    code = 3
    try:
        tell = teller(folder / "told")
        with watched(dying(at, after=after)):
            scenario.work(folder / "kept", tell)
        code = 0
    finally:
        os._exit(code)


def kill_at_times(scenario: Scenario, root: Path, kills: int, *, remove_locks: bool) -> tuple[int, Found]:
    """Two processes work in one folder until they are killed, at a time that has nothing to do with what they do.

    With ``remove_locks`` a hand removes the lock files meanwhile, so that both may be inside at once.
    """
    found, done, left = Found(), 0, 0
    chance = random.Random(7)
    folder = root
    while done < kills:
        if left <= 0:
            folder, left = _emptied(root / "times"), _ROUNDS
        children = [_working(scenario, folder) for _ in range(2)]
        stop = time.monotonic() + chance.uniform(0.002, 0.06)
        while time.monotonic() < stop:
            time.sleep(0.002)
            if remove_locks:
                for lock in scenario.locks(folder / "kept"):
                    lock.unlink(missing_ok=True)
        for child in children:
            os.kill(child, signal.SIGKILL)
            _, status = os.waitpid(child, 0)
            done += os.WIFSIGNALED(status)
            found.broken += os.WIFEXITED(status) and os.WEXITSTATUS(status) == 3
        left -= 2
        found.add(scenario.check(folder / "kept", told_in(folder / "told")))
    return done, found


def _emptied(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "kept").mkdir(parents=True)
    return folder


def _working(scenario: Scenario, folder: Path) -> int:
    child = os.fork()
    if child:
        return child
    try:
        tell = teller(folder / "told")
        while True:
            # Refusals are part of the game: another process has the folder, or had it meanwhile.
            with suppress(PrivetError):
                scenario.work(folder / "kept", tell)
    finally:
        os._exit(3)  # an error that is not Privet's
