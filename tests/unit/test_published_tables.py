"""Tables as an adversary reads them: codes that are equal exactly where the values are."""

import datetime as dt

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privet.errors import InvalidArgument
from privet.published_tables import PublishedTable, ValueKind

DAYS = [dt.date(2020, 1, 1), None, dt.date(2021, 2, 3), dt.date(2020, 1, 1)]
UGLY = {
    "whole": [1, None, 2**60 + 1, 2**60],
    "real": [0.5, float("nan"), None, 2.0],
    "text": ["x", None, "ü", "x"],
    "day": DAYS,
    "bit": [True, False, None, True],
    "list": [[1], [1], None, [2]],
    "nothing": [None] * 4,
}


def forms():
    frame = pl.DataFrame(UGLY, strict=False)
    pandas = frame.to_pandas()
    pandas["whole"] = pd.array(UGLY["whole"], dtype="Int64")
    pandas["list"] = pd.Series(UGLY["list"], dtype=object).map(
        lambda value: None if value is None else str(value)
    )
    chunked = pl.concat([frame[:1], frame[1:]], rechunk=False)
    return {
        "polars": frame,
        "lazy": frame.lazy(),
        "arrow": frame.to_arrow(),
        "chunks": chunked.to_arrow(),
        "pandas": pandas,
    }


@pytest.mark.parametrize("form", forms())
def test_every_form_of_a_table_has_the_same_codes(form):
    table = PublishedTable.of(forms()[form])
    expected = {
        "whole": [1, 0, 3, 2],  # two numbers that float64 cannot tell apart
        "real": [1, 0, 0, 2],
        "text": [1, 0, 2, 1],
        "day": [1, 0, 2, 1],
        "bit": [2, 1, 0, 2],
        "list": [1, 1, 0, 2],
        "nothing": [0, 0, 0, 0],
    }
    assert {column.name: column.codes.tolist() for column in table.columns} == expected
    assert table["day"].kind is ValueKind.DATE
    assert table["day"].values[2] == np.datetime64("2021-02-03")
    assert np.isnat(table["day"].values[1])
    assert table["text"].values.tolist() == ["x", "", "ü", "x"]
    assert table["real"].missing.tolist() == [False, True, True, False]


def test_dates_and_durations_of_numpy_in_a_list_are_those_of_an_array():
    """A list of numpy's dates has the dates; numpy calls a duration a whole number, and it is text here."""
    days = np.array(["2020-01-02", "NaT", "2019-05-05", "2020-01-02T12"], dtype="datetime64[ns]")
    table = PublishedTable.of({"array": days, "list": list(days), "mixed": [*days[:3], dt.date(2020, 1, 2)]})
    assert {column.kind for column in table.columns} == {ValueKind.DATE}
    assert table["list"].codes.tolist() == table["array"].codes.tolist() == [2, 0, 1, 3]
    assert table["mixed"].codes.tolist() == [2, 0, 1, 2]
    for unit in ("s", "D", "ns"):
        spans = np.array([1, 2, 1, "NaT"], dtype=f"timedelta64[{unit}]")
        table = PublishedTable.of({"array": spans, "list": list(spans)})
        assert table["list"].codes.tolist() == table["array"].codes.tolist() == [1, 2, 1, 0]


def test_times_of_one_day_have_different_codes():
    times = pd.to_datetime(["2020-01-01 10:00", "2020-01-01 11:00"])
    for frame in (pd.DataFrame({"t": times}), pl.DataFrame({"t": list(times)})):
        column = PublishedTable.of(frame)["t"]
        assert column.codes.tolist() == [1, 2]
        assert column.values.tolist() == [dt.date(2020, 1, 1)] * 2


@given(st.lists(st.tuples(*[st.sampled_from([None, "a", "b", "c"])] * 3), min_size=1, max_size=12))
def test_rows_have_one_combined_code_exactly_if_they_agree(rows):
    table = PublishedTable.of({name: [row[i] for row in rows] for i, name in enumerate("xyz")})
    codes = table.combine(["x", "y", "z"])
    assert [[a == b for b in rows] for a in rows] == (codes[:, None] == codes).tolist()


def test_combined_codes_do_not_overflow():
    generator = np.random.default_rng(0)
    data = {f"c{i}": generator.permutation(2000) for i in range(12)}  # 2000^12 is far above 2^63
    table = PublishedTable.of(data)
    twice = table.take(np.concatenate([np.arange(2000), np.arange(2000)]))
    counts = np.unique(twice.combine(twice.names), return_counts=True)[1]
    assert (counts == 2).all()
    assert len(counts) == 2000


def test_tables_below_each_other_share_codes():
    both = PublishedTable.of({"a": [2, 1], "b": ["x", "y"], "c": [0, 0]}).below(
        PublishedTable.of({"b": ["y", "z"], "a": ["1", None]})
    )
    assert both.names == ("a", "b")
    assert both["a"].values.tolist() == ["2", "1", "1", ""]
    assert both["b"].codes.tolist() == [1, 2, 2, 3]


def test_text_that_reads_as_numbers_or_dates_is_recognized():
    table = PublishedTable.of(
        {
            "zip": ["02139", "10001"],
            "n": ["-1.5", "0"],
            "d": ["2020-02-29", None],
            "no": ["2020-02-30", "1"],
            "nan": ["nan", "1"],
        }
    )
    kinds = {column.name: str(column.kind) for column in table.recognize().columns}
    assert kinds == {"zip": "text", "n": "number", "d": "date", "no": "text", "nan": "text"}
    assert table.recognize()["n"].values.tolist() == [-1.5, 0.0]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({}, "at least one column"),
        ({"a": [1], "b": [1, 2]}, "equally long"),
        (3, "pandas or Polars frame"),
        ({"a": np.zeros((2, 2))}, "one value for each row"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "differ"),
    ],
)
def test_bad_tables_are_refused(data, words):
    with pytest.raises(InvalidArgument, match=words):
        PublishedTable.of(data)


def test_columns_that_are_not_there_are_refused():
    table = PublishedTable.of({"a": [1]})
    for call in (
        lambda: table["b"],
        lambda: table.select(["b"]),
        lambda: table.without(["b"]),
        lambda: table.combine(["b"]),
    ):
        with pytest.raises(InvalidArgument, match="column of the table"):
            call()
    with pytest.raises(InvalidArgument, match="none with the same name"):
        table.below(PublishedTable.of({"b": [1]}))


def test_a_table_without_rows_is_a_table():
    assert len(PublishedTable.of(pl.DataFrame(UGLY, strict=False).clear())) == 0
