"""Tables that are not as they should be: a sentence that no row can change, or a correct private answer.

Two tables are neighbours when one lacks a person of the other. Either both are answered, or both are refused with
the same words: otherwise the refusal itself would tell who is in the table. What is refused has spent nothing; what
fails after it was paid for stays paid.

ε is 10⁶ where the answer itself is checked, so that noise is next to nothing.
"""

import json
import math
from datetime import date, datetime, time
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privet import AddRemove, Ledger, Unit
from privet.cli import main
from privet.errors import BudgetExceeded, InvalidArgument, PrivetError
from privet.releasing import (
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
    ReleasePlan,
    Sum,
    TopK,
    Variance,
)
from privet.releasing.durable import DurableLedger

pl = pytest.importorskip("polars")
pd = pytest.importorskip("pandas")
pytest.importorskip("duckdb")

from privet.releasing.engines.duckdb_engine import DuckDBEngine  # noqa: E402 - where the packages are there
from privet.releasing.engines.polars_engine import PolarsEngine  # noqa: E402

EVERYTHING = (
    ("count", Count()),
    ("sum", Sum("age", 0.0, 100.0)),
    ("mean", Mean("age", 0.0, 100.0)),
    ("variance", Variance("age", 0.0, 100.0)),
    ("covariance", Covariance("age", 0.0, 100.0, "city", 0.0, 1.0)),
    ("median", Quantile("age", 0.5, 0.0, 100.0, candidates=64)),
    ("histogram", Histogram("city", ("a", "b"))),
    ("marginal", Marginal((("city", ("a", "b")), ("age", (1, 2))))),
    ("top", TopK("city", 1, ("a", "b"))),
    ("by key", GroupBy("city", Mean("age", 0.0, 100.0), ("a", "b", "never seen"))),
)
UNKNOWN = (
    ("found", GroupBy("city", Count())),
    ("most", TopK("city", 2)),
)


KINDS = (
    pl.Series([1, 2, -128, None], dtype=pl.Int8),
    pl.Series([1, 2, 2**64 - 1, None], dtype=pl.UInt64),
    pl.Series([1, 2, -(2**63), 2**63 - 1], dtype=pl.Int64),
    pl.Series([1, 2, None, 2**100], dtype=pl.Int128),
    pl.Series([1, math.nan, math.inf, None], dtype=pl.Float32),
    pl.Series([Decimal("1.5"), None, Decimal(-3), Decimal("99.25")]),
    pl.Series([date(2020, 1, 1), None, date(1, 1, 1), date(9999, 12, 31)]),
    pl.Series([datetime(2020, 1, 1), None, datetime(1, 1, 1), datetime(9999, 12, 31)]),
    pl.Series([time(1), None, time(2), time(3)]),
    pl.Series([True, False, None, True]),
    pl.Series([b"a", b"\xff", None, b""]),
    pl.Series([[1], [], None, [2, 3]]),
    pl.Series([{"a": 1}, {"a": None}, None, {"a": 2}]),
    pl.Series(["a", "b", None, ""], dtype=pl.Categorical),
    pl.Series(["a", "b", None, "a"], dtype=pl.Enum(["a", "b"])),
    pl.Series([None] * 4, dtype=pl.Null),
    pl.Series(["a", "1", " 2 ", None]),
)


def plan(*statistics, unit="user_id", epsilon=1e6, delta=0.0, rows=1, groups=1):
    return ReleasePlan(
        statistics=statistics,
        unit=unit,
        budget=Budget(epsilon=epsilon, delta=delta),
        contribution=Contribution(rows=rows, groups=groups),
    )


def frame(rows, types=None):
    return pl.DataFrame(
        rows, schema=types or {"user_id": pl.Int64, "age": pl.Float64, "city": pl.String}, orient="row"
    )


def one(statistic, table, **bounds):
    return plan(("it", statistic), **bounds).run(table)["it"].value


def outcome(asked, table):
    """What somebody who watches sees of a run but for the noise: the form of the answers, or the refusal."""
    store = MemoryStore(AddRemove(Unit.USER))
    try:
        released = asked.run(table, store=store)
    except PrivetError as refused:
        return type(refused).__name__, str(refused), len(store.ledger)
    shape = []
    for answer in released.answers:
        keys = tuple(key for key, _ in answer.value) if isinstance(answer.value, tuple) else None
        shape.append((answer.label, keys if answer.threshold is None and answer.label != "top" else None))
        numbers = [number for _, number in answer.value] if keys is not None else [answer.value]
        assert all(math.isfinite(number) for number in numbers), "a value is always a number"
    return "answered", tuple(shape), len(store.ledger)


class TestOddValues:
    @pytest.mark.parametrize(
        ("odd", "counted"),
        [
            (math.nan, None),
            (None, None),
            (math.inf, 100.0),
            (-math.inf, 0.0),
            (1e308, 100.0),
            (-0.0, 0.0),
            (5e-324, 0.0),
        ],
    )
    def test_missing_values_do_not_count_and_far_ones_count_as_the_bound(self, odd, counted):
        table = frame([(person, 50.0, "a") for person in range(9)] + [(9, odd, "a")])
        expected = [50.0] * 9 + ([] if counted is None else [counted])
        assert one(Sum("age", 0.0, 100.0), table) == pytest.approx(sum(expected), abs=1e-2)
        assert one(Mean("age", 0.0, 100.0), table) == pytest.approx(sum(expected) / len(expected), abs=1e-2)
        assert one(Count(), table) == 10

    def test_mixed_types_in_a_column(self, tmp_path):
        mixed = [50, "60", "sixty", 70.0, None, math.nan, True, [1], b"\x00", object()]
        table = pd.DataFrame({"user_id": range(len(mixed)), "age": pd.Series(mixed, dtype=object)})
        assert one(Count(), table) == len(mixed)
        assert one(Sum("age", 0.0, 100.0), table) == pytest.approx(
            180.5, abs=0.6
        )  # true may count as 1, or not
        path = tmp_path / "data.csv"
        path.write_text("user_id,age\n1,50\n2,60\n3,sixty\n4,70.0\n5,\n6,NaN\n7,1e400\n8, 5 \n9,0x10\n")
        assert one(Count(), path) == 9
        assert one(Sum("age", 0.0, 100.0), path) == pytest.approx(285, abs=0.1)  # 1e400 is beyond the bound

    def test_a_type_is_not_guessed_from_the_first_rows(self, tmp_path):
        path = tmp_path / "data.csv"
        lines = [f"{person},{person % 7}" for person in range(5_000)] + ["x9,old", "y9,3.5"]
        path.write_text("user_id,age\n" + "\n".join(lines) + "\n")
        assert one(Count(), path) == 5_002
        assert one(Sum("age", 0.0, 100.0), path) == pytest.approx(
            sum(n % 7 for n in range(5_000)) + 3.5, abs=0.1
        )

    @pytest.mark.parametrize("rows", [1, 3])
    def test_a_unit_that_is_missing_is_nobody(self, rows):
        """Rows without a unit cannot be bounded, so they do not count, however many there are."""
        table = frame([(1, 50.0, "a"), (2, 50.0, "a")] + [(None, 50.0, "a")] * 1_000)
        assert one(Count(), table, rows=rows) == 2
        assert one(Histogram("city", ("a",)), table, rows=rows) == (("a", 2),)

    @pytest.mark.parametrize("unit", [math.nan, math.inf, "", "ß\n,"])
    def test_odd_units_are_bounded_like_any(self, unit):
        kind = pl.String if isinstance(unit, str) else pl.Float64
        table = frame([(unit, 50.0, "a")] * 1_000, {"user_id": kind, "age": pl.Float64, "city": pl.String})
        assert one(Count(), table) in (0, 1)

    def test_zero_and_minus_zero_are_one_person(self):
        table = frame(
            [(0.0, 50.0, "a"), (-0.0, 50.0, "a")],
            {"user_id": pl.Float64, "age": pl.Float64, "city": pl.String},
        )
        assert one(Count(), table) == 1


class TestEmptiness:
    @pytest.mark.parametrize("kind", ["polars", "lazy", "pandas", "arrow", "csv", "parquet"])
    def test_an_empty_table_is_answered(self, kind, tmp_path):
        empty = frame([])
        path = tmp_path / ("data.parquet" if kind == "parquet" else "data.csv")
        empty.write_parquet(path) if kind == "parquet" else empty.write_csv(path)
        table = {
            "polars": empty,
            "lazy": empty.lazy(),
            "pandas": empty.to_pandas(),
            "arrow": empty.to_arrow(),
        }.get(kind, path)
        asked = plan(*EVERYTHING, epsilon=1.0)
        assert outcome(asked, table)[0] == "answered"
        assert abs(one(Count(), table)) < 1
        assert one(Histogram("city", ("a", "b")), table) == (("a", 0), ("b", 0))
        assert outcome(plan(*UNKNOWN, epsilon=1.0, delta=1e-6), table)[0] == "answered"

    def test_an_empty_group_and_keys_never_seen_are_answered(self):
        table = frame([(person, 40.0, "a") for person in range(100)])
        asked = GroupBy("city", Count(), ("a", "never seen"))
        assert one(asked, table) == (("a", 100), ("never seen", 0))
        means = dict(one(GroupBy("city", Mean("age", 0.0, 100.0), ("a", "never seen")), table))
        assert means["a"] == pytest.approx(40, abs=0.1)
        assert 0 <= means["never seen"] <= 100

    def test_a_column_of_nothing_but_missing_values(self):
        table = frame([(person, None, None) for person in range(100)])
        assert outcome(plan(*EVERYTHING, epsilon=1.0), table)[0] == "answered"
        assert one(Count(), table) == 100

    def test_a_rare_key_is_not_shown(self):
        table = frame([(person, 1.0, "common") for person in range(1_000)] + [(1_000, 1.0, "rare")])
        for _ in range(20):
            asked = plan(("found", GroupBy("city", Count())), epsilon=1.0, delta=1e-9)
            assert "rare" not in dict(asked.run(table)["found"].value)


class TestOnePersonWithAMillionRows:
    @pytest.mark.parametrize("rows", [1, 10])
    def test_they_count_for_as_much_as_is_allowed(self, rows):
        crowd = pl.DataFrame(
            {"user_id": [7] * 1_000_000, "age": [100.0] * 1_000_000, "city": ["a", "b"] * 500_000}
        )
        others = frame([(person, 0.0, "a") for person in range(100, 200)])
        table = pl.concat([crowd, others])
        bounds = {"rows": rows}
        assert one(Count(), table, **bounds) == 100 + rows
        assert one(Sum("age", 0.0, 100.0), table, **bounds) == pytest.approx(100 * rows, abs=0.1)
        histogram = dict(one(Histogram("city", ("a", "b")), table, **bounds))
        assert sum(histogram.values()) == 100 + rows, "one group of theirs counts"


class TestNeighbours:
    ODD = st.sampled_from(
        [None, math.nan, math.inf, -math.inf, -1.0, 0.0, 1.0, 2.0, 50.0, 99.5, 1e308, -1e-320]
    )
    ROW = st.tuples(st.sampled_from([1, 2, 3, None]), ODD, st.sampled_from(["a", "b", "c", "", None]))

    @settings(deadline=None, max_examples=15)
    @given(st.lists(ROW, max_size=12))
    def test_both_are_answered_in_the_same_form(self, rows):
        asked = plan(*EVERYTHING, epsilon=1.0)
        forms = {outcome(asked, frame([row for row in rows if row[0] != gone])) for gone in (0, 1, 2, 3)}
        assert len(forms) == 1
        assert next(iter(forms))[0] == "answered"

    TEXT = st.sampled_from(
        ["", "1", "-1", "old", "NaN", "inf", "1e999", " 7 ", "0x1", "ß", "'", "null", "true", "\\N"]
    )

    CELLS = st.lists(st.tuples(st.sampled_from(["1", "2", "x", ""]), TEXT, TEXT), max_size=12)

    @pytest.mark.parametrize(("engine", "examples"), [(PolarsEngine.of_path, 12), (DuckDBEngine, 2)])
    def test_files_of_any_text_are_answered_in_the_same_form(self, tmp_path, engine, examples):
        path = tmp_path / "data.csv"
        asked = plan(*EVERYTHING, epsilon=1.0)

        @settings(deadline=None, max_examples=examples)
        @given(self.CELLS)
        def check(rows):
            forms = set()
            for gone in ("nobody", "1", "2", "x"):
                lines = [f"{unit},{age},{city}\n" for unit, age, city in rows if unit != gone]
                path.write_text("user_id,age,city\n" + "".join(lines))
                forms.add(outcome(asked, engine(path)))
            assert len(forms) == 1
            assert next(iter(forms))[0] == "answered"

        check()

    @pytest.mark.parametrize("role", ["user_id", "age", "city"])
    @pytest.mark.parametrize("kind", KINDS, ids=lambda kind: str(kind.dtype))
    def test_columns_of_any_kind_are_answered_or_refused_alike_and_before_they_are_paid(self, role, kind):
        plain = pl.DataFrame(
            {"user_id": [1, 2, 3, 4], "age": [1.0, 2.0, 3.0, 4.0], "city": ["a", "b", "a", None]}
        )
        full = plain.with_columns(kind.alias(role))
        for asked in (plan(*EVERYTHING, epsilon=1.0), plan(*UNKNOWN, epsilon=1.0, delta=1e-6)):
            forms = {outcome(asked, pl.concat([full[:gone], full[gone + 1 :]])) for gone in range(5)}
            assert len(forms) == 1
            told, _, spent = next(iter(forms))
            assert (told, spent > 0) in {("answered", True), ("InvalidArgument", False)}

    OBJECT = st.sampled_from([1, "1", 2.5, None, True, b"1", (1,), math.nan])

    @settings(deadline=None, max_examples=25)
    @given(st.lists(st.tuples(st.sampled_from([1, 2, 3]), OBJECT, OBJECT), max_size=8))
    def test_frames_of_objects_are_answered_in_the_same_form(self, rows):
        asked = plan(*EVERYTHING, epsilon=1.0)
        forms = set()
        for gone in (0, 1, 2, 3):
            kept = [row for row in rows if row[0] != gone]
            columns = {
                name: [row[place] for row in kept] for place, name in enumerate(("user_id", "age", "city"))
            }
            forms.add(
                outcome(
                    asked, pd.DataFrame({name: pd.Series(c, dtype=object) for name, c in columns.items()})
                )
            )
        assert len(forms) == 1
        assert next(iter(forms))[0] == "answered"

    def test_a_refusal_has_the_same_words(self):
        asked = plan(("sum", Sum("income", 0.0, 1.0)), ("count", Count()))
        full = frame([(person, float(person), "a") for person in range(5)])
        forms = {outcome(asked, full.filter(pl.col("user_id") != gone)) for gone in range(6)}
        assert len(forms) == 1
        kind, message, spent = next(iter(forms))
        assert (kind, spent) == ("InvalidArgument", 0)
        assert "income" in message


class TestRefusals:
    TABLE = frame([(1, 50.0, "a")])

    @pytest.mark.parametrize(
        "statistics",
        [
            (("it", Sum("income", 0.0, 1.0)),),
            (("it", Histogram("town", ("a",))),),
            (("it", GroupBy("town", Count(), ("a",))),),
            (("it", GroupBy("town", Count())),),
            (("fine", Count()), ("it", Quantile("income", 0.5, 0.0, 1.0))),
        ],
    )
    def test_an_unknown_column(self, statistics):
        store = MemoryStore(AddRemove(Unit.USER))
        with pytest.raises(InvalidArgument, match="income|town"):
            plan(*statistics, epsilon=1.0, delta=1e-6).run(self.TABLE, store=store)
        assert len(store.ledger) == 0

    def test_an_unknown_unit(self):
        store = MemoryStore(AddRemove(Unit.USER))
        with pytest.raises(InvalidArgument, match="person"):
            plan(("it", Count()), unit="person").run(self.TABLE, store=store)
        assert len(store.ledger) == 0

    @pytest.mark.parametrize(
        ("lower", "upper"),
        [(1.0, 0.0), (0.0, 0.0), (math.nan, 1.0), (0.0, math.inf), (-1e308, 1e308), ("0", "1")],
    )
    @pytest.mark.parametrize("kind", [Sum, Mean, Variance])
    def test_bounds(self, kind, lower, upper):
        with pytest.raises(InvalidArgument):
            kind("age", lower, upper)

    def test_a_label_twice(self):
        with pytest.raises(InvalidArgument, match="label|twice"):
            plan(("it", Count()), ("it", Sum("age", 0.0, 1.0))).run(self.TABLE)

    @pytest.mark.parametrize("data", [None, 7, "no such file.csv", {"age": [1]}, [1, 2], b"age\n1\n"])
    def test_what_is_no_table(self, data):
        store = MemoryStore(AddRemove(Unit.USER))
        with pytest.raises(InvalidArgument, match="'data' must be"):
            plan(("it", Count())).run(data, store=store)
        assert len(store.ledger) == 0

    def test_beyond_the_budget(self):
        store = MemoryStore(AddRemove(Unit.USER), budget=Budget(epsilon=1.0))
        plan(("count", Count()), epsilon=0.75).run(self.TABLE, store=store)
        with pytest.raises(BudgetExceeded, match="[Nn]othing was spent"):
            plan(("sum", Sum("age", 0.0, 1.0)), ("mean", Mean("age", 0.0, 1.0)), epsilon=0.5).run(
                self.TABLE, store=store
            )
        assert len(store.ledger) == 1


class TestFailures:
    """An engine that breaks after the spend was written: the spend stays, and the words tell nothing of a row."""

    @pytest.fixture
    def broken(self, monkeypatch):
        def breaks(self, request):
            raise ValueError("secret row 12345")

        monkeypatch.setattr(PolarsEngine, "totals", breaks)
        monkeypatch.setattr(PolarsEngine, "cells", breaks)

    @pytest.mark.usefixtures("broken")
    @pytest.mark.parametrize("label", ["count", "histogram", "by key", "median"])
    def test_the_spend_stays_and_the_row_is_not_told(self, label, tmp_path):
        durable = DurableLedger(path=tmp_path / "ledger.json", adjacency=AddRemove(Unit.USER), budget=None)
        asked = plan((label, dict(EVERYTHING)[label]), epsilon=1.0)
        with durable.open() as store, pytest.raises(PrivetError) as told:
            asked.run(frame([(1, 50.0, "a")]), store=store)
        chain = []
        error = told.value
        while error is not None:
            chain.append(str(error))
            error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
        assert "12345" not in " ".join(chain)
        assert len(Ledger.from_json((tmp_path / "ledger.json").read_text())) == 1

    @pytest.mark.usefixtures("broken")
    def test_the_command_line_says_so_too(self, tmp_path, capsys):
        path, ledger = tmp_path / "data.csv", tmp_path / "ledger.json"
        path.write_text("user_id,age\n1,2\n")
        words = [
            "release",
            str(path),
            "--privacy-unit",
            "user_id",
            "--count",
            "--epsilon",
            "1",
            "--ledger",
            str(ledger),
        ]
        assert main(words) == 3
        said = capsys.readouterr()
        assert "12345" not in said.out + said.err
        assert len(Ledger.from_json(ledger.read_text())) == 1


class TestFiles:
    @pytest.fixture
    def refused(self, capsys, tmp_path):
        """Ask for everything on the command line; the words of the refusal, and that nothing was spent."""

        def run(path, *words):
            ledger = tmp_path / "ledger.json"
            asked = [
                "release",
                str(path),
                "--privacy-unit",
                "user_id",
                *words,
                "--epsilon",
                "1",
                "--ledger",
                str(ledger),
            ]
            assert main([*asked, "--json"]) == 2
            said = capsys.readouterr()
            assert not ledger.exists()
            assert said.err.count("\n") == 1
            return json.loads(said.out)["error"]["message"]

        return run

    @pytest.fixture
    def answered(self, capsys):
        def run(path, *words):
            asked = ["release", str(path), "--privacy-unit", "user_id", *words, "--epsilon", "600", "--json"]
            assert main(asked) == 0
            return [answer["value"] for answer in json.loads(capsys.readouterr().out)["answers"]]

        return run

    def test_a_missing_file_and_a_folder(self, refused, tmp_path):
        assert "must be a table in a file that exists" in refused(tmp_path / "none.csv", "--count")
        assert "must be a table in a file that exists" in refused(tmp_path, "--count")

    @pytest.mark.parametrize("name", ["data.txt", "data", "data.xlsx"])
    def test_another_format(self, refused, tmp_path, name):
        (tmp_path / name).write_text("user_id,age\n1,2\n")
        assert ".csv or .parquet" in refused(tmp_path / name, "--count")

    @pytest.mark.parametrize(
        "content", [b"", b"\x00\xff\xfe\x80\x01garbage\n\x00", b"PAR1", b"user_id,age\n1,2\n"]
    )
    def test_garbage_called_parquet(self, refused, tmp_path, content):
        path = tmp_path / "data.parquet"
        path.write_bytes(content)
        assert "'data' must be" in refused(path, "--count")

    @pytest.mark.parametrize(
        "content", [b"", b"\x00\xff\xfe\x80\x01garbage\n\x00", b"\n\n\n", b"\x1f\x8b\x08\x00"]
    )
    def test_garbage_called_csv_has_no_such_column(self, refused, tmp_path, content):
        path = tmp_path / "data.csv"
        path.write_bytes(content)
        message = refused(path, "--count")
        assert "user_id" in message or "'data' must be" in message

    def test_garbage_below_a_good_header_is_answered(self, answered, tmp_path):
        path = tmp_path / "data.csv"
        path.write_bytes(b"user_id,age\n1,20\n2,\xff\xfe\x80\n\x00\x00\x00\n3,30,extra,cells\n4\n\n")
        (count, total) = answered(path, "--count", "--sum", "age:0:100")
        assert 3 <= count <= 6
        assert total == pytest.approx(50, abs=12)

    def test_line_ends_quotes_and_marks_of_order(self, answered, tmp_path):
        path = tmp_path / "data.csv"
        path.write_bytes(b'\xef\xbb\xbfuser_id,age,city\r\n1,20,"a\r\nb"\r\n2,30,"say ""hi"""\r\n')
        (count, total) = answered(path, "--count", "--sum", "age:0:100")
        assert count == 2
        assert total == pytest.approx(50, abs=12)

    def test_columns_and_bounds_are_refused_before_they_are_paid(self, refused, tmp_path):
        path = tmp_path / "data.csv"
        path.write_text("user_id,age\n1,2\n")
        assert "income" in refused(path, "--mean", "income:0:1")
        assert "Swap" in refused(path, "--mean", "age:1:0")
        assert "--count twice" in refused(path, "--count", "--count")

    def test_a_column_name_twice(self, tmp_path):
        path = tmp_path / "data.csv"
        path.write_text("user_id,age,age\n1,2,3\n")
        ledger = tmp_path / "ledger.json"
        code = main(["release", str(path), "--sum", "age:0:1", "--epsilon", "1", "--ledger", str(ledger)])
        assert code in (0, 2)
        assert (code == 0) == ledger.exists()
