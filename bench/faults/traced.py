"""Real system calls of a whole release on the command line, which strace lets fail or turns into SIGKILL."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

from scenarios import Found

from privet.errors import PrivetError
from privet.releasing.durable import stored_ledger

_CALLS = ("openat", "write", "fsync", "rename", "flock", "unlink", "fchmod")
_FAULTS = ("error=EIO", "error=ENOSPC", "signal=SIGKILL")


def is_traceable() -> bool:
    """Whether strace is there and may trace."""
    if shutil.which("strace") is None:
        return False
    tried = subprocess.run(["strace", "-o", "/dev/null", "true"], capture_output=True, check=False)
    return tried.returncode == 0


def inject_everywhere(root: Path) -> tuple[int, Found]:
    """Each call that touches the ledger's files, at each of its turns, with each fault."""
    table = root / "table.csv"
    table.write_text("person,age\n" + "".join(f"{row},{row % 90}\n" for row in range(200)))
    turns = _turns(root, table)
    found, done = Found(), 0
    for call, count in turns.items():
        for turn in range(1, count + 1):
            for fault in _FAULTS:
                folder = root / f"{call}-{turn}-{fault}"
                folder.mkdir()
                said = _release(folder, table, ["-e", f"inject={call}:{fault}:when={turn}"], call)
                done += 1
                found.add(_checked(folder, said))
                shutil.rmtree(folder)
    return done, found


def _release(folder: Path, table: Path, inject: list[str], call: str) -> subprocess.CompletedProcess[str]:
    ledger = folder / "ledger.json"
    files = [ledger, *(folder / f"ledger.json{end}" for end in (".lock", ".new", ".answers.jsonl")), folder]
    traced = ["strace", "-f", "-qq", "-o", str(folder / "trace"), "-e", f"trace={call}", *inject]
    for file in files:
        traced += ["-P", str(file)]
    words = [
        "release",
        str(table),
        "--privacy-unit",
        "person",
        "--count",
        "--epsilon",
        "0.5",
        "--ledger",
        str(ledger),
        "--json",
    ]
    return subprocess.run(
        [*traced, sys.executable, "-m", "privet", *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def _turns(root: Path, table: Path) -> dict[str, int]:
    counts = {}
    for call in _CALLS:
        folder = root / f"count-{call}"
        folder.mkdir()
        _release(folder, table, [], call)
        trace = (folder / "trace").read_text()
        counts[call] = len(re.findall(rf"\b{call}\(", trace))
        shutil.rmtree(folder)
    return counts


def _checked(folder: Path, said: subprocess.CompletedProcess[str]) -> Found:
    """An answer on the screen must be in the ledger; an error must be told in one sentence."""
    try:
        shown = json.loads(said.stdout) if said.stdout.strip() else {}
    except ValueError:
        shown = {}
    answered = bool(shown.get("answers"))
    try:
        ledger = stored_ledger(folder / "ledger.json")
    except PrivetError:
        return Found(broken=1)
    spent = 0 if ledger is None else len(ledger)
    foreign = "Traceback" in said.stderr
    return Found(lost=int(answered and spent == 0), overspent=int(spent > 1), broken=int(foreign))
