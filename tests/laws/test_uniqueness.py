"""Unique rows under every set of columns: exact, monotone, and free of the order of rows and columns."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privet.attacks.linkage import measure_uniqueness, unique_counts
from privet.attacks.linkage.unique_counts import class_sizes, count_sets, count_unique, count_unique_sets
from privet.errors import InvalidArgument
from privet.published_tables import PublishedTable


@st.composite
def tables(draw):
    rows, columns = draw(st.integers(2, 40)), draw(st.integers(1, 5))
    seed = draw(st.integers(0, 2**32))
    coins = np.random.default_rng(seed)
    return [coins.integers(0, coins.integers(1, 14), rows) * 10**15 for _ in range(columns)]


def count_by_hand(columns):
    rows = np.stack(columns, axis=1)
    return int((np.unique(rows, axis=0, return_counts=True)[1] == 1).sum())


@given(tables())
@settings(max_examples=60, deadline=None)
def test_every_set_is_counted_as_by_hand(columns):
    largest = min(4, len(columns))
    found = count_unique_sets(columns, largest)
    assert [each.columns for each in found] == [
        places for size in range(1, largest + 1) for places in combinations(range(len(columns)), size)
    ]
    for each in found:
        assert each.unique == count_by_hand([columns[place] for place in each.columns])


@given(tables())
@settings(max_examples=30, deadline=None)
def test_a_larger_set_makes_no_row_less_unique(columns):
    shares = {frozenset(each.columns): each.unique for each in count_unique_sets(columns, len(columns))}
    for places, unique in shares.items():
        assert all(unique >= fewer for smaller, fewer in shares.items() if smaller < places)


@given(tables(), st.integers(0, 2**32))
@settings(max_examples=30, deadline=None)
def test_the_order_of_rows_does_not_matter(columns, seed):
    order = np.random.default_rng(seed).permutation(len(columns[0]))
    assert count_unique_sets(columns, 2) == count_unique_sets([column[order] for column in columns], 2)


@pytest.mark.parametrize("values", [200_000, 10**12])
def test_long_columns_are_hashed_and_still_exact(values):
    codes = np.random.default_rng(1).integers(0, values, 150_000)
    assert count_unique(codes) == int((np.unique(codes, return_counts=True)[1] == 1).sum())


def test_a_useless_hash_costs_time_and_no_row(monkeypatch):
    """A hash only ever proves that a row is unique; what it cannot prove is sorted."""
    monkeypatch.setattr(unique_counts, "_MULTIPLIERS", (np.uint64(0),))  # one cell for all: nobody is alone
    codes = np.random.default_rng(1).integers(0, 10**12, 40_000)
    assert count_unique(codes) == int((np.unique(codes, return_counts=True)[1] == 1).sum())


def test_class_sizes_are_those_of_the_rows():
    assert class_sizes(np.array([5, 9, 5, 5])).tolist() == [3, 1, 3, 3]


def test_the_curve_names_the_worst_sets_and_ends_with_all_columns():
    coins = np.random.default_rng(0)
    table = PublishedTable.of({name: coins.integers(0, 6, 200) for name in "abcdef"})
    found = measure_uniqueness(table, list("abcdef"), largest=2)
    curve = found.curve()
    assert [each.size for each in curve] == [1, 2, 6]
    assert [each.sets for each in curve] == [6, 15, 1]
    assert curve[-1].worst[0].columns == tuple("abcdef")
    assert curve[1].worst[0].unique / 200 == curve[1].highest == found.share_of(curve[1].worst[0].columns)
    assert curve[1].lowest <= curve[1].median <= curve[1].highest <= found.share


def test_without_a_size_sets_stay_below_a_thousand():
    table = PublishedTable.of({f"c{number}": [0, 1] for number in range(40)})
    assert measure_uniqueness(table, list(table.names)).largest == 2  # 820 pairs, and 10,660 triples
    assert count_sets(40, 2) == 820


@pytest.mark.parametrize(
    ("quasi", "words"),
    [([], "at least one quasi-identifier"), (["zip"], "got 'zip'"), (["a"], "at least 2 rows")],
)
def test_bad_quasi_identifiers_are_refused(quasi, words):
    with pytest.raises(InvalidArgument, match=words):
        measure_uniqueness(PublishedTable.of({"a": [1]}), quasi)
