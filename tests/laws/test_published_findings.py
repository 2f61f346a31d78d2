"""Inputs that once gave wrong figures of a published table: each is a law that must keep holding."""

import datetime
import decimal
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from privet import audit_release
from privet.attacks.linkage import Histories, Intersection, RecordLinkage, Scoreboard
from privet.attacks.synthetic.densities import TreeDensity
from privet.attacks.synthetic.inference import Guesser, Inference, LearntGuess, NearestGuess
from privet.auditing import measure_recoveries
from privet.cli import main
from privet.errors import InvalidArgument
from privet.published_tables import PublishedTable, ValueKind

LARGE = 2**53  # from here on float64 cannot tell whole numbers apart


def _codes(data: object) -> list[int]:
    return PublishedTable.of(data).columns[0].codes.tolist()


@pytest.mark.parametrize(
    "values",
    [
        [LARGE, LARGE + 1, None],
        [np.int64(LARGE), np.int64(LARGE + 1), None],
        [decimal.Decimal(10**20), decimal.Decimal(10**20 + 1), None],
        [10**30, 10**30 + 1, None],
    ],
)
def test_large_whole_numbers_are_told_apart(values: list[object]) -> None:
    column = PublishedTable.of({"id": values})["id"]
    assert column.kind is ValueKind.NUMBER
    assert column.codes.tolist() == [1, 2, 0]


def test_arrow_decimals_are_told_apart() -> None:
    pyarrow = pytest.importorskip("pyarrow")
    values = pyarrow.array([decimal.Decimal(10**20), decimal.Decimal(10**20 + 1)])
    assert _codes(pyarrow.table({"id": values})) == [1, 2]


def test_large_whole_numbers_of_two_tables_match_themselves_only() -> None:
    stacked = PublishedTable.of({"id": [LARGE, LARGE + 1]}).below(PublishedTable.of({"id": [LARGE + 1]}))
    assert stacked["id"].codes.tolist() == [1, 2, 2]
    again = stacked.below(PublishedTable.of({"id": [LARGE + 2, LARGE]}))
    assert again["id"].codes.tolist() == [1, 2, 2, 3, 1]
    mixed = PublishedTable.of({"id": [LARGE, LARGE + 1]}).below(
        PublishedTable.of({"id": [float(LARGE), 0.5]})
    )
    assert mixed["id"].codes.tolist() == [2, 3, 2, 1]


def test_times_of_one_day_of_two_tables_match_themselves_only() -> None:
    times = np.array(["2020-01-01T01", "2020-01-01T02"], dtype="datetime64[s]")
    stacked = PublishedTable.of({"at": times}).below(PublishedTable.of({"at": times[1:]}))
    assert stacked["at"].codes.tolist() == [1, 2, 2]
    assert stacked["at"].categories.dtype == "datetime64[D]"


def test_numbers_and_text_of_two_tables_match_as_they_are_written() -> None:
    numbers = PublishedTable.of({"dose": [0.1, 2, 1e-7]})
    texts = PublishedTable.of({"dose": ["0.1", "2", "none"]})
    codes = numbers.below(texts)["dose"].codes
    assert codes[0] == codes[3]
    assert codes[1] == codes[4]
    assert len(np.unique(codes)) == 4


def test_codes_of_many_digits_stay_text_when_a_file_is_read() -> None:
    table = PublishedTable.of({"id": [str(10**17 + place) for place in range(50)]}).recognize()
    assert table["id"].kind is ValueKind.TEXT
    assert len(np.unique(table["id"].codes)) == 50
    assert PublishedTable.of({"n": ["1_000", "5"]}).recognize()["n"].kind is ValueKind.TEXT
    assert PublishedTable.of({"n": ["-12.5", "3e2"]}).recognize()["n"].kind is ValueKind.NUMBER


def test_dates_in_lists_are_dates() -> None:
    days = [datetime.date(2020, 1, 2), None, datetime.date(2020, 1, 1)]
    column = PublishedTable.of({"birth": days})["birth"]
    assert (column.kind, column.codes.tolist()) == (ValueKind.DATE, [2, 0, 1])
    utc = datetime.UTC
    aware = [datetime.datetime(2020, 1, 2, 3, tzinfo=utc), datetime.datetime(2020, 1, 2, 4, tzinfo=utc)]
    assert (PublishedTable.of({"at": aware})["at"].kind, _codes({"at": aware})) == (ValueKind.DATE, [1, 2])


def test_any_arrow_time_is_read() -> None:
    pyarrow = pytest.importorskip("pyarrow")
    for kind, values in (
        (pyarrow.timestamp("ns"), [2, 1, None]),
        (pyarrow.timestamp("s"), [2**45, 3, None]),
        (pyarrow.timestamp("us", "Asia/Tokyo"), [2, 1, None]),
    ):
        table = PublishedTable.of(pyarrow.table({"at": pyarrow.array(values, type=kind)}))
        assert (table["at"].kind, table["at"].codes.tolist()) == (ValueKind.DATE, [2, 1, 0])
    far = pyarrow.array([2**31 - 1, 3, None], type=pyarrow.int32()).cast(pyarrow.date32())
    assert _codes(pyarrow.table({"at": far})) == [2, 1, 0]
    uuid = pyarrow.array([b"1" * 16, b"0" * 16, None], type=pyarrow.uuid())
    assert _codes(pyarrow.table({"id": uuid})) == [2, 1, 0]


def test_lists_in_pandas_and_masked_values_are_read() -> None:
    pandas = pytest.importorskip("pandas")
    assert _codes(pandas.DataFrame({"a": [[3, 4], [1, 2], None]})) == [2, 1, 0]
    assert _codes({"a": np.ma.array([7, 8, 9], mask=[False, True, False])}) == [1, 0, 2]


@pytest.mark.parametrize("values", [5, "abc", None])
def test_a_column_that_is_no_sequence_is_refused(values: object) -> None:
    with pytest.raises(InvalidArgument, match="one value for each row"):
        PublishedTable.of({"a": values})


def test_claims_about_absent_people_are_no_leak() -> None:
    """A release of other people: some are claimed, nobody is found, and that is no sign of a leak."""
    coins = np.random.default_rng(0)

    def draw(people: int) -> Histories:
        return Histories.of(np.repeat(np.arange(people), 8), coins.integers(0, 200, 8 * people))

    truth = np.where(np.arange(200) % 2 == 0, np.arange(200), -1)
    measured = measure_recoveries(Scoreboard(threshold=0.3).run(draw(300), draw(200), truth))
    assert measured.leak.upper < 0
    assert not measured.detected
    linked = RecordLinkage().run(_people(50), _people(50), np.where(np.arange(50) < 25, np.arange(50), -1))
    assert linked.claims


def test_people_who_are_twice_in_the_second_table_are_left_out_or_in_as_one() -> None:
    table = _people(200)
    names = [str(place) for place in range(200)]
    columns = {column.name: column.values for column in table.columns}
    once = {"id": np.array(names), **columns}
    twice = {name: np.repeat(values, 2) for name, values in once.items()}
    figures = []
    for other in (once, twice):
        report = audit_release(once, quasi=["zip", "age"], other=other, key="id")
        figures.append(report.audits[0].recoveries[-1].leakage)
    assert figures[0].success.value > 0.95
    assert figures[1].success.value > 0.95
    assert figures[1].inside == figures[1].outside == 200


def _people(count: int) -> PublishedTable:
    coins = np.random.default_rng(count)
    zips = [f"{number:05}" for number in coins.integers(0, 60, count)]
    ages, incomes = coins.integers(18, 90, count), coins.integers(0, 10**6, count)
    return PublishedTable.of({"zip": zips, "age": ages, "income": incomes})


@pytest.mark.skipif(sys.platform != "linux", reason="the limit of memory is one of Linux")
@pytest.mark.parametrize("attack", ["tree", "intersection"])
def test_columns_of_many_values_fit_into_memory(attack: str) -> None:
    """Two columns of 30,000 values have 9·10⁸ cells. None of the attacks may write them all."""
    count = 30_000
    table = PublishedTable.of({"a": np.arange(count).astype(str), "b": np.arange(count)[::-1].astype(str)})
    tracemalloc.start()
    try:
        if attack == "tree":
            TreeDensity().log_ratio(table.take(np.arange(100)), table, table.take(np.arange(0, count, 2)))
        else:
            sexes = np.where(np.arange(count) % 2 == 0, "f", "m")
            release = PublishedTable.of({"sex": sexes, "income": np.arange(count) // 4})
            Intersection().run(release, release, ["sex"], "income", truth=np.arange(count))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 300 * 2**20


def test_the_call_that_reproduces_a_report_has_every_argument_that_decides_a_figure() -> None:
    table = _people(60)
    report = audit_release(table, quasi=["zip", "age"], population=table, largest_set=1)
    assert report.origin.call is not None
    assert "largest_set=1," in report.origin.call
    assert "population=population,  # 60 rows" in report.origin.call


def test_a_number_that_differs_in_every_row_can_be_inferred_from_synthetic_data() -> None:
    coins = np.random.default_rng(0)
    original, control = (
        {"age": coins.integers(18, 90, 100), "height": coins.normal(170, 9, 100)} for _ in range(2)
    )
    report = audit_release(original, quasi=["age"], secret="height", original=original, control=control)
    assert any("inference of height" in each.name for each in report.audits[0].recoveries)
    with pytest.raises(InvalidArgument, match="it is a key"):
        audit_release(original, quasi=["age"], secret="height")


@pytest.mark.parametrize("tables", ["rows", "second table", "synthetic"])
def test_figures_do_not_depend_on_the_order_of_rows(tables: str) -> None:
    table, order = _people(120), np.random.default_rng(1).permutation(120)
    names = PublishedTable.of({"id": [f"{place:03}" for place in range(120)]})
    named, control = PublishedTable((*names.columns, *table.columns)), _people(100)

    def audit(table: PublishedTable, named: PublishedTable, control: PublishedTable) -> list[str]:
        match tables:
            case "rows":
                report = audit_release(table, quasi=["zip"], secret="age")
            case "second table":
                report = audit_release(named, quasi=["zip"], other=named.take(order), key="id")
            case _:
                report = audit_release(table, quasi=["zip"], secret="age", original=table, control=control)
        return [f"{each.leakage} {each.epsilon}" for each in report.audits[0].recoveries]

    assert audit(table, named, control) == audit(
        table.take(order), named.take(order), control.take(np.arange(100)[::-1])
    )


def test_columns_with_commas_and_spaces_can_be_named(tmp_path: Path) -> None:
    pytest.importorskip("polars")
    file = tmp_path / "table.csv"
    file.write_text('"town, county", birth \n' + "".join(f"t{row % 7},{row}\n" for row in range(30)))
    assert main(["audit-table", str(file), "--quasi", '"town, county"," birth "']) == 0


def test_a_file_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    """Bytes that are no UTF-8 would all become one sign, and different values one value."""
    pytest.importorskip("polars")
    lines = "".join(f"Dup{letter}nt,{place}\n" for place, letter in enumerate("éèêëà"))
    old, new = tmp_path / "old.csv", tmp_path / "new.csv"
    old.write_bytes(f"name,age\n{lines}".encode("latin-1"))
    new.write_text(f"name,age\n{lines}Dup�nt,9\n", encoding="utf-8")
    with pytest.raises(InvalidArgument, match="UTF-8"):
        audit_release(old, quasi=["name"])
    found = audit_release(new, quasi=["name"]).audits[0].table
    assert found is not None
    assert found.unique_share == 1.0


@pytest.mark.parametrize("guesser", [NearestGuess(), LearntGuess()], ids=["nearest", "learnt"])
@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_infinite_numbers_are_larger_than_all_others(guesser: Guesser) -> None:
    coins = np.random.default_rng(0)

    def draw() -> PublishedTable:
        number = coins.normal(size=80)
        number[:8], number[8:12], number[12] = np.inf, -np.inf, np.nan
        return PublishedTable.of({"dose": number, "age": coins.integers(18, 90, 80), "sex": ["f", "m"] * 40})

    synthetic, original, control = draw(), draw(), draw()
    for secret in ("dose", "sex"):
        found = Inference(secret, guesser=guesser).run(synthetic, original, control)
        assert 0 < found.hits.mean() < 0.9
    assert np.isfinite(TreeDensity().log_ratio(synthetic, synthetic, synthetic)).all()


@pytest.mark.parametrize("truth", [[5, -1], [-2, 0], [1, -1]])
def test_the_truth_about_histories_names_people_of_the_release(truth: list[int]) -> None:
    """A target who has no released history cannot count as one who is in the release."""
    histories = Histories.of(["a", "b", "c"], ["x", "y", "z"])
    released = histories.without_people(np.array([False, True, False]))
    knowledge = Histories.of(["s", "t"], ["x", "y"])
    with pytest.raises(InvalidArgument, match="'truth' must be"):
        Scoreboard().run(released, knowledge, np.array(truth))
