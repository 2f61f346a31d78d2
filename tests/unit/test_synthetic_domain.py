"""The domain is public: what it does not know follows a rule that was fixed before."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privet.errors import InvalidArgument
from privet.randomness import experiment
from privet.releasing.synthetic import Bins, Categories, Domain, Workload, all_marginals

SEX = Categories("sex", ("f", "m"))
AGE = Bins("age", (0.0, 18.0, 65.0, 120.0))
DOMAIN = Domain((SEX, AGE))


@pytest.mark.parametrize("made", [dict, pd.DataFrame, pl.DataFrame, pa.table], ids=lambda f: f.__name__)
def test_every_kind_of_table_is_encoded_alike(made):
    table = made({"sex": ["f", "m", None, "f"], "age": [3.0, 200.0, 5.0, 18.0], "unused": [1, 2, 3, 4]})
    assert DOMAIN.encode(table).tolist() == [[0, 0], [1, 2], [0, 1]]


@given(
    st.lists(st.tuples(st.sampled_from(SEX.categories), st.integers(0, 2)), max_size=20),
    st.integers(0, 1000),
)
def test_round_trip(rows, seed):
    codes = np.array([[SEX.categories.index(s), a] for s, a in rows], dtype=np.int64).reshape(-1, 2)
    for generator in (None, experiment(seed)):
        assert (DOMAIN.encode(DOMAIN.decode(codes, generator)) == codes).all()


def test_no_value_makes_an_error():
    """Whatever a row holds, it has a cell or is left out: an error would tell of it."""
    odd = [
        float("nan"),
        None,
        [1],
        {"a": 1},
        "7",
        10**400,
        -(10**400),
        True,
        object(),
        b"x",
        pd.NA,
        np.datetime64("nat"),
    ]
    table = {"sex": odd, "age": odd}
    domain = Domain((Categories("sex", (True, "7")), AGE))
    assert domain.encode(table).tolist() == [[0, 0]]
    assert AGE.codes(np.array([10**400, -(10**400)], dtype=object)).tolist() == [2, 0]
    assert AGE.codes(np.array([np.inf, -np.inf, np.nan])).tolist() == [2, 0, -1]


def test_what_is_not_listed_goes_to_the_last_where_the_column_says_so():
    values = np.array(["f", "?", None, 3], dtype=object)
    assert Categories("sex", ("f", "other"), others_to_last=True).codes(values).tolist() == [0, 1, 1, 1]
    assert Categories("sex", ("f", None)).codes(values).tolist() == [0, -1, 1, -1]
    assert Categories("n", (1, 3)).codes(np.array([3.0, 1.0, 2.0])).tolist() == [1, 0, -1]


def test_only_the_first_row_of_a_unit_counts_and_none_of_nobody():
    table = {"sex": ["f", "m", "m", "f"], "age": [1, 1, 30, 30], "who": ["a", "a", None, "b"]}
    assert DOMAIN.encode(table, unit="who").tolist() == [[0, 0], [0, 1]]


def test_an_empty_table_has_no_rows():
    assert DOMAIN.encode({"sex": [], "age": []}).shape == (0, 2)
    assert DOMAIN.encode(pl.DataFrame({"sex": [], "age": []})).shape == (0, 2)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Categories("", ("a",)),
        lambda: Categories("a", ()),
        lambda: Categories("a", ("x", "x")),
        lambda: Categories("a", (1, True)),
        lambda: Categories("a", ([],)),
        lambda: Categories("a", "x"),
        lambda: Bins("a", (1.0,)),
        lambda: Bins("a", (2.0, 1.0)),
        lambda: Bins("a", (0.0, float("nan"))),
        lambda: Domain(()),
        lambda: Domain((SEX, SEX)),
        lambda: Domain(("sex",)),
        lambda: DOMAIN.axes(("sex", "sex")),
        lambda: DOMAIN.axes(("height",)),
        lambda: DOMAIN.axes("sex"),
        lambda: DOMAIN.encode({"sex": ["f"]}),
        lambda: DOMAIN.encode({"sex": ["f"], "age": [1, 2]}),
        lambda: DOMAIN.encode({"sex": ["f"], "age": np.zeros((1, 2))}),
        lambda: DOMAIN.encode(pl.LazyFrame({"sex": ["f"], "age": [1]})),
        lambda: DOMAIN.encode(None),
        lambda: Workload(()),
        lambda: Workload((("a",),), (1, 2)),
        lambda: Workload((("a",),), (0.5,)),
        lambda: all_marginals(DOMAIN, 2, most_cells=5),
        lambda: all_marginals(DOMAIN, 3),
    ],
)
def test_refusals_say_what_to_do(make):
    with pytest.raises(InvalidArgument) as refusal:
        make()
    assert str(refusal.value).count(". ") >= 1


def test_refusals_do_not_depend_on_the_rows():
    with pytest.raises(InvalidArgument) as one:
        DOMAIN.encode({"sex": ["f"], "age": [1, 2]})
    with pytest.raises(InvalidArgument) as other:
        DOMAIN.encode({"sex": ["f", "m", "secret"], "age": [1, 2]})
    assert str(one.value) == str(other.value)


def test_a_category_of_one_type_comes_back_in_it():
    decoded = Domain((Categories("n", (3, 5)), Categories("mixed", ("a", None)))).decode(np.array([[1, 1]]))
    assert decoded["n"].dtype == int
    assert decoded["mixed"].tolist() == [None]
