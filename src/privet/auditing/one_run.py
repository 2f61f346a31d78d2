"""ε from one training run: many canaries at once, each in or out by its own coin.

Reference: Steinke, Nasr & Jagielski 2023, "Privacy auditing with one (1) training run", Proposition 5.1
(pure) and Theorem 5.2 (approximate). If the run is (ε, δ)-DP, the coins of m records are fair and
independent, and r of them are guessed from the output, then for W ~ Binomial(r, exp(ε)/(1 + exp(ε)))

    P[at least v guesses are right] ≤ P[W ≥ v] + 2mδ · max over i ≥ 1 of P[v > W ≥ v − i]/i.

Every ε at which the right side is below the level is refuted.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import final

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from privet.arguments import finite
from privet.auditing.audits import find_largest_refuted
from privet.auditing.curves import FloatArray
from privet.auditing.guesses import PLAN, Guesses, GuessResult
from privet.auditing.one_run_audits import COINS, OneRunAudit
from privet.auditing.proportions import few_errors
from privet.auditing.thresholds import SelectionSplit

__all__ = ["OneRun"]


@final
@dataclass(frozen=True)
class OneRun(OneRunAudit):
    """Steinke, Nasr & Jagielski's bound, with k₊ and k₋ by a plan.

    Guarantee: whatever the mechanism does with the canaries together, the bound exceeds the true ε in at most
    1 − ``confidence`` of all runs, where a coin decided on each canary (see ``draws`` for a random half). It
    is far from tight where δ·m is not small.

    >>> full = OneRun(0.95, plan=(Guesses(members=0.5, others=0.5),))
    >>> round(full.ceiling(501, 499, delta=1e-5), 2)  # coins
    5.78
    >>> round(full.ceiling(500, 500, delta=1e-5), 2)  # a random half
    5.33
    """

    confidence: float = 0.95
    plan: Sequence[Guesses] = PLAN
    split: SelectionSplit | None = field(default_factory=SelectionSplit)

    title = "Guesses in one run of training"
    reference = "Steinke, Nasr & Jagielski 2023"

    @property
    def assumes(self) -> str:
        return f"One run; {COINS}."

    def raise_bound(self, line: GuessResult, records: int, level: float, delta: float, least: float) -> float:
        finite("least", least)
        if float(few_errors(line.made - line.right, line.made, expit(-float(least)))) >= level:
            return least  # not even δ = 0 is refuted
        return find_largest_refuted(lambda epsilon: p_value(line, records, epsilon, delta) < level, least)

    def to_epsilon(self, parameter: float, delta: float) -> float:
        del delta
        return parameter


def p_value(line: GuessResult, records: int, epsilon: float, delta: float) -> float:
    """The right side of the theorem: an upper bound on the probability of so many right guesses, if the run
    is (ε, δ)-DP.
    """
    made, right = line
    error = float(expit(-epsilon))
    tail = float(few_errors(made - right, made, error))
    if delta == 0 or right == 0:
        return min(tail, 1.0)
    # Beyond twelve standard deviations below the mean of W the numerator is 1 − tail and the quotient falls.
    spread = (made * error * (1 - error)) ** 0.5
    most = int(min(max(right - made * (1 - error) + 12 * spread + 40, 1), right))

    def quotient(steps: NDArray[np.int64]) -> FloatArray:
        return (few_errors(made - right + steps, made, error) - tail) / steps

    # The quotient is the mean of P[W = v − 1], …, P[W = v − i], which rise and then fall. So it rises and
    # then falls, and its maximum lies between the neighbours of the maximum on a coarse grid.
    coarse = np.unique(np.geomspace(1, most, 60).astype(np.int64))
    top = int(np.argmax(quotient(coarse)))
    near = np.arange(coarse[max(top - 1, 0)], coarse[min(top + 1, len(coarse) - 1)] + 1)
    return min(tail + 2 * records * delta * float(quotient(near).max()), 1.0)
