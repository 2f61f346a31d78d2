"""ε from the ranks of all scores, where they are independent: nothing is thrown away by guessing yes or no.

Sort all records by their scores, and cut the ranking into some dozens of bins. Each bin has a weight, which
rises with the rank. The statistic S is the sum of the weights of all members, minus the largest sum that so
many members can have, which they have if they all stand above all others. It is at most 0.

*Its law is bounded for every f-DP mechanism.* Let members be independent draws of P', others of Q', each by
a fair coin, and let (P', Q') be a post-processing of a pair (P, Q) with trade-off curve f (Blackwell 1951: it
is one exactly if it is f-DP). Show the auditor the draws z of (P, Q) too. Given all z, the coins are
independent, and heads with probability 1/(1 + exp(−L(z))) for L = ln dP/dQ. Take two records, i ranked above
j, with L(zᵢ) < L(zⱼ), and the coins of all others. Only the cases in which the two coins differ matter; S is
larger if the upper record is the member; and that is likelier once the two change places. So for every s,
P[S ≥ s] does not fall when records are sorted by L. S is stochastically largest for the pair itself,
scored by L. The proof asks nothing of the scale of the scores. It needs that the records are independent.

*That law is simple.* Draws of ½P + ½Q have uniform ranks. Those of the last record of each bin are order
statistics, drawn by gamma gaps. Given these, the coins of the last records have known probabilities, the
other records of a bin are independent, and the number of members among them is binomial. So a run is
simulated in some dozens of numbers, however many records there are. A parameter is refuted if S is above all
but a share 1 − confidence of the simulations (Barnard 1963). Three standard errors are taken off that share,
so that the noise of the simulations does not make the test wrong more often than it says.

*Weights.* ln(members/others) in a bin for the curve that is expected, such as the claim, minus the same for
a curve with four fifths of the parameter: by Neyman & Pearson, no statistic of the coins tells these two
apart better. The weights are fixed before the scores are seen. If the truth is elsewhere, the bound shows
less and still holds.

*Members whose number was fixed* (``draws`` says how this is seen): as many records as a safe number of fair
coins asks for are drawn from both sides, so that the law for coins is exact. It costs about 4/√n of the
records.

Reference: Agrawal, Wei, Singh, Magdon-Ismail & Zikas 2026, "Let's ask Gauss" (aggregated scores of one run
instead of guesses), and Xiang, Wang, Xiao, Tian & Wang 2025 (order statistics). Deviation: the aggregate of
the former is Gaussian in the limit; this one is bounded in finite samples, for any family of curves.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import final

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from privet.arguments import open_fraction, positive, whole
from privet.auditing.audits import Audit, check_delta
from privet.auditing.curves import Curves, FloatArray, GaussianCurves
from privet.auditing.draws import balance_draw
from privet.errors import InvalidArgument
from privet.scores import Bits, Scores
from privet.views import Numbers

__all__ = ["WeightedRanks"]

_Counts = NDArray[np.int64]
_FEWEST = 8  # records
_FEWEST_FOR_BINS = 48  # records; with fewer, outer bins of one record each would leave nothing to see
_MOST_BINS = 48
_RECORDS_PER_BIN = 12
_SMALLEST = 1e-3  # the first parameter of the grid
_RATIO = 1.005  # of two neighbours on the grid
_NEXT = 0.8  # of the expected parameter: the curve that the weights tell from it
_SIMULATIONS = 20_000
_FEW_SIMULATIONS = 1_000
_SEED = 20260610  # of the simulations; fixed, so that equal scores have equal bounds
_POINTS = ndtr(np.linspace(-9, 9, 6001))  # shares of others, at which a curve is tabulated
_LEAST = 1e-9  # share of members or others in a bin, for its weight


@final
@dataclass(frozen=True)
class WeightedRanks(Audit):
    """The bound from a weighted sum over the ranks, over a family of curves.

    ``expected`` is the parameter of the family for which the weights are best; give that of the claim: 1/σ
    for ``SampledGaussianCurves``, μ for ``GaussianCurves``.

    Guarantee: it exceeds the true ε in at most 1 − ``confidence`` of all audits if the scores are independent
    of each other, and the trade-off curve of each is in the family. Independent are canaries that do not
    interfere (``OrderStatistic`` says when), and separate runs.
    """

    confidence: float = 0.95
    curves: Curves = field(default_factory=GaussianCurves)
    expected: float = 1.0

    title = "Weighted ranks of all scores"
    reference = "Agrawal et al. 2026; Xiang et al. 2025"

    def __post_init__(self) -> None:
        open_fraction("confidence", self.confidence)
        if positive("expected", self.expected) > self.curves.largest:
            raise InvalidArgument(
                f"'expected' must be at most {self.curves.largest:g} for these curves, got "
                f"{self.expected!r}. Give the parameter of the claim."
            )

    @property
    def assumes(self) -> str:
        return (
            "The scores are independent, from canaries that do not interfere or from separate runs; "
            f"{self.curves.shape}."
        )

    def epsilon(self, scores: Scores, *, delta: float) -> float:
        check_delta(delta)
        draw = balance_draw(scores)
        values, members = draw.values, draw.members
        if draw.halved:
            values, members = _draw_by_coins(values, members)
        _require_some(len(values))
        # Among records with equal scores members stand below others: no way to break the tie gives less.
        ranked = members[np.lexsort((~members, values))]
        edges = _edges(len(ranked))
        sums = np.append(0, np.cumsum(ranked))
        return self._largest(np.diff(sums[np.concatenate([[0], edges, [len(ranked)]])]), len(ranked), delta)

    def ceiling(self, members: int, others: int, *, delta: float) -> float:
        check_delta(delta)
        records = whole("members", members) + whole("others", others)
        if members == others:
            records = _coins_for(members)
        _require_some(records)
        return self._largest(np.zeros_like(_sizes(records)), records, delta)

    def _largest(self, counts: _Counts, records: int, delta: float) -> float:
        """ε of the largest parameter on the grid that so many members in the bins refute, or 0."""
        weights = _weights(self.curves, self.expected, records)
        statistic = float(_statistic(counts[None, :], weights, _sizes(records))[0])

        def is_refuted(index: int, simulations: int = _SIMULATIONS) -> bool:
            level = 1 - self.confidence
            return statistic > _limit(
                self.curves, _parameter(index), self.expected, records, level, simulations
            )

        end = int(math.log(self.curves.largest / _SMALLEST) / math.log(_RATIO)) + 1
        start = _find_last_refuted(
            lambda index: is_refuted(index, _FEW_SIMULATIONS), -1, end
        )  # only where to look
        reach = 1
        while start >= 0 and not is_refuted(start):
            start, end, reach = max(start - reach, -1), start, 2 * reach
        reach, high = 1, min(start + 1, end)
        while high < end and is_refuted(high):
            start, high, reach = high, min(high + reach, end), 2 * reach
        largest = _find_last_refuted(is_refuted, start, high)
        return 0.0 if largest < 0 else self.curves.epsilon(_parameter(largest), delta)


def _require_some(records: int) -> None:
    if records < _FEWEST:
        raise InvalidArgument(
            f"'scores' must have at least {_FEWEST} records of both sides together, got fewer. Give more."
        )


def _parameter(index: int) -> float:
    return float(_SMALLEST * _RATIO**index)


def _find_last_refuted(refuted: Callable[[int], bool], low: int, high: int) -> int:
    """The last index that is refuted, where ``low`` is (or is −1) and ``high`` is not."""
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if refuted(middle) else (low, middle)
    return low


def _coins_for(side: int) -> int:
    """How many fair coins surely ask for no more than ``side`` records of either side: at four deviations."""
    return max(int((math.sqrt(2 * side + 4) - 2) ** 2), 0)


def _draw_by_coins(values: Numbers, members: Bits) -> tuple[Numbers, Bits]:
    """Records of both sides as fair coins ask for them; all of a side where they ask for more."""
    generator = np.random.default_rng(_SEED + 2)
    inside, outside = np.flatnonzero(members), np.flatnonzero(~members)
    wanted = _coins_for(len(inside))
    heads = int(generator.binomial(wanted, 0.5))
    chosen = np.concatenate(
        [generator.permutation(side)[:count] for side, count in ((inside, heads), (outside, wanted - heads))]
    )
    return values[chosen], members[chosen]


@lru_cache(maxsize=64)
def _edges(records: int) -> _Counts:
    """The ranks of the last records of all bins but the highest.

    They are close together at both ends, where one record tells most.
    """
    bins = min(records // _RECORDS_PER_BIN, _MOST_BINS) if records >= _FEWEST_FOR_BINS else 2
    far = float(-ndtri(2 / (records + 1)))
    shares = ndtr(np.linspace(-far, far, bins - 1)) if bins > 2 else np.array([0.5])
    ranks = np.clip(np.round(shares * (records + 1)), 1, records - 1)
    return np.unique(ranks.astype(np.int64))


def _sizes(records: int) -> _Counts:
    """How many records each bin has."""
    return np.diff(_edges(records), prepend=0, append=records)


def _statistic(counts: _Counts, weights: FloatArray, sizes: _Counts) -> FloatArray:
    """S of each row of members in the bins."""
    best = np.append(0.0, np.cumsum((weights * sizes)[::-1]))
    members = np.append(0, np.cumsum(sizes[::-1]))
    return np.asarray(counts @ weights - np.interp(counts.sum(axis=1), members, best))


@lru_cache(maxsize=64)
def _weights(curves: Curves, expected: float, records: int) -> FloatArray:
    """The difference of ln(members/others) of the two curves in each bin, never falling with the rank."""
    shares = np.concatenate([[0.0], _edges(records) / (records + 1), [1.0]])

    def log_odds(parameter: float) -> FloatArray:
        share = np.diff(_members_by_rank(curves, parameter, shares)) / np.diff(shares)
        share = np.clip(share, _LEAST, 1 - _LEAST)
        return np.asarray(np.log(share) - np.log1p(-share))

    return np.maximum.accumulate(log_odds(expected) - log_odds(_NEXT * expected))


def _members_by_rank(curves: Curves, parameter: float, shares: FloatArray) -> FloatArray:
    """Of all records, half of which are members: the share that are members and in the lowest ``shares``."""
    ranks, inside = _tabulate(curves, parameter)
    return np.interp(shares, ranks, inside)


def _members_at_rank(curves: Curves, parameter: float, shares: FloatArray) -> FloatArray:
    """The probability that a record is a member whose rank is this share of all."""
    ranks, inside = _tabulate(curves, parameter)
    cells = np.clip(np.searchsorted(ranks, shares, side="right"), 1, len(ranks) - 1)
    slopes = np.append(0.0, np.diff(inside) / np.maximum(np.diff(ranks), 1e-300))
    return np.asarray(np.clip(slopes, 0.0, 1.0)[cells])


@lru_cache(maxsize=16)
def _tabulate(curves: Curves, parameter: float) -> tuple[FloatArray, FloatArray]:
    others = np.concatenate([[0.0], _POINTS, [1.0]])
    inside = np.append(np.clip(curves.members_below(parameter, others[:-1]), 0.0, 1.0), 1.0)
    inside[0] = 0.0
    inside = np.maximum.accumulate(inside)
    return (others + inside) / 2, inside / 2


@lru_cache(maxsize=4096)
def _limit(
    curves: Curves, parameter: float, expected: float, records: int, level: float, simulations: int
) -> float:
    """The value that S exceeds with a probability of at most ``level``, if the parameter is the true one."""
    simulations = max(simulations, math.ceil(30 / level))
    drawn, generator = _draw_edges(records, simulations), np.random.default_rng(_SEED + 1)
    sizes = _sizes(records)
    inside = np.diff(_members_by_rank(curves, parameter, drawn), axis=1)
    shares = np.clip(inside / np.maximum(np.diff(drawn, axis=1), 1e-300), 0.0, 1.0)
    last = np.append(np.ones(len(sizes) - 1, dtype=np.int64), 0)  # the highest bin has no last record
    members = generator.binomial(sizes - last, shares)
    coins = generator.random((simulations, len(sizes) - 1))
    members[:, :-1] += coins < _members_at_rank(curves, parameter, drawn[:, 1:-1])
    sums = np.sort(_statistic(members, _weights(curves, expected, records), sizes))
    above = math.floor(level * simulations - 3 * math.sqrt(level * simulations))
    return float(sums[-max(above, 1)])


@lru_cache(maxsize=4)
def _draw_edges(records: int, simulations: int) -> FloatArray:
    """The ranks, as shares, of the last records of the bins in each simulation, from 0 to 1."""
    gaps = np.diff(_edges(records), prepend=0, append=records + 1)
    sums = np.cumsum(np.random.default_rng(_SEED).standard_gamma(gaps, (simulations, len(gaps))), axis=1)
    shares = np.clip(sums / sums[:, -1:], 0.0, 1.0)
    return np.concatenate([np.zeros((simulations, 1)), shares], axis=1)
