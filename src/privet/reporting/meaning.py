"""What the figures mean for a person, in frequencies: people judge "16 of 1,000" better than "0.016"."""

from typing import NamedTuple

from privet.errors import PrivetError
from privet.reporting.charts.proved_curve import highest_tpr
from privet.reporting.facts import ModelAudit, Standing
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
from privet.reporting.recovery_words import recovery_sentences

__all__ = ["Crowd", "crowd", "meaning"]

_PRIORS = (0.5, 0.01)


class Crowd(NamedTuple):
    """Of a thousand members: how many are found, and how many could be found by proof, at this number of
    false alarms.
    """

    found: int
    at_most: int | None
    false_alarms: int


def crowd(audit: ModelAudit) -> Crowd | None:
    """The result of the strongest attack among a thousand people.

    None where there are too few non-members to say.
    """
    if not audit.results:
        return None
    fpr = audit.strongest.leakage.reported_fpr
    tpr = None if fpr is None else audit.strongest.leakage.tpr(fpr)
    if fpr is None or tpr is None:
        return None
    proved = highest_tpr(audit.claim, fpr)
    return Crowd(
        in_a_thousand(tpr.value),
        None if proved is None else at_most_in_a_thousand(proved),
        in_a_thousand(fpr),
    )


def meaning(audit: ModelAudit) -> list[str]:
    """Sentences for somebody whose record may be in the data."""
    if not audit.results:
        return recovery_sentences(audit)
    return [
        *recovery_sentences(audit),
        *_tpr_sentences(audit),
        *_precision_sentences(audit),
        *_proof_sentences(audit),
        *_power_sentences(audit),
    ]


def _tpr_sentences(audit: ModelAudit) -> list[str]:
    result = audit.strongest
    fpr = result.leakage.reported_fpr
    tpr = None if fpr is None else result.leakage.tpr(fpr)
    if fpr is None or tpr is None:
        return [
            f"Only {count(result.leakage.roc.others)} non-members were scored: too few to say how many "
            f"members are found when false alarms are rare."
        ]
    least, most = at_least_in_a_thousand(tpr.lower), at_most_in_a_thousand(tpr.upper)
    sure = f"{100 * audit.confidence:.3g} %"
    return [
        f"Of 1,000 people in the training data, the strongest attack named {some_in_a_thousand(tpr.value)} "
        f"in this sample, and names between {least} and {most} in general (at {sure} confidence for all "
        f"statements together), when it is set to name {in_a_thousand(fpr)} of 1,000 people who were not in "
        f"it. Guessing names {in_a_thousand(fpr)} of both."
    ]


def _precision_sentences(audit: ModelAudit) -> list[str]:
    result = audit.strongest
    fpr = result.leakage.reported_fpr
    if fpr is None:
        return []
    clauses = []
    for prior in _PRIORS:
        after = result.leakage.precision(prior=prior, fpr=fpr)
        if after is not None and after.value > prior:
            before = "every second" if prior == 0.5 else one_in(prior)
            clauses.append(
                f"if {before} of those asked about was in the data, {percent(after.lower)} to "
                f"{percent(after.upper)} of those named were ({percent(after.value)} in this sample), "
                f"against {percent(prior)} before"
            )
    if not clauses:
        return []
    return ["How far to believe the attack when it names somebody: " + "; ".join(clauses) + "."]


def _proof_sentences(audit: ModelAudit) -> list[str]:
    claim, fpr = audit.claim, audit.strongest.leakage.reported_fpr
    if claim is None:
        return [
            "Nothing is proved about this model: another attack, or a later one, may find more than these "
            "attacks."
        ]
    if audit.standing is Standing.BROKEN:
        return ["The claim does not hold, so its consequences are not listed here."]
    sentences = []
    proved = None if fpr is None else highest_tpr(claim, fpr)
    if fpr is not None and proved is not None:
        sentences.append(
            f"By proof, no attack of any kind, known or not, finds more than {percent_at_most(proved)} of "
            f"members with {percent(fpr)} false alarms. The proof is about one {claim.adjacency.unit} "
            f"({claim.adjacency.relation})."
        )
        sentences += _chance_sentences(audit, fpr, proved)
    try:
        bound = claim.kept_loss(delta=audit.delta)
    except PrivetError:
        return sentences
    sentences.append(
        f"Somebody who gives it an even chance that a person is in the data can become at most "
        f"{percent_at_most(bound.posterior(0.5).upper)} sure by seeing the model, except with a probability "
        f"of at most {small(bound.failure)}."
    )
    return sentences


def _chance_sentences(audit: ModelAudit, fpr: float, proved: float) -> list[str]:
    """A sentence where the sample shows more than the proof allows, and its interval does not."""
    tpr = audit.strongest.leakage.tpr(fpr)
    if tpr is None or tpr.value <= proved:
        return []
    return [
        f"The attack found {percent(tpr.value)} in this sample. This does not contradict the proof: its "
        f"interval begins at {percent(tpr.lower)}, so a sample of this size can show that much by chance."
    ]


def _power_sentences(audit: ModelAudit) -> list[str]:
    if audit.detected:
        return []
    return [
        f"No attack on people's records told members from others beyond chance. With so many records a "
        f"perfect attack could have shown an ε up to {at_least(audit.strongest.finding.ceiling)}; that it "
        f"was not shown does not mean that there is no leak."
    ]
