"""With ``answer_after`` a release answers, or fails, at a time that is fixed before a row is read."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

pl = pytest.importorskip("polars")

from privet.adjacency import AddRemove, Unit  # noqa: E402
from privet.cli import main  # noqa: E402
from privet.errors import InvalidArgument  # noqa: E402
from privet.randomness import SeededNoise  # noqa: E402
from privet.releasing import Budget, Count, MemoryStore, ReleaseFailed, ReleasePlan, TableEngine  # noqa: E402
from privet.releasing.engines.polars_engine import PolarsEngine  # noqa: E402
from privet.releasing.release import release  # noqa: E402
from privet.releasing.tables import sources  # noqa: E402
from privet.releasing.tables.column_kind import ColumnKind  # noqa: E402

TABLE = pl.DataFrame({"u": [1, 2, 3]})
PLAN = ReleasePlan(statistics=(("n", Count()),), unit="u", budget=Budget(epsilon=1.0))
ON_DUCKDB = "privet.releasing.engines.duckdb_engine"
LATE = 1.0  # seconds that a busy machine may be late


class Odd(TableEngine):
    """Takes its time, and then breaks or answers."""

    def __init__(self, seconds=0.0, error=None, opening=0.0):
        self.seconds, self.error, self.opening = seconds, error, opening
        self.thread = None

    @property
    def schema(self):
        time.sleep(self.opening)
        return {"u": ColumnKind.NUMBER}

    def totals(self, request):
        self.thread = threading.current_thread()
        time.sleep(self.seconds)
        if self.error is not None:
            raise self.error
        return PolarsEngine.over(TABLE).totals(request)

    def cells(self, request):
        raise NotImplementedError


def timed(data, answer_after, store=None):
    start = time.monotonic()
    try:
        outcome = PLAN.run(data, noise=SeededNoise(3), store=store, answer_after=answer_after).answers
    except ReleaseFailed as failed:
        assert failed.__cause__ is None
        assert failed.__context__ is None
        outcome = str(failed)
    return outcome, time.monotonic() - start


@pytest.mark.parametrize("engine", [Odd(), Odd(0.2), Odd(0.1, ValueError("Anna, 37")), Odd(2.0)])
def test_answers_and_failures_come_at_the_same_time(engine):
    _, seconds = timed(engine, 0.4)
    assert 0.4 <= seconds < 0.4 + LATE


def test_the_answer_is_the_one_without_waiting():
    assert timed(TABLE, 0.1)[0] == timed(TABLE, None)[0]


def test_work_that_takes_longer_is_the_failure_of_all_others():
    store = MemoryStore(AddRemove(Unit.USER))
    engine = Odd(0.5)
    outcome, _ = timed(engine, 0.1, store)
    assert outcome == timed(Odd(error=ValueError("Anna, 37")), 0.1)[0]
    assert len(store.ledger) == 1  # spent
    engine.thread.join()
    assert len(store.ledger) == 1
    assert isinstance(timed(TABLE, None, store)[0], tuple)  # and no answer of the late work was kept
    assert len(store.ledger) == 2


def test_a_time_that_is_over_before_the_table_is_open_costs_nothing():
    store = MemoryStore(AddRemove(Unit.USER))
    with pytest.raises(InvalidArgument, match="nothing was spent"):
        PLAN.run(Odd(opening=0.1), store=store, answer_after=0.05)
    assert len(store.ledger) == 0


def test_an_answer_from_the_store_reads_no_row_and_does_not_wait():
    store = MemoryStore(AddRemove(Unit.USER))
    timed(TABLE, None, store)
    assert timed(TABLE, 60.0, store)[1] < 30


@pytest.mark.parametrize("seconds", [0, -1.0, float("nan"), float("inf"), True, "1", 1e300, 10**400])
def test_a_time_that_is_none_is_refused(seconds):
    store = MemoryStore(AddRemove(Unit.USER))
    with pytest.raises(InvalidArgument, match="answer_after"):
        release(TABLE, {"n": Count()}, unit="u", epsilon=1.0, store=store, answer_after=seconds)
    assert len(store.ledger) == 0


@pytest.mark.parametrize("engine", ["polars", "duckdb"])
def test_work_that_is_late_ends_with_its_next_batch(tmp_path, monkeypatch, engine):
    """Not one batch more is read than the one that was being read when the answer was due."""
    path = tmp_path / "t.csv"
    path.write_text("u\n1\n")
    started, batches = threading.Event(), []

    def endless(*_):
        while len(batches) < 1000:
            batches.append(len(batches))
            started.set()
            time.sleep(0.05)
            yield pl.DataFrame({"u": ["1"]})

    data = path if engine == "polars" else pytest.importorskip(ON_DUCKDB).DuckDBEngine(path)
    timed(data, None)  # warm up
    monkeypatch.setattr(sources, "read_text_batches", endless)
    outcome, seconds = timed(data, 1.0)
    assert isinstance(outcome, str)
    assert seconds < 1.0 + LATE
    assert started.is_set()
    for thread in threading.enumerate():
        if thread.name == "privet-release":
            thread.join(20)
            assert not thread.is_alive()
    assert len(batches) < 100


def test_a_later_run_is_not_cancelled(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("u\n1\n2\n")
    engine = PolarsEngine.of_path(path)
    before = PLAN.run(engine, noise=SeededNoise(3)).answers
    engine.cancel()
    assert PLAN.run(engine, noise=SeededNoise(3)).answers == before


def test_an_exception_that_ends_the_program_comes_through():
    with pytest.raises(SystemExit):
        PLAN.run(Odd(error=SystemExit()), answer_after=0.1)


INTERRUPTED = """
import signal, sys, polars as pl
signal.signal(signal.SIGINT, signal.default_int_handler)
from privet.releasing import Budget, Count, ReleasePlan
plan = ReleasePlan(statistics=(("n", Count()),), unit="u", budget=Budget(epsilon=1.0))
plan.quote()
print("ready", flush=True)
try:
    plan.run(pl.DataFrame({"u": [1]}), answer_after=600.0)
except KeyboardInterrupt:
    sys.exit(7)
"""


def test_an_interrupt_ends_the_wait():
    with subprocess.Popen([sys.executable, "-c", INTERRUPTED], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout.readline() == b"ready\n"
            time.sleep(0.5)
            os.kill(process.pid, signal.SIGINT)
            assert process.wait(60) == 7
        finally:
            process.kill()


def test_the_command_line_waits_and_says_nothing_of_the_work(tmp_path, capsys, monkeypatch):
    path = tmp_path / "t.csv"
    path.write_text("u\n1\n2\n")
    command = ["release", str(path), "--count", "--privacy-unit", "u", "--epsilon", "1"]
    start = time.monotonic()
    assert main([*command, "--answer-after", "0.5"]) == 0
    assert time.monotonic() - start >= 0.5
    assert main([*command, "--answer-after", "0"]) != 0
    assert "answer_after" in capsys.readouterr().err
    monkeypatch.setattr(PolarsEngine, "totals", lambda *_: time.sleep(1.0))
    assert main([*command, "--answer-after", "0.3"]) != 0
    assert "spending was written down" in capsys.readouterr().err
