"""Private data on disk has a lifetime: its owner alone reads it, and it is gone however the process ends."""

import os
import signal
import stat
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

import privet
from privet import private_folders
from privet.private_folders import private_folder

SOURCES = str(Path(privet.__file__).parents[1])
HOLDER = """
    import sys, time
    from privet.private_folders import private_folder
    with private_folder() as folder:
        (folder / "records").write_text("private")
        print("ready", flush=True)
        time.sleep(60)
"""
STUDY = """
    import os, sys, time
    import numpy as np
    from privet.attacks.shadows import CallableRecipe, Processes, conduct
    from privet.scores import Records

    def train(inputs, labels, seed):
        with open(os.environ["LOG"], "a") as log:
            log.write(f"{os.getpid()} ")
        time.sleep(60)

    records = Records(np.arange(20.0).reshape(10, 2), np.arange(10) % 2)
    conduct(CallableRecipe(train), records, 2, seed=0, engine=Processes(2))
"""


@pytest.fixture
def temporary(tmp_path):
    place = tmp_path / "temporary"
    place.mkdir()
    return place


@pytest.fixture
def start(tmp_path, temporary):
    """Start a program whose temporary folder is a place of its own."""
    running = []

    def begin(source):
        script = tmp_path / "script.py"
        script.write_text(textwrap.dedent(source))
        environment = os.environ | {
            "PYTHONPATH": SOURCES, "TMPDIR": str(temporary), "LOG": str(tmp_path / "log"),
        }  # fmt: skip
        process = subprocess.Popen(
            [sys.executable, str(script)],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        running.append(process)
        return process

    yield begin
    for process in running:
        process.kill()
        process.communicate()


def wait_until(done, seconds=30.0):
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.05)


def alive(number):
    try:
        state = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def test_only_the_owner_reads_it():
    with private_folder() as folder:
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        (folder / "inside").mkdir()
    assert not folder.exists()


def test_it_is_removed_after_an_exception():
    with pytest.raises(KeyboardInterrupt), private_folder() as folder:
        raise KeyboardInterrupt
    assert not folder.exists()


def test_handlers_are_as_before_and_those_of_others_are_left_alone(monkeypatch):
    def mine(number, frame):
        raise AssertionError

    before = signal.signal(signal.SIGTERM, mine)
    try:
        with private_folder():
            assert signal.getsignal(signal.SIGTERM) is mine
            assert signal.getsignal(signal.SIGHUP) is not signal.SIG_DFL
            with private_folder():
                pass
            assert signal.getsignal(signal.SIGHUP) is not signal.SIG_DFL
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_DFL
    finally:
        signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_it_is_removed_when_a_signal_ends_the_process(start, temporary, number):
    process = start(HOLDER)
    assert process.stdout.readline() == "ready\n"
    assert len(list(temporary.iterdir())) == 1
    process.send_signal(number)
    assert process.wait(20) == -number
    assert list(temporary.iterdir()) == []


def test_what_a_killed_process_left_is_removed_by_the_next(start, temporary, monkeypatch):
    process = start(HOLDER)
    assert process.stdout.readline() == "ready\n"
    (used,) = temporary.iterdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    with private_folder() as folder:
        assert {used, folder} == set(temporary.iterdir())  # one that is in use stays
    process.kill()
    process.wait()
    assert (used / "records").exists()
    with private_folder() as folder:
        assert [folder] == list(temporary.iterdir())


def test_a_fork_that_ends_leaves_the_folder_of_its_parent(temporary, monkeypatch):
    """The workers of a data loader are forks, and are ended by SIGTERM."""
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    with private_folder() as folder:
        child = os.fork()
        if child == 0:
            time.sleep(60)
            os._exit(0)
        time.sleep(0.1)
        os.kill(child, signal.SIGTERM)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGTERM
        assert folder.exists()


def test_folders_of_others_and_links_are_left_alone(temporary, monkeypatch, tmp_path):
    victim = tmp_path / "victim"
    victim.mkdir()
    (temporary / f"{private_folders._PREFIX}link").symlink_to(victim)
    (temporary / "privet-report-kept").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    private_folders.remove_abandoned()
    assert victim.exists()
    assert len(list(temporary.iterdir())) == 2
    theirs = temporary / f"{private_folders._PREFIX}theirs"
    theirs.mkdir()
    monkeypatch.setattr("os.getuid", lambda: 12345)
    private_folders.remove_abandoned()
    assert theirs.exists()


def test_a_folder_that_was_taken_for_abandoned_is_made_again(temporary, monkeypatch):
    """Another process may find the folder between its making and its locking."""
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    made, lock = [], private_folders._lock

    def late(folder):
        made.append(folder)
        if len(made) == 1:
            descriptor = lock(folder)
            private_folders.remove_folder(folder)
            return descriptor
        return lock(folder)

    monkeypatch.setattr(private_folders, "_lock", late)
    monkeypatch.setattr(private_folders, "remove_abandoned", lambda: None)
    with private_folder() as folder:
        assert folder == made[1]
        assert folder.exists()


@pytest.mark.skipif(not Path("/proc").exists(), reason="whether a process lives is read from /proc")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_workers_end_with_the_process_that_started_them_and_leave_no_records(
    start, temporary, tmp_path, number
):
    log = tmp_path / "log"
    process = start(STUDY)
    wait_until(lambda: log.exists() and len(log.read_text().split()) == 2)
    (folder,) = temporary.iterdir()
    assert (folder / "inputs.npy").exists()
    workers = [int(word) for word in log.read_text().split()]
    assert all(map(alive, workers))
    assert process.pid not in workers
    process.send_signal(number)
    assert process.wait(20) == -number
    wait_until(lambda: not any(map(alive, workers)), 10)
    wait_until(lambda: list(temporary.iterdir()) == [], 10)
