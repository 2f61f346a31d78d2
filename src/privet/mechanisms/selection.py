"""Choosing one of many public candidates: the exponential mechanism, permute-and-flip, report-noisy-max.

All three look at scores, and publish only which candidate won. Their one parameter is ε. With the swing R of
the score (see ``scores``) they use an inverse temperature of ε/R: exp(ε·score/R), or noise of scale R/ε.
``classic`` is the textbook's ε/2Δ; where R is smaller than 2Δ it costs less than its ε, and the event says
so.
"""

import math
from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, final

import numpy as np

from privet import events
from privet.adjacency import Adjacency
from privet.arguments import open_fraction, positive
from privet.errors import InvalidArgument
from privet.mechanisms.mechanism import SECURE, Mechanism, check_adjacency
from privet.mechanisms.noise_scales import check_scale, divide_up
from privet.mechanisms.records import Floats
from privet.mechanisms.sampling import choose, discrete_laplace, uniform_integers
from privet.mechanisms.scores import Score, Steps
from privet.randomness import NoiseSource

__all__ = [
    "ExponentialMechanism",
    "PermuteAndFlip",
    "ReportNoisyMax",
    "exact_log_weights",
    "textbook_epsilon",
]

_WEIGHT_BITS = 26
_FURTHEST = 1 << 27  # steps behind the best: its product with a weight of 26 bits is exact in float64


class _Selection(Mechanism[Any]):
    """What the three have in common."""

    score: Score
    epsilon: float

    @property
    def weight(self) -> float:
        """ε/R: the log-probability of one unit of score."""
        return self.epsilon / self.score.swing(self.adjacency)

    @abstractmethod
    def _failure(self, gap: int) -> float:
        """A bound on the probability that a given candidate wins though the best is ``gap`` steps better."""

    def error(self, *, confidence: float) -> float:
        """With this probability the winner's score is no further below the best.

        By each candidate's own probability and a union bound over the others, as in the utility theorem.
        """
        failure, others = 1 - open_fraction("confidence", confidence), len(self.score.candidates) - 1
        low, high = -1, 1
        while others * self._failure(high) > failure:
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if others * self._failure(middle) > failure else (low, middle)
        return high * self.score.grid.granularity

    def _check(self) -> None:
        if not isinstance(self.score, Score):
            raise InvalidArgument(
                f"'score' must be a bounded score, got {type(self.score).__name__}, because a bound is "
                f"needed for the sensitivity. Use TallyOf or SumOfScores."
            )
        positive("epsilon", self.epsilon)
        check_scale(self.score.swing_steps(check_adjacency(self.adjacency)) / self.epsilon)


@final
@dataclass(frozen=True)
class ExponentialMechanism(_Selection):
    """One candidate, with P ∝ exp(ε·score/R).

    *Guarantee*: ε-DP under ``adjacency``. The privacy loss lies in an interval of length ε (its bounded
    range), which makes many uses together cheaper. The draw is exact: weights have 26 bits, so that every
    product is a float64, and no rounding of scores adds to ε.

    *Utility*: s* − s ≤ (R/ε) ln(|O|/β|O*|) with probability 1 − β, if |O*| of the |O| candidates are best.

    *Reference*: McSherry & Talwar 2007, Theorems 6 and 8; Dong, Durfee & Rogers 2020 for the bounded range.

    >>> from privet.adjacency import AddRemove
    >>> from privet.mechanisms import TallyOf
    >>> hair = ExponentialMechanism.classic(TallyOf(("dark", "fair")), epsilon=0.1, adjacency=AddRemove())
    >>> hair.weight, hair.epsilon
    (0.05, 0.05)
    """

    score: Score
    epsilon: float
    adjacency: Adjacency

    def __post_init__(self) -> None:
        self._check()

    @staticmethod
    def classic(score: Score, *, epsilon: float, adjacency: Adjacency) -> "ExponentialMechanism":
        """The textbook's exp(ε·score/2Δ)."""
        return ExponentialMechanism(score, textbook_epsilon(score, epsilon, adjacency), adjacency)

    @property
    def event(self) -> events.Event:
        return events.ExponentialMechanism(epsilon=self.epsilon)

    def probabilities(self, data: object) -> Floats:
        """The probability of each candidate, secret and for study only. Publish what ``release`` returns."""
        weights = np.exp(self._log_weights(data))
        return np.asarray(weights / weights.sum())

    def release(self, data: object, noise: NoiseSource = SECURE) -> Any:  # noqa: ANN401 - any candidate
        return self.score.candidates[choose(self._log_weights(data), noise)]

    def _log_weights(self, data: object) -> Floats:
        return exact_log_weights(
            self.score.evaluate(data), self.epsilon, self.score.swing_steps(self.adjacency)
        )

    def _failure(self, gap: int) -> float:
        return math.exp(-gap * self.epsilon / self.score.swing_steps(self.adjacency))


@final
@dataclass(frozen=True)
class PermuteAndFlip(_Selection):
    """Candidates in random order, each accepted with probability exp(ε(score − best)/R), until one is.

    *Guarantee*: ε-DP under ``adjacency``, exactly: a coin of exp(−k/scale) is a geometric number that reaches
    k.

    *Utility*: never worse than the exponential mechanism, and up to twice as close to the best.

    *Reference*: McKenna & Sheldon 2020, Theorems 1 and 2; Ding et al. 2021, who show that it is
    report-noisy-max with exponential noise, from which the swing R in place of 2Δ follows.
    """

    score: Score
    epsilon: float
    adjacency: Adjacency

    def __post_init__(self) -> None:
        self._check()

    @staticmethod
    def classic(score: Score, *, epsilon: float, adjacency: Adjacency) -> "PermuteAndFlip":
        """The textbook's exp(ε(score − best)/2Δ)."""
        return PermuteAndFlip(score, textbook_epsilon(score, epsilon, adjacency), adjacency)

    @property
    def event(self) -> events.Event:
        return events.ReportNoisyMax(epsilon=self.epsilon)

    def release(self, data: object, noise: NoiseSource = SECURE) -> Any:  # noqa: ANN401 - any candidate
        scores = self.score.evaluate(data)
        behind = scores.max() - scores
        heads = np.flatnonzero(_geometric(self._scale, len(scores), noise) >= behind)
        return self.score.candidates[int(heads[uniform_integers(len(heads), 1, noise)[0]])]

    @property
    def _scale(self) -> float:
        return divide_up(self.score.swing_steps(self.adjacency), self.epsilon)

    def _failure(self, gap: int) -> float:
        return math.exp(-gap / self._scale)


@final
@dataclass(frozen=True)
class ReportNoisyMax(_Selection):
    """The candidate whose score plus Laplace noise of scale R/ε is largest; of equal ones, the first.

    *Guarantee*: ε-DP under ``adjacency``. The proof holds for whole-number noise: given the noise of the
    others, a candidate wins if its noise is at least some t, and P[noise ≥ t] ≤ exp(R/scale)·P[noise ≥ t +
    R].

    *Reference*: Dwork & Roth 2014, Claim 3.9, with the swing R in place of their monotone counts.
    """

    score: Score
    epsilon: float
    adjacency: Adjacency

    def __post_init__(self) -> None:
        self._check()

    @staticmethod
    def classic(score: Score, *, epsilon: float, adjacency: Adjacency) -> "ReportNoisyMax":
        """The textbook's Laplace noise of scale 2Δ/ε."""
        return ReportNoisyMax(score, textbook_epsilon(score, epsilon, adjacency), adjacency)

    @property
    def event(self) -> events.Event:
        return events.ReportNoisyMax(epsilon=self.epsilon)

    def release(self, data: object, noise: NoiseSource = SECURE) -> Any:  # noqa: ANN401 - any candidate
        scores = self.score.evaluate(data)
        return self.score.candidates[
            int(np.argmax(scores + discrete_laplace(self._scale, len(scores), noise)))
        ]

    @property
    def _scale(self) -> float:
        return divide_up(self.score.swing_steps(self.adjacency), self.epsilon)

    def _failure(self, gap: int) -> float:
        """P[X − Y ≥ gap] of two discrete Laplace numbers.

        With q = exp(−1/scale), P[X − Y = d] = ((1 − q)/(1 + q))² q^d (d + (1 + q²)/(1 − q²)) for d ≥ 0.
        """
        ratio, below = math.exp(-1 / self._scale), -math.expm1(-1 / self._scale)
        centre = (1 + ratio * ratio) / (below * (1 + ratio))
        tail = (gap + centre) / below + ratio / below**2
        return (below / (1 + ratio)) ** 2 * math.exp(-gap / self._scale) * tail


def textbook_epsilon(score: Score, epsilon: float, adjacency: Adjacency) -> float:
    """The cost of the textbook's ε/2Δ: ε·R/2Δ."""
    if not isinstance(score, Score):
        raise InvalidArgument(
            f"'score' must be a bounded score, got {type(score).__name__}. Use TallyOf or SumOfScores."
        )
    positive("epsilon", epsilon)
    swing, sensitivity = score.swing(check_adjacency(adjacency)), score.sensitivity(adjacency)
    return min(epsilon, epsilon * swing / (2 * sensitivity))


def exact_log_weights(steps: Steps, epsilon: float, swing_steps: int) -> Floats:
    """−(best − score)·ε/R with every product exact in float64; ε/R is rounded down to 26 bits.

    A score further behind than 2²⁷ steps counts as 2²⁷ behind; this increases no distance that a unit can
    move.
    """
    behind = np.minimum(steps.max() - steps, _FURTHEST)
    weight = Fraction(epsilon) / swing_steps
    shift = _WEIGHT_BITS - math.frexp(float(weight))[1]
    rounded = math.floor(weight * Fraction(2) ** shift)
    return np.asarray(-behind.astype(np.float64) * math.ldexp(rounded, -shift))


def _geometric(scale: float, size: int, noise: NoiseSource) -> Steps:
    """Whole numbers with P[x ≥ k] = exp(−k/scale): discrete Laplace numbers that are not negative."""
    geometric = np.empty(0, dtype=np.int64)
    while geometric.size < size:
        draws = discrete_laplace(scale, 2 * (size - geometric.size) + 8, noise)
        geometric = np.concatenate([geometric, draws[draws >= 0]])
    return geometric[:size]
