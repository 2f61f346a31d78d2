"""What others may have put beside a file that must survive: refused or harmless, and never waited for."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from privet import durable_files
from privet.adjacency import AddRemove
from privet.durable_files import (
    ChangedMeanwhile,
    append_durably,
    is_locked_by,
    lock_file,
    read_whole,
    replace_durably,
)
from privet.errors import InvalidArgument, PrivetError, Unreadable
from privet.events import DiscreteLaplace
from privet.ledger import Entry, Ledger
from privet.releasing import Answer, Budget, ErrorKind, PrivacyCost
from privet.releasing.durable import AnswersNotKept, DurableLedger

COUNT = Entry("count", DiscreteLaplace(2.0, 1))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ledger.json"


@pytest.fixture
def durable(path):
    return DurableLedger(path=path, adjacency=AddRemove(), budget=Budget(epsilon=1.0))


@pytest.fixture
def victim(tmp_path):
    """A file of somebody's, which nothing here may touch."""
    file = tmp_path / "victim"
    file.write_text("mine")
    return file


def spend(durable):
    with durable.open() as held:
        held.spend((COUNT,))


def beside(path, ending):
    return path.with_name(path.name + ending)


def plant(what, place, victim):
    match what:
        case "link":
            place.symlink_to(victim)
        case "dangling link":
            place.symlink_to(victim.with_name("nowhere"))
        case "hard link":
            os.link(victim, place)
        case "pipe":
            os.mkfifo(place)
        case "folder":
            place.mkdir()
        case "leftover":
            place.write_text("half of a led")


THINGS = ["link", "dangling link", "hard link", "pipe", "folder", "leftover"]


@pytest.mark.parametrize("what", THINGS)
class TestPlanted:
    def test_what_waits_at_the_name_of_the_new_content_is_harmless(self, durable, path, victim, what):
        """In 0.1.0 a planted hard link had its content destroyed, and a pipe was waited for without end."""
        plant(what, beside(path, ".new"), victim)
        if what == "folder":
            with pytest.raises(InvalidArgument, match="Remove the folder"):
                spend(durable)
            assert not path.exists()
        else:
            spend(durable)
            assert Ledger.from_json(path.read_text()).entries == (COUNT,)
            assert not os.path.lexists(beside(path, ".new"))
        assert victim.read_text() == "mine"
        assert not victim.with_name("nowhere").exists()

    def test_a_lock_that_is_no_plain_file_is_refused(self, durable, path, victim, what):
        """In 0.1.0 a symbolic link made a file where it led, and two ledgers could be made to wait for each other."""
        plant(what, beside(path, ".lock"), victim)
        if what in ("leftover", "hard link"):
            spend(durable)  # a lock has no content, and is not written
        else:
            with pytest.raises(InvalidArgument, match="Remove"):
                spend(durable)
            assert not path.exists()
        assert victim.read_text() == "mine"
        assert not victim.with_name("nowhere").exists()

    def test_answers_go_to_a_plain_file_alone(self, durable, path, victim, what):
        """In 0.1.0 answers were added to whatever file a planted link led to."""
        answers = beside(path, ".answers.jsonl")
        with durable.open() as held:
            held.spend((COUNT,))
            plant(what, answers, victim)
            given = Answer(
                label="count",
                value=7,
                error=1.0,
                error_kind=ErrorKind.NOISE_LAW,
                confidence=0.95,
                event=COUNT.event,
                cost=PrivacyCost(epsilon=0.5, delta=0.0),
                accuracy=1.0,
            )
            if what == "leftover":
                held.keep({"how many?": given})
            else:
                with pytest.warns(AnswersNotKept):
                    held.keep({"how many?": given})
        assert victim.read_text() == "mine"
        assert not victim.with_name("nowhere").exists()
        if what != "leftover":
            with pytest.raises((InvalidArgument, Unreadable), match="Remove|Check the path"):
                spend(durable)

    def test_a_ledger_that_is_no_plain_file_with_one_name_is_refused(self, durable, path, victim, what):
        plant(what, path, victim)
        if what == "dangling link":
            spend(durable)  # a symbolic link stays one, and its file is made
            assert path.is_symlink()
            assert Ledger.from_json(victim.with_name("nowhere").read_text()).entries == (COUNT,)
            return
        with pytest.raises(PrivetError):
            spend(durable)
        assert victim.read_text() == "mine"


def test_two_names_of_one_ledger_are_refused(durable, path, tmp_path):
    """In 0.1.0 the first spend under one name left the other name with the ledger of before: both could be spent."""
    spend(durable)
    other = tmp_path / "other.json"
    os.link(path, other)
    for name in (path, other):
        with pytest.raises(InvalidArgument, match="must have one name, and has 2"):
            spend(DurableLedger(path=name, adjacency=AddRemove(), budget=None))
    other.unlink()
    spend(durable)
    assert len(Ledger.from_json(path.read_text())) == 2


def test_a_name_that_comes_while_a_ledger_is_held_is_noticed(durable, path, tmp_path):
    spend(durable)
    with durable.open() as held:
        os.link(path, tmp_path / "other.json")
        with pytest.raises(InvalidArgument, match="must have one name"):
            held.spend((COUNT,))


class TestRemovedLock:
    """In 0.1.0 two processes that each hold a lock file of their own spend twice from the same state."""

    def test_only_one_of_two_holders_spends(self, durable, path):
        results = []

        def other():
            with durable.open() as held:
                results.append(len(held.spend((COUNT,))))

        with durable.open() as held:
            beside(path, ".lock").unlink()
            thread = threading.Thread(target=other)
            thread.start()
            thread.join(20)
            assert results == [1]
            with pytest.raises(ChangedMeanwhile, match="Nothing was written; open it again"):
                held.spend((COUNT,))
        assert len(Ledger.from_json(path.read_text())) == 1

    def test_the_next_in_line_takes_the_lock_that_is_there(self, path):
        lock = beside(path, ".lock")
        first = lock_file(lock, wait=True)
        got = []
        waiting = threading.Thread(target=lambda: got.append(lock_file(lock, wait=True)))
        waiting.start()
        waiting.join(0.2)
        lock.unlink()
        third = lock_file(lock, wait=False)
        assert third is not None
        os.close(first)
        waiting.join(0.3)
        assert waiting.is_alive(), "the lock that it waited for is no lock any more"
        os.close(third)
        waiting.join(20)
        assert is_locked_by(lock, got[0])
        assert lock_file(lock, wait=False) is None
        os.close(got[0])

    def test_a_race_of_processes_whose_lock_is_removed_never_overspends(self, tmp_path):
        program = """
import os, sys
from pathlib import Path
from privet import AddRemove
from privet.durable_files import ChangedMeanwhile
from privet.errors import BudgetExceeded
from privet.events import DiscreteLaplace
from privet.ledger import Entry
from privet.releasing import Budget
from privet.releasing.durable import DurableLedger
path = Path(sys.argv[1])
durable = DurableLedger(path=path, adjacency=AddRemove(), budget=Budget(epsilon=10.0))
told = os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
children = []
for worker in range(4):
    children.append(os.fork())
    if children[-1] == 0:
        for turn in range(12):
            try:
                with durable.open() as held:
                    path.with_name(path.name + ".lock").unlink(missing_ok=True)
                    held.spend((Entry(f"{worker}-{turn}", DiscreteLaplace(2.0, 1)),))
                    os.write(told, f"{worker}-{turn}\\n".encode())
            except (BudgetExceeded, ChangedMeanwhile):
                pass
        os._exit(0)
sys.exit(any(os.waitpid(child, 0)[1] for child in children))
"""
        path, told = tmp_path / "ledger.json", tmp_path / "told"
        subprocess.run([sys.executable, "-c", program, str(path), str(told)], timeout=60, check=True)
        written = [entry.label for entry in Ledger.from_json(path.read_text())]
        assert set(told.read_text().split()) == set(written)
        assert len(written) <= 20


class TestReplacing:
    def test_only_what_was_expected_is_replaced(self, path):
        replace_durably(path, b"one", expected=None)
        with pytest.raises(ChangedMeanwhile):
            replace_durably(path, b"two", expected=None)
        replace_durably(path, b"two", expected=b"one")
        with pytest.raises(ChangedMeanwhile):
            replace_durably(path, b"three", expected=b"one")
        replace_durably(path, b"three")
        assert read_whole(path) == b"three"
        path.unlink()
        with pytest.raises(ChangedMeanwhile):
            replace_durably(path, b"four", expected=b"three")
        assert read_whole(path) is None

    def test_short_writes_are_continued(self, path, monkeypatch):
        real = os.write
        monkeypatch.setattr(os, "write", lambda descriptor, content: real(descriptor, bytes(content[:3])))
        replace_durably(path, b"0123456789")
        append_durably(beside(path, ".log"), "0123456789")
        assert path.read_bytes() == b"0123456789"
        assert beside(path, ".log").read_bytes() == b"0123456789\n"

    def test_a_flush_that_fails_after_the_rename_counts(self, durable, path, monkeypatch):
        spend(durable)
        real = os.replace

        def replaced(*arguments):
            real(*arguments)
            monkeypatch.setattr(os, "fsync", failed)

        def failed(_):
            raise OSError(5, "Input/output error")

        with durable.open() as held:
            monkeypatch.setattr(os, "replace", replaced)
            with pytest.raises(InvalidArgument, match="may be there, and counts"):
                held.spend((COUNT,))
            assert len(held.ledger) == 2
        monkeypatch.undo()
        with durable.open() as held:
            assert len(held.ledger) == 2

    @pytest.mark.parametrize("code", ["ENOTSUP", "EIO", None])
    def test_the_flush_of_macos_goes_to_the_disk(self, path, monkeypatch, code):
        import errno
        import fcntl

        called, synced = [], []

        def full(descriptor, command):
            called.append(command)
            if code is not None:
                raise OSError(getattr(errno, code), code)
            return 0

        monkeypatch.setattr(durable_files.sys, "platform", "darwin")
        monkeypatch.setattr(fcntl, "F_FULLFSYNC", 51, raising=False)
        monkeypatch.setattr(fcntl, "fcntl", full)
        monkeypatch.setattr(os, "fsync", synced.append)
        if code == "EIO":
            with pytest.raises(InvalidArgument):
                replace_durably(path, b"x")
            assert not path.exists()
            return
        replace_durably(path, b"x")
        assert called == [51, 51]  # the file and its folder
        assert len(synced) == (0 if code is None else 2)


def test_durable_writes_are_in_one_module():
    """Law: whoever flushes or locks does it through ``durable_files``; the exceptions are probes and folders without content."""
    package = Path(durable_files.__file__).parent
    allowed = {"durable_files.py", "private_folders.py", "cli/report_file.py"}
    found = {
        str(file.relative_to(package))
        for file in package.rglob("*.py")
        if any(word in file.read_text() for word in ("os.fsync", "fcntl.flock", "F_FULLFSYNC"))
    }
    assert found <= allowed
