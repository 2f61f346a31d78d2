"""PostgreSQL and Spark give the answers of Polars to the last integer, whatever the table and the plan.

Tables and plans are those of ``test_engines_agree``. One server and one session serve all tests of a process; where PostgreSQL,
Java or a package is missing, the tests are skipped and say so.
"""

import importlib.util
import math
import random
import threading
import time
from contextlib import ExitStack
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest

pl = pytest.importorskip("polars")
pytest.importorskip("duckdb")

from privet.cli import main  # noqa: E402
from privet.errors import InvalidArgument  # noqa: E402
from privet.randomness import SeededNoise  # noqa: E402
from privet.releasing import (  # noqa: E402
    Above,
    AllHold,
    AnyHold,
    AtLeast,
    Below,
    Budget,
    Contribution,
    Count,
    Histogram,
    IsIn,
    IsMissing,
    Negated,
    PostgresTable,
    ReleaseFailed,
    ReleasePlan,
    Sum,
    budget_split,
    choose_engine,
)
from privet.releasing.engines import aggregates, row_maker  # noqa: E402
from privet.releasing.engines.aggregates import (  # noqa: E402
    AggregateRequest,
    CellCountRequest,
    Cells,
    Grouping,
    KeyColumn,
    RowCount,
    ShareFactor,
    ShareSum,
    UnitCount,
    ValueCount,
    ValueSum,
)
from privet.releasing.engines.duckdb_engine import DuckDBEngine  # noqa: E402
from privet.releasing.engines.polars_engine import PolarsEngine  # noqa: E402


def load(name):
    path = Path(__file__).with_name(f"{name}.py")
    spec = importlib.util.spec_from_file_location(f"privet_tests_{name}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


servers, agree = load("table_servers"), load("test_engines_agree")
HOSTILE = [
    'a"b',
    "a'b",
    "a`b",
    "a.b",
    "{0}",
    "%s",
    "select",
    "x; DROP TABLE t; --",
    "Ä ö",
    "a\\b",
    "X",
    "x",
    " ",
]
TINY = [5e-324, -5e-324, 1e-310, 1e-200, -1e-160, 1e-30, 0.0, -0.0, 0.3, 0.5, -0.49999999999999994, 1.0]
HUGE = [1e300, -1e308, 1.7e308, math.inf, -math.inf, math.nan, None, 2.0**53 + 2, 1e16]


@pytest.fixture
def laplace(monkeypatch):
    """Laplace noise alone: the proof of the Gaussian's takes a second, and the sums are the same."""
    monkeypatch.setattr(budget_split, "_with_gaussian", lambda *_: None)


def opened(server):
    with ExitStack() as held:
        try:
            address = held.enter_context(server())
        except servers.Missing as missing:
            pytest.skip(str(missing))
        yield address


@pytest.fixture(scope="module")
def address():
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    yield from opened(servers.open_postgres)


@pytest.fixture(scope="module")
def spark():
    pytest.importorskip("pyspark", reason="pyspark is not installed")
    yield from opened(servers.open_spark)


@pytest.fixture
def database(address):
    import psycopg

    with psycopg.connect(address) as connection:
        yield connection


@pytest.fixture
def on_postgres(address, database):
    """A frame to an engine over a table of the server."""

    def store(frame, types=None):
        servers.write_postgres(database, frame, "t", types)
        return choose_engine(PostgresTable(address, "t"))

    return store


def on_spark(session):
    return lambda frame: choose_engine(session.createDataFrame(frame.to_arrow()))


def check_plans(store, draw, times):
    """Polars, DuckDB and the engine that ``store`` makes give equal answers to generated plans."""
    answered = 0
    for seed in range(times):
        frame, plan = servers.storable(agree.generated(draw)), agree.plan_of(draw)
        found = agree.outcome(plan, PolarsEngine.over(frame), seed)
        assert agree.outcome(plan, store(frame), seed) == found, (plan, frame)
        assert agree.outcome(plan, DuckDBEngine(frame.to_arrow()), seed) == found, (plan, frame)
        answered += isinstance(found, list)
    assert answered > times / 2


def requests(columns, unit, groups=1, rows=2):
    """Requests for every kind of sum, over two groupings, and for cells."""
    sums = [UnitCount(), RowCount()]
    for column, lower, upper in columns:
        one = ShareFactor(column, lower, upper)
        sums += [ValueCount((column,)), ValueSum.fitting(column, lower, upper)]
        sums += [
            ShareSum((one,)),
            ShareSum((one, one)),
            ShareSum((replace(one, power=2), replace(one, power=0))),
        ]
    bounds = Contribution(rows, groups) if unit else Contribution()
    for grouping in (Grouping(), Grouping((KeyColumn("key"),), None)):
        yield AggregateRequest(unit, grouping, tuple(sums), bounds, salt=5)
    for column, lower, upper in columns:
        yield CellCountRequest(unit, Grouping(), Cells(column, lower, upper, 7), bounds, salt=5)


def check_requests(frame, engine, asked):
    """Equal keys and equal whole numbers, to the last one."""
    polars = PolarsEngine.over(frame)
    for request in asked:
        if isinstance(request, CellCountRequest):
            assert engine.cells(request).tolist() == polars.cells(request).tolist(), request
        else:
            found, expected = engine.totals(request), polars.totals(request)
            assert found.keys == expected.keys, request
            for aggregate, total in expected.sums.items():
                assert found.sums[aggregate].dtype == np.int64
                assert found.sums[aggregate].tolist() == total.tolist(), (request, aggregate)


def filtered(asked):
    """The same requests about the rows that pass: by a key, by numbers, by what is missing, and by none."""
    for place, request in enumerate(asked):
        yield replace(
            request,
            where=(
                IsIn("key", ("a", "B", "é", "nowhere")),
                AnyHold((AtLeast("x", 0.5), Negated(IsIn("key", ("b", "ä"))))),
                AllHold((Below("x", 1.0), Negated(IsMissing("key")))),
                IsMissing("x"),
                Above("x", 2.0**62),
            )[place % 5],
        )


def many_groups(draw, rows=600):
    """A table in which units are in more groups than count, and whose hash has ties."""
    return pl.DataFrame(
        {
            "unit": [
                draw.choice(["ann", "Ann", "ANN", "éa", "e\u0301a", "ß", "ss", "z", "", " "])
                for _ in range(rows)
            ],
            "key": [draw.choice(["a", "B", "b", "ä", "Z", "_", "a ", "é", "e\u0301"]) for _ in range(rows)],
            "x": [draw.choice([*TINY, *HUGE, draw.uniform(-3, 3)]) for _ in range(rows)],
        },
        strict=False,
    )


BOUNDS = [("x", -1.0, 2.0), ("x", 0.0, 2.0), ("x", 0.0, 1e-200), ("x", -1e280, 1e280), ("x", 0.0, 3e-290)]


# --- PostgreSQL -------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("laplace")
def test_postgres_gives_the_same_answers(on_postgres):
    check_plans(on_postgres, random.Random(11), 6)


@pytest.mark.slow
@pytest.mark.usefixtures("laplace")
def test_postgres_on_a_thousand_plans(on_postgres):
    check_plans(on_postgres, random.Random(12), 1_000)


@pytest.mark.parametrize("batch", [1, 400, 1 << 24])
def test_lines_of_one_unit_stay_together(on_postgres, monkeypatch, batch):
    """However the lines are cut into batches, the pairs of a unit are ranked and bounded together."""
    from privet.releasing.engines import postgres_engine

    monkeypatch.setattr(postgres_engine, "_BATCH", batch)
    frame = many_groups(random.Random(13), 200)
    check_requests(frame, on_postgres(frame), [*requests(BOUNDS[:1], "unit"), *requests(BOUNDS[:1], None)])


def test_numbers_too_small_or_too_large_for_postgres_are_no_error(on_postgres):
    """PostgreSQL refuses a product that rounds to 0, and one that is infinite. No value may lead there."""
    frame = many_groups(random.Random(14))
    check_requests(frame, on_postgres(frame), [*requests(BOUNDS, "unit"), *requests(BOUNDS, None)])


@pytest.mark.parametrize("x", [pl.Float64, pl.String])
def test_postgres_counts_the_rows_that_pass(on_postgres, x):
    """As numbers that the database adds up, and as text that only this library can read."""
    frame = many_groups(random.Random(18), 300).with_columns(pl.col("x").cast(x))
    asked = [*requests(BOUNDS[:2], "unit"), *requests(BOUNDS[:2], None)]
    check_requests(frame, on_postgres(frame), filtered([*asked, *asked[::-1]]))


def test_an_empty_table_has_sums_of_zero(on_postgres):
    frame = many_groups(random.Random(17), 3).clear()
    check_requests(frame, on_postgres(frame), [*requests(BOUNDS[:1], "unit"), *requests(BOUNDS[:1], None)])


def test_no_collation_of_the_database_counts(on_postgres, database):
    """A column in which the database calls 'a' and 'A' equal has two keys and two units."""
    import psycopg

    try:
        database.execute(
            "CREATE COLLATION IF NOT EXISTS loose (provider = icu, locale = 'und-u-ks-level1', deterministic = false)"
        )
    except psycopg.errors.FeatureNotSupported:
        pytest.skip("this PostgreSQL has no ICU")
    database.commit()
    frame = many_groups(random.Random(15))
    engine = on_postgres(frame, {"unit": "text COLLATE loose", "key": "text COLLATE loose"})
    check_requests(frame, engine, requests(BOUNDS[:1], "unit", groups=2))


def test_every_type_of_postgres_has_one_meaning(address, database):
    """Infinite and odd values are missing; enumerations, domains, UUIDs and padded text are text."""
    database.execute("DROP TABLE IF EXISTS odd; DROP TYPE IF EXISTS mood; DROP DOMAIN IF EXISTS age")
    database.execute("CREATE TYPE mood AS ENUM ('sad', 'glad'); CREATE DOMAIN age AS int4 CHECK (VALUE >= 0)")
    database.execute(
        "CREATE TABLE odd (d date, t time, i timestamp, z timestamptz, n numeric(5, 2), f float8, m mood, a age, "
        "c char(4), u uuid, j json)"
    )
    database.execute(
        "INSERT INTO odd VALUES ('infinity', '24:00', '-infinity', 'infinity', 'NaN', '-0', 'sad', 1, 'a', "
        "'00000000-0000-0000-0000-00000000000a', '{}'), ('2020-02-29', '12:00', '294276-12-31', '2020-01-01 01:00+01', "
        "1.5, 'NaN', 'glad', 2, 'a   ', null, null), ('4713-01-01 BC', '23:59:59.999999', '0001-01-01', 'epoch', "
        "-2, 0, 'glad', 2, 'b', null, null)"
    )
    database.commit()
    engine = choose_engine(PostgresTable(address, "odd", "public"))
    assert engine.schema["j"] == "nested"
    found = {}
    for name in "dtiznfmacu":
        request = AggregateRequest(None, Grouping((KeyColumn(name),), None), (RowCount(),), Contribution(), 0)
        totals = engine.totals(request)
        found[name] = {key: int(n) for (key,), n in zip(totals.keys, totals.sums[RowCount()], strict=True)}
    assert found == {
        "d": {"2020-02-29": 1, "1970-01-01-2440550 days": 1},
        "t": {"12:00:00": 1, "23:59:59.999999": 1},
        "i": {"0001-01-01 00:00:00": 1},
        "z": {"2020-01-01 00:00:00+00:00": 1, "1970-01-01 00:00:00+00:00": 1},
        "n": {1.5: 1, -2: 1},
        "f": {0: 2},
        "m": {"sad": 1, "glad": 2},
        "a": {1: 1, 2: 2},
        "c": {"a": 2, "b": 1},
        "u": {"00000000-0000-0000-0000-00000000000a": 1},
    }


def test_numbers_without_a_scale_are_as_in_a_column_of_python_objects(on_postgres):
    pandas = pytest.importorskip("pandas")
    values = ["7", "7.00", "0.1", "1e30", "-0", "123456789012345678901234567890.5", "NaN", None, "1e-60"]
    draw = random.Random(16)
    text = [draw.choice(values) for _ in range(80)]
    keys = [draw.choice("abc") for _ in text]
    frame = pl.DataFrame(
        {"unit": text, "key": keys, "x": text}, schema=dict.fromkeys(("unit", "key", "x"), pl.String)
    )
    engine = on_postgres(frame, {"unit": "numeric", "x": "numeric"})
    objects = [None if one is None else Decimal(one) for one in text]
    table = pandas.DataFrame(
        {"unit": pandas.Series(objects, dtype=object), "key": keys, "x": pandas.Series(objects, dtype=object)}
    )
    check_requests(table, engine, [*requests(BOUNDS[:1], "unit"), *requests(BOUNDS[:1], None)])


def test_names_are_never_read_as_sql(address, database):
    frame = pl.DataFrame({name: [1, 2, 2] for name in HOSTILE})
    table = 't"; DROP TABLE t; --'
    servers.write_postgres(database, frame, table)
    engine = choose_engine(PostgresTable(address, table))
    assert list(engine.schema) == HOSTILE
    for name, other in zip(HOSTILE, HOSTILE[1:] + HOSTILE[:1], strict=True):
        asked = AggregateRequest(
            name, Grouping((KeyColumn(other),), None), (ValueSum.fitting(name, 0.0, 4.0),), Contribution(), 3
        )
        check_requests(frame, engine, [asked])
    assert database.execute(b"SELECT count(*) FROM " + servers.quoted(table).encode()).fetchone() == (3,)


def failure(plan, data, **options):
    with pytest.raises(ReleaseFailed) as failed:
        plan.run(data, noise=SeededNoise(1), **options)
    assert failed.value.__context__ is None
    assert failed.value.__cause__ is None
    return str(failed.value)


COUNT = ReleasePlan(statistics=(("n", Count()),), unit="u", budget=Budget(epsilon=1.0))


def test_an_error_of_postgres_tells_nothing_of_a_row(address, database):
    database.execute("CREATE TABLE written (v text); INSERT INTO written VALUES ('1'), ('Anna, 37')")
    database.execute("CREATE VIEW broken AS SELECT v::int AS u FROM written")
    database.commit()
    data = PostgresTable(address, "broken")
    assert "Anna" not in failure(COUNT, data)
    with pytest.raises(RuntimeError) as raised:  # also where the engine is asked without a plan
        choose_engine(data).totals(AggregateRequest("u", Grouping(), (UnitCount(),), Contribution(), 0))
    assert raised.value.__context__ is None
    assert "Anna" not in str(raised.value)


def test_a_table_that_cannot_be_opened_is_refused_without_the_password(address):
    for table, reason in (
        (PostgresTable(address, "nothing"), "no such table"),
        (PostgresTable("postgresql://ann:hush@127.0.0.1:1/clinic", "t"), "did not accept"),
        (PostgresTable("postgresql://ann:hu#sh@[/clinic", "t"), "did not accept"),
        (PostgresTable("host=/nowhere password=hush", "t"), "did not accept"),
    ):
        with pytest.raises(InvalidArgument, match=reason) as refused:
            COUNT.run(table)
        assert "hush" not in f"{refused.value}{refused.value.__context__}{table!r}"
        assert "hu#sh" not in f"{refused.value}{refused.value.__context__}{table!r}"


def test_postgres_stops_when_it_is_cancelled(address, database):
    database.execute(
        "CREATE VIEW endless AS SELECT i AS u, length(pg_sleep(0.05)::text) AS s FROM generate_series(1, 2000) AS i"
    )
    database.commit()
    plan = ReleasePlan(statistics=(("s", Sum("s", 0, 1)),), unit="u", budget=Budget(epsilon=1.0))
    start = time.monotonic()
    failure(plan, PostgresTable(address, "endless"), answer_after=0.5)
    for thread in threading.enumerate():
        if thread.name == "privet-release":
            thread.join(20)
            assert not thread.is_alive()
    assert time.monotonic() - start < 15
    busy = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'COPY%' AND state = 'active'"
    assert database.execute(busy).fetchone() == (0,)


def test_more_rows_than_are_proved_are_refused_by_postgres(on_postgres, monkeypatch):
    engine = on_postgres(pl.DataFrame({"unit": [1, 1, 2]}))
    asked = AggregateRequest("unit", Grouping(), (RowCount(),), Contribution(), 0)
    assert engine.totals(asked).sums[RowCount()].tolist() == [2]
    monkeypatch.setattr(aggregates, "MOST_ROWS", 2)
    with pytest.raises(OverflowError):
        engine.totals(asked)


# --- Spark ------------------------------------------------------------------------------------------------------------


def without_tuning(session):
    """The session without what is slower on so few rows."""
    for name in ("spark.sql.adaptive.enabled", "spark.sql.codegen.wholeStage"):
        session.conf.set(name, "false")
    return session


@pytest.mark.usefixtures("laplace")
def test_spark_gives_the_same_answers(spark, capfd):
    """The short form. One session and its first worker take longer than all that is asked of them."""
    check_plans(on_spark(without_tuning(spark)), random.Random(21), 1)
    check_failures_in_spark(spark)
    assert "Anna" not in "".join(capfd.readouterr())


@pytest.mark.slow
@pytest.mark.usefixtures("laplace")
def test_spark_on_odd_names_and_text(spark, monkeypatch):
    store = on_spark(without_tuning(spark))
    frame = many_groups(random.Random(22), 200)
    check_requests(frame, store(frame), [*requests(BOUNDS[:2], "unit", groups=2)][1:3])
    check_names_in_spark(store)
    check_odd_text_in_spark(spark)
    check_cancelling_spark(spark)
    check_limits_of_spark(store, monkeypatch)


def check_names_in_spark(store):
    frame = pl.DataFrame({name: [1, 2, 2] for name in HOSTILE})
    engine = store(frame)
    assert list(engine.schema) == HOSTILE
    keys = Grouping(tuple(KeyColumn(name) for name in HOSTILE[:4]), None)
    sums = tuple(ValueCount((name,)) for name in ("X", "{0}"))
    check_requests(frame, engine, [AggregateRequest("x", keys, sums, Contribution(), 3)])
    check_requests(frame, engine, [AggregateRequest(None, Grouping(), (RowCount(),), Contribution(), 3)])


def check_odd_text_in_spark(session):
    """Bytes that Spark calls text and that are no Unicode are missing."""
    data = session.sql("SELECT explode(array('a', CAST(X'FF61' AS STRING), 'a', NULL)) AS key")
    asked = AggregateRequest(None, Grouping((KeyColumn("key"),), None), (RowCount(),), Contribution(), 0)
    totals = choose_engine(data).totals(asked)
    assert (totals.keys, totals.sums[RowCount()].tolist()) == ((("a",),), [2])


def check_failures_in_spark(session):
    data = session.sql("SELECT CAST(v AS INT) AS u FROM VALUES ('1'), ('Anna, 37') AS t(v)")
    assert "Anna" not in failure(COUNT, data)
    with pytest.raises(RuntimeError) as raised:
        choose_engine(data).totals(AggregateRequest("u", Grouping(), (UnitCount(),), Contribution(), 0))
    assert raised.value.__context__ is None
    assert "Anna" not in str(raised.value)
    with pytest.raises(InvalidArgument, match="one name"):
        choose_engine(session.sql("SELECT 1 AS a, 2 AS a"))


def check_cancelling_spark(session):
    slow = session.sql("SELECT id AS u, java_method('java.lang.Thread', 'sleep', 50L) AS s FROM range(2000)")
    plan = ReleasePlan(statistics=(("n", Histogram("s", ("a",))),), unit="u", budget=Budget(epsilon=1.0))
    start = time.monotonic()
    failure(plan, slow, answer_after=1.0)
    for thread in threading.enumerate():
        if thread.name == "privet-release":
            thread.join(30)
            assert not thread.is_alive()
    assert time.monotonic() - start < 30


def check_limits_of_spark(store, monkeypatch):
    engine = store(pl.DataFrame({"unit": [1, 1, 2]}))
    asked = AggregateRequest("unit", Grouping(), (RowCount(),), Contribution(), 0)
    with monkeypatch.context() as patched:
        patched.setattr(aggregates, "MOST_ROWS", 2)
        with pytest.raises(OverflowError):
            engine.totals(asked)
    with monkeypatch.context() as patched:
        from privet.releasing.engines import spark_engine

        patched.setattr(spark_engine, "_checked", set())
        patched.setattr(row_maker, "version", lambda _: "0.0.0")  # here, and not in the workers
        with pytest.raises(InvalidArgument, match="workers"):
            store(pl.DataFrame({"unit": [1, 1, 2]}))


@pytest.mark.slow
@pytest.mark.usefixtures("laplace")
def test_spark_on_five_hundred_plans(spark):
    for name in ("spark.sql.adaptive.enabled", "spark.sql.codegen.wholeStage"):
        spark.conf.set(name, "true")
    check_plans(on_spark(spark), random.Random(23), 500)


@pytest.mark.slow
def test_spark_on_every_sum(spark):
    frame = many_groups(random.Random(24))
    asked = [*requests(BOUNDS, "unit"), *requests(BOUNDS, "unit", groups=3), *requests(BOUNDS, None)]
    check_requests(frame, on_spark(spark)(frame), asked)


# --- the command line -------------------------------------------------------------------------------------------------


def test_the_command_line_reads_a_table_of_postgres(address, database, tmp_path, capfd):
    frame = pl.DataFrame({"person": [1, 1, 2, 3], "age": [30, 30, 41, 55]})
    servers.write_postgres(database, frame, "visits")
    url, ledger = (
        f"{address}&password=hush&table=visits".replace("privet@", "privet:hush@"),
        tmp_path / "ledger.json",
    )
    words = ["release", url, "--count", "--mean", "age:0:100", "--privacy-unit", "person", "--epsilon", "1"]
    for options in ([], ["--json"]):
        assert main([*words, "--ledger", str(ledger), *options]) == 0
    said = "".join(capfd.readouterr())
    assert "answered before" in said or '"answers"' in said
    for refused in (
        [*words, "--mean", "height:0:2"],  # no such column
        ["release", url.replace("table=visits", "table=nothing"), *words[2:]],
        ["release", url.replace("table=", "tables="), *words[2:]],
        [*words, "postgresql://ann:hush@db/clinic"],
        ["synthesize", url, "--column", "age:1,2", "--epsilon", "1", "--output", str(tmp_path / "s.csv")],
    ):
        assert main(refused) != 0
    said += "".join(capfd.readouterr())
    kept = "".join(path.read_text(errors="replace") for path in tmp_path.rglob("*") if path.is_file())
    assert "visits" in said + kept
    assert "hush" not in said + kept


@pytest.mark.slow
def test_spark_counts_the_rows_that_pass(spark):
    frame = many_groups(random.Random(19), 300)
    asked = [*requests(BOUNDS[:2], "unit"), *requests(BOUNDS[:2], None)]
    check_requests(frame, on_spark(spark)(frame), filtered(asked))
