"""Replacing one record changes what that record counts, and nothing else: over ugly columns, containers and engines.

The law is additivity. What a table of n rows counts is the sum of what n tables of one row count, each made and read by
itself. A library that infers a type from all rows of a column breaks it, unless each value is read alone.
"""

import math
import random
from collections import Counter
from datetime import UTC, date, datetime, time
from decimal import Decimal
from fractions import Fraction
from uuid import UUID

import numpy as np
import pytest

pl = pytest.importorskip("polars")
pd = pytest.importorskip("pandas")
pa = pytest.importorskip("pyarrow")
pytest.importorskip("duckdb")

from privet.releasing.contribution import Contribution  # noqa: E402
from privet.releasing.engines.aggregates import (  # noqa: E402
    WEIGHT,
    AggregateRequest,
    CellCountRequest,
    Cells,
    Grouping,
    KeyColumn,
    KeyKind,
    RowCount,
    ShareFactor,
    ShareSum,
    UnitCount,
    ValueCount,
    ValueSum,
)
from privet.releasing.engines.columns import ColumnExpressions  # noqa: E402
from privet.releasing.engines.duckdb_engine import DuckDBEngine  # noqa: E402
from privet.releasing.engines.polars_engine import PolarsEngine  # noqa: E402
from privet.releasing.tables.sources import PandasSource, open_data  # noqa: E402
from privet.releasing.tables.values import (  # noqa: E402
    ValuePart,
    decode_key,
    format_date,
    format_instant,
    parse_date,
    parse_instant,
    read_part,
)

BOOLS = [True, False, None]
WHOLES = [0, 1, -1, 7, 100, 2**53, -(2**40), None]
REALS = [0.0, -0.0, 1.0, 0.5, 7.0, 99.9, 1e300, -1e-300, math.inf, -math.inf, math.nan, None]
TEXTS = ["1", " 2 ", "+7", "007", "7.0", "true", "TRUE", " False", "x", "", "1_000", "\u00a05", "nan", "inf", "1e5", "0x1", "é", "-0.0", None]  # fmt: skip
TIMES = [
    datetime(2020, 1, 1),
    datetime(2020, 1, 1, 12, 30, 0, 5),
    datetime(1, 1, 1),
    datetime(9999, 12, 31, 23, 59, 59),
    None,
]
DAYS = [date(2020, 1, 1), date(1969, 12, 31), None]
STRANGE = [
    b"1", (1,), [2], {"a": 1}, object(), 10**400, -(10**400), 10**5000, "\ud800", "a\udfff",
    Decimal("1.50"), Decimal(7), Decimal("NaN"), Decimal("sNaN"), Decimal("1e999999"), Fraction(1, 2),
    np.float32(0.5), np.int8(7), np.bool_(True), np.str_("x"), np.datetime64("2020-01-01T00:00:00.000000001"), np.datetime64("NaT"),
    pd.NA, pd.NaT, pd.Timestamp("2020-01-01 00:00:00.000000001"), pd.Timestamp("2020-01-01", tz="UTC"),
    datetime(2020, 1, 1, tzinfo=UTC), time(1, 0, 0, 1), time(1, 0, 0, 2), UUID(int=5), 2**63, 2**64, -(2**63), 2**53 + 1,
]  # fmt: skip
MIXED = [*BOOLS, *WHOLES, *REALS, *TEXTS, *TIMES, *DAYS, *STRANGE]
POOLS = {
    "bool": BOOLS,
    "whole": WHOLES,
    "real": REALS,
    "text": TEXTS,
    "time": TIMES,
    "day": DAYS,
    "mixed": MIXED,
}

PUBLIC = {
    KeyKind.TEXT: (
        "1",
        "7",
        "0.5",
        "true",
        "x",
        "",
        "1.5",
        "2020-01-01",
        "2020-01-01 00:00:00",
        "01:00:00.000001",
    ),
    KeyKind.WHOLE: (0, 1, 7, 2**53, -(2**40)),
    KeyKind.REAL: (0.0, 1.0, 0.5, 7.0),
    KeyKind.BOOLEAN: (True, False),
}
NUMBERS = (
    RowCount(),
    ValueCount(("c",)),
    ValueSum.fitting("c", -5.0, 100.0),
    ShareSum((ShareFactor("c", 0.0, 10.0, 2),)),
)


def counted(engine, *, numbers=True):
    """Everything that a table of one column counts for, as one counter: additive over rows."""
    total = Counter()

    def add(request):
        found = engine.totals(request)
        for aggregate, sums in found.sums.items():
            for key, number in zip(found.keys, sums.tolist(), strict=True):
                named = tuple((type(part).__name__, repr(part)) for part in key)
                total[repr(request.grouping.columns), named, repr(aggregate)] += number

    bounds = Contribution()
    add(AggregateRequest(None, Grouping(), NUMBERS if numbers else (RowCount(),), bounds, 1))
    for kind, keys in PUBLIC.items():
        add(
            AggregateRequest(
                None, Grouping((KeyColumn("c", kind),), tuple((k,) for k in keys)), (RowCount(),), bounds, 1
            )
        )
    add(AggregateRequest(None, Grouping((KeyColumn("c"),), None), (UnitCount(),), bounds, 1))
    if numbers:
        cells = engine.cells(CellCountRequest(None, Grouping(), Cells("c", 0.0, 8.0, 4), bounds, 1))
        total.update({("cell", place): count // WEIGHT for place, count in enumerate(cells[0].tolist())})
    return Counter({key: number for key, number in total.items() if number})


def inferred(values):
    try:
        return pd.DataFrame({"c": values})
    except UnicodeEncodeError:  # pandas itself makes no column of nothing but text that is no Unicode
        return objects(values)


def objects(values):
    return pd.DataFrame({"c": pd.Series(values, dtype=object)})


def categories(values):
    return pd.DataFrame({"c": pd.Series(values, dtype=object).astype("category")})


CONTAINERS = {"inferred": inferred, "object": objects}
ENGINES = {"polars": PolarsEngine.over, "duckdb": DuckDBEngine}


def test_rows_are_counted_whatever_the_type_of_their_columns():
    """Also where no engine knows the type, or the name is one that no engine can have."""
    tables = [
        pd.DataFrame({"c": [1j, 2j, 3j]}),
        pd.DataFrame({3: [1, 2, 3]}),
        pl.DataFrame({"a\x00b": [[1], None, [2]]}),
        pa.table({"c": pa.array([None, 1, 2]), "d": pa.array([1, 2, 3], pa.duration("s"))}),
        objects([object(), None, "\ud800"]),
    ]
    for table in tables:
        for make in ENGINES.values():
            found = make(table).totals(AggregateRequest(None, Grouping(), (RowCount(),), Contribution(), 1))
            assert found.sums[RowCount()].tolist() == [3]


def is_refused(frame):
    """Numbers of dates are refused by the schema; a column of nothing but dates is asked for keys alone."""
    return str(frame["c"].dtype).startswith(("datetime", "timedelta", "complex"))


def check_additive(pool, build, make, draw, times):
    alone = {}
    for _ in range(times):
        values = draw.choices(range(len(pool)), k=draw.randrange(1, 9))
        frame = build([pool[place] for place in values])
        numbers = not is_refused(frame) and all(not is_refused(build([pool[place]])) for place in values)
        expected = Counter()
        for place in values:
            if (place, numbers) not in alone:
                alone[place, numbers] = counted(make(build([pool[place]])), numbers=numbers)
            expected.update(alone[place, numbers])
        found = counted(make(frame), numbers=numbers)
        assert found == Counter({key: number for key, number in expected.items() if number}), [
            pool[p] for p in values
        ]


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("name", POOLS)
def test_what_a_table_counts_is_the_sum_of_what_its_rows_count(name, container):
    check_additive(
        POOLS[name], CONTAINERS[container], PolarsEngine.over, random.Random(f"{name} {container}"), 5
    )


def test_the_same_on_the_engine_for_files():
    check_additive(POOLS["mixed"], inferred, DuckDBEngine, random.Random(3), 2)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("name", POOLS)
def test_the_same_with_many_tables(name, container, engine):
    draw = random.Random(f"{name} {container} {engine}")
    check_additive(POOLS[name], CONTAINERS[container], ENGINES[engine], draw, 100)


def typed(name, values):
    """One column in every container that has a type for it."""
    whole = {"bool": pl.Boolean, "whole": pl.Int64, "real": pl.Float64, "text": pl.String, "time": pl.Datetime("us"), "day": pl.Date}[name]  # fmt: skip
    frame = pl.DataFrame({"c": pl.Series(values, dtype=whole)})
    yield "polars", frame
    yield "lazy", frame.lazy()
    yield "arrow", frame.to_arrow()
    yield "object", objects(values)
    yield "inferred", inferred(values)
    yield "category", categories(values)
    yield "arrow-backed", frame.to_pandas(use_pyarrow_extension_array=True)
    nullable = {"bool": "boolean", "whole": "Int64", "real": "Float64", "text": "string"}.get(name)
    if nullable:
        yield (
            "nullable",
            pd.DataFrame(
                {
                    "c": pd.array(
                        [None if isinstance(v, float) and math.isnan(v) else v for v in values],
                        dtype=nullable,
                    )
                }
            ),
        )
    if name == "whole":
        for kind in (pl.Int32, pl.UInt64, pl.Int128, pl.Decimal(38, 2), pl.Float64):
            narrow = [v if v is not None and 0 <= v < 2**31 else None for v in values]
            if narrow == values:
                yield str(kind), pl.DataFrame({"c": pl.Series(values, dtype=pl.Int64).cast(kind)})
    if name == "text":
        yield "enum", frame.cast(pl.Enum([text for text in dict.fromkeys(values) if text is not None]))
        yield "categorical", frame.cast(pl.Categorical)
    if name == "time":
        yield "milliseconds", frame.cast(pl.Datetime("ms"))


@pytest.mark.parametrize("name", ["bool", "whole", "real", "text", "time", "day"])
def test_every_container_counts_the_same(name, tmp_path):
    draw = random.Random(name)
    for _ in range(2):
        pool = [v for v in POOLS[name] if not isinstance(v, datetime) or v.microsecond == 0]
        values = [
            v
            for v in draw.choices(pool, k=8)
            if not (name == "time" and v is not None and v.year in (1, 9999))
        ]
        if name == "whole" and draw.random() < 0.5:
            values = [0, 1, 7, 100]
        first = None
        for label, table in typed(name, values):
            found = counted(PolarsEngine.over(table), numbers=name not in ("time", "day"))
            first = first or found
            assert found == first, (label, values)
        path = tmp_path / "t.parquet"
        pl.DataFrame(next(typed(name, values))[1]).write_parquet(path)
        for engine in (PolarsEngine.of_path(path), DuckDBEngine(path)):
            assert counted(engine, numbers=name not in ("time", "day")) == first


def test_a_text_file_counts_as_a_column_of_text(tmp_path):
    path = tmp_path / "t.csv"
    pl.DataFrame({"c": TEXTS, "d": "1"}).write_csv(path)
    expected = counted(PolarsEngine.over(pl.DataFrame({"c": [text or None for text in TEXTS]})))
    for engine in (PolarsEngine.of_path(path), DuckDBEngine(path)):
        assert counted(engine) == expected


# --- units ------------------------------------------------------------------------------------------------------------


def units_in(table, make=PolarsEngine.over):
    asked = AggregateRequest("c", Grouping(), (UnitCount(),), Contribution(), 1)
    return int(make(table).totals(asked).sums[UnitCount()][0])


@pytest.mark.parametrize("container", CONTAINERS)
def test_two_units_are_one_or_two_whoever_else_is_there(container):
    build, draw = CONTAINERS[container], random.Random(container)
    names = {place: read_part(ValuePart.NAME, value) for place, value in enumerate(MIXED)}
    for _ in range(12):
        places = draw.choices(range(len(MIXED)), k=6)
        classes = {names[place] for place in places if names[place] is not None}
        frame = build([MIXED[place] for place in places])
        assert units_in(frame) == len(classes), [MIXED[place] for place in places]
        assert units_in(frame, DuckDBEngine) == len(classes)


@pytest.mark.parametrize(
    "column",
    [
        pl.Series([1, 2, 3], dtype=pl.Int64).cast(pl.Time),  # nanoseconds apart
        pl.Series([1, 2, 3], dtype=pl.Int64).cast(pl.Datetime("ns")),
        pl.Series([1, 2, 3], dtype=pl.Int64).cast(pl.Datetime("ms", "Europe/Paris")),
        pl.Series([2**31 - 1, -(2**31), 0], dtype=pl.Int32).cast(pl.Date),
        pl.Series([2**62, 2**62 + 1, -(2**62)], dtype=pl.Int64).cast(pl.Datetime("us")),
        pl.Series([2**64 - 1, 2**63, 0], dtype=pl.UInt64),
        pl.Series([2**100, 2**100 + 1, 0], dtype=pl.Int128),
        pl.Series([Decimal("1.01"), Decimal("1.02"), Decimal(0)]),
        pl.Series(["\ufffd", "\ufffd\ufffd", ""]),
    ],
    ids=lambda column: str(column.dtype),
)
def test_units_that_differ_stay_apart(column):
    frame = pl.DataFrame({"c": pl.concat([column, column])})
    for make in ENGINES.values():
        assert units_in(frame, make) == 3


def test_one_unit_moves_a_sum_by_no_more_than_was_charged():
    """Times that a library writes alike: three people with values of both signs were one, and moved by 1.8 for 1."""
    people = pl.Series([3_600_000_000_001, 3_600_000_000_002, 3_600_000_000_003]).cast(pl.Time)
    steps = ValueSum.fitting("x", -0.9, 0.9)
    for make in ENGINES.values():
        sums = []
        for kept in ([0, 1, 2], [0, 1]):
            frame = pl.DataFrame({"c": people, "x": [0.9, 0.9, -0.9]})[kept]
            sums.append(
                int(
                    make(frame)
                    .totals(AggregateRequest("c", Grouping(), (steps,), Contribution(), 1))
                    .sums[steps][0]
                )
            )
        assert abs(sums[0] - sums[1]) <= steps.bounds[1]


def test_names_that_are_no_text_are_nobody(tmp_path):
    """Two names in a file that are no UTF-8 would become one person."""
    path = tmp_path / "t.csv"
    path.write_bytes(b"c,x\n\xff,1\n\xfe,1\na,1\n")
    for make in (PolarsEngine.of_path, DuckDBEngine):
        assert units_in(path, make) == 1


# --- a single value, and the same value in a column -------------------------------------------------------------------


def test_the_two_zeros_are_one_key():
    for values in ([0.0, -0.0, 1.5], [-0.0, 0.0, 1.5], [-0.0, -0.0, 1.5]):
        for frame in (pl.DataFrame({"c": values}), objects(values), objects([*values, "x"])):
            for make in ENGINES.values():
                found = make(frame).totals(
                    AggregateRequest(
                        None, Grouping((KeyColumn("c"),), None), (UnitCount(),), Contribution(), 1
                    )
                )
                keys = dict(
                    zip((repr(key[0]) for key in found.keys), found.sums[UnitCount()].tolist(), strict=True)
                )
                assert (keys["0"], keys["1.5"]) == (2, 1)


def test_true_and_false_in_a_text_file_are_one_and_zero(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("c,d\ntrue,1\nfalse,1\nTrue,1\nno,1\n")
    for make in (PolarsEngine.of_path, DuckDBEngine):
        sums = (
            make(path)
            .totals(
                AggregateRequest(
                    None, Grouping(), (ValueCount(("c",)), ValueSum.fitting("c", 0, 1)), Contribution(), 1
                )
            )
            .sums
        )
        assert [int(total[0]) for total in sums.values()] == [3, 2 * 2**29]


@pytest.mark.parametrize("kind", [None, KeyKind.TEXT])
def test_a_key_that_was_found_is_found_again(kind):
    """What is shown of a key, taken as a public key, has the same rows: ``encode`` undoes ``decode``."""
    columns = [
        *(
            table
            for name in ("bool", "whole", "real", "text", "day")
            for _, table in typed(name, POOLS[name])
        ),
        pl.DataFrame({"c": pl.Series([0, 5, -7, 2**62, -(2**62)], dtype=pl.Int64).cast(pl.Datetime("ns"))}),
        pl.DataFrame(
            {"c": pl.Series([0, 5, -7, 2**62, -(2**62)], dtype=pl.Int64).cast(pl.Datetime("ms", "UTC"))}
        ),
        pl.DataFrame({"c": pl.Series([0, 5, 86_399_999_999_999], dtype=pl.Int64).cast(pl.Time)}),
        pl.DataFrame({"c": pl.Series([2**31 - 1, -(2**31), 0, 5], dtype=pl.Int32).cast(pl.Date)}),
        pl.DataFrame(
            {"c": [Decimal("1.50"), Decimal("0.10"), Decimal("12345678901234567890.12"), Decimal(-3)]}
        ),
        pl.DataFrame({"c": pl.Series([2**64 - 1, 0], dtype=pl.UInt64)}),
        pl.DataFrame({"c": pl.Series([2**100, -5], dtype=pl.Int128)}),
        objects(MIXED),
    ]
    for table in columns:
        source = open_data(table)
        codec = ColumnExpressions(source).key(KeyColumn("c", kind))
        engine = PolarsEngine(source)
        found = engine.totals(
            AggregateRequest(None, Grouping((KeyColumn("c", kind),), None), (UnitCount(),), Contribution(), 1)
        )
        codes = [codec.encode(key[0]) for key in found.keys]
        assert None not in codes
        assert len(set(codes)) == len(codes)
        again = engine.totals(
            AggregateRequest(
                None, Grouping((KeyColumn("c", kind),), found.keys), (RowCount(),), Contribution(), 1
            )
        )
        assert again.sums[RowCount()].tolist() == found.sums[UnitCount()].tolist()


def test_days_and_instants_are_written_and_read():
    draw = random.Random(1)
    for days in [0, -1, 2**31 - 1, -(2**31), *(draw.randrange(-(10**6), 4 * 10**6) for _ in range(50))]:
        assert parse_date(format_date(days)) == days
    for instant in [
        0,
        1,
        -1,
        2**63 - 1,
        -(2**63),
        10**9,
        *(draw.randrange(-(2**63), 2**63) for _ in range(50)),
    ]:
        for utc in (True, False):
            assert parse_instant(format_instant(instant, utc=utc), utc=utc) == instant
    for text in ("2020-1-1", "2020-01-01T00:00:00", "2020-01-01 00:00", "x", "", "2020-13-01", "٢٠٢٠-01-01"):
        assert parse_date(text) is None
        assert parse_instant(text, utc=False) is None


def test_no_value_makes_an_error():
    class Hostile(str):
        def encode(self, *_):
            raise RuntimeError("a row")

    class Number(float):
        def __float__(self):
            raise RuntimeError("a row")

        __int__ = __eq__ = __ne__ = __float__
        __hash__ = None

    for value in [*MIXED, 1j, Hostile("x"), Number(3.0), float, ..., np.array([1]), pd.Series([1])]:
        for part in ValuePart:
            found = read_part(part, value)
            assert found is None or isinstance(found, (str, float, int))
        name = read_part(ValuePart.NAME, value)
        assert name is None or isinstance(decode_key(name), (str, int, float))


def test_an_object_column_that_became_one_by_a_single_record():
    """The cases that were found: one None among booleans, one text among floats."""
    flags = [True, False, True] * 100
    floats = [1.0, 2.0, 1.0] * 100
    steps = ValueSum.fitting("c", 0.0, 1.0)
    for extra in (None, "text", math.nan, b"x"):
        table = PandasSource(inferred([*flags, extra]))
        assert table.types["c"] == pl.String
        sums = (
            PolarsEngine(table).totals(AggregateRequest(None, Grouping(), (steps,), Contribution(), 1)).sums
        )
        assert int(sums[steps][0]) == 200 * 2**29
        for kind, keys in ((KeyKind.WHOLE, (1, 2)), (KeyKind.REAL, (1.0, 2.0)), (KeyKind.TEXT, ("1", "2"))):
            grouping = Grouping((KeyColumn("c", kind),), tuple((key,) for key in keys))
            for frame in (inferred([*floats, extra]), inferred(floats)):
                found = PolarsEngine.over(frame).totals(
                    AggregateRequest(None, grouping, (RowCount(),), Contribution(), 1)
                )
                assert found.sums[RowCount()].tolist() == [200, 100]
