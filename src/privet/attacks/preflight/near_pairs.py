"""Whether pairs of records that are very near to each other lie across the sides more often than coins put
them.

Copies of members that are shifted by a pixel, mirrored, brightened or given some noise are not equal to the
originals, and no distance is fixed beforehand below which two records are copies. So records that are each
other's nearest are paired, and the nearest pairs are counted: on a fair challenge a pair lies across the
sides about as often as within one of them, however near it is.
"""

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, logsumexp

from privet.attacks.preflight.false_alarms import LEVEL
from privet.attacks.preflight.features import Features, project_randomly, to_numbers
from privet.attacks.preflight.images import Images, read_images, spectra
from privet.scores import Bits
from privet.views import Numbers, Rows

__all__ = ["PairCount", "count_pairs_across", "log_tail_of_pairs"]

_SIZES = (12, 25, 50, 100, 200, 400, 800)
_DIMENSIONS = 64
_CANDIDATES = 4
_LEAST_UNIT = 0.1
_SHIFT = 2  # pixels
_AT_ONCE = 1000  # records whose distances to all others are held at once

Places = NDArray[np.int64]


@final
@dataclass(frozen=True)
class PairCount:
    """How many of the nearest pairs lie across the sides, and how likely that is on a fair challenge, all
    lists counted.
    """

    pairs: int
    across: int
    p_value: float

    @property
    def significant(self) -> bool:
        """Whether a fair challenge shows so many in less than ``LEVEL`` of cases."""
        return self.p_value <= LEVEL

    @property
    def copies(self) -> int:
        """An estimate of the pairs that coins did not put across: by chance half of them are."""
        return max(0, 2 * self.across - self.pairs)


def count_pairs_across(
    inputs: Rows, groups: NDArray[np.int64], coin: Bits, generator: np.random.Generator
) -> PairCount:
    """The list of nearest pairs that is the most unlikely on a fair challenge.

    Lists have fixed lengths; pairs are ranked by their distance, and by their distance relative to the next
    neighbour's. Images are paired once more by a distance that allows for shifts and mirrors. Equal records
    (equal ``groups``) are no pairs. The records must be in random order.
    """
    rankings = []
    table = project_randomly(_scale(to_numbers(inputs)), generator, _DIMENSIONS)
    if table.shape[1]:
        rankings.append(_nearest_two(*_candidates(table, groups)))
    images = read_images(inputs)
    if images is not None:
        places, _ = _candidates(spectra(images), groups)
        distances = _shifted_distances(images, places)
        distances[~_distinct(places, groups)] = np.inf
        rankings.append(_nearest_two(places, distances))
    return _most_unlikely([list_ for ranking in rankings for list_ in _pair_up(*ranking)], coin)


def log_tail_of_pairs(across: int, pairs: int, members: int, others: int) -> float:
    """ln P[at least ``across`` of ``pairs`` disjoint pairs have one of each side], coins in random order.

    With a pairs of members, b pairs of others and c across, the coins can be arranged in
    pairs!/(a! b! c!) · 2^c · C(rest, members − 2a − c) ways.

    >>> round(float(np.exp(log_tail_of_pairs(2, 2, 2, 2))), 4)  # 4 of the 6 orders
    0.6667
    """
    rest = members + others - 2 * pairs
    terms = []
    for mixed in range(across, pairs + 1):
        both = np.arange(pairs - mixed + 1)  # pairs of members
        left = members - 2 * both - mixed  # members outside of the pairs
        possible = (left >= 0) & (left <= rest)
        both, left = both[possible].astype(np.float64), left[possible].astype(np.float64)
        neither = pairs - mixed - both
        ways = gammaln(pairs + 1) - gammaln(both + 1) - gammaln(neither + 1) - gammaln(mixed + 1)
        ways = ways + mixed * np.log(2) + gammaln(rest + 1) - gammaln(left + 1) - gammaln(rest - left + 1)
        if len(ways):
            terms.append(float(logsumexp(ways)))
    total = members + others
    orders = gammaln(total + 1) - gammaln(members + 1) - gammaln(others + 1)
    return float(min(0.0, logsumexp(terms) - orders)) if terms else -np.inf


def _scale(table: Features) -> Features:
    """Every varying column in units of its deviation, but of no less than a tenth of the usual one: a column
    that only noise moves must not decide who is near.
    """
    spread = table.std(axis=0)
    varies = spread > 1e-6 * np.maximum(1e-30, np.abs(table).max(axis=0))
    if not varies.any():
        return table[:, varies]
    unit = np.maximum(spread[varies], np.float32(_LEAST_UNIT) * np.median(spread[varies]))
    scaled: Features = (table[:, varies] - table[:, varies].mean(axis=0)) / unit
    return scaled


def _candidates(table: Features, groups: NDArray[np.int64]) -> tuple[Places, Numbers]:
    """For each record the nearest others that are not equal to it, and their squared distances."""
    count = len(table)
    kept = min(_CANDIDATES, count - 1)
    squares = np.einsum("ij,ij->i", table, table)
    places = np.zeros((count, kept), dtype=np.int64)
    distances = np.full((count, kept), np.inf)
    for start in range(0, count, _AT_ONCE):
        rows = slice(start, min(start + _AT_ONCE, count))
        block = squares[rows, None] + squares - 2 * (table[rows] @ table.T)
        block[groups[rows, None] == groups] = np.inf
        nearest = np.argpartition(block, kept - 1, axis=1)[:, :kept] if kept < count else np.argsort(block)
        places[rows] = nearest
        distances[rows] = np.maximum(np.take_along_axis(block, nearest, axis=1), 0)
    return places, distances


def _distinct(places: Places, groups: NDArray[np.int64]) -> Bits:
    distinct: Bits = groups[places] != groups[:, None]
    return distinct


def _shifted_distances(images: Images, places: Places) -> Numbers:
    """1 − the largest correlation with each candidate over shifts of some pixels and mirrors, without the
    border."""
    gray = images.mean(axis=3)
    count, height, width = gray.shape
    inner = gray[:, _SHIFT : height - _SHIFT, _SHIFT : width - _SHIFT].reshape(count, -1)
    inner = _normalize(inner)
    best = np.full(places.shape, -1.0)
    for mirror in (gray, gray[:, :, ::-1]):
        for down in range(2 * _SHIFT + 1):
            for across in range(2 * _SHIFT + 1):
                moved = mirror[:, down : height - 2 * _SHIFT + down, across : width - 2 * _SHIFT + across]
                moved = _normalize(moved.reshape(count, -1))
                for column in range(places.shape[1]):
                    alike = np.einsum("ij,ij->i", inner, moved[places[:, column]])
                    np.maximum(best[:, column], alike, out=best[:, column])
    return 1.0 - best


def _normalize(rows: Features) -> Features:
    centred = rows - rows.mean(axis=1, keepdims=True)
    scaled: Features = centred / np.maximum(np.linalg.norm(centred, axis=1, keepdims=True), 1e-12)
    return scaled


def _nearest_two(places: Places, distances: Numbers) -> tuple[Places, Numbers, Numbers]:
    """Each record's nearest, its distance, and that of the next one."""
    order = np.argsort(distances, axis=1, kind="stable")
    places = np.take_along_axis(places, order, axis=1)
    distances = np.take_along_axis(distances, order, axis=1)
    return places[:, 0], distances[:, 0], distances[:, min(1, distances.shape[1] - 1)]


def _pair_up(nearest: Places, distance: Numbers, next_distance: Numbers) -> list[Places]:
    """Records that are each other's nearest, as pairs × 2: by distance, and by distance relative to the next
    neighbour's."""
    first = np.arange(len(nearest))
    mutual = (nearest[nearest] == first) & (first < nearest) & np.isfinite(distance)
    first, second = first[mutual], nearest[mutual]
    pairs = np.stack([first, second], axis=1)
    apart = np.minimum(distance[first], distance[second])
    further = np.maximum(np.minimum(next_distance[first], next_distance[second]), 1e-12)
    return [
        pairs[np.argsort(apart, kind="stable")],
        pairs[np.argsort(apart / further, kind="stable")],
    ]


def _most_unlikely(lists: list[Places], coin: Bits) -> PairCount:
    members, others = int(coin.sum()), int((~coin).sum())
    found = PairCount(0, 0, 1.0)
    tested = []
    for pairs in lists:
        mixed = np.cumsum(coin[pairs[:, 0]] != coin[pairs[:, 1]])
        tested += [(size, int(mixed[size - 1])) for size in _SIZES if size <= len(pairs)]
    for size, across in tested:
        if across > size * 2 * members * others / (members + others) ** 2:
            chance = min(1.0, len(tested) * float(np.exp(log_tail_of_pairs(across, size, members, others))))
            if chance < found.p_value:
                found = PairCount(size, across, chance)
    return found
