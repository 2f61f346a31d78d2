"""Kills, failing calls and power cuts: is anything ever lost, overspent or above its ε?

    bench/faults/run.py [--kills 6000] [--quick] [--json]

Ledgers, checkpoints of training and the cache of shadow models are killed with SIGKILL at every call of the system and at random times (two
processes at once, with and without a hand that removes their locks), have every call fail with every error of a disk, lose
power after every call (in a model of what POSIX promises), and, where strace is installed, whole releases from the command line
have real system calls fail or end the process. Exit code 1 if any figure but the counts is above 0.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
import warnings
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from errors import CODES, fail_every_call
from kills import kill_at_calls, kill_at_times
from power import cut_everywhere
from scenarios import Found, Ledgers, Scenario, ShadowCache, Training
from traced import inject_everywhere, is_traceable

_QUICK = 150


def main() -> int:
    """Run all, print a table or JSON, and say by the exit code whether all held."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=6000, help="in all (default: %(default)s)")
    parser.add_argument("--quick", action="store_true", help=f"{_QUICK} kills, and no strace")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    os.fsync = lambda _: None  # type: ignore[assignment] - a process that dies takes nothing off the disk; calls still pass
    kills = _QUICK if arguments.quick else arguments.kills
    began = time.monotonic()
    rows = []
    for scenario, pieces in ((Ledgers(), 3), (Training(), 2), (ShadowCache(), 1)):
        rows += _rows(scenario, kills // 3, pieces, CODES[:2] if arguments.quick else CODES)
    if not arguments.quick and is_traceable():
        rows.append(
            _row("privet release", "a real call fails, or ends the process", *_in_folder(inject_everywhere))
        )
    total = Found()
    for row in rows:
        total.add(Found(row["lost"], row["overspent"], row["above"], row["broken"]))
    seconds = round(time.monotonic() - began, 1)
    if arguments.json:
        print(json.dumps({"rows": rows, "total": asdict(total), "seconds": seconds}, indent=2))
    else:
        _print(rows, seconds)
    return int(not total.nothing)


def _rows(scenario: Scenario, kills: int, pieces: int, codes: tuple[str, ...]) -> list[dict[str, object]]:
    def told(what: str, count: int, found: Found) -> dict[str, object]:
        return _row(scenario.name, what, count, found)

    at_times = kills // 4 if scenario.locks(Path()) else 0
    rows = [
        told("SIGKILL at a call", *_in_folder(kill_at_calls, scenario, kills - 2 * at_times)),
    ]
    if at_times:
        for remove_locks, what in ((False, "SIGKILL at random times"), (True, "the same, locks removed")):
            done = _in_folder(kill_at_times, scenario, at_times, remove_locks=remove_locks)
            rows.append(told(what, *done))
    rows.append(told("a call fails", *_in_folder(fail_every_call, scenario, codes)))
    if scenario.locks(Path()):  # the cache has folders in its folder, and a lost entry is trained again
        rows.append(told("power cut", *_in_folder(cut_everywhere, scenario, pieces)))
    return rows


def _row(name: str, what: str, count: int, found: Found) -> dict[str, object]:
    return {"subject": name, "fault": what, "count": count, **asdict(found)}


def _in_folder(run, *arguments, **options):
    root = Path(tempfile.mkdtemp(prefix="privet-faults-"))
    try:
        if arguments and isinstance(arguments[0], Scenario):
            return run(arguments[0], root, *arguments[1:], **options)
        return run(root)
    finally:
        shutil.rmtree(root, ignore_errors=True)


def _print(rows: list[dict[str, object]], seconds: float) -> None:
    print(f"{'':15}{'':41}{'count':>8}{'lost':>7}{'overspent':>11}{'above ε':>9}{'broken':>8}")
    for row in rows:
        print(
            f"{row['subject']:15} {row['fault']:40}{row['count']:>8}{row['lost']:>7}{row['overspent']:>11}"
            f"{row['above']:>9}{row['broken']:>8}"
        )
    kills = sum(
        int(row["count"])
        for row in rows
        if "kill" in str(row["fault"]).lower() or "same" in str(row["fault"])
    )
    print(f"{kills:,} kills, {sum(int(row['count']) for row in rows) - kills:,} other faults, {seconds} s")


if __name__ == "__main__":
    sys.exit(main())
