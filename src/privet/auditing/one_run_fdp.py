"""ε from one training run by trade-off curves, whatever the mechanism does with the canaries together.

Reference: Mahloujifar, Melis & Chaudhuri 2024, "Auditing f-differential privacy in one run": the recursion of
their audit, for coins with two sides and guesses with abstention. Let pᵢ be the probability that exactly i of
r guesses are right, among m fair coins. f-DP forces, for every c,

    Σ_{i ≥ c} i·pᵢ/m ≤ f̄( Σ_{i ≥ c−1} (r − i)·pᵢ/m ),   f̄ = 1 − f.

If "v or more are right" had probability α, then p at v − 1, v − 2, … must each be large enough for this to
hold. If together they exceed 1, the curve is refuted at level α. The recursion starts with all of α at v,
which requires the least.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import final

from privet.arguments import finite
from privet.auditing.audits import find_largest_refuted
from privet.auditing.curves import NEAR_NOTHING, Curves, GaussianCurves, OneCurve
from privet.auditing.draws import balance_draw
from privet.auditing.guesses import PLAN, Guesses, GuessResult, count_right_guesses, plan_counts
from privet.auditing.one_run_audits import COINS, OneRunAudit
from privet.auditing.thresholds import SelectionSplit
from privet.errors import InvalidArgument
from privet.scores import Scores

__all__ = ["OneRunFDP"]


@final
@dataclass(frozen=True)
class OneRunFDP(OneRunAudit):
    """Mahloujifar, Melis & Chaudhuri's bound over a family of curves, with k₊ and k₋ by a plan.

    Guarantee: it refutes a true curve in at most 1 − ``confidence`` of all runs, however the canaries
    interfere. The bound on ε holds if the true curve is in the family.
    """

    confidence: float = 0.95
    curves: Curves = field(default_factory=GaussianCurves)
    plan: Sequence[Guesses] = PLAN
    split: SelectionSplit | None = field(default_factory=SelectionSplit)

    title = "Guesses in one run of training, by trade-off curves"
    reference = "Mahloujifar, Melis & Chaudhuri 2024"

    @property
    def assumes(self) -> str:
        return f"One run; {COINS}; {self.curves.shape}."

    def refutes(self, scores: Scores, tradeoff: Callable[[float], float]) -> bool:
        """Whether the scores refute this one curve: ``tradeoff(fpr)`` is the least false-negative rate that
        it allows.

        The lines of the plan share the level: with one curve there is no ε by which to choose a line.
        """
        draw = balance_draw(scores)
        lines = count_right_guesses(draw.values, draw.members, plan_counts(self.plan, len(draw.values)))
        level, curve = (1 - self.confidence) / len(lines), OneCurve(tradeoff)
        counted = [draw.discount(line) for line in lines]
        return any(is_refuted(line, len(draw.values), curve, 0.0, level) for line in counted)

    def raise_bound(self, line: GuessResult, records: int, level: float, delta: float, least: float) -> float:
        finite("least", least)
        del delta
        start = max(least, NEAR_NOTHING)
        largest = find_largest_refuted(
            lambda parameter: is_refuted(line, records, self.curves, parameter, level), start
        )
        return largest if largest > start else least

    def to_epsilon(self, parameter: float, delta: float) -> float:
        return self.curves.epsilon(parameter, delta)


def is_refuted(
    line: GuessResult, records: int, curves: Curves, parameter: float, level: float, candidates: int = 2
) -> bool:
    """Whether so many right guesses are rarer than ``level`` under this curve.

    A coin has two ``candidates``; with k of them the false mass counts for 1/(k − 1) of itself
    (``candidates``).

    The recursion stops after forty standard deviations of a binomial count: a curve that is not refuted by
    then stands.
    """
    made, right = line
    if not 0 <= right <= made <= records:
        raise InvalidArgument(
            "'line' must have no more right guesses than guesses, and no more guesses than records. Count "
            "each guess once."
        )
    if candidates * right <= made:
        return False
    true, false = level * right / records, level * (made - right) / records
    total = made / records
    steps = int(40 * (right * (made - right + 1) / made) ** 0.5) + 200
    for step in range(right - 1, max(right - 1 - steps, -1), -1):
        needed = (candidates - 1) * curves.least_false(parameter, true)
        if needed <= false:
            return False  # nothing more is required, here and below
        true += step / (made - step) * (needed - false)
        false = needed
        if true + false > total:
            return True
    return False
