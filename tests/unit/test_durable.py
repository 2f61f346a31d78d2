"""A ledger file: what survives a kill, a race, a full disk and a careless hand."""

import errno
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from privet import AddRemove, Ledger, ReplaceOne, Unit, account
from privet.caveats import Caveat
from privet.cli import main
from privet.errors import BudgetExceeded, InvalidArgument, Unreadable
from privet.events import DiscreteGaussian, DiscreteLaplace
from privet.ledger import Entry
from privet.releasing import Answer, Budget, ErrorKind, PrivacyCost
from privet.releasing.durable import AnswersNotKept, DurableLedger

COUNT = Entry("count", DiscreteLaplace(2.0, 1))
SUM = Entry("sum", DiscreteLaplace(4.0, 1))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ledger.json"


@pytest.fixture
def durable(path):
    return DurableLedger(path=path, adjacency=AddRemove(Unit.USER), budget=None)


def spend(durable, *entries):
    with durable.open() as held:
        held.spend(entries)


def answer(entry, value, error=1.0):
    return Answer(
        label=entry.label,
        value=value,
        error=error,
        error_kind=ErrorKind.NOISE_LAW,
        confidence=0.95,
        event=entry.event,
        cost=PrivacyCost(epsilon=0.5, delta=0.0),
        accuracy=1.0,
    )


def value(found):
    return None if found is None else found.value


def answers(path):
    return path.with_name(path.name + ".answers.jsonl")


class TestSpending:
    def test_a_missing_file_is_an_empty_ledger_and_is_not_made_by_looking(self, durable, path):
        with durable.open() as held:
            assert held.ledger == Ledger(AddRemove(Unit.USER))
        assert not path.exists()

    def test_what_was_spent_is_there_for_the_next(self, durable, path):
        spend(durable, COUNT)
        spend(durable, SUM, COUNT)
        with durable.open() as held:
            assert held.ledger.entries == (COUNT, SUM, COUNT)
        assert Ledger.from_json(path.read_text()).entries == (COUNT, SUM, COUNT)

    def test_caveats_stay(self, durable):
        with durable.open() as held:
            held.spend((COUNT,), caveats=frozenset({Caveat.SEEDED_NOISE}))
        spend(durable, SUM)
        with durable.open() as held:
            assert held.ledger.caveats == {Caveat.SEEDED_NOISE}

    def test_the_command_line_reads_the_file(self, durable, path, capsys):
        spend(durable, COUNT, SUM)
        assert main(["account", str(path), "--delta", "0", "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["epsilon"] == pytest.approx(0.75)
        assert found["unit"] == "user"

    def test_a_link_stays_a_link_and_shares_the_lock(self, durable, path, tmp_path):
        spend(durable, COUNT)
        (tmp_path / "elsewhere").mkdir()
        link = tmp_path / "elsewhere" / "link.json"
        link.symlink_to(path)
        spend(DurableLedger(path=link, adjacency=AddRemove(Unit.USER), budget=None), SUM)
        assert link.is_symlink()
        assert Ledger.from_json(path.read_text()).entries == (COUNT, SUM)
        assert list(link.parent.iterdir()) == [link]

    def test_a_budget_is_kept_and_a_refusal_spends_nothing(self, path):
        limited = DurableLedger(path=path, adjacency=AddRemove(), budget=Budget(epsilon=1.0))
        spend(limited, COUNT, SUM)
        before = path.read_bytes()
        with limited.open() as held:
            with pytest.raises(BudgetExceeded, match="nothing was spent"):
                held.spend((COUNT,))
            assert held.ledger.entries == (COUNT, SUM)
        assert path.read_bytes() == before
        spend(limited, SUM)
        with pytest.raises(BudgetExceeded):
            spend(limited, Entry("tiny", DiscreteLaplace(1e6, 1)))

    def test_a_budget_with_delta_is_kept(self, path):
        limited = DurableLedger(path=path, adjacency=AddRemove(), budget=Budget(epsilon=1.0, delta=1e-6))
        noisy = Entry("sum", DiscreteGaussian(20.0, 1))
        count = 0
        with pytest.raises(BudgetExceeded):
            while count < 1000:
                spend(limited, noisy)
                count += 1
        ledger = Ledger.from_json(path.read_text())
        assert len(ledger) == count > 5
        assert account(ledger).epsilon(delta=1e-6) <= 1 < account(ledger + ledger).epsilon(delta=1e-6)

    def test_who_holds_it_does_not_wait_for_himself(self, durable):
        with durable.open(), pytest.raises(InvalidArgument, match="would wait for itself"), durable.open():
            pass
        spend(durable, COUNT)

    def test_threads_wait_for_each_other(self, durable):
        inside, seen = threading.Event(), []

        def second():
            inside.wait(10)
            with durable.open() as held:
                seen.append(len(held.ledger))

        thread = threading.Thread(target=second)
        thread.start()
        with durable.open() as held:
            inside.set()
            thread.join(0.2)
            assert thread.is_alive()
            held.spend((COUNT,))
        thread.join(10)
        assert seen == [1]

    def test_permissions_stay(self, durable, path):
        spend(durable, COUNT)
        path.chmod(0o600)
        spend(durable, SUM)
        assert path.stat().st_mode & 0o777 == 0o600


class TestOrder:
    @pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
    def test_the_disk_has_it_before_spend_returns(self, durable, path, monkeypatch):
        seen = []

        def record(name):
            real = getattr(os, name)

            def call(*arguments, **options):
                result = real(*arguments, **options)
                seen.append(
                    name
                    if name != "fsync"
                    else ("fsync", str(Path(f"/proc/self/fd/{arguments[0]}").readlink()))
                )
                return result

            monkeypatch.setattr(os, name, call)

        for name in ("write", "fsync", "replace"):
            record(name)
        spend(durable, COUNT)
        assert seen == ["write", ("fsync", f"{path}.new"), "replace", ("fsync", str(path.parent))]

    @pytest.mark.parametrize("failing", ["write", "fsync", "replace", "open"])
    def test_a_full_disk_spends_nothing_and_says_so(self, durable, path, monkeypatch, failing):
        spend(durable, COUNT)
        before = path.read_bytes()

        def full(*arguments, **options):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        with monkeypatch.context() as patched, durable.open() as held:
            patched.setattr(os, failing, full)
            with pytest.raises(InvalidArgument, match="No space left.*local disk"):
                held.spend((SUM,))
            assert held.ledger.entries == (COUNT,)
        assert path.read_bytes() == before
        spend(durable, SUM)
        assert Ledger.from_json(path.read_text()).entries == (COUNT, SUM)


class TestAnswers:
    def test_they_are_kept(self, durable):
        with durable.open() as held:
            assert held.recall("how many?") is None
            held.spend((COUNT,))
            held.keep({"how many?": answer(COUNT, 7.25)})
            assert held.recall("how many?") == answer(COUNT, 7.25)
        with durable.open() as held:
            assert held.recall("how many?") == answer(COUNT, 7.25)
            assert held.recall("how much?") is None

    @pytest.mark.parametrize(
        ("number", "error"),
        [
            (12345678901234567890, 3),
            (0.1 + 0.2, 5e-324),
            ((("a", 1), ("b\n\u2028ß", -2.5)), (("a", 0.5), ("b\n\u2028ß", 0.5))),
            (((("a", 1), 3), (("b", True), 4)), ((("a", 1), 0.5), (("b", True), 0.5))),
            (0.5, float("inf")),
        ],
    )
    def test_they_come_back_to_the_last_bit(self, durable, number, error):
        with durable.open() as held:
            held.spend((COUNT,))
            held.keep({"ε\n?": answer(COUNT, number, error)})
        with durable.open() as held:
            assert held.recall("ε\n?") == answer(COUNT, number, error)

    def test_an_answer_from_another_version_is_lost_and_its_cost_is_not(self, durable, path):
        with durable.open() as held:
            held.spend((COUNT,))
            held.keep({"how many?": answer(COUNT, 7)})
        answers(path).write_text(answers(path).read_text().replace('"confidence"', '"trust"'))
        with durable.open() as held:
            assert held.recall("how many?") is None
            assert held.ledger.entries == (COUNT,)

    def test_a_full_disk_does_not_take_away_what_was_paid_for(self, durable, path, monkeypatch):
        def full(*arguments):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        with durable.open() as held:
            held.spend((COUNT,))
            with monkeypatch.context() as patched:
                patched.setattr(os, "write", full)
                with pytest.warns(AnswersNotKept, match="asking again costs again"):
                    held.keep({"how many?": answer(COUNT, 7)})
            assert value(held.recall("how many?")) == 7
        with durable.open() as held:
            assert held.recall("how many?") is None
            assert held.ledger.entries == (COUNT,)

    def test_lost_answers_do_no_harm(self, durable, path):
        with durable.open() as held:
            held.spend((COUNT,))
            held.keep({"how many?": answer(COUNT, 7)})
        answers(path).unlink()
        with durable.open() as held:
            assert held.recall("how many?") is None
            assert held.ledger.entries == (COUNT,)

    def test_a_line_that_was_cut_is_passed_over_and_swallows_nothing(self, durable, path):
        with durable.open() as held:
            held.spend((COUNT, SUM))
            held.keep({"how many?": answer(COUNT, 7)})
            held.keep({"how much?": answer(SUM, 8)})
        whole = answers(path).read_bytes()
        for cut in range(whole.index(b"\n") + 2, len(whole) - 1, 7):
            answers(path).write_bytes(whole[:cut])
            with durable.open() as held:
                assert (value(held.recall("how many?")), held.recall("how much?")) == (7, None)
                held.keep({"how far?": answer(SUM, 9)})
            with durable.open() as held:
                assert (value(held.recall("how many?")), value(held.recall("how far?"))) == (7, 9)

    @pytest.mark.parametrize(
        ("field", "damage"),
        [
            ("value", 10**400), ("value", float("nan")), ("value", [[["a", []], 1]]), ("value", [["a", 1], ["a", 2]]), ("value", True),
            ("value", None), ("error", "1"), ("error", 10**400), ("confidence", 10**400), ("confidence", 2), ("confidence", "0.9"),
            ("accuracy", 10**400), ("accuracy", None), ("cost", {"epsilon": 10**400, "delta": 0}), ("cost", []), ("threshold", 1.5),
            ("threshold", "9"), ("event", {"kind": "laplace", "noise_multiplier": 10**400}), ("event", []), ("error_kind", 3),
        ],
    )  # fmt: skip
    def test_a_damaged_answer_is_lost_and_its_cost_is_not(self, durable, path, field, damage):
        """Some of these were raw errors, and others were believed."""
        with durable.open() as held:
            held.spend((COUNT, SUM))
            held.keep({"count?": answer(COUNT, 7), "sum?": answer(SUM, 8.5)})
        rows = [json.loads(line) for line in answers(path).read_text().splitlines()]
        rows[0]["answer"][field] = damage
        answers(path).write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        with durable.open() as held:
            assert value(held.recall("count?")) is None
            assert value(held.recall("sum?")) == 8.5
            assert len(held.ledger) == 2

    def test_garbage_among_the_answers_is_passed_over(self, durable, path):
        spend(durable, COUNT)
        answers(path).write_bytes(b"\x00\xff\n[]\n{}\n" + b"[" * 100_000 + b"\n")
        with durable.open() as held:
            held.keep({"how many?": answer(COUNT, 7)})
        with durable.open() as held:
            assert value(held.recall("how many?")) == 7

    @pytest.mark.parametrize("loss", ["removed", "older", "other"])
    def test_a_ledger_that_forgot_is_refused(self, durable, path, loss):
        spend(durable, COUNT)
        older = path.read_bytes()
        with durable.open() as held:
            held.spend((SUM,))
            held.keep({"how much?": answer(SUM, 8)})
        if loss == "removed":
            path.unlink()
        elif loss == "older":
            path.write_bytes(older)
        else:
            path.write_text(Ledger(AddRemove(Unit.USER), (SUM, COUNT)).to_json())
        files = {file.name: file.read_bytes() for file in path.parent.iterdir()}
        with pytest.raises(Unreadable, match="what was spent is not known. Restore"), durable.open():
            pass
        assert files == {file.name: file.read_bytes() for file in path.parent.iterdir()}


class TestBadFiles:
    def test_a_ledger_cut_anywhere_is_refused_and_left_as_it_is(self, durable, path):
        spend(durable, COUNT)
        whole = path.read_bytes()
        for cut in range(len(whole)):
            path.write_bytes(whole[:cut])
            with pytest.raises(Unreadable, match="restore the file from a backup"), durable.open():
                pass
            assert path.read_bytes() == whole[:cut]

    @pytest.mark.parametrize(
        "content",
        [b"", b"\x89PNG\r\n\x1a\n\x00", b"[]", b"{}", b"user_id,age\n1,2\n", b'{"format": "privet-event"}'],
    )
    def test_another_file_is_refused_and_left_as_it_is(self, durable, path, content):
        path.write_bytes(content)
        with pytest.raises(Unreadable, match="must be"), durable.open():
            pass
        assert path.read_bytes() == content

    def test_a_folder_and_a_missing_folder(self, tmp_path):
        with (
            pytest.raises(InvalidArgument, match="got the folder"),
            DurableLedger(path=tmp_path, adjacency=AddRemove(), budget=None).open(),
        ):
            pass
        with (
            pytest.raises(InvalidArgument, match="a folder that exists"),
            DurableLedger(path=tmp_path / "no" / "ledger.json", adjacency=AddRemove(), budget=None).open(),
        ):
            pass

    def test_another_adjacency_is_refused(self, durable, path):
        spend(durable, COUNT)
        for other in (AddRemove(Unit.RECORD), ReplaceOne(Unit.USER)):
            with (
                pytest.raises(InvalidArgument, match="same unit"),
                DurableLedger(path=path, adjacency=other, budget=None).open(),
            ):
                pass


SHARED = """
import json, os, signal, sys
from pathlib import Path
from privet import AddRemove
from privet.errors import BudgetExceeded
from privet.events import DiscreteLaplace
from privet.ledger import Entry
from privet.releasing import Answer, Budget, PrivacyCost, ErrorKind
from privet.releasing.durable import DurableLedger

def answer(entry, value):
    return Answer(label=entry.label, value=value, error=1.0, error_kind=ErrorKind.NOISE_LAW, confidence=0.95,
                  event=entry.event, cost=PrivacyCost(epsilon=0.5, delta=0.0), accuracy=1.0)

durable = DurableLedger(path=Path(sys.argv[1]), adjacency=AddRemove(), budget=Budget(epsilon=12.5))
"""

# Forks once for each point at which to die: before and after every call of the system on the way.
KILLED = (
    SHARED
    + """
def die_at(point):
    count = 0
    def tick():
        nonlocal count
        count += 1
        if count == point:
            os.kill(os.getpid(), signal.SIGKILL)
    def dying(real):
        def call(*arguments, **options):
            tick()
            result = real(*arguments, **options)
            tick()
            return result
        return call
    for name in ("open", "write", "fsync", "replace", "close", "pread"):
        setattr(os, name, dying(getattr(os, name)))

told = Path(sys.argv[2])
point, outcomes = 0, []
while True:
    point += 1
    child = os.fork()
    if child == 0:
        tell = os.open(told, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        say = os.write
        die_at(point)
        with durable.open() as held:
            entry = Entry(f"question {len(held.ledger)}", DiscreteLaplace(100.0, 1))
            held.spend((entry,))
            say(tell, b"x")  # the moment at which somebody sees the answer
            held.keep({entry.label: answer(entry, 7)})
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    seen = told.stat().st_size if told.exists() else 0
    with durable.open() as held:
        outcomes.append((len(held.ledger), seen))
    if os.WIFEXITED(status):
        print(json.dumps([os.WEXITSTATUS(status), outcomes]))
        sys.exit(0)
"""
)

RACING = (
    SHARED
    + """
start, go = os.pipe()
children = []
for worker in range(6):
    children.append(os.fork())
    if children[-1] == 0:
        os.close(go)
        os.read(start, 1)  # all at once
        for turn in range(6):
            try:
                with durable.open() as held:
                    entry = Entry(f"{worker}-{turn}", DiscreteLaplace(2.0, 1))
                    place = len(held.ledger)
                    held.spend((entry,))
                    held.keep({entry.label: answer(entry, place)})
            except BudgetExceeded:
                pass
        os._exit(0)
os.close(go)
sys.exit(any(os.waitpid(child, 0)[1] for child in children))
"""
)


def run(program, *arguments):
    return subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stdout


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
class TestProcesses:
    def test_killed_at_any_point_a_seen_answer_is_a_written_spend(self, tmp_path):
        status, outcomes = json.loads(run(KILLED, tmp_path / "ledger.json", tmp_path / "told"))
        assert status == 0
        assert len(outcomes) > 20
        assert all(seen <= spent for spent, seen in outcomes)
        spent = [spent for spent, _ in outcomes]
        assert spent == sorted(spent), "a later crash must not take back an earlier spend"
        assert 0 < outcomes[-1][1] < len(outcomes), "some died before they were seen, and some after"

    def test_a_race_never_overspends(self, tmp_path):
        run(RACING, tmp_path / "ledger.json")
        ledger = Ledger.from_json((tmp_path / "ledger.json").read_text())
        assert len(ledger) == 25
        assert len({entry.label for entry in ledger}) == 25
        kept = [
            json.loads(line) for line in (tmp_path / "ledger.json.answers.jsonl").read_text().splitlines()
        ]
        assert {row["question"]: row["answer"]["value"] for row in kept} == {
            entry.label: place for place, entry in enumerate(ledger)
        }

    def test_a_lock_dies_with_its_process(self, durable, path):
        holder = (
            "import os, signal, sys; from pathlib import Path; from privet import AddRemove, Unit;"
            "from privet.releasing.durable import DurableLedger\n"
            "with DurableLedger(path=Path(sys.argv[1]), adjacency=AddRemove(Unit.USER), budget=None).open(): os.kill(os.getpid(), signal.SIGKILL)"
        )
        killed = subprocess.run([sys.executable, "-c", holder, str(path)], timeout=60, check=False)
        assert killed.returncode == -9
        spend(durable, COUNT)
        assert Path(f"{path}.lock").exists()
