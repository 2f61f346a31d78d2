"""ε from one training run: many canaries at once, each in or out by its own coin.

Reference: Steinke, Nasr & Jagielski 2023, "Privacy auditing with one (1) training run", Proposition 5.1 (pure) and
Theorem 5.2 (approximate). If the run is (ε, δ)-DP, the coins of m records are fair and independent, and r of them are
guessed from the output, then for W ~ Binomial(r, exp(ε)/(1 + exp(ε)))

    P[at least v guesses are right] ≤ P[W ≥ v] + 2mδ · max over i ≥ 1 of P[v > W ≥ v − i]/i.

Every ε at which the right side is below the level is refuted.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from scipy.special import expit

from privet.arguments import open_fraction, whole
from privet.auditing.audits import Audit, largest_refuted, small_delta
from privet.auditing.guesses import PLAN, Guessed, Guesses, guessed, need_fair_coins, planned
from privet.auditing.proportions import few_errors
from privet.scores import Scores

__all__ = ["OneRun"]


@final
@dataclass(frozen=True)
class OneRun(Audit):
    """Steinke, Nasr & Jagielski's bound, with k₊ and k₋ by a plan whose lines share the level.

    Guarantee: whatever the mechanism does with the canaries together, the bound exceeds the true ε in no more than
    1 − ``confidence`` of all runs. It is far from tight where δ·m is not small.

    >>> full = OneRun(0.95, plan=(Guesses(members=0.5, others=0.5),))
    >>> round(full.ceiling(500, 500, delta=1e-5), 2)
    5.78
    """

    confidence: float = 0.95
    plan: Sequence[Guesses] = PLAN
    seed: int = 0  # breaks ties

    def __post_init__(self) -> None:
        open_fraction("confidence", self.confidence)
        object.__setattr__(self, "plan", tuple(self.plan))
        whole("the number of lines of 'plan'", len(self.plan))

    @property
    def assumes(self) -> str:
        return "One run; whether each record is in was decided by a fair coin of its own."

    def epsilon(self, scores: Scores, *, delta: float) -> float:
        need_fair_coins(scores)
        return self._best(guessed(scores, self.plan, self.seed), len(scores), small_delta(delta))

    def ceiling(self, members: int, others: int, *, delta: float) -> float:
        records = whole("members", members) + whole("others", others)
        perfect = [Guessed(sum(line), sum(line)) for line in planned(self.plan, records)]
        return self._best(perfect, records, small_delta(delta))

    def _best(self, lines: list[Guessed], records: int, delta: float) -> float:
        level, best = (1 - self.confidence) / len(lines), 0.0
        for line in lines:

            def refuted(epsilon: float, line: Guessed = line) -> bool:
                return p_value(line, records, epsilon, delta) < level

            best = largest_refuted(refuted, best)
        return best


def p_value(line: Guessed, records: int, epsilon: float, delta: float) -> float:
    """The right side of the theorem: how rare so many right guesses are at most, if the run is (ε, δ)-DP."""
    made, right = line
    error = float(expit(-epsilon))
    tail = float(few_errors(made - right, made, error))
    if delta == 0 or right == 0:
        return min(tail, 1.0)
    # Beyond twelve standard deviations below the mean of W the numerator is 1 − tail and the quotient falls.
    spread = (made * error * (1 - error)) ** 0.5
    most = int(min(max(right - made * (1 - error) + 12 * spread + 40, 1), right))
    steps = np.arange(1, most + 1)
    jump = float(((few_errors(made - right + steps, made, error) - tail) / steps).max())
    return min(tail + 2 * records * delta * jump, 1.0)
