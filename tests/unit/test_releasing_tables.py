"""Tables of every format, with everything that can be wrong in one."""

import importlib
import math
import sys
from datetime import date
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest

pl = pytest.importorskip("polars")
pd = pytest.importorskip("pandas")
pa = pytest.importorskip("pyarrow")
pytest.importorskip("duckdb")

from privet.errors import InvalidArgument, MissingPackage  # noqa: E402
from privet.randomness import SeededNoise  # noqa: E402
from privet.releasing import (  # noqa: E402
    Answer,
    Budget,
    Contribution,
    Count,
    GroupBy,
    Histogram,
    Marginal,
    Mean,
    Quantile,
    ReleasePlan,
    Sum,
    TopK,
    Variance,
    answer_from_plain,
    answer_to_plain,
    choose_engine,
)
from privet.releasing.engines import choice  # noqa: E402
from privet.releasing.engines.duckdb_engine import DuckDBEngine  # noqa: E402
from privet.releasing.engines.polars_engine import PolarsEngine  # noqa: E402

CLEAR = 1e5  # an ε at which noise is next to nothing, to see the sums themselves


def asked(*statistics, unit="user", rows=5, groups=5, epsilon=CLEAR, **more):
    return ReleasePlan(
        statistics=tuple((f"s{place}", statistic) for place, statistic in enumerate(statistics)),
        unit=unit,
        budget=Budget(epsilon=epsilon),
        contribution=Contribution(rows, groups) if unit else Contribution(),
        **more,
    )


def values(plan, data):
    return [answer.value for answer in plan.run(data, noise=SeededNoise(0)).answers]


TEXT = """user,city,age,paid
1,a,10,true
1,b,20,false
2,a,nan,true
3,,300,maybe
,a,50,true
4,"c, d",-5,TRUE
5,a,x y, false
6,a,inf,0
"""


@pytest.fixture
def csv(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text(TEXT)
    return path


@pytest.mark.parametrize("build", [PolarsEngine.of_path, DuckDBEngine])
def test_a_csv_file_is_text_and_odd_fields_are_missing(csv, build):
    plan = asked(
        Count(),
        Sum("age", 0, 100),
        Mean("age", 0, 100),
        Histogram("city", ("a", "b", "c, d", "z")),
        Histogram("paid", (True, False)),
        Histogram("user", (1, 2, 99)),
    )
    count, total, mean, cities, paid, users = values(plan, build(csv))
    assert count == 7  # the row without a user does not count
    assert total == pytest.approx(
        10 + 20 + 100 + 0 + 100, abs=0.1
    )  # NaN and "x y" are missing, ±∞ are bounds
    assert mean == pytest.approx(230 / 5, abs=0.1)
    assert dict(cities) == {"a": 4, "b": 1, "c, d": 1, "z": 0}
    assert dict(paid) == {True: 3, False: 2}
    assert dict(users) == {1: 2, 2: 1, 99: 0}


@pytest.mark.parametrize("build", [PolarsEngine.of_path, DuckDBEngine])
@pytest.mark.parametrize(
    "spoiled",
    [
        TEXT + "7,a\n",
        TEXT + "7,a,1,true,more,and,more\n",
        TEXT + "\n\n",
        TEXT + "7,\udcff\udcfe,1,true\n",
        TEXT.rstrip("\n"),
        TEXT.replace("\n", "\r\n"),
        "\ufeff" + TEXT,
        TEXT.split("\n", 1)[0] + "\n",
    ],
    ids=[
        "short line",
        "long line",
        "empty lines",
        "not UTF-8",
        "no last newline",
        "CRLF",
        "BOM",
        "header only",
    ],
)
def test_a_spoiled_csv_file_still_has_an_answer(tmp_path, build, spoiled):
    path = tmp_path / "data.csv"
    path.write_bytes(spoiled.encode("utf-8", "surrogateescape"))
    plan = asked(Count(), Histogram("city", ("a", "b")))
    count, cities = values(plan, build(path))
    empty = spoiled.count("\n") == 1
    assert count in ((0,) if empty else (7, 8))
    assert dict(cities)["b"] == (0 if empty else 1)


@pytest.mark.parametrize("build", [PolarsEngine.of_path, DuckDBEngine])
def test_what_is_no_table_is_refused(tmp_path, build):
    broken = tmp_path / "data.parquet"
    broken.write_bytes(b"not a parquet file at all")
    with pytest.raises(InvalidArgument, match="Check the file"):
        build(broken)
    empty = tmp_path / "data.csv"
    empty.write_bytes(b"")
    with pytest.raises(InvalidArgument):
        build(empty)


def frames():
    rng = np.random.default_rng(4)
    n = 500
    frame = pl.DataFrame(
        {
            "user": rng.integers(0, 60, n),
            "city": rng.choice(["a", "b", "c"], n),
            "age": rng.normal(40, 30, n),
            "smokes": rng.random(n) < 0.3,
            "level": rng.integers(0, 4, n),
        }
    )
    return frame


STATISTICS = (
    Count(),
    Sum("age", -10, 90),
    Mean("age", 0, 100),
    Variance("age", 0, 100),
    Quantile("age", 0.5, 0, 100),
    Histogram("city", ("a", "b", "zz")),
    Histogram("level", (0, 1, 2, 3)),
    Histogram("smokes", (True, False)),
    Marginal((("city", ("a", "b")), ("smokes", (True, False)))),
    GroupBy("city", Mean("age", 0, 100), ("a", "c")),
    GroupBy(("level", "city"), Sum("age", 0, 100), ((0, "a"), (3, "c"), (9, "a"))),
    GroupBy("level", Quantile("age", 0.9, 0, 100), (1, 2)),
    TopK("city", 2, ("a", "b", "c")),
)


def test_all_formats_and_both_engines_agree(tmp_path):
    frame = frames()
    frame.write_parquet(tmp_path / "t.parquet")
    frame.write_csv(tmp_path / "t.csv")
    sources = [
        frame,
        frame.lazy(),
        frame.to_pandas(),
        frame.to_pandas().astype(object),
        frame.to_arrow(),
        tmp_path / "t.parquet",
        str(tmp_path / "t.csv"),
        DuckDBEngine(frame.to_arrow()),
        DuckDBEngine(tmp_path / "t.parquet"),
        DuckDBEngine(tmp_path / "t.csv"),
        frame.with_columns(pl.col("city").cast(pl.Categorical), pl.col("user").cast(pl.String)),
        frame.with_columns(pl.col("user").cast(pl.Float64), pl.col("age").cast(pl.Float64)),
    ]
    plan = asked(*STATISTICS, rows=20)
    first, *others = [values(plan, source) for source in sources]
    for other in others:
        assert other == first
    assert first[0] == 500


def test_the_sums_are_right():
    frame = frames()
    plan = asked(*STATISTICS, unit=None, epsilon=1e6)
    found = values(plan, frame)
    age = frame["age"].clip(0, 100)
    assert found[0] == 500
    assert found[1] == pytest.approx(frame["age"].clip(-10, 90).sum(), abs=0.2)
    assert found[2] == pytest.approx(age.mean(), abs=0.02)
    assert found[3] == pytest.approx(age.var(ddof=0), abs=1)
    assert found[4] == pytest.approx(age.median(), abs=0.6)
    assert dict(found[5]) == {"a": (frame["city"] == "a").sum(), "b": (frame["city"] == "b").sum(), "zz": 0}
    cells = dict(found[8])
    assert cells["a", True] == frame.filter(pl.col("city") == "a", pl.col("smokes")).height
    top = frame["city"].value_counts(sort=True)
    assert [key for key, _ in found[12]] == top["city"].to_list()[:2]


def test_a_unit_with_more_rows_counts_with_its_own_average():
    frame = pl.DataFrame({"user": [1] * 10 + [2], "age": [float(x) for x in range(10)] + [50.0]})
    total, mean, count = values(asked(Sum("age", 0, 100), Mean("age", 0, 100), Count(), rows=2), frame)
    assert total == pytest.approx(2 * 4.5 + 50, abs=0.1)
    assert mean == pytest.approx((2 * 4.5 + 50) / 3, abs=0.1)
    assert count == 3


@pytest.mark.parametrize(
    "empty", [frames().clear(), frames().with_columns(user=pl.lit(None, dtype=pl.Int64))]
)
def test_an_empty_table_has_answers(empty):
    for source in (empty, DuckDBEngine(empty.to_arrow()), empty.to_pandas()):
        answers = asked(*STATISTICS).run(source, noise=SeededNoise(0)).answers
        assert answers[0].value == 0
        assert 0 <= answers[2].value <= 100
        assert answers[2].error == pytest.approx(max(answers[2].value, 100 - answers[2].value))
        assert dict(answers[5].value) == {"a": 0, "b": 0, "zz": 0}


def test_names_that_the_engines_use_themselves_are_names_like_others():
    names = [
        "unit",
        "key0",
        "x0",
        "v0",
        "group",
        "order",
        "cell",
        "place",
        "value0",
        "n",
        "listed",
        'a "b"',
        "c'd",
    ]
    frame = pl.DataFrame({name: [1, 2, 2, 3] for name in names})
    first = None
    for unit, key, column in zip(names, names[1:] + names[:1], names[2:] + names[:2], strict=True):
        plan = asked(
            Mean(column, 0, 10),
            GroupBy(key, Sum(column, 0, 10), (1, 2, 3)),
            Quantile(column, 0.5, 0, 10),
            unit=unit,
        )
        for source in (frame, DuckDBEngine(frame.to_arrow())):
            found = values(plan, source)
            first = first or found
            assert found == first


def test_a_large_file_goes_to_duckdb(tmp_path, monkeypatch):
    path = tmp_path / "t.parquet"
    frames().write_parquet(path)
    assert isinstance(choose_engine(path), PolarsEngine)
    monkeypatch.setattr(choice, "_memory_bytes", lambda: 1000.0)
    assert isinstance(choose_engine(path), DuckDBEngine)


def test_answers_are_the_same_after_json():
    for answer in asked(*STATISTICS).run(frames()).answers:
        plain = answer_to_plain(answer)
        assert answer_from_plain(answer.label, plain) == answer
    assert isinstance(answer, Answer)


def test_quotes_need_no_table():
    quotes = asked(*STATISTICS, epsilon=2.0).quote()
    assert [quote.label for quote in quotes] == [f"s{place}" for place in range(len(STATISTICS))]
    assert all(math.isfinite(quote.error) and quote.error > 0 for quote in quotes)
    assert sum(quote.cost.epsilon for quote in quotes) == pytest.approx(2.0)


def test_a_larger_weight_is_a_smaller_error():
    even = asked(Count(), Count(), epsilon=1.0).quote()
    first = asked(Count(), Count(), epsilon=1.0, split=(3, 1)).quote()
    assert first[0].error < even[0].error < first[1].error
    assert first[0].cost.epsilon == pytest.approx(0.75)


def test_keys_are_found_where_enough_have_them():
    frame = pl.DataFrame(
        {
            "user": list(range(3000)) * 2,
            "city": (["big"] * 2990 + [f"only{i}" for i in range(10)]) * 2,
            "age": [30.0] * 6000,
        }
    )
    plan = ReleasePlan(
        statistics=(
            ("n", GroupBy("city", Count())),
            ("mean", GroupBy(("city",), Mean("age", 0, 100))),
            ("median", GroupBy("city", Quantile("age", 0.5, 0, 100))),
            ("top", TopK("city", 3)),
        ),
        unit="user",
        budget=Budget(epsilon=8.0, delta=1e-8),
        contribution=Contribution(rows=2),
    )
    for source in (frame, DuckDBEngine(frame.to_arrow())):
        released = plan.run(source)
        assert [key for key, _ in released["n"].value] == ["big"]
        assert released["n"].value[0][1] == pytest.approx(2 * 2990, abs=60)
        assert released["mean"].value[0][0] == ("big",)
        assert released["mean"].value[0][1] == pytest.approx(30, abs=1)
        assert released["median"].value[0][1] == pytest.approx(30, abs=1)
        assert [key for key, _ in released["top"].value] == ["big"]
        assert released["n"].threshold > 1
    nobody = plan.run(frame.clear())
    assert all(answer.value == () for answer in nobody.answers)


def test_types_of_keys_are_kept():
    frame = pl.DataFrame(
        {
            "w": [1] * 400,
            "x": [0.5] * 400,
            "y": [True] * 400,
            "z": ["t"] * 400,
            "d": pl.Series([0] * 400).cast(pl.Date),
        }
    )
    for column, key in (("w", 1), ("x", 0.5), ("y", True), ("z", "t"), ("d", "1970-01-01")):
        plan = ReleasePlan(
            statistics=(("n", GroupBy(column, Sum("w", 0, 1))),),
            unit=None,
            budget=Budget(epsilon=5.0, delta=1e-6),
        )
        for source in (frame, DuckDBEngine(frame.to_arrow())):
            ((found, _),) = plan.run(source)["n"].value
            assert (found, type(found)) == (key, type(key))


def test_every_kind_of_column_can_be_a_key_a_unit_and_a_number():
    base = {
        "whole": [1, 2, None, 1],
        "small": pl.Series([1, 2, None, 1], dtype=pl.UInt8),
        "large": pl.Series([1, 2, None, 1], dtype=pl.UInt64),
        "real": [1.0, 2.0, math.nan, 1.0],
        "short": pl.Series([1.0, 2.0, None, 1.0], dtype=pl.Float32),
        "money": pl.Series(
            [Decimal("1.00"), Decimal("2.00"), None, Decimal("1.00")], dtype=pl.Decimal(10, 2)
        ),
        "text": ["1", " 2", "", "1"],
        "category": pl.Series(["1", "2", None, "1"], dtype=pl.Categorical),
        "flag": [True, False, None, True],
        "nothing": pl.Series([None] * 4, dtype=pl.Null),
        "day": [date(2020, 1, 1), date(2020, 1, 2), None, date(2020, 1, 1)],
    }
    frame = pl.DataFrame(base)
    for source in (frame, DuckDBEngine(frame.to_arrow())):
        for column in base:
            whole, total = {"flag": (2, 2), "nothing": (0, 0), "day": (0, 0)}.get(column, (2, 4))
            keys = values(asked(Histogram(column, (1, 2)), unit=None), source)[0]
            assert dict(keys)[1] == whole, column
            if column != "day":
                assert values(asked(Sum(column, 0, 10), unit=None), source)[0] == pytest.approx(
                    total, abs=0.01
                )
            units = values(asked(Count(), unit=column, rows=1), source)[0]
            assert units == {"nothing": 0, "text": 3}.get(column, 2), column


def test_a_name_that_is_a_pattern_is_refused():
    frame = pl.DataFrame({"*": [1], "^a.*$": [2], "ab": [3]})
    for name in ("*", "^a.*$"):
        with pytest.raises(InvalidArgument, match="Rename"):
            asked(Sum(name, 0, 1), unit=None).run(frame)


def test_pandas_columns_of_every_type():
    frame = pd.DataFrame(
        {
            "user": pd.array([1, 2, None], dtype="Int64"),
            "city": pd.Categorical(["a", "b", "a"]),
            "age": pd.array([1.5, None, 3.0], dtype="Float64"),
            "when": pd.to_datetime(["2020-01-01", None, "2020-01-02"]),
            "odd": pd.Series([object(), pd.NA, pd.NaT], dtype=object),
            "phase": np.array([1 + 2j, 0, 0]),
            3: [1, 2, 3],
        }
    )
    count, total, cities = values(asked(Count(), Sum("age", 0, 10), Histogram("city", ("a", "b"))), frame)
    assert count == 2
    assert total == pytest.approx(1.5, abs=0.01)
    assert dict(cities) == {"a": 1, "b": 1}
    assert values(asked(Sum("odd", 0, 1)), frame)[0] == pytest.approx(0, abs=0.01)
    for column in ("when", "phase"):
        with pytest.raises(InvalidArgument, match="Convert"):
            asked(Sum(column, 0, 1)).run(frame)
    with pytest.raises(InvalidArgument, match="Rename"):
        asked(Count()).run(pd.concat([frame, frame], axis=1))


@pytest.mark.parametrize("package", ["polars", "duckdb", "pyspark", "psycopg"])
def test_a_missing_package_is_named_with_its_line(package, monkeypatch):
    module = {
        "polars": "privet.releasing.tables.sources",
        "duckdb": "privet.releasing.engines.duckdb_engine",
        "pyspark": "privet.releasing.engines.spark_engine",
        "psycopg": "privet.releasing.engines.postgres_engine",
    }[package]
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, module, raising=False)
    with pytest.raises(MissingPackage, match="pip install"):
        importlib.import_module(module)


def test_arrow_with_two_columns_of_one_name_is_refused():
    table = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    with pytest.raises(InvalidArgument, match="two columns"):
        asked(Count(), unit=None).run(table)


def test_the_code_in_the_documentation_runs(capsys):
    page = Path(__file__).parents[2] / "docs" / "releasing.md"
    code = page.read_text(encoding="utf-8").split("```python\n")[1].split("```")[0]
    names = {}
    exec(compile(code, str(page), "exec"), names)
    printed = capsys.readouterr().out
    assert "median age" in printed
    assert all(answer.stored for answer in names["again"].answers)
    assert abs(names["answer"].value - 49.4) < 2
