"""The same coins give the same answers, whatever engine reads the table; and without noise the answer is the truth.

Tables and questions are generated. The truth is counted in plain Python, by an oracle that shares no code with the engines.
"""

import math
import random
from datetime import date, datetime, time, timedelta
from statistics import fmean, pvariance

import numpy as np
import pytest

pl = pytest.importorskip("polars")
pytest.importorskip("duckdb")

from privet.errors import InvalidArgument, PrivetError  # noqa: E402
from privet.randomness import SeededNoise  # noqa: E402
from privet.releasing import (  # noqa: E402
    Budget,
    Contribution,
    Count,
    Covariance,
    GroupBy,
    Histogram,
    Mean,
    Quantile,
    ReleasePlan,
    Sum,
    TopK,
    Variance,
    budget_split,
)
from privet.releasing.engines.duckdb_engine import DuckDBEngine  # noqa: E402
from privet.releasing.engines.polars_engine import PolarsEngine  # noqa: E402

MOMENT = datetime(2020, 1, 1)
TYPED = {
    pl.Int64: [0, 1, 2, -3, 2**60, None],
    pl.UInt64: [0, 1, 2**63 + 5, None],
    pl.Int8: [0, 1, -128, None],
    pl.Float64: [0.0, -0.0, 1.0, 0.5, 1e300, math.nan, math.inf, None],
    pl.Float32: [0.0, 0.5, 3.25, None],
    pl.Boolean: [True, False, None],
    pl.String: ["a", "b", "1", " 2", "true", "1_000", "\u00a05", "", "x\ny", 'q"q', None],
    pl.Date: [date(2020, 1, 1), date(2020, 1, 2), date(1, 1, 1), None],
    pl.Datetime("us"): [MOMENT, MOMENT + timedelta(microseconds=1), None],
    pl.Datetime("ns"): [MOMENT, MOMENT + timedelta(days=1), None],
    pl.Datetime("ms", "UTC"): [MOMENT, None],
    pl.Time: [time(1), time(1, 0, 0, 1), None],
    pl.Decimal(12, 2): [1, 2, None],
    pl.Categorical: ["a", "b", None],
}
NUMERIC = [pl.Int64, pl.UInt64, pl.Int8, pl.Float64, pl.Float32, pl.Boolean, pl.String, pl.Decimal(12, 2)]
PUBLIC = (("a", "b", "1", "2020-01-01", "0.5"), (0, 1, 2), (0.0, 0.5, 1.0), (True, False))


def generated(draw):
    """A table with ugly columns: unit and key of any type, X and x that are two columns, numbers of any type."""
    rows = draw.choice([0, 1, 5, 30, 120])
    chosen = {
        "unit": draw.choice(list(TYPED)),
        "key": draw.choice(list(TYPED)),
        "x": draw.choice(NUMERIC),
        "X": draw.choice(NUMERIC),
    }
    columns = {}
    for name, kind in chosen.items():
        if name == "unit" and draw.random() < 0.5:
            columns[name] = pl.Series(name, [draw.randrange(20) for _ in range(rows)], dtype=pl.Int64)
            continue
        values = [draw.choice(TYPED[kind]) for _ in range(rows)]
        columns[name] = pl.Series(name, values, dtype=kind, strict=False)
    return pl.DataFrame(columns)


def scalar(draw):
    column, (lower, upper) = draw.choice("xX"), draw.choice([(0.0, 1.0), (-5.0, 100.0), (3, 10**19)])
    return draw.choice(
        [
            Count(),
            Sum(column, lower, upper),
            Mean(column, lower, upper),
            Variance(column, lower, upper),
            Covariance("x", lower, upper, "X", -1.0, 2.0),
            Quantile(column, draw.choice([0.1, 0.5]), lower, upper, 16),
        ]
    )


def question(draw):
    keys = draw.choice(PUBLIC)
    return draw.choice(
        [
            scalar(draw),
            Histogram("key", keys),
            TopK("key", 1, keys),
            TopK("key", 2),
            GroupBy("key", scalar(draw), keys),
            GroupBy("key", scalar(draw)),
            GroupBy(("key", "x"), scalar(draw)),
        ]
    )


def plan_of(draw):
    unit = draw.choice([None, "unit"])
    statistics = tuple((f"s{place}", question(draw)) for place in range(draw.randrange(1, 4)))
    return ReleasePlan(
        statistics=statistics,
        unit=unit,
        budget=Budget(epsilon=draw.choice([1.0, 30.0]), delta=1e-3),
        contribution=Contribution(draw.randrange(1, 4), draw.randrange(1, 4)) if unit else Contribution(),
    )


def outcome(plan, source, seed):
    try:
        answers = plan.run(source, noise=SeededNoise(seed)).answers
    except InvalidArgument as refused:
        return str(refused)
    return [(answer.value, answer.error) for answer in answers]


def check_agreement(draw, times, folder):
    answered = 0
    for seed in range(times):
        frame, plan = generated(draw), plan_of(draw)
        found = outcome(plan, PolarsEngine.over(frame), seed)
        assert outcome(plan, DuckDBEngine(frame.to_arrow()), seed) == found, (plan, frame)
        answered += isinstance(found, list)
        if seed % 5 == 0:
            path = folder / "t.parquet"
            frame.write_parquet(path)
            assert outcome(plan, DuckDBEngine(path), seed) == outcome(plan, path, seed) == found
        if seed % 5 == 1:
            path = folder / "t.csv"
            frame.select(pl.all().to_physical().cast(pl.String, strict=False)).write_csv(path)
            assert outcome(plan, DuckDBEngine(path), seed) == outcome(plan, path, seed)
    assert answered > times / 2


@pytest.fixture
def laplace(monkeypatch):
    """Laplace noise alone: the proof of the Gaussian's takes a second, and the sums are the same."""
    monkeypatch.setattr(budget_split, "_with_gaussian", lambda *_: None)


@pytest.mark.usefixtures("laplace")
def test_the_same_coins_give_the_same_answers(tmp_path):
    check_agreement(random.Random(1), 12, tmp_path)


@pytest.mark.slow
@pytest.mark.usefixtures("laplace")
def test_the_same_on_two_thousand_tables(tmp_path):
    check_agreement(random.Random(2), 2_000, tmp_path)


# --- the truth --------------------------------------------------------------------------------------------------------


def number(value):
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    return float(value)


def expected(statistic, rows):
    """The statistic of some rows (key, x, y), in plain Python; None where no row has a value."""
    if isinstance(statistic, Count):
        return len(rows)
    if isinstance(statistic, Covariance):
        return expected_covariance(statistic, rows)
    values = [number(x) for _, x, _ in rows]
    clamped = [min(max(v, statistic.lower), statistic.upper) for v in values if v is not None]
    if isinstance(statistic, Sum):
        return math.fsum(clamped)
    if not clamped:
        return None
    return fmean(clamped) if isinstance(statistic, Mean) else pvariance(clamped)


def expected_covariance(statistic, rows):
    pairs = [(number(x), number(y)) for _, x, y in rows]
    clamped = [
        (min(max(x, statistic.x_lower), statistic.x_upper), min(max(y, statistic.y_lower), statistic.y_upper))
        for x, y in pairs
        if x is not None and y is not None
    ]
    if not clamped:
        return None
    x_mean, y_mean = fmean(x for x, _ in clamped), fmean(y for _, y in clamped)
    return fmean((x - x_mean) * (y - y_mean) for x, y in clamped)


def check_truth(draw, frame, engine):
    asked = [
        Count(),
        Sum("x", -5.0, 100.0),
        Mean("x", -5.0, 100.0),
        Variance("x", -5.0, 100.0),
        Covariance("x", -5.0, 100.0, "y", -1.0, 3.0),
    ]
    keys = tuple(key for key in frame["key"].unique().sort().to_list() if key is not None) or ("none",)
    keys = (*keys, "never") if isinstance(keys[0], str) else (*keys, 999)
    statistics = tuple((f"s{place}", one) for place, one in enumerate(asked))
    statistics += tuple((f"g{place}", GroupBy("key", one, keys)) for place, one in enumerate(asked))
    unit = draw.choice([None, "unit"])
    # Every unit has fewer rows and groups than count, so that nothing is bounded.
    bounds = Contribution(1000, 5) if unit else Contribution()
    plan = ReleasePlan(
        statistics=statistics, unit=unit, budget=Budget(epsilon=1e11 * len(statistics)), contribution=bounds
    )
    released = plan.run(engine(frame), noise=SeededNoise(draw.randrange(2**32)))
    rows = list(zip(*(frame[name].to_list() for name in ("key", "x", "y")), strict=True))
    for place, one in enumerate(asked):
        check_close(one, released[f"s{place}"].value, expected(one, rows))
        for key, value in released[f"g{place}"].value:
            members = [row for row in rows if row[0] == key]
            check_close(one, value, expected(one, members))


def check_close(statistic, value, truth):
    """Equal but for noise of 1e-7 and less, which a variance of one row multiplies by the squared width of its bounds."""
    if truth is not None:
        most = 1e-2 if isinstance(statistic, Variance | Covariance) else 1e-3
        assert value == pytest.approx(truth, rel=1e-5, abs=most)


def plain_table(draw, rows):
    whole = draw.random() < 0.5
    return pl.DataFrame(
        {
            "unit": pl.Series([draw.randrange(1 + rows // 3) for _ in range(rows)], dtype=pl.Int64),
            "key": pl.Series(
                [draw.choice([1, 2, 3, None] if whole else ["a", "b", "c", None]) for _ in range(rows)],
                dtype=pl.Int64 if whole else pl.String,
            ),
            "x": pl.Series(
                [draw.choice([None, math.nan, math.inf, 0.0, draw.uniform(-20, 120)]) for _ in range(rows)],
                dtype=pl.Float64,
            ),
            "y": pl.Series(
                [draw.choice([None, math.nan, -math.inf, draw.uniform(-2, 4)]) for _ in range(rows)],
                dtype=pl.Float64,
            ),
        }
    )


def in_file(engine, form, folder):
    def opened(frame):
        path = folder / f"t.{form}"
        getattr(frame, f"write_{form}")(path)
        return engine(path)

    return opened


@pytest.fixture(params=["polars", "duckdb", "polars csv", "duckdb csv", "polars parquet", "duckdb parquet"])
def engine(request, tmp_path):
    """A frame to an engine over it, or over a file that it is written into."""
    name, _, form = request.param.partition(" ")
    if not form:
        return PolarsEngine.over if name == "polars" else DuckDBEngine
    return in_file(PolarsEngine.of_path if name == "polars" else DuckDBEngine, form, tmp_path)


def test_without_noise_the_answer_is_the_truth(engine):
    draw = random.Random(4)
    for _ in range(4):
        check_truth(draw, plain_table(draw, draw.choice([1, 10, 500])), engine)


@pytest.mark.slow
def test_the_truth_of_two_thousand_tables(engine):
    draw = random.Random(5)
    large = {500: 10**5, 1_000: 10**6, 1_500: 10**5, 1_999: 10**6}
    for table in range(2_000):
        check_truth(
            draw, plain_table(draw, large.get(table, draw.choice([0, 1, 2, 10, 50, 300, 3_000]))), engine
        )


@pytest.mark.slow
@pytest.mark.parametrize("engine", [PolarsEngine.over, DuckDBEngine], ids=["polars", "duckdb"])
@pytest.mark.parametrize("unit", [None, "unit"])
def test_the_truth_of_a_million_rows(engine, unit):
    rng = np.random.default_rng(6)
    values, keys = rng.normal(40, 30, 10**6), rng.integers(0, 50, 10**6)
    frame = pl.DataFrame({"unit": np.arange(10**6) // 2, "key": keys, "x": values})
    plan = ReleasePlan(
        statistics=(
            ("mean", Mean("x", 0.0, 100.0)),
            ("median", Quantile("x", 0.5, 0.0, 100.0)),
            ("by", GroupBy("key", Sum("x", 0.0, 100.0), tuple(range(50)))),
            ("n", Histogram("key", tuple(range(50)))),
        ),
        unit=unit,
        budget=Budget(epsilon=1e10),
        contribution=Contribution(2, 2) if unit else Contribution(),
    )
    found, clamped = plan.run(engine(frame)), np.clip(values, 0, 100)
    assert found["mean"].value == pytest.approx(clamped.mean(), rel=1e-6)
    assert found["median"].value == pytest.approx(np.median(values), abs=100 / 4096)
    sums = np.bincount(keys, weights=clamped)
    assert [value for _, value in found["by"].value] == pytest.approx(sums.tolist(), rel=1e-6)
    assert [value for _, value in found["n"].value] == np.bincount(keys).tolist()


def squared(column, lower, upper):
    return Covariance(column, lower, upper, "y", lower, upper)


@pytest.mark.parametrize("statistic", [Sum, Mean, Variance, squared])
@pytest.mark.parametrize("size", [1e-170, 1e-290, 1e-140, 1.0, 1e140, 1e160, 1e290, 10**300])
def test_bounds_of_any_size_are_answered_or_refused(statistic, size):
    """Never a raw error, and never after the spend."""
    frame = pl.DataFrame({"x": [size, -size, 0.0, None], "y": [size, 0.0, 0.0, size]}, strict=False)
    for delta in (0.0, 1e-6):
        try:
            asked = (("s", statistic("x", 0, size)), ("n", Count()))
            plan = ReleasePlan(statistics=asked, unit=None, budget=Budget(epsilon=1.0, delta=delta))
            plan.quote()
        except PrivetError as refused:
            assert isinstance(refused, InvalidArgument)
            continue
        assert math.isfinite(plan.run(frame)["s"].value)
