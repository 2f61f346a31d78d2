"""All tables that agree with published statistics, against a search through every table."""

from itertools import combinations_with_replacement
from statistics import median

import numpy as np
import pytest

from privet.attacks.reconstruction import ConsistentTables, PeopleColumns, PeopleGroup, PublishedStatistic
from privet.errors import InvalidArgument

EVERYBODY = PeopleGroup()


def publish(columns, people, groups, *, below=3, with_means=True):
    """What an office would publish of these people; groups of fewer than ``below`` are suppressed."""
    published = []
    for group in groups:
        inside = columns.members(group)
        numbers = [person[-1] for person in people if inside[columns.place(person)]]
        if len(numbers) < below and not group.is_everybody:
            published.append(PublishedStatistic(group, below=below))
            continue
        mean = round(float(np.mean(numbers)), 1) if with_means else None
        published.append(
            PublishedStatistic(group, count=len(numbers), mean=mean, median=float(median(numbers)))
        )
    return published


def agrees(columns, people, published):
    for statistic in published:
        inside = columns.members(statistic.group)
        numbers = [person[-1] for person in people if inside[columns.place(person)]]
        if statistic.below is not None:
            if len(numbers) >= statistic.below:
                return False
            continue
        if len(numbers) != statistic.count:
            return False
        if statistic.mean is not None and abs(np.mean(numbers) - statistic.mean) > statistic.rounding + 1e-9:
            return False
        if statistic.median is not None and median(numbers) != statistic.median:
            return False
    return True


def search(columns, total, published):
    """Every consistent table, by trying all."""
    cells = [columns.cell(place) for place in range(len(columns))]
    return {
        tuple(table)
        for table in combinations_with_replacement(cells, total)
        if agrees(columns, table, published)
    }


def ordered(columns, table):
    return tuple(sorted(table, key=columns.place))


def test_three_men_with_a_median_of_30_and_a_mean_of_44():
    """Garfinkel, Abowd & Martindale 2019, Table 2: 30 combinations of ages from 1 to 125."""
    columns = PeopleColumns({}, "age", 1, 125)
    tables = ConsistentTables(columns).list_tables(
        [PublishedStatistic(EVERYBODY, count=3, mean=44, median=30)]
    )
    assert len(set(tables)) == len(tables) == 30
    assert ((1,), (30,), (101,)) in tables


@pytest.mark.parametrize(
    "seed", [0, 1, 2, 5, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (3, 4, 6, 7, 8, 9))]
)
def test_the_programme_finds_the_tables_of_a_search(seed):
    generator = np.random.default_rng(seed)
    columns = PeopleColumns({"sex": ("f", "m")}, "age", 0, 5)
    total = 4 + seed % 2
    people = [columns.cell(int(place)) for place in generator.integers(0, len(columns), total)]
    groups = [EVERYBODY, PeopleGroup({"sex": "f"}), PeopleGroup({"sex": "m"}), PeopleGroup(lower=3)]
    published = publish(columns, people, groups, below=2, with_means=seed % 3 > 0)
    expected = {ordered(columns, table) for table in search(columns, total, published)}
    attack = ConsistentTables(columns)
    found = {ordered(columns, table) for table in attack.list_tables(published, most=1000)}
    assert found == expected
    assert ordered(columns, people) in found

    certified = attack.certify(published)
    counts = [
        np.bincount([columns.place(person) for person in table], minlength=len(columns)) for table in expected
    ]
    least, some = np.min(counts, axis=0), np.max(counts, axis=0) > 0
    assert [columns.place(person) for person in certified.people] == np.repeat(
        np.arange(len(columns)), least
    ).tolist()
    assert [columns.place(person) for person in certified.possible] == np.flatnonzero(some).tolist()
    assert certified.is_unique == (len(expected) == 1)
    women = [int(sum(columns.members(PeopleGroup({"sex": "f"}, lower=4)) * count)) for count in counts]
    assert attack.bound(published, PeopleGroup({"sex": "f"}, lower=4)) == (min(women), max(women))


def test_what_nobody_can_be():
    married = PeopleGroup({"married": "yes"}, upper=14)
    columns = PeopleColumns({"married": ("no", "yes")}, "age", 10, 20, impossible=(married,))
    published = [PublishedStatistic(EVERYBODY, count=2, mean=12, median=12, rounding=0)]
    tables = ConsistentTables(columns).list_tables(published)
    assert all(person[0] == "no" for table in tables for person in table if person[1] < 15)


def test_a_suppressed_count_is_below_its_limit():
    columns = PeopleColumns({"sex": ("f", "m")}, "age", 0, 1)
    women = PeopleGroup({"sex": "f"})
    published = [PublishedStatistic(EVERYBODY, count=5), PublishedStatistic(women, below=3)]
    assert ConsistentTables(columns).bound(published, women) == (0, 2)


def test_a_hit_is_a_row_that_is_in_the_reconstruction():
    columns = PeopleColumns({"sex": ("f", "m")}, "age", 0, 99)
    people = [("f", 30), ("f", 40), ("m", 80)]
    groups = [
        EVERYBODY,
        PeopleGroup({"sex": "f"}),
        PeopleGroup({"sex": "m"}),
        PeopleGroup(lower=35, upper=60),
    ]
    published = publish(columns, people, groups, below=1)
    found = ConsistentTables(columns).run(published, people, [("f", 20), ("m", 50), ("m", 80)])
    assert found.hits.all()
    assert found.blind_hits.tolist() == [False, False, True]
    assert found.confidence.tolist() == [1, 1, 1]


def test_a_certified_row_is_never_wrong():
    """Half of the statistics: not all is certain, and what is certain is true."""
    generator = np.random.default_rng(3)
    columns = PeopleColumns({"sex": ("f", "m"), "works": ("no", "yes")}, "age", 10, 25)
    groups = [EVERYBODY, PeopleGroup({"sex": "f"}), PeopleGroup({"works": "yes"}), PeopleGroup(lower=18)]
    for _ in range(2):
        people = [columns.cell(int(place)) for place in generator.integers(0, len(columns), 5)]
        certified = ConsistentTables(columns).certify(publish(columns, people, groups))
        left = list(people)
        for person in certified.people:
            left.remove(person)
        assert set(people) <= set(certified.possible)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: PublishedStatistic(EVERYBODY), "'count' or 'below' must be given"),
        (lambda: PublishedStatistic(EVERYBODY, below=3, mean=3.0), "'mean' must come with a count"),
        (lambda: PublishedStatistic(EVERYBODY, count=3, median=3.3), "'median' must be a whole or a half"),
        (lambda: PeopleColumns({"age": ("a",)}, "age", 0, 9), "'number' must be another column"),
        (lambda: PeopleColumns({"sex": ("f", "f")}, "age", 0, 9), "'categories' must list different values"),
        (lambda: PeopleColumns({"x": tuple(map(str, range(5000)))}, "age", 0, 99), "at most 200,000 cells"),
        (lambda: PeopleColumns({"sex": ("f",)}, "age", 0, 9).place(("m", 3)), "one of the listed values"),
        (lambda: PeopleColumns({"sex": ("f",)}, "age", 0, 9).place(("f", 30)), "must have a whole 'age'"),
        (
            lambda: ConsistentTables(PeopleColumns({}, "age", 0, 9)).solve(
                [PublishedStatistic(PeopleGroup(lower=3), count=1)]
            ),
            "the number of all people",
        ),
        (
            lambda: ConsistentTables(PeopleColumns({}, "age", 0, 9)).solve(
                [
                    PublishedStatistic(EVERYBODY, count=2, mean=3, median=3),
                    PublishedStatistic(PeopleGroup(lower=8), count=1),
                ]
            ),
            "contradict each other",
        ),
        (
            lambda: ConsistentTables(PeopleColumns({}, "age", 0, 9)).solve(
                [
                    PublishedStatistic(PeopleGroup({"sex": "f"}), count=2),
                    PublishedStatistic(EVERYBODY, count=2),
                ]
            ),
            "'where' must name columns and values",
        ),
    ],
)
def test_bad_arguments(call, words):
    with pytest.raises(InvalidArgument, match=words):
        call()
