"""Linkability: two parts of a person's row that lie in different places, joined through the synthetic table.

Somebody holds the columns A of a person, somebody else the columns B. If the synthetic rows that are nearest
by A and those that are nearest by B have a row in common, the two parts are said to belong together.

*What is a hit.* The two parts of a person have a nearest row in common. It is the same event for people of
the original and of the control, a function of the synthetic table and of the person, so the ceiling of a
claim holds. Rows that are equally near count all: in tables of few values the nearest row is one of many, and
to take any one of them would be a guess. The attack is surer, the fewer rows are that near.

*Reference*: Giomi et al. 2022, section 4.2. Deviation: equally near rows count all, where the published code
takes the first ones.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from privet.arguments import whole
from privet.attacks.synthetic.game import SyntheticGame, draw_game
from privet.attacks.synthetic.gower import distance_blocks
from privet.errors import InvalidArgument
from privet.public_calls import check_public_calls
from privet.published_tables import PublishedTable
from privet.recoveries import Recoveries
from privet.scores import Bits
from privet.views import Adversary, Numbers

__all__ = ["Linkability"]


@final
@dataclass(frozen=True)
class Linkability:
    """Links two sets of columns through the nearest synthetic rows.

    *Adversary*: sees the synthetic table; knows two parts of each person's row; wants to know whether the
    parts belong to one person.

    ``first`` and ``second`` are the two sets; None takes every other column. ``neighbors`` is how many
    nearest rows count on each side, besides those that are equally near.
    """

    first: Sequence[str] | None = None
    second: Sequence[str] | None = None
    neighbors: int = 1
    targets: int = 2000
    seed: int = 0

    def __post_init__(self) -> None:
        whole("neighbors", self.neighbors)
        if (self.first is None) != (self.second is None):
            raise InvalidArgument(
                "'first' and 'second' must be given together, got one of them. Name the columns "
                "of both parts."
            )

    @property
    def name(self) -> str:
        """What a report calls it."""
        return "linkability"

    def run(self, synthetic: PublishedTable, original: PublishedTable, control: PublishedTable) -> Recoveries:
        """Try to link the two parts of every person."""
        game = draw_game(synthetic, original, control, targets=self.targets, seed=self.seed)
        first, second = self._parts(game)
        linked, sure = self._link(game.people, game.synthetic, first, second)
        adversary = Adversary(
            sees="the synthetic table",
            knows=f"{_list(first)} of a person in one place, and {_list(second)} in another",
            wants="whether the two parts are one person's",
        )
        return Recoveries(
            self.name,
            adversary,
            "both parts have a nearest row in common",
            linked,
            game.members,
            confidence=sure,
        )

    def _parts(self, game: SyntheticGame) -> tuple[tuple[str, ...], tuple[str, ...]]:
        names = game.names
        first = names[::2] if self.first is None else tuple(self.first)
        second = names[1::2] if self.second is None else tuple(self.second)
        unknown = [name for name in (*first, *second) if name not in names]
        if not first or not second or set(first) & set(second) or unknown:
            raise InvalidArgument(
                "'first' and 'second' must be two sets of columns of the tables without a common one, got "
                "something else. Give two lists of names; a table of one column has no two parts."
            )
        return first, second

    def _link(
        self, people: PublishedTable, synthetic: PublishedTable, first: Sequence[str], second: Sequence[str]
    ) -> tuple[Bits, Numbers]:
        linked = np.zeros(len(people), dtype=np.bool_)
        sure = np.zeros(len(people))
        pairs = zip(
            distance_blocks(people, synthetic, first),
            distance_blocks(people, synthetic, second),
            strict=True,
        )
        for one, other in pairs:
            near = self._near(one.distances), self._near(other.distances)
            here = slice(one.start, one.start + len(one.distances))
            linked[here] = (near[0] & near[1]).any(axis=1)
            sure[here] = 1.0 / np.minimum(near[0].sum(axis=1), near[1].sum(axis=1))
        return linked, sure

    def _near(self, distances: np.ndarray) -> Bits:
        """The nearest rows, with all that are as near as the last of them."""
        count = min(self.neighbors, distances.shape[1])
        if count == 1:
            limit = distances.min(axis=1, keepdims=True)
        else:
            limit = np.partition(distances, count - 1, axis=1)[:, count - 1 : count]
        near: Bits = distances <= limit
        return near


def _list(names: Sequence[str]) -> str:
    shown = ", ".join(names[:4])
    return shown if len(names) <= 4 else f"{shown} and {len(names) - 4} more columns"


check_public_calls(__name__)
