"""Long lists of exactly the declared types: the shortcut accepts what the readers give back, and nothing else."""

import random
import sys
from typing import Annotated, Any

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray

from privet.releasing import Budget, Contribution, Count, GroupBy, ReleasePlan, Sum
from privet.releasing.keys import Category, Key, Number, Values
from privet.type_hints import Mismatch, reader_for, readers
from privet.type_hints.exact_types import accept_exact_lists

LARGEST = int(sys.float_info.max)
HINTS = [
    tuple[int, ...],
    tuple[float, ...],
    tuple[bool, ...],
    tuple[str | None, ...],
    list[Number],
    tuple[Category, ...],
    tuple[tuple[Category, ...], ...],
    tuple[tuple[Key, Number], ...],
    tuple[str, tuple[int, ...]],
    tuple[tuple[int, ...] | tuple[str, str], ...],
    tuple[tuple[int, ...] | list[int], ...],
    tuple[list[int] | None, ...],
    tuple[NDArray[np.float64] | tuple[float, ...], ...],
    tuple[frozenset[int] | tuple[int, ...], ...],
    tuple[Annotated[int, []], ...],
    tuple[Any, ...],
    Values,
]


class OwnInt(int):
    pass


class OwnTuple(tuple):
    pass


ITEMS = [
    0, -3, LARGEST, -LARGEST, LARGEST + 1, -LARGEST - 1, 2.5, float("nan"), float("inf"), True, None, "", "a",
    b"a", OwnInt(3), np.int64(3), np.float64(0.5), np.zeros(2), object(), int, (), [], range(2), {1},
]  # fmt: skip


def _random_value(source: random.Random, depth: int) -> object:
    if depth == 0 or source.random() < 0.2:
        return source.choice(ITEMS)
    if source.random() < 0.5:  # items of one kind, so that many are accepted
        made = [_random_value(source, depth - 1)] * source.randrange(4)
    else:
        made = [_random_value(source, depth - 1) for _ in range(source.randrange(4))]
    return source.choice([tuple, tuple, tuple, list, OwnTuple])(made)


def _outcome(reader, value):
    try:
        return "read", reader(value)
    except Mismatch as refused:
        return "refused", (refused.needed, refused.got, refused.fix)


def _not_called(value: object) -> object:
    raise AssertionError("the shortcut leaves this value to the reader")


@pytest.fixture
def reader_without_shortcut(monkeypatch):
    def make(hint):
        with monkeypatch.context() as patched:
            patched.setattr(readers, "accept_exact_lists", lambda _, reader: reader)
            return reader_for(hint)

    return make


@pytest.mark.parametrize("hint", HINTS, ids=str)
def test_the_outcome_is_that_of_the_readers(hint, reader_without_shortcut):
    source = random.Random(5)
    slow = reader_without_shortcut(hint)
    fast = reader_for(hint)
    for _ in range(3000):
        value = _random_value(source, 3)
        (kind, slow_found), (fast_kind, found) = _outcome(slow, value), _outcome(fast, value)
        assert kind == fast_kind
        if kind == "refused":
            assert found == slow_found
        elif slow_found is value:
            assert found is value
        else:
            assert found is not value
            assert repr(found) == repr(slow_found)


@pytest.mark.parametrize(
    ("hint", "value"),
    [
        (tuple[int, ...], (1, LARGEST)),
        (tuple[float, ...], (1.0, 2, float("nan"))),
        (list[Number], [1, 2.0]),
        (tuple[tuple[Category, ...], ...], (("a", 1), (True,), ())),
        (tuple[tuple[Key, Number], ...], (("a", 1), (("a", 2.5), 3.0))),
        (tuple[tuple[Key, Number], ...], ()),
    ],
)
def test_exact_types_need_no_reader(hint, value):
    assert accept_exact_lists(hint, _not_called)(value) is value


@pytest.mark.parametrize(
    "value", [(OwnInt(3),), (True,), (LARGEST + 1,), (1, -LARGEST - 1), [1], OwnTuple((1,))]
)
def test_other_values_are_for_the_reader(value):
    with pytest.raises(AssertionError, match="leaves this value"):
        accept_exact_lists(tuple[int, ...], _not_called)(value)


@pytest.mark.parametrize("unit", [None, "person"])
@pytest.mark.parametrize("kind", [int, str])
def test_a_release_makes_few_calls_for_each_key(unit, kind):
    """With a reader for each value it was 185 Python calls for each key, longer than the sums over 10⁶ rows."""
    few, many = (_count_calls(unit, tuple(map(kind, range(keys)))) for keys in (100, 1100))
    assert (many - few) / 1000 < 10  # 5, and a little for noise that is drawn again


def _count_calls(unit: str | None, keys: tuple[Category, ...]) -> int:
    frame = pl.DataFrame(
        {"person": np.arange(500) // 5, "key": [keys[row % 50] for row in range(500)], "value": np.ones(500)}
    )
    plan = ReleasePlan(
        statistics=(
            ("n", GroupBy("key", Count(), keys)),
            ("s", GroupBy("key", Sum("value", 0.0, 9.0), keys)),
        ),
        unit=unit,
        budget=Budget(epsilon=1.0),
        contribution=Contribution() if unit is None else Contribution(rows=2, groups=3),
    )
    plan.run(frame)  # what the first run prepares does not count
    calls = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        plan.run(frame)
    finally:
        sys.setprofile(before)
    return calls
