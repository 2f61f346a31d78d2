"""Which defences are dominated, and which one to take.

*Dominated.* Defence B dominates A if three things hold. (1) By estimates B is no worse on each of: test
accuracy, members found in the population, members found among the most exposed. (2) B is clearly better on at
least one of them: the two intervals do not overlap. (3) If A has a proof, B has a proof with an ε that is no
larger. So noise alone greys no point, and a measurement never outweighs a proof. (A proof protects from (3)
and never counts as the clear difference of (2): attacks must show one.)

*To take.* Of the defences that cost at most ``accuracy_loss`` against the most accurate model, keep those
that are not dominated and whose share of the most exposed is not clearly above the lowest one: the intervals
overlap. Among these take the smallest proved ε; if none has a proof, the most accurate. The acceptable loss
is a choice of the user, and the report says it.

Both rules read estimates and intervals only. The intervals of a comparison hold together, so the number of
comparisons needs no further correction.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from privet.auditing import Rate
from privet.reporting.defence_facts import WITHOUT_DEFENCE, ComparedDefence, ComparisonContent
from privet.reporting.numbers import at_most, percent, points

__all__ = ["Choice", "choose_defence", "dominating", "recommendation", "recommendation_rule"]


class Choice(NamedTuple):
    """The defence to take, and the best one of the other kind (with a proof, without one) beside it."""

    taken: ComparedDefence
    beside: ComparedDefence


def dominating(defence: ComparedDefence, defences: Sequence[ComparedDefence]) -> ComparedDefence | None:
    """The most accurate defence that dominates this one; None where none does."""
    better = [other for other in defences if _dominates(other, defence)]
    return max(better, key=lambda other: other.test_accuracy.value, default=None)


def choose_defence(comparison: ComparisonContent) -> Choice:
    """The defence to take by the rule above, and what it is compared with."""
    defences = comparison.defences
    best = max(defence.test_accuracy.value for defence in defences)
    affordable = [
        defence
        for defence in defences
        if defence.test_accuracy.value >= best - comparison.accuracy_loss - 1e-12
        and dominating(defence, defences) is None
    ]
    lowest = min(affordable, key=lambda defence: (defence.tpr_exposed.value, defence.tpr_exposed.upper))
    equal = [defence for defence in affordable if not _clearly_below(lowest.tpr_exposed, defence.tpr_exposed)]
    taken = min(equal, key=lambda defence: (_proof(defence), -defence.test_accuracy.value))
    return Choice(taken, _beside(taken, defences, affordable))


def recommendation(comparison: ComparisonContent) -> str:
    """One sentence with numbers: what to take, what it costs, and what attacks still find.

    Two figures whose intervals overlap are said to overlap.
    """
    taken, beside = choose_defence(comparison)
    proof = (
        "nothing is proved"
        if taken.epsilon_proved is None
        else f"ε ≤ {at_most(taken.epsilon_proved)} is proved"
    )
    return (
        f"Take {_in_words(taken)}: it {_cost_words(taken, beside)}, attacks find "
        f"{_found_words(taken, beside)}, and {proof}."
    )


def _in_words(defence: ComparedDefence) -> str:
    return "no defence" if defence.name == WITHOUT_DEFENCE else defence.name


def recommendation_rule(comparison: ComparisonContent) -> str:
    """The rule behind the recommendation, in words."""
    return (
        f"Of the defences that cost at most {points(comparison.accuracy_loss)} of test accuracy against the "
        "most accurate model and are not dominated, those stay whose share of the most exposed is not "
        "clearly above the lowest one. Of these the smallest proved ε is taken, and without any proof the "
        "most accurate. What loss is acceptable is your choice (accuracy_loss)."
    )


def _cost_words(taken: ComparedDefence, beside: ComparedDefence) -> str:
    lost = beside.test_accuracy.value - taken.test_accuracy.value
    if points(lost).startswith("0.0"):
        return f"is as accurate as {_in_words(beside)}"
    apart = _apart(taken.test_accuracy, beside.test_accuracy)
    overlap = "" if apart else " (the intervals overlap)"
    if lost > 0:
        return f"costs {points(lost)} of test accuracy more than {_in_words(beside)}{overlap}"
    return f"is {points(lost)} more accurate than {_in_words(beside)}{overlap}"


def _found_words(taken: ComparedDefence, beside: ComparedDefence) -> str:
    mine, other = taken.tpr_exposed, beside.tpr_exposed
    if _apart(mine, other):
        return f"{percent(mine.value)} instead of {percent(other.value)} of the most exposed"
    return (
        f"{percent(mine.value)} of the most exposed instead of {percent(other.value)} (the intervals overlap)"
    )


def _dominates(better: ComparedDefence, worse: ComparedDefence) -> bool:
    gains = [
        (worse.test_accuracy, better.test_accuracy),
        (better.tpr_population, worse.tpr_population),
        (better.tpr_exposed, worse.tpr_exposed),
    ]  # each pair rises where ``better`` is better
    return (
        all(low.value <= high.value for low, high in gains)
        and any(_clearly_below(low, high) for low, high in gains)
        and (not worse.proved or _proof(better) <= _proof(worse))
    )


def _clearly_below(low: Rate, high: Rate) -> bool:
    return low.upper < high.lower


def _apart(first: Rate, second: Rate) -> bool:
    return _clearly_below(first, second) or _clearly_below(second, first)


def _proof(defence: ComparedDefence) -> float:
    return math.inf if defence.epsilon_proved is None else defence.epsilon_proved


def _beside(
    taken: ComparedDefence, defences: Sequence[ComparedDefence], affordable: Sequence[ComparedDefence]
) -> ComparedDefence:
    """The alternative that a reader has in mind: of the other kind, affordable, with the lowest share."""
    for pool in (affordable, defences):
        others = [defence for defence in pool if defence is not taken and defence.proved != taken.proved]
        if others:
            return min(others, key=lambda other: (other.tpr_exposed.value, -other.test_accuracy.value))
    others = [defence for defence in defences if defence is not taken]
    return max(others, key=lambda other: (other.test_accuracy.value, -other.tpr_exposed.value))
