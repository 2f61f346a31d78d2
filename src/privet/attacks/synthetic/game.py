"""The game on a synthetic table: people who were in the original, people who were not, and what is published.

The *original* is the table that the generator was fitted on. The *control* is made of people of the same
population who were not in it: a part of the file that was set aside by a random split before the generator
ran. An attack reads the synthetic table and is shown the people of both in one random order. It never sees
the coin, which says who of them was in the original.

*Which event is a hit.* For every attack here a hit on a person is a function of the synthetic table, of that
person's row, and of the other people's rows as one set that does not say who is in the original. So "the
attack hits her" is a test of whether she was in the original. Its power is the success, its false-positive
rate is the share of hits among the control. A generator with a claim keeps success ≤ claim.tpr(fpr=baseline)
(``auditing.recovery_leakage``), and where the generator saw neither table the coin is independent of all
hits, which is what Fisher's exact test needs. The sizes of the two sides are fixed and not drawn, so the
two worlds differ by an exchange of two people; for a claim about one row more or fewer this is the usual
n against n − 1 rows.

The obvious event, "the predicate matches exactly one row of the original", beside "… of the control", does
not have this property: how many rows of a table match is a fact about many people at once, and a generator
may tell it with little noise about each of them.
"""

import warnings
from dataclasses import dataclass
from typing import final

import numpy as np
from scipy.stats import binom

from privet.arguments import whole
from privet.callers import level_of_caller
from privet.errors import InvalidArgument
from privet.public_calls import check_public_calls
from privet.published_tables import PublishedTable
from privet.scores import Bits

__all__ = ["SyntheticGame", "draw_game", "require_rows"]

MOST_COLUMNS = 1000  # distances read every column of every pair of rows
_RARE = 1e-6  # the false-alarm rate of the warning about a control that overlaps


@final
@dataclass(frozen=True, eq=False)
class SyntheticGame:
    """A synthetic table and the people who are judged, with codes that agree between the tables.

    ``people`` are as many of the original as of the control, in a random order; ``members`` says who was in
    the original. ``bystanders`` are the rows of the original that are not judged.
    """

    synthetic: PublishedTable
    people: PublishedTable
    members: Bits
    bystanders: PublishedTable

    def __len__(self) -> int:
        return len(self.people)

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that all tables have."""
        return self.synthetic.names


def draw_game(
    synthetic: PublishedTable,
    original: PublishedTable,
    control: PublishedTable,
    *,
    targets: int | None = None,
    seed: int = 0,
) -> SyntheticGame:
    """The game of these tables, in the columns that all of them have.

    ``targets`` is the most people of each side who are judged; None judges as many as there are. The larger
    side is cut at random, so that both sides have one size.

    >>> table = PublishedTable.of({"age": [34, 51, 34, 70]})
    >>> game = draw_game(table, table, PublishedTable.of({"age": [35, 52, 36]}), targets=2)
    >>> len(game), int(game.members.sum()), len(game.bystanders)
    (4, 2, 2)
    """
    if targets is not None:
        whole("targets", targets, least=2)
    for name, table in (("synthetic", synthetic), ("original", original), ("control", control)):
        require_rows(name, table)
    _require_common(synthetic, original, control)
    stacked = synthetic.below(original).below(control)
    _require_few(len(stacked.names))
    first, second = len(synthetic), len(synthetic) + len(original)
    _warn_of_overlap(stacked.combine(stacked.names)[first:], len(original))
    generator = np.random.default_rng(whole("seed", seed, least=0))
    count = min(len(original), len(control))
    count = count if targets is None else min(count, targets)
    inside = first + generator.permutation(len(original))
    outside = second + generator.permutation(len(control))[:count]
    people = np.concatenate([inside[:count], outside])
    order = generator.permutation(2 * count)
    return SyntheticGame(
        stacked.take(np.arange(first)),
        stacked.take(people[order]),
        np.asarray(order < count),
        stacked.take(np.sort(inside[count:])),
    )


def require_rows(name: str, table: PublishedTable, least: int = 2) -> PublishedTable:
    """A table with enough rows."""
    if len(table) < least:
        raise InvalidArgument(
            f"'{name}' must have at least {least} rows, got {len(table)}. Give the whole table."
        )
    return table


def _require_common(synthetic: PublishedTable, original: PublishedTable, control: PublishedTable) -> None:
    if not any(name in original and name in control for name in synthetic.names):
        raise InvalidArgument(
            "'synthetic', 'original' and 'control' must have a column in common, got none. Rename the "
            "columns so that equal ones have equal names."
        )


def _require_few(columns: int) -> None:
    if columns > MOST_COLUMNS:
        raise InvalidArgument(
            f"'synthetic' must share at most {MOST_COLUMNS:,} columns with the other tables, got "
            f"{columns:,}. Select the columns that an adversary may know."
        )


def _warn_of_overlap(rows: np.ndarray, count: int) -> None:
    """Warn where the control holds rows of the original.

    Equal rows may be two people. Of rows that occur twice among the people of both tables, chance puts the
    two copies on different sides in a known share of cases; a control that was not set aside has more.
    """
    others = len(rows) - count
    distinct, inverse = np.unique(rows, return_inverse=True)
    here = np.bincount(inverse[:count], minlength=len(distinct))
    there = np.bincount(inverse[count:], minlength=len(distinct))
    twice = here + there == 2
    crossed = int((twice & (here == 1)).sum())
    by_chance = 2 * count * others / (len(rows) * (len(rows) - 1))
    if crossed and binom.sf(crossed - 1, int(twice.sum()), by_chance) < _RARE:
        warnings.warn(
            "'control' has more rows in common with the original than chance gives: people who are on both "
            "sides hide what the synthetic table tells. Set the control aside before the generator runs.",
            stacklevel=level_of_caller(),
        )


check_public_calls(__name__)
