"""The kill harness of ``bench/faults``: its short form holds, and each mistake that it is for is found by it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from privet import durable_files
from privet.releasing import durable

BENCH = Path(__file__).parents[2] / "bench" / "faults"
MODULES = ("calls", "scenarios", "kills", "errors", "power")


@pytest.fixture
def harness(monkeypatch):
    """The modules of the harness, which are no package."""
    monkeypatch.syspath_prepend(str(BENCH))
    before = {name: sys.modules.pop(name, None) for name in MODULES}
    import errors
    import kills
    import power
    import scenarios

    monkeypatch.setattr(os, "fsync", lambda _: None)
    yield {"scenarios": scenarios, "kills": kills, "power": power, "errors": errors}
    for name in MODULES:
        sys.modules.pop(name, None)
        if before[name] is not None:
            sys.modules[name] = before[name]


@pytest.fixture
def ledgers(harness):
    return harness["scenarios"].Ledgers()


def test_no_power_cut_loses_a_spend(harness, ledgers, tmp_path):
    cuts, found = harness["power"].cut_everywhere(ledgers, tmp_path, 2)
    assert cuts > 15
    assert found.nothing


def test_a_flush_that_is_left_out_is_found(harness, ledgers, tmp_path, monkeypatch):
    """Mutation: no kill shows this one, because a process that dies takes nothing off the disk."""
    monkeypatch.setattr(durable_files, "_sync", lambda _: None)
    _, found = harness["power"].cut_everywhere(ledgers, tmp_path, 2)
    assert found.lost + found.broken > 0


def test_a_folder_that_is_not_flushed_is_found(harness, ledgers, tmp_path, monkeypatch):
    real = durable_files._sync

    def files_only(descriptor):
        if not Path(f"/proc/self/fd/{descriptor}").is_dir():
            real(descriptor)

    monkeypatch.setattr(durable_files, "_sync", files_only)
    _, found = harness["power"].cut_everywhere(ledgers, tmp_path, 2)
    assert found.lost > 0


def test_every_failing_call_is_told_in_privet_s_words(harness, ledgers, tmp_path):
    faults, found = harness["errors"].fail_every_call(ledgers, tmp_path, ("ENOSPC",))
    assert faults > 40
    assert found.nothing


def test_a_foreign_error_is_found(harness, ledgers, tmp_path, monkeypatch):
    """Mutation: an error of the system that leaves as it is."""
    from contextlib import nullcontext

    monkeypatch.setattr(durable_files, "_telling", lambda *_: nullcontext())
    _, found = harness["errors"].fail_every_call(ledgers, tmp_path, ("ENOSPC",))
    assert found.broken > 0


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_spend_that_is_written_in_place_is_found(harness, ledgers, tmp_path, monkeypatch):
    """Mutation: no file beside it and no rename."""

    def in_place(path, content, *, expected=None, mode=None):
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.write(descriptor, content)
        os.close(descriptor)

    monkeypatch.setattr(durable, "replace_durably", in_place)
    _, found = harness["kills"].kill_at_calls(ledgers, tmp_path, 30)
    assert found.lost + found.broken > 0


@pytest.mark.slow
def test_the_short_form_of_the_bench_holds():
    ran = subprocess.run(
        [sys.executable, str(BENCH / "run.py"), "--quick", "--json"],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    document = json.loads(ran.stdout)
    assert document["total"] == {"lost": 0, "overspent": 0, "above": 0, "broken": 0}
    assert sum(row["count"] for row in document["rows"]) > 500
