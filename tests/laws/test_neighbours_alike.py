"""Neighbouring tables have one outcome: the same answers' form, or the same refusal, at the same charge, and no word more.

Whoever watches a release sees its exception with type and message, what it charged, its warnings, and what the process
writes to its standard error. None of these may tell which of two neighbours it was. Tables are generated to be hostile.
"""

import math
import os
import random
import tempfile
import warnings
from contextlib import contextmanager
from datetime import date, datetime, time
from decimal import Decimal

import numpy as np
import pytest

pl = pytest.importorskip("polars")
pd = pytest.importorskip("pandas")
pytest.importorskip("duckdb")

from privet.adjacency import AddRemove, Unit  # noqa: E402
from privet.errors import PrivetError  # noqa: E402
from privet.releasing import (  # noqa: E402
    Budget,
    Contribution,
    Count,
    Covariance,
    GroupBy,
    Histogram,
    Marginal,
    Mean,
    MemoryStore,
    Quantile,
    ReleaseFailed,
    ReleasePlan,
    Sum,
    TableEngine,
    TopK,
    Variance,
    budget_split,
)
from privet.releasing.engines.duckdb_engine import DuckDBEngine  # noqa: E402
from privet.releasing.engines.polars_engine import PolarsEngine  # noqa: E402
from privet.releasing.tables.column_kind import ColumnKind  # noqa: E402

HOSTILE = [
    None, math.nan, math.inf, -0.0, 1e308, 5e-324, True, 0, 7, -(2**63), 2**63, 2**64, 10**400, 10**5000, "", "a", "1", "1_000",
    "\ud800", "x" * 10_000, "a\x00b", "'; DROP TABLE", '"', "1" * 5000, b"\xff", (1,), [2], {"k": 1}, object(), 1j, float,
    Decimal("sNaN"), Decimal("1e999999"), Decimal(2), np.float16(1), np.int64(5), np.datetime64("NaT"), np.datetime64("-290000-01-01"),
    pd.NA, pd.NaT, pd.Timestamp.max, date.min, date.max, datetime.min, datetime.max, time.max,
]  # fmt: skip
LINES = [
    b"1,2,a\n", b'"1,2,a\n', b'1,"2"x,a\n', b"1,2\n", b"1,2,a,b,c\n", b"\n", b"\r\n", b"1,2\r,a\n", b"\xff,\xfe,\xfd\n", b"\x00,1,a\n",
    b'1,"""",a\n', b",,\n", b'"",1,"a\nb"\n', b"1,1e999,true\n", b"1,nan,false\n", b"\xef\xbb\xbf1,1,a\n", b"1," + b"9" * 5000 + b",a\n", b"#,2,a\n",
    b'1,2,"a"\r\n', b"1,2,a", b'1,"2', b"x" * 100_000 + b",1,a\n", b"2,1_000,\xc2\xa0a\n",
]  # fmt: skip
PHYSICAL = {
    pl.Date: (pl.Int32, [0, 2**31 - 1, -(2**31), 5, None]),
    pl.Datetime("us"): (pl.Int64, [0, 2**63 - 1, -(2**63), 5, None]),
    pl.Datetime("ms", "UTC"): (pl.Int64, [0, 2**62, -(2**62), None]),
    pl.Time: (pl.Int64, [0, 86_399_999_999_999, None]),
    pl.Int64: (pl.Int64, [0, 2**63 - 1, -(2**63), None]),
    pl.Float64: (pl.Float64, [0.0, -0.0, math.inf, math.nan, 1e308, None]),
    pl.UInt64: (pl.UInt64, [0, 2**64 - 1, None]),
    pl.String: (pl.String, ["", "a", "1", "\x00", "x" * 5000, None]),
}
NAMES = ("u", "x", "k")


def public_form(answer):
    """What an answer shows but for noise: keys that were found are noise too."""
    if not isinstance(answer.value, tuple):
        return answer.label
    found = answer.threshold is not None or answer.label == "top"
    return answer.label, None if found else tuple(repr(key) for key, _ in answer.value)


@contextmanager
def watched_stderr():
    """What the process writes to file descriptor 2, also from other languages."""
    with tempfile.TemporaryFile() as file:
        saved = os.dup(2)
        os.dup2(file.fileno(), 2)
        said = []
        try:
            yield said
        finally:
            os.dup2(saved, 2)
            os.close(saved)
            file.seek(0)
            said.append(file.read())


def outcome(plan, build):
    """All that is seen of a release."""
    store = MemoryStore(plan.relation)
    with watched_stderr() as said, warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            released = plan.run(build(), store=store)
            shown = ("answered", tuple(public_form(answer) for answer in released.answers))
            for answer in released.answers:
                numbers = [n for _, n in answer.value] if isinstance(answer.value, tuple) else [answer.value]
                assert all(math.isfinite(n) for n in numbers)
        except PrivetError as refused:
            shown = (type(refused).__name__, str(refused))
        except BaseException as escaped:  # nothing else may come out
            shown = ("ESCAPED", type(escaped).__name__, str(escaped)[:200])
    return shown, len(store.ledger), tuple(str(w.message) for w in warned), said[0]


def scalar(draw):
    low, high = draw.choice([(0.0, 100.0), (-1e10, 1.0)])
    return draw.choice(
        [
            Count(),
            Sum("x", low, high),
            Mean("x", low, high),
            Variance("x", low, high),
            Covariance("x", low, high, "k", -1.0, 7.0),
            Quantile("x", 0.5, low, high, 8),
        ]
    )


def plan_of(draw):
    keys = draw.choice([("a", "1"), (0, 7), (0.0, 1.0), (True, False)])
    asked = [
        ("s", scalar(draw)),
        ("top", TopK("k", 1, keys)),
        (
            "g",
            draw.choice([GroupBy("k", scalar(draw), keys), GroupBy("k", scalar(draw)), Histogram("k", keys)]),
        ),
        (
            "m",
            draw.choice([TopK("k", 2), Marginal((("k", keys), ("x", (0, 7)))), GroupBy(("k", "x"), Count())]),
        ),
    ]
    unit = draw.choice([None, "u"])
    return ReleasePlan(
        statistics=tuple(draw.sample(asked, draw.randrange(1, 4))),
        unit=unit,
        budget=Budget(epsilon=1.0, delta=1e-6),
        contribution=Contribution(draw.randrange(1, 3), draw.randrange(1, 3)) if unit else Contribution(),
    )


def object_pair(draw):
    """Frames of pandas, with types inferred by it from lists, or none at all."""
    rows = [[draw.choice(HOSTILE) for _ in NAMES] for _ in range(draw.randrange(1, 7))]
    plain = draw.random() < 0.5
    if draw.random() < 0.4:  # a column of one type, of which one record makes another
        for row in rows[:-1]:
            row[1:] = [draw.choice([1.5, 2.5]), draw.choice([True, False])]

    def build(kept):
        columns = {name: [row[place] for row in kept] for place, name in enumerate(NAMES)}
        if plain:
            return pd.DataFrame({name: pd.Series(c, dtype=object) for name, c in columns.items()})
        try:
            return pd.DataFrame(columns)
        except Exception:  # pandas itself does not take it
            return pd.DataFrame({name: pd.Series(c, dtype=object) for name, c in columns.items()})

    first, second = build(rows), build(rows[:-1])
    # Numbers of dates are refused by the type of a column, which is public: it must be the same for both.
    dates = [
        {n: str(f[n].dtype).startswith(("datetime", "timedelta", "complex")) for n in NAMES}
        for f in (first, second)
    ]
    if dates[0] != dates[1] or not len(second):
        first, second = (f.astype(object) for f in (first, second))
    engine = draw.choice([PolarsEngine.over, PolarsEngine.over, PolarsEngine.over, DuckDBEngine])
    return (lambda: engine(first)), (lambda: engine(second))


def typed_pair(draw):
    """Columns that were made from raw numbers, so that no calendar has them."""
    count = draw.randrange(1, 7)
    columns = []
    for name in NAMES:
        kind = draw.choice(list(PHYSICAL))
        physical, values = PHYSICAL[kind]
        columns.append(pl.Series(name, [draw.choice(values) for _ in range(count)], physical).cast(kind))
    frame = pl.DataFrame(columns)
    engine = draw.choice([PolarsEngine.over, PolarsEngine.over, PolarsEngine.over, DuckDBEngine])
    return (lambda: engine(frame)), (lambda: engine(frame[:-1]))


def file_pair(draw, folder):
    """Text files of whole lines; the last one is the neighbour's."""
    lines = [draw.choice(LINES) for _ in range(draw.randrange(1, 7))]
    paths = []
    for name, kept in (("first", lines), ("second", lines[:-1])):
        path = folder / f"{name}.csv"
        path.write_bytes(b"u,x,k\n" + b"".join(kept))
        paths.append(path)
    engine = draw.choice([PolarsEngine.of_path, PolarsEngine.of_path, PolarsEngine.of_path, DuckDBEngine])
    return (lambda: engine(paths[0])), (lambda: engine(paths[1]))


def different(draw, times, folder):
    """The pairs whose outcomes differ."""
    found = []
    for _ in range(times):
        plan = plan_of(draw)
        first, second = draw.choice(
            [lambda: object_pair(draw), lambda: typed_pair(draw), lambda: file_pair(draw, folder)]
        )()
        here, there = outcome(plan, first), outcome(plan, second)
        if here != there or here[0][0] == "ESCAPED" or here[0][0] == "ReleaseFailed" or here[3] or here[2]:
            found.append((plan, here, there))
    return found


@pytest.fixture
def laplace(monkeypatch):
    """Laplace noise alone: the proof of the Gaussian's takes a second, and the outcome is the same."""
    monkeypatch.setattr(budget_split, "_with_gaussian", lambda *_: None)


@pytest.mark.usefixtures("laplace")
def test_neighbours_have_one_outcome(tmp_path):
    assert different(random.Random(1), 30, tmp_path) == []


@pytest.mark.slow
@pytest.mark.usefixtures("laplace")
def test_ten_thousand_neighbours_have_one_outcome(tmp_path):
    assert different(random.Random(2), 10_000, tmp_path) == []


# --- after the spend the only outcome is the constant failure ---------------------------------------------------------


class Breaking(TableEngine):
    """Breaks in a way of its own, and talks about a row."""

    def __init__(self, error):
        self.error = error

    @property
    def schema(self):
        return {"u": ColumnKind.NUMBER, "x": ColumnKind.NUMBER, "k": ColumnKind.TEXT}

    def totals(self, request):
        warnings.warn("Anna, 37, row_offset 1", UserWarning, stacklevel=1)
        raise self.error

    def cells(self, request):
        return self.totals(request)


class Panic(BaseException):
    """As Polars raises: no Exception."""


def test_whatever_breaks_is_the_same_failure():
    seen = set()
    for error in (
        Panic("Anna, 37"),
        MemoryError("Anna"),
        RecursionError(),
        pl.exceptions.PanicException("Anna"),
        ValueError("Anna"),
    ):
        plan = ReleasePlan(statistics=(("n", Count()),), unit="u", budget=Budget(epsilon=1.0))
        seen.add(outcome(plan, lambda error=error: Breaking(error)))
    assert len(seen) == 1
    (kind, message), spent, warned, said = next(iter(seen))
    assert (kind, spent, warned, said) == ("ReleaseFailed", 1, (), b"")
    assert "Anna" not in message


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit])
def test_the_wish_to_stop_is_no_failure(stop):
    store = MemoryStore(AddRemove(Unit.USER))
    plan = ReleasePlan(statistics=(("n", Count()),), unit="u", budget=Budget(epsilon=1.0))
    with pytest.raises(stop):
        plan.run(Breaking(stop()), store=store)
    assert len(store.ledger) == 1


def test_a_failure_carries_no_cause():
    plan = ReleasePlan(statistics=(("n", Count()),), unit="u", budget=Budget(epsilon=1.0))
    with pytest.raises(ReleaseFailed) as failed:
        plan.run(Breaking(Panic("Anna")))
    assert failed.value.__cause__ is None
    assert failed.value.__context__ is None


def test_the_command_line_says_nothing_that_an_engine_writes(tmp_path, monkeypatch, capfd):
    from privet.cli import main

    path = tmp_path / "t.csv"
    path.write_text("u,x,k\n1,2,a\n")

    def talkative(self, request):
        os.write(2, b"thread panicked: Anna, 37\n")
        raise Panic("Anna")

    monkeypatch.setattr(PolarsEngine, "totals", talkative)
    assert main(["release", str(path), "--count", "--epsilon", "1"]) != 0
    out, said = capfd.readouterr()
    assert "Anna" not in out + said
    assert "spending" in out + said
