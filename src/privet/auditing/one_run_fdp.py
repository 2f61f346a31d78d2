"""ε from one training run by trade-off curves, whatever the mechanism does with the canaries together.

Reference: Mahloujifar, Melis & Chaudhuri 2024, "Auditing f-differential privacy in one run": the recursion of their audit, for
coins with two sides and guesses with abstention. Let pᵢ be the probability that exactly i of r guesses are right, among m fair
coins. f-DP forces, for every c,

    Σ_{i ≥ c} i·pᵢ/m ≤ f̄( Σ_{i ≥ c−1} (r − i)·pᵢ/m ),   f̄ = 1 − f.

If "v or more are right" had probability α, then p at v − 1, v − 2, … must each be at least so large that this holds; if
together they exceed 1, the curve is refuted at level α. The walk down starts with all of α at v, which asks for the least.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import final

from privet.auditing.audits import largest_refuted
from privet.auditing.curves import NEAR_NOTHING, Curves, GaussianCurves, OneCurve
from privet.auditing.draws import draw_of
from privet.auditing.guesses import PLAN, Guessed, Guesses, guessed, planned
from privet.auditing.one_run_audits import COINS, OneRunAudit
from privet.auditing.thresholds import Split
from privet.errors import InvalidArgument
from privet.scores import Scores

__all__ = ["OneRunFDP"]


@final
@dataclass(frozen=True)
class OneRunFDP(OneRunAudit):
    """Mahloujifar, Melis & Chaudhuri's bound over a family of curves, with k₊ and k₋ by a plan.

    Guarantee: it refutes a curve that holds in no more than 1 − ``confidence`` of all runs, however the canaries interfere.
    That ε is at least the reported one holds if the true curve is of the family's shape.
    """

    confidence: float = 0.95
    curves: Curves = field(default_factory=GaussianCurves)
    plan: Sequence[Guesses] = PLAN
    split: Split | None = field(default_factory=Split)

    @property
    def assumes(self) -> str:
        return f"One run; {COINS}; {self.curves.shape}."

    def refutes(self, scores: Scores, tradeoff: Callable[[float], float]) -> bool:
        """Whether the scores refute this one curve: ``tradeoff(fpr)`` is the least false-negative rate that it allows.

        The lines of the plan share the level: one curve has no ε by which one of them could be chosen.
        """
        drawn = draw_of(scores)
        lines = guessed(drawn.values, drawn.members, planned(self.plan, len(drawn.values)))
        level, curve = (1 - self.confidence) / len(lines), OneCurve(tradeoff)
        counted = [drawn.counted(line) for line in lines]
        return any(refuted(line, len(drawn.values), curve, 0.0, level) for line in counted)

    def raised(self, line: Guessed, records: int, level: float, delta: float, least: float) -> float:
        del delta
        start = max(least, NEAR_NOTHING)
        found = largest_refuted(
            lambda parameter: refuted(line, records, self.curves, parameter, level), start
        )
        return found if found > start else least

    def shown(self, parameter: float, delta: float) -> float:
        return self.curves.epsilon(parameter, delta)


def refuted(line: Guessed, records: int, curves: Curves, parameter: float, level: float) -> bool:
    """Whether so many right guesses are rarer than ``level`` under this curve.

    The walk stops after forty standard deviations of a binomial count: a curve that is not refuted by then is let stand.
    """
    made, right = line
    if not 0 <= right <= made <= records:
        raise InvalidArgument(
            "'line' must have no more right guesses than guesses, and no more guesses than records. Count each guess once."
        )
    if 2 * right <= made:
        return False
    true, false = level * right / records, level * (made - right) / records
    all_of_it = made / records
    steps = int(40 * (right * (made - right + 1) / made) ** 0.5) + 200
    for step in range(right - 1, max(right - 1 - steps, -1), -1):
        needed = curves.least_false(parameter, true)
        if needed <= false:
            return False  # nothing more is asked for, here and further down
        true += step / (made - step) * (needed - false)
        false = needed
        if true + false > all_of_it:
            return True
    return False
