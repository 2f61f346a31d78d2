"""ε from one training run, tight, where canaries do not interfere.

If the channel from each coin to the output is f-DP *given everything that the others caused*, the run reveals
at most as much as n independent pairs (P, Q) with trade-off curve f. The best strategy with r guesses is then
to take the r records with the largest |ln dP/dQ| and to guess each by its sign. Sort the pairs by that: the
(r + 1)-th has mass P ~ Beta(r + 1, n − r) at or beyond it, and given P the r guesses are independent draws
from beyond, each wrong with probability x(P)/P where x + f̄(x) = P. So the number of errors is stochastically
at least

    Binomial(r, x(P)/P) with P ~ Beta(r + 1, n − r),

and exactly that for the pair itself: the bound is tight.

Reference: Xiang, Wang, Xiao, Tian & Wang 2025, "Tight privacy audit in one run" (order statistics of released
guesses). Deviation: the paper bounds the errors of the ranks by Chernoff's inequality; the mixture above is
their exact distribution. The condition "given everything that the others caused" cannot be dropped: a
mechanism that tosses one coin for all canaries, and shows them all a little more clearly or not at all, is
f-DP and is the counterexample in the tests. ``OneRunFDP`` does not need it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import final

import numpy as np
from scipy.special import betaincinv

from privet.arguments import finite
from privet.auditing.audits import find_largest_refuted
from privet.auditing.curves import NEAR_NOTHING, Curves, FloatArray, GaussianCurves
from privet.auditing.guesses import EVERYBODY, Guesses, GuessResult
from privet.auditing.one_run_audits import COINS, OneRunAudit
from privet.auditing.proportions import few_errors
from privet.auditing.thresholds import SelectionSplit

__all__ = ["OrderStatistic"]

_BINS = 512


@final
@dataclass(frozen=True)
class OrderStatistic(OneRunAudit):
    """The order-statistic bound over a family of curves.

    By default every record is guessed, which is best for Gaussian curves.

    Guarantee: it exceeds the true ε in at most 1 − ``confidence`` of all runs if, given what all other
    records caused, each canary's trade-off curve is in the family: orthogonal canaries in Gaussian noise, or
    one canary per run.
    """

    confidence: float = 0.95
    curves: Curves = field(default_factory=GaussianCurves)
    plan: Sequence[Guesses] = EVERYBODY
    split: SelectionSplit | None = field(default_factory=SelectionSplit)

    title = "Guesses in one run of training, by order statistics"
    reference = "Xiang, Wang, Xiao, Tian & Wang 2025"

    @property
    def assumes(self) -> str:
        return f"One run; {COINS}; canaries do not interfere; {self.curves.shape}."

    def raise_bound(self, line: GuessResult, records: int, level: float, delta: float, least: float) -> float:
        finite("least", least)
        del delta
        start = max(least, NEAR_NOTHING)
        largest = find_largest_refuted(
            lambda parameter: p_value(line, records, self.curves, parameter) < level, start
        )
        return largest if largest > start else least

    def to_epsilon(self, parameter: float, delta: float) -> float:
        return self.curves.epsilon(parameter, delta)


def p_value(line: GuessResult, records: int, curves: Curves, parameter: float) -> float:
    """P[so few errors], rounded up: the mean over P of a binomial tail that falls with P, by the left ends of
    bins.
    """
    made, right = line
    masses, weights = _masses(records, made)
    shares = np.minimum(curves.false_share(parameter, masses) / masses, 0.5)
    return float(weights @ few_errors(made - right, made, shares))


@lru_cache(maxsize=64)
def _masses(records: int, made: int) -> tuple[FloatArray, FloatArray]:
    """Left ends of bins of P ~ Beta(r + 1, n − r), and the probability of each; narrow where P is small."""
    if made == records:
        return np.ones(1), np.ones(1)
    edges = np.linspace(0, 1, _BINS + 1) ** 2
    left = np.maximum(betaincinv(made + 1.0, float(records - made), edges[:-1]), 1e-300)
    return left, np.diff(edges)
