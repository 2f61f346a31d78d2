"""The lower bound on ε that recoveries show, or the reason why they show none.

Targets of one run are dependent, so only bounds that hold for one run are used. Where a coin decided which
targets are in, a hit says "in" and a miss says "out", and the audits of membership count right guesses
(``Recoveries.to_scores``). Where every target was in and its secret was drawn from public candidates, names
are counted (``candidates``). Where neither holds, a success above that of a blind guess proves nothing about
ε: the blind guess may simply be worse.
"""

from typing import NamedTuple

import numpy as np

from privet.adjacency import AddRemove
from privet.arguments import open_fraction
from privet.auditing.audits import check_delta
from privet.auditing.candidates import OneRunCandidates
from privet.auditing.one_run import OneRun
from privet.bounds import Finding
from privet.guarantees import Guarantee
from privet.recoveries import Recoveries
from privet.scores import Scores

__all__ = ["RecoveryBound", "balance_sides", "bound_recoveries"]

_NO_DRAW = (
    "No bound on ε: all targets were in the data and their secrets were not drawn from public candidates, so "
    "a better guess than the blind one proves nothing about ε."
)


class RecoveryBound(NamedTuple):
    """The bound with the claim that it tests, and how it was found; without a bound, why there is none."""

    finding: Finding | None
    method: str

    @property
    def epsilon(self) -> float | None:
        """The lower bound on ε; None where there is none."""
        return None if self.finding is None else self.finding.measured.value


def bound_recoveries(
    recoveries: Recoveries, claim: Guarantee | None = None, *, delta: float, confidence: float = 0.95
) -> RecoveryBound:
    """The lower bound on ε at this δ, under the adjacency of the claim, or add-remove without one.

    The bound from coins is about a target that is in or left out; it holds under replace-one, too, where
    something else took its place.
    """
    open_fraction("confidence", confidence)
    check_delta(delta)
    if recoveries.members is not None:
        audit = OneRun(confidence)
        return RecoveryBound(
            audit.test(balance_sides(recoveries.to_scores()), claim, delta=delta), audit.method
        )
    if recoveries.candidates is not None:
        adjacency = AddRemove() if claim is None else claim.adjacency
        names = OneRunCandidates(confidence, adjacency)
        return RecoveryBound(names.test(recoveries, claim, delta=delta), names.method)
    return RecoveryBound(None, _NO_DRAW)


def balance_sides(scores: Scores) -> Scores:
    """Equally many members and others, drawn at random: bounds assume fair coins, and the sides may have any
    sizes.
    """
    members, others = np.flatnonzero(scores.members), np.flatnonzero(~scores.members)
    if len(members) == len(others):
        return scores
    count, generator = min(len(members), len(others)), np.random.default_rng(0)
    return scores.take(
        np.concatenate([generator.choice(side, count, replace=False) for side in (members, others)])
    )
