"""What a certified ε means for a person in the data, in sentences that a steward can repeat."""

import math

from privet.adjacency import Adjacency, ReplaceOne, Unit
from privet.curator.pages.numbers_shown import show_spent, small
from privet.guarantees import Guarantee, PairCurve
from privet.reporting.numbers import percent_at_most

__all__ = ["explain_epsilon"]

_PRIORS = (0.01, 0.1, 0.5)
_FALSE_ALARM = 0.01
_LOOSER = 10  # a claim (ε, δ) says much less of beliefs at δ itself


def explain_epsilon(epsilon: float, delta: float, adjacency: Adjacency) -> tuple[str, ...]:
    """The statement itself, what a reader may come to believe, and how well any attack can do."""
    if not math.isfinite(epsilon):
        return ("Nothing is certified: there is no finite ε for what was answered.",)
    at = f" at δ = {small(delta)}" if delta > 0 else ""
    if epsilon == 0:
        return ("Nothing has been answered, so nothing is told about anybody.",)
    claim = Guarantee(PairCurve(epsilon, delta), adjacency, "claim")
    kept = claim.kept_loss(delta=_LOOSER * delta)
    beliefs = [
        f"from {100 * prior:g} % to {percent_at_most(kept.posterior(prior).upper)}" for prior in _PRIORS
    ]
    odds = (
        f", unless something happens that has a probability of {small(kept.failure)}" if kept.failure else ""
    )
    power = percent_at_most(claim.tpr(fpr=_FALSE_ALARM))
    return (
        f"All answers so far together: ε = {show_spent(epsilon)}{at}, for {_whom(adjacency)}.",
        f"Whoever reads all answers, and knows everything else, can raise a belief about one person at most "
        f"{', '.join(beliefs[:-1])} or {beliefs[-1]}{odds}.",
        f"An attack that accuses one innocent in a hundred finds at most {power} of the people who are "
        f"in the data.",
    )


def _whom(adjacency: Adjacency) -> str:
    person = "one row" if adjacency.unit is Unit.RECORD else "one person with all of their rows"
    return (
        f"{person}, {'exchanged for another' if isinstance(adjacency, ReplaceOne) else 'there or not there'}"
    )
