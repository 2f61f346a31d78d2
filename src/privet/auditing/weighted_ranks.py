"""ε from the ranks of all scores, where they are independent: nothing is thrown away by guessing yes or no.

Sort the scores of the others. Each member falls into one of the gaps, or rather into one of some dozens of
bins between order statistics of the others, and gets the weight of its bin: more in a higher bin. The
statistic S is the sum of the weights.

*Its law is bounded for every f-DP mechanism.* Let members be independent draws of P', others of Q', and let
(P', Q') be a post-processing of a pair (P, Q) with trade-off curve f (Blackwell 1951: it is one exactly if it
is f-DP). Show the auditor the draws z of (P, Q) too. Given all z without their coins, and the number of
members, the coins have probability proportional to exp(Σ of L(z) over members), L = ln dP/dQ. Take two
records i above j in the ranking, with L(zᵢ) < L(zⱼ), and the coins of all others. Only the cases in which one
of the two is a member differ; S is larger if the upper one is; and that is likelier once the two change
places. So P[S ≥ s] does not fall when records are sorted by L, for every s: S is stochastically largest for
the pair itself, scored by L. The proof asks nothing of the scale of the scores, of the number of members or
of the coins, except that records are independent of each other.

*That law is simple.* Others that are draws of Q have uniform ranks under Q; of these, the order statistics
that bound the bins are drawn from gamma gaps. Given them, the numbers of members in the bins are multinomial,
with the increments of f for probabilities. So each run is simulated in a few dozen numbers, however many
records there are, and a parameter is refuted if S is above all but a share (1 − confidence) of the
simulations (Barnard 1963). Three standard errors are taken off that share, so that the noise of the
simulations does not make the test wrong more often than it says.

The weights are those of the Neyman–Pearson test at one member of the family, ``expected``, such as the
claim: the log of the ratio of members to others in each bin. It is fixed before the scores are seen. If it is
far from the truth, the bound shows less and still holds.

Reference: Agrawal, Wei, Singh, Magdon-Ismail & Zikas 2026, "Let's ask Gauss" (aggregated scores of one run
instead of guesses), and Xiang et al. 2025 (order statistics). Deviation: their aggregate is Gaussian in the
limit; this one has a bound in finite samples, for any family of curves.
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
from privet.errors import InvalidArgument
from privet.scores import Scores

__all__ = ["WeightedRanks"]

_MOST_BINS = 48
_RECORDS_PER_BIN = 8
_SMALLEST = 1e-3  # the first parameter of the grid
_RATIO = 1.005  # of two neighbours on the grid
_SIMULATIONS = 20_000
_FEW_SIMULATIONS = 1_000
_SEED = 20260610  # of the simulations; fixed, so that equal scores have equal bounds


@final
@dataclass(frozen=True)
class WeightedRanks(Audit):
    """The bound from a weighted sum of ranks, over a family of curves.

    ``expected`` is the parameter of the family for which the weights are best; give that of the claim. 1/σ
    for ``SampledGaussianCurves``, μ for ``GaussianCurves``.

    Guarantee: it exceeds the true ε in at most 1 − ``confidence`` of all audits if the scores are independent
    of each other, and the trade-off curve of each is that of a member of the family or lies above it. That
    holds for canaries that do not interfere (``OrderStatistic`` says when), and for separate runs.
    """

    confidence: float = 0.95
    curves: Curves = field(default_factory=GaussianCurves)
    expected: float = 1.0

    title = "Weighted ranks of all scores"
    reference = "Agrawal, Wei, Singh, Magdon-Ismail & Zikas 2026; Xiang, Wang, Xiao, Tian & Wang 2025"

    def __post_init__(self) -> None:
        open_fraction("confidence", self.confidence)
        if positive("expected", self.expected) > self.curves.largest:
            raise InvalidArgument(
                f"'expected' must be at most {self.curves.largest:g} for these curves, got {self.expected!r}. "
                "Give the parameter of the claim."
            )

    @property
    def assumes(self) -> str:
        return (
            "The scores are independent, from canaries that do not interfere or from separate runs; "
            f"{self.curves.shape}."
        )

    def epsilon(self, scores: Scores, *, delta: float) -> float:
        check_delta(delta)
        values, members = scores.values, scores.members
        others = np.sort(values[~members])
        edges = _edges(len(others))
        # A member that ties with others counts as below them: no way to break the tie gives it less.
        places = np.searchsorted(others, values[members], side="left")
        counts = np.bincount(np.searchsorted(edges, places, side="right"), minlength=len(edges) + 1)
        return self._largest(counts, int(members.sum()), len(others), delta)

    def ceiling(self, members: int, others: int, *, delta: float) -> float:
        check_delta(delta)
        counts = np.zeros(len(_edges(whole("others", others))) + 1, dtype=np.int64)
        counts[-1] = whole("members", members)
        return self._largest(counts, members, others, delta)

    def _largest(self, counts: NDArray[np.int64], members: int, others: int, delta: float) -> float:
        """ε of the largest parameter on the grid that is refuted, 0 if the first is not."""
        if others < 2:
            raise InvalidArgument(
                "'members' must leave at least two others to rank members among, got fewer. Give more scores."
            )
        weights = _weights(self.curves, self.expected, others)
        statistic = float(weights @ counts)

        def refuted(index: int, simulations: int = _SIMULATIONS) -> bool:
            parameter, level = _parameter(index), 1 - self.confidence
            return statistic > _limit(
                self.curves, parameter, self.expected, members, others, level, simulations
            )

        end = int(math.log(self.curves.largest / _SMALLEST) / math.log(_RATIO)) + 1
        start = _last_refuted(lambda index: refuted(index, _FEW_SIMULATIONS), -1, end)  # only where to look
        reach = 1
        while (start >= 0) and not refuted(start):
            start, end, reach = max(start - reach, -1), start, 2 * reach
        reach, high = 1, min(start + 1, end)
        while high < end and refuted(high):
            start, high, reach = high, min(high + reach, end), 2 * reach
        largest = _last_refuted(refuted, start, high)
        return 0.0 if largest < 0 else self.curves.epsilon(_parameter(largest), delta)


def _parameter(index: int) -> float:
    return float(_SMALLEST * _RATIO**index)


def _last_refuted(refuted: Callable[[int], bool], low: int, high: int) -> int:
    """The last index that is refuted, where ``low`` is (or is −1) and ``high`` is not."""
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if refuted(middle) else (low, middle)
    return low


@lru_cache(maxsize=64)
def _edges(others: int) -> NDArray[np.int64]:
    """The ranks of others that bound the bins: close together at both ends, where one record tells most."""
    bins = min(max(others // _RECORDS_PER_BIN, 2), _MOST_BINS)
    far = float(-ndtri(1 / (others + 1)))
    shares = ndtr(np.linspace(-far, far, bins - 1)) if bins > 2 else np.array([0.5])
    ranks = np.clip(np.round(shares * (others + 1)), 1, others)
    return np.unique(ranks.astype(np.int64))


@lru_cache(maxsize=64)
def _weights(curves: Curves, expected: float, others: int) -> FloatArray:
    """ln(share of members/share of others) in each bin at the expected parameter, never falling."""
    shares = np.concatenate([[0.0], _edges(others) / (others + 1), [1.0]])
    inside = np.diff(curves.members_below(expected, shares))
    least = 1e-12
    return np.maximum.accumulate(np.log(np.maximum(inside, least)) - np.log(np.diff(shares)))


@lru_cache(maxsize=4096)
def _limit(
    curves: Curves,
    parameter: float,
    expected: float,
    members: int,
    others: int,
    level: float,
    simulations: int,
) -> float:
    """The value that S exceeds with a probability of at most ``level``, if the parameter is the true one."""
    simulations = max(simulations, math.ceil(30 / level))
    weights = _weights(curves, expected, others)
    below = np.clip(curves.members_below(parameter, _drawn_edges(others, simulations)), 0.0, 1.0)
    probabilities = np.diff(below, axis=1, prepend=0.0, append=1.0)
    probabilities = np.maximum(probabilities, 0.0)
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    generator = np.random.default_rng(_SEED + 1)
    drawn = np.sort(generator.multinomial(members, probabilities) @ weights)
    above = math.floor(level * simulations - 3 * math.sqrt(level * simulations))
    return float(drawn[-max(above, 1)])


@lru_cache(maxsize=4)
def _drawn_edges(others: int, simulations: int) -> FloatArray:
    """The shares of Q below the edges, in each simulation: order statistics of uniform draws."""
    gaps = np.diff(_edges(others), prepend=0, append=others + 1)
    sums = np.cumsum(
        np.random.default_rng(_SEED).standard_gamma(gaps, (simulations, len(gaps))), axis=1
    )
    return np.asarray(np.clip(sums[:, :-1] / sums[:, -1:], 0.0, 1.0))
