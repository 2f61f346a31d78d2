"""Nearest records: are synthetic rows nearer to the people they were made from than to other people?

The usual figure, the distance of synthetic rows to the closest record (DCR), says nothing alone: in a small
domain every row is near to somebody. The honest comparison is with a control of the same size. For each
synthetic row the nearest of all people, of both sides, is looked up. Had the generator seen neither side,
that person would be of the original in half of the cases.

*The test.* Several synthetic rows may have the same nearest person, so the rows are no independent coins.
The people are: given who is nearest to what, chance only decides which people were in the original. So the
p-value comes from exchanging the coins of people, and is exact up to the number of exchanges.

*What is a hit.* A person is among the ``closest`` share of all people by the distance to the nearest
synthetic row. Everybody who is as near as the last of them also counts. For ``ExactCopies`` a person is hit
if a synthetic row equals theirs in every column. Both events do not say who was in the original, so the
ceiling of a claim holds (``game``).

*Reference*: Yao et al. 2025, "The DCR delusion": distances alone miss much, so this stands beside other
attacks; Platzer & Reutterer 2021 for the comparison with a holdout of the same size.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from privet.arguments import fraction, whole
from privet.attacks.synthetic.game import SyntheticGame, draw_game
from privet.attacks.synthetic.gower import distance_blocks
from privet.public_calls import check_public_calls
from privet.published_tables import PublishedTable
from privet.recoveries import Recoveries
from privet.scores import Bits
from privet.views import Adversary, Numbers

__all__ = ["ExactCopies", "NearestDistances", "NearestFound", "NearestRecord", "find_closest"]

_ADVERSARY = Adversary(
    sees="the synthetic table",
    knows="the rows of people, without who was in the original",
    wants="whose row a synthetic row was made from",
)
_EXCHANGES = 999  # of coins, for the p-value


@final
@dataclass(frozen=True)
class NearestDistances:
    """Distances of synthetic rows to the nearest person of each side, both sides of one size.

    ``share_nearer`` is the share of synthetic rows whose nearest person is of the original, where rows with
    nearest people on both sides count in part; ½ is chance. ``p_value`` is one-sided, for so large a share.
    """

    synthetic_rows: int
    people_of_each_side: int
    median_to_original: float
    median_to_control: float
    share_nearer: float
    p_value: float

    def __str__(self) -> str:
        return (
            f"{self.share_nearer:.1%} of {self.synthetic_rows:,} synthetic rows are nearer to one of "
            f"{self.people_of_each_side:,} rows of the original than to a control of the same size "
            f"(p = {self.p_value:.2g}); median distance {self.median_to_original:.4g} against "
            f"{self.median_to_control:.4g}"
        )


class NearestFound(NamedTuple):
    """What the attack found: each person a hit or a miss, and the distances."""

    recoveries: Recoveries
    distances: NearestDistances


class _SideDistances(NamedTuple):
    """By synthetic row: the distances to the nearest person of each side. By person: of how many rows they
    are the nearest of all, where rows that have several share themselves out.
    """

    to_original: Numbers
    to_control: Numbers
    weights: Numbers


@final
@dataclass(frozen=True)
class NearestRecord:
    """Names the people who are nearest to synthetic rows.

    *Adversary*: sees the synthetic table; knows the rows of people; wants to know whose row a synthetic row
    was made from.
    """

    closest: float = 0.05
    targets: int = 2000
    seed: int = 0

    name = "nearest records"

    def __post_init__(self) -> None:
        fraction("closest", self.closest)
        whole("seed", self.seed, least=0)

    def run(self, synthetic: PublishedTable, original: PublishedTable, control: PublishedTable) -> Recoveries:
        """Judge people of both sides by their distance to the nearest synthetic row."""
        return self.run_with_distances(synthetic, original, control).recoveries

    def run_with_distances(
        self, synthetic: PublishedTable, original: PublishedTable, control: PublishedTable
    ) -> NearestFound:
        """The same, with the distances in the other direction, from synthetic rows to people."""
        game = draw_game(synthetic, original, control, targets=self.targets, seed=self.seed)
        of_people, of_rows = _find_nearest(game.people, game.synthetic, game.names)
        recoveries = Recoveries(
            self.name,
            _ADVERSARY,
            f"among the {self.closest:.0%} of people nearest to a synthetic row",
            find_closest(of_people, self.closest),
            game.members,
            distances=of_people,
            confidence=_measure_clearness(of_people),
        )
        return NearestFound(recoveries, self._measure_distances(game, of_rows))

    def _measure_distances(self, game: SyntheticGame, of_rows: NDArray[np.float32]) -> NearestDistances:
        sides = _compare_sides(game, of_rows)
        rows = len(game.synthetic)
        share = float(sides.weights[game.members].sum()) / rows
        generator = np.random.default_rng(self.seed)
        exchanged = [
            sides.weights[generator.permutation(game.members)].sum() / rows for _ in range(_EXCHANGES)
        ]
        as_large = int((np.array(exchanged) >= share - 1e-12).sum())
        return NearestDistances(
            rows,
            len(game) // 2,
            float(np.median(sides.to_original)),
            float(np.median(sides.to_control)),
            share,
            (as_large + 1) / (_EXCHANGES + 1),
        )


def find_closest(distances: Numbers, share: float) -> Bits:
    """Which entries are among this share of the smallest, with all that are equal to the last of them."""
    place = max(int(np.ceil(share * len(distances))), 1) - 1
    closest: Bits = distances <= np.partition(distances, place)[place]
    return closest


def _measure_clearness(distances: Numbers) -> Numbers:
    """How far a distance is from the middle: of hits the nearest are surest, of misses the farthest."""
    return np.abs(distances - np.median(distances))


def _find_nearest(
    people: PublishedTable, synthetic: PublishedTable, names: Sequence[str]
) -> tuple[Numbers, NDArray[np.float32]]:
    """The distance of each person to the nearest synthetic row, and of each row to the nearest person."""
    of_people = np.empty(len(people))
    of_rows = np.full(len(synthetic), np.inf, dtype=np.float32)
    for start, block in distance_blocks(people, synthetic, names):
        of_people[start : start + len(block)] = block.min(axis=1)
        np.minimum(of_rows, block.min(axis=0), out=of_rows)
    return of_people, of_rows


def _compare_sides(game: SyntheticGame, nearest: NDArray[np.float32]) -> _SideDistances:
    """What is measured with the coins, after the attack; ``nearest`` is how far each row is from anybody."""
    rows = len(game.synthetic)
    to_sides = np.full((2, rows), np.inf, dtype=np.float32)
    ties, sets = np.zeros(rows), []
    for start, block in distance_blocks(game.people, game.synthetic, game.names):
        coins = game.members[start : start + len(block)]
        for side, chosen in enumerate((coins, ~coins)):
            if chosen.any():
                np.minimum(to_sides[side], block[chosen].min(axis=0), out=to_sides[side])
        is_nearest = block == nearest
        ties += is_nearest.sum(axis=0)
        sets.append(np.packbits(is_nearest, axis=1))  # one bit for each pair
    weights = np.concatenate([np.unpackbits(bits, axis=1, count=rows) @ (1.0 / ties) for bits in sets])
    return _SideDistances(to_sides[0].astype(np.float64), to_sides[1].astype(np.float64), weights)


@final
@dataclass(frozen=True)
class ExactCopies:
    """Looks for people whose whole row is in the synthetic table.

    *Adversary*: sees the synthetic table; knows the rows of people; wants to know whose row was copied. In a
    small domain rows are equal by chance; the control says how often.

    >>> table = PublishedTable.of({"age": [30, 41, 52], "zip": ["a", "b", "c"]})
    >>> others = PublishedTable.of({"age": [30, 42, 51], "zip": ["b", "b", "c"]})
    >>> ExactCopies().run(table, table, others)
    Recoveries('exact copies', 3 of 3 in the data hit, 0 of 3 left out)
    """

    seed: int = 0

    name = "exact copies"

    def run(self, synthetic: PublishedTable, original: PublishedTable, control: PublishedTable) -> Recoveries:
        """Judge every person of the smaller side, and as many of the other."""
        game = draw_game(synthetic, original, control, seed=self.seed)
        codes = game.synthetic.below(game.people).combine(game.names)
        rows = len(game.synthetic)
        distinct, inverse, counts = np.unique(codes, return_inverse=True, return_counts=True)
        published: NDArray[np.bool_] = np.zeros(len(distinct), dtype=np.bool_)
        published[inverse[:rows]] = True
        return Recoveries(
            self.name,
            _ADVERSARY,
            "a synthetic row equals theirs in every column",
            published[inverse[rows:]],
            game.members,
            confidence=1.0 / counts[inverse[rows:]],
        )


check_public_calls(__name__)
