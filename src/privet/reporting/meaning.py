"""What the numbers mean for a person, in frequencies: people judge "16 of 1,000" better than "0.016"."""

from typing import NamedTuple

from privet.errors import PrivetError
from privet.reporting.charts.proved_curve import most_found
from privet.reporting.facts import AttackResult, ModelAudit, Standing
from privet.reporting.numbers import (
    at_least,
    at_least_in_a_thousand,
    at_most_in_a_thousand,
    count,
    in_a_thousand,
    one_in,
    percent,
    percent_at_most,
    small,
    some_in_a_thousand,
)

__all__ = ["Crowd", "crowd", "meaning", "telling_rate"]

_PRIORS = (0.5, 0.01)


class Crowd(NamedTuple):
    """Of a thousand members: how many are found, and how many at most by proof, with so many false alarms in a thousand."""

    found: int
    at_most: int | None
    false_alarms: int


def telling_rate(result: AttackResult) -> float | None:
    """The lowest of three false-positive rates that the number of non-members supports."""
    return result.leakage.telling_fpr


def crowd(audit: ModelAudit) -> Crowd | None:
    """The strongest attack in a thousand people; None where there were too few non-members to say."""
    fpr = telling_rate(audit.strongest)
    found = None if fpr is None else audit.strongest.leakage.tpr(fpr)
    if fpr is None or found is None:
        return None
    proved = most_found(audit.claim, fpr)
    return Crowd(
        in_a_thousand(found.value),
        None if proved is None else at_most_in_a_thousand(proved),
        in_a_thousand(fpr),
    )


def meaning(audit: ModelAudit) -> list[str]:
    """Sentences for somebody whose record may be in the data."""
    return [*_found(audit), *_named(audit), *_proved(audit), *_unseen(audit)]


def _found(audit: ModelAudit) -> list[str]:
    result = audit.strongest
    fpr = telling_rate(result)
    found = None if fpr is None else result.leakage.tpr(fpr)
    if fpr is None or found is None:
        return [
            f"Only {count(result.leakage.roc.others)} non-members were scored: too few to say how many members are found "
            f"when false alarms are rare."
        ]
    least, most = at_least_in_a_thousand(found.lower), at_most_in_a_thousand(found.upper)
    sure = f"{100 * audit.confidence:.3g} %"
    return [
        f"Of 1,000 people in the training data, the strongest attack named {some_in_a_thousand(found.value)} in this sample, and names "
        f"between {least} and {most} in general (at {sure} confidence, all that is said here together), when it is set to name "
        f"{in_a_thousand(fpr)} of 1,000 people who were not in it. Guessing names {in_a_thousand(fpr)} of both."
    ]


def _named(audit: ModelAudit) -> list[str]:
    result = audit.strongest
    fpr = telling_rate(result)
    if fpr is None:
        return []
    told = []
    for prior in _PRIORS:
        after = result.leakage.precision(prior=prior, fpr=fpr)
        if after is not None and after.value > prior:
            before = "every second" if prior == 0.5 else one_in(prior)
            told.append(
                f"if {before} of those asked about was in the data, {percent(after.lower)} to {percent(after.upper)} of those whom it "
                f"names were ({percent(after.value)} in this sample), against {percent(prior)} before"
            )
    if not told:
        return []
    return ["How far to believe the attack when it names somebody: " + "; ".join(told) + "."]


def _proved(audit: ModelAudit) -> list[str]:
    claim, fpr = audit.claim, telling_rate(audit.strongest)
    if claim is None:
        return [
            "Nothing is proved about this model: another attack, or a later one, may find more than those that were run."
        ]
    if audit.standing is Standing.BROKEN:
        return ["What was claimed does not hold, so nothing that would follow from it is said here."]
    told = []
    proved = None if fpr is None else most_found(claim, fpr)
    if fpr is not None and proved is not None:
        told.append(
            f"By proof, no attack of any kind, known or not, finds more than {percent_at_most(proved)} of members with "
            f"{percent(fpr)} false alarms. The proof is about one {claim.adjacency.unit} ({claim.adjacency.relation})."
        )
        told += _luck(audit, fpr, proved)
    try:
        kept = claim.kept_loss(delta=audit.delta)
    except PrivetError:
        return told
    told.append(
        f"Somebody who holds it for an even chance that a person is in the data can become at most {percent_at_most(kept.posterior(0.5).upper)} sure by "
        f"seeing the model, except with a probability of at most {small(kept.failure)}."
    )
    return told


def _luck(audit: ModelAudit, fpr: float, proved: float) -> list[str]:
    """Where the sample shows more than the proof allows, and its interval does not."""
    found = audit.strongest.leakage.tpr(fpr)
    if found is None or found.value <= proved:
        return []
    return [
        f"That the attack found {percent(found.value)} in this sample does not contradict this: its interval begins at "
        f"{percent(found.lower)}, so a sample of this size shows that much by chance."
    ]


def _unseen(audit: ModelAudit) -> list[str]:
    if audit.detected:
        return []
    return [
        f"No attack that was run on people's records told members from others beyond chance. With so many records an ε up to "
        f"{at_least(audit.strongest.finding.ceiling)} could have been seen, by a perfect attack; it does not show that there is none."
    ]
