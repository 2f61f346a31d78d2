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

from privet.arguments import whole
from privet.attacks.synthetic.game import SyntheticGame, draw_game
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


@final
@dataclass(frozen=True)
class PredicateCounts:
    """How many predicates were asked for and exist, and how many match exactly one row of either side.

    Where fewer exist than were asked for, shares are of those that exist.
    """

    asked: int
    made: int
    original: int
    control: int

    def __str__(self) -> str:
        fewer = "" if self.made == self.asked else f"; {self.asked:,} were asked for, and no more exist"
        return (
            f"{self.original:,} of {self.made:,} predicates match exactly one row of the original, "
            f"{self.control:,} exactly one of a control of the same size{fewer}"
        )


class SingledOut(NamedTuple):
    """What the attack found: each person a hit or a miss, and the counts of predicates."""

    recoveries: Recoveries
    counts: PredicateCounts


class _Matches(NamedTuple):
    """By person: whether a predicate fits nobody else, and how many fit. By predicate: rows on both sides."""

    alone: Bits
    fitting: Labels
    original: Labels
    control: Labels


@final
@dataclass(frozen=True)
class SinglingOut:
    """Looks for predicates that single somebody out.

    *Adversary*: sees the synthetic table and nothing else; wants a description that fits one person.

    ``columns`` = 1 makes univariate predicates, more make multivariate ones of so many columns.
    ``predicates`` is how many are tried; None tries as many as the original has rows, 5,000 at most.

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
        asked = min(len(original), _MOST) if self.predicates is None else self.predicates
        predicates = self._make(TableValues.of(game.synthetic), asked)
        matches = _match(predicates, game)
        recoveries = Recoveries(
            self.name,
            _ADVERSARY,
            "a predicate fits them and nobody else",
            matches.alone,
            game.members,
            confidence=matches.fitting.astype(np.float64),
        )
        one = [int((side == 1).sum()) for side in (matches.original, matches.control)]
        return SingledOut(recoveries, PredicateCounts(asked, len(predicates), *one))

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


_MOST = 5000


def _match(predicates: tuple[Predicate, ...], game: SyntheticGame) -> _Matches:
    people, bystanders = TableValues.of(game.people), TableValues.of(game.bystanders)
    alone = np.zeros(len(game), dtype=np.bool_)
    fitting = np.zeros(len(game), dtype=np.int64)
    sides = np.zeros((2, len(predicates)), dtype=np.int64)
    for place, predicate in enumerate(predicates):
        found = people.match(predicate)
        fitting += found
        inside = int((found & game.members).sum())
        sides[:, place] = inside, int(found.sum()) - inside
        if found.sum() == 1 and not bystanders.match(predicate).any():
            alone |= found
    return _Matches(alone, fitting, sides[0], sides[1])


check_public_calls(__name__)
