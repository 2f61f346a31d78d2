"""ε from thresholds that stand at fixed ranks of the others, so that nothing is set apart for choosing one.

Take the (k + 1)-th highest score of the n others as the threshold. Whatever the distribution of the scores
is, the true false-positive rate q above it is stochastically at most Beta(k + 1, n − k). The members did not
take part, so their number above the threshold is binomial with the true-positive rate p, given the threshold.
Privacy says p ≤ g(q), for instance exp(ε)·q + δ, or Φ(Φ⁻¹(q) + μ). So the number of members above the
threshold is at least v with a probability of at most

    E[ P[Binomial(members, g(q)) ≥ v] ],  q ~ Beta(k + 1, n − k).

There is no unknown in it: one test for both rates, where limits of p and of q would share the level. The same
holds with members and others, and above and below, exchanged. The lines, each a rank of one side, are fixed
beforehand and share the level.

Ties: a member counts only if it is strictly above the threshold; with ties q is only smaller.

Reference: order statistics as distribution-free quantiles, Wilks 1941; the comparison of two rates is that of
Jagielski, Ullman & Oprea 2020, "Auditing differentially private machine learning".
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple, final

import numpy as np
from scipy.special import betaincinv

from privet.arguments import open_fraction, whole
from privet.auditing.audits import Audit, check_delta, find_largest_refuted
from privet.auditing.curves import NEAR_NOTHING, Curves, FloatArray, GaussianCurves
from privet.auditing.proportions import few_errors
from privet.errors import InvalidArgument
from privet.scores import Scores
from privet.views import Numbers

__all__ = ["HALVINGS", "RankedThresholds"]

HALVINGS = tuple(0.5**power for power in range(1, 15))  # shares of a side that may lie beyond the threshold
_BINS = 600
_REST = 1e-9  # probability of the largest q, which is counted as if it refuted nothing


class _RankedLine(NamedTuple):
    """``hits`` of ``trials`` lie beyond the threshold that ``allowed`` of ``alarm_trials`` others pass."""

    hits: int
    trials: int
    allowed: int
    alarm_trials: int


@final
@dataclass(frozen=True)
class RankedThresholds(Audit):
    """Thresholds at fixed ranks of others and of members, over a family of curves.

    ``shares`` are the ranks, as shares of a side. By default they are halved down to a single record, which
    suits ``ApproximateCurves``; ``shares=(0.25,)`` suits Gaussian curves.

    Guarantee: it exceeds the true ε in at most 1 − ``confidence`` of all audits if the scores are independent
    of each other, and the trade-off curve of each is in the family; with ``ApproximateCurves`` it always is.
    """

    confidence: float = 0.95
    curves: Curves = field(default_factory=GaussianCurves)
    shares: Sequence[float] = HALVINGS

    title = "Thresholds at fixed ranks"
    reference = "Jagielski, Ullman & Oprea 2020"

    def __post_init__(self) -> None:
        open_fraction("confidence", self.confidence)
        whole("the number of 'shares'", len(self.shares))
        for share in self.shares:
            open_fraction("shares", share)
        if not self.curves.is_symmetric:  # lines of others use the curve of the pair the other way round
            raise InvalidArgument(
                "'curves' must be a symmetric family, got one whose two orders differ. Give "
                "ApproximateCurves or GaussianCurves, or take WeightedRanks."
            )

    @property
    def assumes(self) -> str:
        return (
            "The scores are independent, from separate runs or from canaries that do not interfere; "
            f"{self.curves.shape}."
        )

    def epsilon(self, scores: Scores, *, delta: float) -> float:
        check_delta(delta)
        members, others = scores.values[scores.members], scores.values[~scores.members]
        lines = [*self._lines(members, others), *self._lines(-others, -members)]
        return self._largest(lines, delta)

    def ceiling(self, members: int, others: int, *, delta: float) -> float:
        check_delta(delta)
        sides = whole("members", members), whole("others", others)
        lines = [
            _RankedLine(trials, trials, allowed, alarms)
            for trials, alarms in (sides, sides[::-1])
            for allowed in self._ranks(alarms)
        ]
        return self._largest(lines, delta)

    def _ranks(self, records: int) -> list[int]:
        return sorted({min(int(share * records), records - 1) for share in self.shares})

    def _lines(self, found: Numbers, others: Numbers) -> list[_RankedLine]:
        if len(found) == 0 or len(others) == 0:
            raise InvalidArgument(
                "'members' must name members and others, got one side only. Give scores of both."
            )
        falling = np.sort(others)[::-1]
        return [
            _RankedLine(int((found > falling[rank]).sum()), len(found), rank, len(others))
            for rank in self._ranks(len(others))
        ]

    def _largest(self, lines: list[_RankedLine], delta: float) -> float:
        level, parameter = (1 - self.confidence) / len(lines), NEAR_NOTHING
        for line in lines:
            parameter = find_largest_refuted(
                lambda tried, line=line: self._p_value(line, tried) < level,  # type: ignore[misc]
                parameter,
            )
        return self.curves.epsilon(parameter, delta) if parameter > NEAR_NOTHING else 0.0

    def _p_value(self, line: _RankedLine, parameter: float) -> float:
        if parameter > self.curves.largest:
            return 1.0
        rates, weights = _rates(line.allowed, line.alarm_trials)
        missed = np.clip(self.curves.members_below(parameter, 1 - rates), 0.0, 1.0)
        return float(weights @ few_errors(line.trials - line.hits, line.trials, missed)) + _REST


@lru_cache(maxsize=256)
def _rates(allowed: int, trials: int) -> tuple[FloatArray, FloatArray]:
    """Right ends of bins of q ~ Beta(k + 1, n − k), and the probability of each; narrow where q is large."""
    beyond = np.geomspace(1.0, _REST, _BINS + 1)
    right = betaincinv(allowed + 1.0, float(trials - allowed), 1 - beyond[1:])
    return np.asarray(right), -np.diff(beyond)
