"""What an audit can say in an impact assessment, in sentences; never a fact on the processing that it did not see.

Shared by the page by Article 35(7) of the GDPR and by the document for the CNIL's tool, so that both say the same. A model is never
called private: membership was "not detected at this power", or ε is "at most" something "by proof".
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from privet.auditing import GroupAccuracy
from privet.documents import to_plain
from privet.reporting.caution import attack_strength, rests_on, warned
from privet.reporting.charts.proved_curve import most_found
from privet.reporting.facts import AttackResult, ModelAudit, Standing
from privet.reporting.identified import fingerprint_sentences
from privet.reporting.meaning import telling_rate
from privet.reporting.numbers import (
    at_least,
    at_most,
    count,
    fraction,
    percent,
    percent_at_most,
    rate_range,
    small,
)
from privet.reporting.report import Report
from privet.reporting.verdicts import breach

__all__ = [
    "CONTROLLER",
    "UNTESTED",
    "Measure",
    "exposed",
    "found",
    "measured",
    "measures",
    "proved",
    "scope",
    "spent",
    "threats",
]

CONTROLLER = "To be completed by the controller."
UNTESTED = (
    "The audit asked one question: whether it can be told that a record was in the training data. It did not test whether "
    "attributes of a person can be inferred, or records be reconstructed or extracted, nor who has access to the model or the data."
)
_ENTRIES = 20


class Measure(NamedTuple):
    """A measure that the audit found in place, or is."""

    title: str
    sentences: list[str]


def scope(audit: ModelAudit) -> list[str]:
    """What was audited."""
    roc, people = audit.strongest.leakage.roc, [result for result in audit.results if not result.planted]
    told = [
        f"The model “{audit.name}” was attacked with {count(roc.members)} records that it was trained on and "
        f"{count(roc.others)} of the same kind that it was not, by {_several(len(people) or len(audit.results), 'attack')}."
    ]
    if audit.train_accuracy is not None and audit.test_accuracy is not None:
        told.append(
            f"It classifies {percent(audit.train_accuracy)} of the former and {percent(audit.test_accuracy)} of the latter rightly."
        )
    return told


def measured(audit: ModelAudit) -> list[str]:
    """What attacks showed, with the power that they had."""
    tightest, sure = audit.tightest, percent(audit.confidence)
    told = [
        *_lower_bounds(audit, sure),
        f"The strongest attack, “{audit.strongest.name}”, has {_shown(audit.strongest)}",
    ]
    if not audit.detected:
        told.append("Membership of people's records was not detected at this power.")
    told.append(attack_strength(audit))
    told.append(
        f"An ε up to {at_least(tightest.finding.ceiling)} could have been shown with so many records, by a perfect attack. "
        f"What is measured is a lower bound: other attacks may find more."
    )
    return told


def _lower_bounds(audit: ModelAudit, sure: str) -> list[str]:
    """ε on people's records, and ε on canaries: two statements."""
    told = []
    for noun, results in (("people's records", audit.on_records), ("canaries of the run", audit.on_canaries)):
        if not results:
            continue
        best = max(results, key=lambda result: result.finding.measured.value)
        measured = best.finding.measured.value
        told.append(
            f"On {noun}, ε is at least {at_least(measured)} at δ = {small(audit.delta)}, at {sure} confidence, by “{best.name}”."
            if measured > 0
            else f"On {noun}, no attack showed an ε above 0 at δ = {small(audit.delta)}, at {sure} confidence."
        )
    return told


def found(result: AttackResult) -> str:
    """One attack in one sentence."""
    return f"“{result.name}” has {_shown(result)}"


def proved(audit: ModelAudit) -> list[str]:
    """What is proved, or that nothing is, or that a claim does not hold."""
    claim, bound = audit.claim, audit.epsilon_proved
    if claim is None or bound is None:
        return ["Nothing is proved: no upper bound caps what other attacks, or later ones, can find."]
    if audit.standing is Standing.BROKEN:
        return [
            f"It was claimed that ε is at most {at_most(bound)}, and the claim does not hold: {breach(audit)}. "
            f"It must not be relied on until this is explained."
        ]
    told = [
        f"By proof, ε is at most {at_most(bound)} at δ = {small(audit.delta)}, for one {claim.adjacency.unit} "
        f"({claim.adjacency.relation}), by the accountant “{claim.accountant}”, for what the ledger records."
    ]
    fpr = telling_rate(audit.strongest)
    cap = None if fpr is None else most_found(claim, fpr)
    if fpr is not None and cap is not None:
        told.append(
            f"By proof, no attack of any kind finds more than {percent_at_most(cap)} of members with {percent(fpr)} false alarms."
        )
    return told


def exposed(audit: ModelAudit) -> list[str]:
    """Who is hurt more than others, as far as the audit knows."""
    harm = audit.harm
    if harm is None:
        return ["Which records, classes or groups are more exposed than others was not asked."]
    risk = harm.at_risk
    if risk.flagged:
        told = [
            f"{count(risk.flagged)} of {count(len(risk.records))} members stand out from the non-members by {harm.attack}; "
            f"at most {percent(risk.false_discoveries)} of such a list is expected to be coincidence."
        ]
    else:
        told = [f"No member stands out from the non-members by {harm.attack} beyond coincidence."]
    for noun, groups in (("class", harm.classes), ("group", harm.groups)):
        worse = [group.name for group in groups if group.flagged]
        if worse:
            told.append(f"More exposed than all others together: {noun} {', '.join(worse)}.")
        elif groups:
            told.append(f"No {noun} is more exposed than the others beyond chance.")
    return [
        *told,
        *_accuracies("class", harm.class_accuracies),
        *_accuracies("group", harm.group_accuracies),
    ]


def _accuracies(noun: str, found: Sequence[GroupAccuracy]) -> list[str]:
    """On which class or group the model is right least often, and on which most often."""
    known = [(one.name, one.on_others) for one in found if one.on_others is not None]
    if len(known) < 2:
        return []
    known.sort(key=lambda one: one[1].value)
    (worst, least), (best, most) = known[0], known[-1]
    return [
        f"On records that it was not trained on, it is right least often for {noun} {worst}: {percent(least.value)} "
        f"({rate_range(least)}); most often for {noun} {best}: {percent(most.value)} ({rate_range(most)})."
    ]


def spent(audit: ModelAudit) -> list[str]:
    """What the ledger records as done to the data."""
    if audit.ledger is None:
        return []
    told = [f"{entry.label}: {_told(to_plain(entry.event))}." for entry in audit.ledger.entries[:_ENTRIES]]
    rest = len(audit.ledger) - len(told)
    return [*told, *([f"And {_several(rest, 'entry', 'entries')} more."] if rest else [])]


def threats(report: Report) -> list[str]:
    """Each adversary who was tried, once."""
    told: dict[str, None] = {}
    for audit in report.audits:
        for result in audit.results:
            if not result.planted:
                who = result.adversary
                told[f"Membership inference by somebody who sees {who.sees} and knows {who.knows}"] = None
    return list(told)


def measures(report: Report) -> list[Measure]:
    """Proofs that stand, and the audit itself. A claim that was contradicted is no measure."""
    kept = [
        Measure(
            f"Differential privacy in training ({audit.name}): ε ≤ {at_most(audit.epsilon_proved)} at δ = {small(audit.delta)}",
            [
                *proved(audit),
                *rests_on(audit),
                *(f"Recorded in the ledger: {words}" for words in spent(audit)),
            ],
        )
        for audit in report.audits
        if audit.epsilon_proved is not None and audit.standing is not Standing.BROKEN
    ]
    several = len(report.audits) > 1
    tested = [
        f"{audit.name}: {words}" if several else words for audit in report.audits for words in measured(audit)
    ]
    audited = Measure(
        f"Membership-inference audit of {report.origin.created:%Y-%m-%d}",
        [
            report.verdict,
            *tested,
            *warned(report),
            UNTESTED,
            f"Made with Privet {report.origin.version}: {report.origin.command}",
            *fingerprint_sentences(report),
        ],
    )
    return [*kept, audited]


def _shown(result: AttackResult) -> str:
    leakage, fpr = result.leakage, telling_rate(result)
    tpr = None if fpr is None else leakage.tpr(fpr)
    told = f"an AUC of {fraction(leakage.auc.value)} ({fraction(leakage.auc.lower)} to {fraction(leakage.auc.upper)})"
    if fpr is None or tpr is None:
        return f"{told}; there were too few non-members to say how many members are found when false alarms are rare."
    return f"{told}; with {percent(fpr)} false alarms it finds {percent(tpr.value)} of members ({rate_range(tpr)})."


def _told(event: Mapping[str, Any]) -> str:
    """An event in words: its kind, its numbers, and what is inside of it."""
    numbers = [
        f"{name.replace('_', ' ')} {value:g}"
        for name, value in event.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    ]
    inside = [part for value in event.values() for part in (value if isinstance(value, list) else [value])]
    inner = [_told(part) for part in inside if isinstance(part, dict)]
    told = str(event["kind"]).replace("-", " ") + (f" ({', '.join(numbers)})" if numbers else "")
    if not inner:
        return told
    parts = " and ".join(inner[:_ENTRIES]) + (" and others" if len(inner) > _ENTRIES else "")
    return f"{count(event['times'])} times {parts}" if event["kind"] == "repeat" else f"{told} of {parts}"


def _several(number: int, one: str, many: str = "") -> str:
    return f"{count(number)} {one if number == 1 else many or one + 's'}"
