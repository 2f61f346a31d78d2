"""Singling out: descriptions, made from the synthetic table alone, that fit exactly one person.

*What is a hit.* A person is singled out if one of the predicates matches them and nobody else, among all
rows of the original and the people of the control. The control belongs to "nobody else" on purpose: then the
event does not say who was in the original, and the ceiling of a claim holds (``game``). A predicate of tiny
weight, which is what copies give, loses nothing by that.

``PredicateCounts`` holds the figures that are usual for predicates: how many match exactly one row of the
original, and how many match exactly one row of a control of the same size. They are shown, and no bound on ε
is drawn from them.
"""

from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from privet.arguments import whole
from privet.attacks.synthetic.game import draw_game
from privet.attacks.synthetic.predicates import Predicate, TableValues, make_multivariate, make_univariate
from privet.errors import InvalidArgument
from privet.public_calls import check_public_calls
from privet.published_tables import PublishedTable
from privet.recoveries import Recoveries
from privet.scores import Bits
from privet.views import Adversary, Labels

__all__ = ["PredicateCounts", "SingledOut", "SinglingOut"]

_ADVERSARY = Adversary(
    sees="the synthetic table",
    knows="nothing else; who is described is looked up afterwards",
    wants="a description that fits exactly one person",
)
_MOST, _LEAST, _MOST_ROWS = 5000, 100, 10**8  # predicates, and rows that all of them are compared with


@final
@dataclass(frozen=True)
class PredicateCounts:
    """How many predicates were asked for and found, and how many match exactly one row of either side.

    Where fewer were found than were asked for, shares are of those that were found.
    """

    asked: int
    made: int
    original: int
    control: int

    def __str__(self) -> str:
        fewer = "" if self.made == self.asked else f"; {self.asked:,} were asked for, and no more were found"
        return (
            f"{self.original:,} of {self.made:,} predicates match exactly one row of the original, "
            f"{self.control:,} exactly one of a control of the same size{fewer}"
        )


class SingledOut(NamedTuple):
    """What the attack found: each person a hit or a miss, and the counts of predicates."""

    recoveries: Recoveries
    counts: PredicateCounts


class _PredicateMatches(NamedTuple):
    """By person: whether a predicate fits nobody else, and how many fit. By predicate: the people it fits."""

    alone: Bits
    fitting: Labels
    people: list[NDArray[np.intp]]


@final
@dataclass(frozen=True)
class SinglingOut:
    """Looks for predicates that single somebody out.

    *Adversary*: sees the synthetic table and nothing else; wants a description that fits one person.

    ``columns`` = 1 makes univariate predicates, more make multivariate ones of so many columns.
    ``predicates`` is how many are tried; None tries as many as the original has rows, 5,000 at most, and
    fewer for tables of more than 20,000 rows.

    >>> ages = PublishedTable.of({"age": np.arange(40) ** 2})
    >>> others = PublishedTable.of({"age": np.arange(40) ** 2 + 1})
    >>> SinglingOut(predicates=100).run_with_counts(ages, ages, others).counts
    PredicateCounts(asked=100, made=42, original=42, control=2)
    """

    columns: int = 1
    predicates: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        whole("columns", self.columns)
        whole("seed", self.seed, least=0)
        if self.predicates is not None:
            whole("predicates", self.predicates)

    @property
    def name(self) -> str:
        """What a report calls it."""
        return f"singling out, {'one column' if self.columns == 1 else f'{self.columns} columns'}"

    def run(self, synthetic: PublishedTable, original: PublishedTable, control: PublishedTable) -> Recoveries:
        """Judge every person of the smaller side, and as many of the other."""
        return self.run_with_counts(synthetic, original, control).recoveries

    def run_with_counts(
        self, synthetic: PublishedTable, original: PublishedTable, control: PublishedTable
    ) -> SingledOut:
        """The same, with the counts of predicates."""
        game = draw_game(synthetic, original, control, seed=self.seed)
        asked = _choose_count(len(original)) if self.predicates is None else self.predicates
        predicates = self._make(TableValues.of(game.synthetic), asked)
        matches = _match(predicates, TableValues.of(game.people), TableValues.of(game.bystanders))
        recoveries = Recoveries(
            self.name,
            _ADVERSARY,
            "a predicate fits them and nobody else",
            matches.alone,
            game.members,
            confidence=matches.fitting.astype(np.float64),
        )
        inside = np.array([int(game.members[found].sum()) for found in matches.people], dtype=np.int64)
        total = np.array([len(found) for found in matches.people], dtype=np.int64)
        one_inside, one_outside = int((inside == 1).sum()), int((total - inside == 1).sum())
        return SingledOut(recoveries, PredicateCounts(asked, len(predicates), one_inside, one_outside))

    def _make(self, synthetic: TableValues, asked: int) -> tuple[Predicate, ...]:
        generator = np.random.default_rng(self.seed)
        if self.columns == 1:
            return make_univariate(synthetic, asked, generator)
        if self.columns > len(synthetic.table.names):
            raise InvalidArgument(
                f"'columns' must be at most the {len(synthetic.table.names)} columns that the tables share, "
                f"got {self.columns}. Ask for fewer."
            )
        return make_multivariate(synthetic, asked, self.columns, generator)


def _choose_count(rows: int) -> int:
    """As many predicates as rows, within what is looked at in seconds."""
    return min(rows, _MOST, max(_LEAST, _MOST_ROWS // rows))


def _match(
    predicates: tuple[Predicate, ...], people: TableValues, bystanders: TableValues
) -> _PredicateMatches:
    """Look up whom the predicates fit. The coins are not among the arguments."""
    alone = np.zeros(len(people.table), dtype=np.bool_)
    fitting = np.zeros(len(people.table), dtype=np.int64)
    places = []
    for predicate in predicates:
        found = np.flatnonzero(people.match(predicate))
        places.append(found)
        fitting[found] += 1
        if len(found) == 1 and not bystanders.match(predicate).any():
            alone[found] = True
    return _PredicateMatches(alone, fitting, places)


check_public_calls(__name__)
