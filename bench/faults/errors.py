"""Every call of the system fails once, or from then on, with every error that a disk has; and writes are cut short."""

import errno
import shutil
import warnings
from pathlib import Path

from calls import failing, shortened, watched
from scenarios import Found, Scenario

from privet.errors import PrivetError

CODES = ("EIO", "ENOSPC", "EDQUOT", "EROFS", "EACCES", "EMFILE", "EPERM")


def fail_every_call(scenario: Scenario, root: Path, codes: tuple[str, ...]) -> tuple[int, Found]:
    """All calls × all errors × once or for good. What was told before the error must be kept, and work goes on after it."""
    found, done = Found(), 0
    for code in codes:
        for from_then_on in (False, True):
            at = 0
            while True:
                at += 1
                folder = root / f"{code}-{from_then_on}-{at}"
                folder.mkdir()
                told: list[str] = []
                scenario.work(folder, told.append)  # one piece of work before the fault
                struck = _struck(scenario, folder, told, at, getattr(errno, code), from_then_on, found)
                if struck:
                    done += 1
                    found.add(scenario.check(folder, told))
                    _go_on(scenario, folder, told, found)
                shutil.rmtree(folder)
                if not struck:
                    break
    return done, found


def _struck(
    scenario: Scenario, folder: Path, told: list[str], at: int, code: int, from_then_on: bool, found: Found
) -> bool:
    with (
        warnings.catch_warnings(action="ignore"),
        watched(failing(at, code, from_then_on=from_then_on)) as seen,
    ):
        try:
            scenario.work(folder, told.append)
        except PrivetError:
            pass
        except Exception:
            found.broken += 1
    return seen[0] >= at


def _go_on(scenario: Scenario, folder: Path, told: list[str], found: Found) -> None:
    with watched(shortened(7)):
        try:
            scenario.work(folder, told.append)
        except PrivetError:
            found.broken += 1
    found.add(scenario.check(folder, told))
