"""Sentences that an audit contributes to an impact assessment.

They say nothing about processing that the audit did not see.

The page by Article 35(7) GDPR and the document for the CNIL's tool share them, so that both say the same. A
model is never called private: membership was "not detected at this power", or ε is "at most" something "by
proof".
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from privet.auditing import GroupAccuracy
from privet.documents import to_plain
from privet.reporting.caution import attack_strength, condition_sentences, warning_sentences
from privet.reporting.charts.proved_curve import highest_tpr
from privet.reporting.content import ReportContent
from privet.reporting.facts import AttackResult, ModelAudit, Standing
from privet.reporting.fingerprint_section import fingerprint_sentences
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
from privet.reporting.recovery_words import recovery_sentences
from privet.reporting.table_words import table_sentences
from privet.reporting.verdicts import breach, verdict

__all__ = [
    "CONTROLLER",
    "UNTESTED",
    "Safeguard",
    "attack_sentence",
    "exposure_sentences",
    "ledger_sentences",
    "list_safeguards",
    "measured_sentences",
    "proof_sentences",
    "scope_sentences",
    "threat_sentences",
    "untested_sentence",
]

_OTHER_QUESTIONS = (
    "The audit asked whether somebody can tell that a record was in the training data, and how often some "
    "attacks recover what is listed as recovered. It did not test other attacks of that kind, nor who has "
    "access to the model or the data."
)
_TABLE_QUESTIONS = (
    "The audit asked who can be found in the table, and what it tells about them, for adversaries who know "
    "the quasi-identifiers and what is listed. It did not test adversaries who know more, nor other attacks."
)
CONTROLLER = "To be completed by the controller."
UNTESTED = (
    "The audit asked one question: can somebody tell that a record was in the training data? It did not "
    "test whether attributes of a person can be inferred, whether records can be reconstructed or "
    "extracted, or who has access to the model or the data."
)
_ENTRIES = 20


class Safeguard(NamedTuple):
    """A safeguard that the audit found in place, or the audit itself."""

    title: str
    sentences: list[str]


def untested_sentence(report: ReportContent) -> str:
    """What the audit did not ask."""
    if all(audit.table is not None for audit in report.audits):
        return _TABLE_QUESTIONS
    return _OTHER_QUESTIONS if any(audit.recoveries for audit in report.audits) else UNTESTED


def scope_sentences(audit: ModelAudit) -> list[str]:
    """What was audited."""
    what = "the data of the model" if audit.table is None else "the table"
    recovered = [
        f"“{result.name}” tried to recover something of {count(result.leakage.inside)} targets that were in "
        f"{what} “{audit.name}” and {count(result.leakage.outside)} that were left out."
        for result in audit.recoveries
    ]
    measured = [] if audit.table is None else table_sentences(audit.table)
    return [*(_membership_scope(audit) if audit.results else []), *measured, *recovered]


def _membership_scope(audit: ModelAudit) -> list[str]:
    roc, people = audit.strongest.leakage.roc, [result for result in audit.results if not result.planted]
    sentences = [
        f"The model “{audit.name}” was attacked with {count(roc.members)} records that it was trained on and "
        f"{count(roc.others)} of the same kind that it was not, by "
        f"{_count_words(len(people) or len(audit.results), 'attack')}."
    ]
    if audit.train_accuracy is not None and audit.test_accuracy is not None:
        sentences.append(
            f"It classifies {percent(audit.train_accuracy)} of the former and {percent(audit.test_accuracy)} "
            f"of the latter correctly."
        )
    if audit.regression is not None:
        sentences.append(f"It predicts a quantity, with R² of {audit.regression}.")
    return sentences


def measured_sentences(audit: ModelAudit) -> list[str]:
    """What attacks showed, and how much they could have shown."""
    if not audit.results:
        measured = [] if audit.table is None else table_sentences(audit.table)
        return [*measured, *recovery_sentences(audit)]
    tightest, sure = audit.tightest, percent(audit.confidence)
    sentences = [
        *_lower_bounds(audit, sure),
        f"The strongest attack, “{audit.strongest.name}”, has {_result_words(audit.strongest)}",
    ]
    if not audit.detected:
        sentences.append("Membership of people's records was not detected at this power.")
    sentences.append(attack_strength(audit))
    sentences.append(
        f"An ε up to {at_least(tightest.finding.ceiling)} could have been shown with so many records, by a "
        f"perfect attack. What is measured is a lower bound: other attacks may find more."
    )
    return [*sentences, *recovery_sentences(audit)]


def _lower_bounds(audit: ModelAudit, sure: str) -> list[str]:
    """The lower bounds on ε from people's records and from canaries, as two statements."""
    sentences = []
    for noun, results in (("people's records", audit.on_records), ("canaries of the run", audit.on_canaries)):
        if not results:
            continue
        best = max(results, key=lambda result: result.finding.measured.value)
        measured = best.finding.measured.value
        sentences.append(
            f"On {noun}, ε is at least {at_least(measured)} at δ = {small(audit.delta)}, at {sure} "
            f"confidence, by “{best.name}”."
            if measured > 0
            else f"On {noun}, no attack showed an ε above 0 at δ = {small(audit.delta)}, {sure} confidence."
        )
    return sentences


def attack_sentence(result: AttackResult) -> str:
    """One attack in one sentence."""
    return f"“{result.name}” has {_result_words(result)}"


def proof_sentences(audit: ModelAudit) -> list[str]:
    """What is proved, or that nothing is, or that a claim does not hold."""
    claim, bound = audit.claim, audit.epsilon_proved
    if claim is None or bound is None:
        return ["Nothing is proved: no upper bound caps what other attacks, or later ones, can find."]
    if audit.standing is Standing.BROKEN:
        return [
            f"It was claimed that ε is at most {at_most(bound)}, and the claim does not hold: "
            f"{breach(audit)}. It must not be relied on until this is explained."
        ]
    sentences = [
        f"By proof, ε is at most {at_most(bound)} at δ = {small(audit.delta)}, for one "
        f"{claim.adjacency.unit} ({claim.adjacency.relation}), by the accountant “{claim.accountant}”, for "
        f"what the ledger records."
    ]
    fpr = audit.strongest.leakage.reported_fpr if audit.results else None
    cap = None if fpr is None else highest_tpr(claim, fpr)
    if fpr is not None and cap is not None:
        sentences.append(
            f"By proof, no attack of any kind finds more than {percent_at_most(cap)} of members with "
            f"{percent(fpr)} false alarms."
        )
    return sentences


def exposure_sentences(audit: ModelAudit) -> list[str]:
    """Which records, classes and groups are more exposed than others, as far as the audit knows."""
    harm = audit.harm
    if harm is None:
        return ["Which records, classes or groups are more exposed than others was not asked."]
    risk = harm.at_risk
    if risk.flagged:
        sentences = [
            f"{count(risk.flagged)} of {count(len(risk.records))} members stand out from the non-members by "
            f"{harm.attack}; at most {percent(risk.false_discoveries)} of such a list is expected to be "
            f"coincidence."
        ]
    else:
        sentences = [f"No member stands out from the non-members by {harm.attack} beyond coincidence."]
    for noun, groups in (("class", harm.classes), ("group", harm.groups)):
        worse = [group.name for group in groups if group.flagged]
        if worse:
            sentences.append(f"More exposed than all others together: {noun} {', '.join(worse)}.")
        elif groups:
            sentences.append(f"No {noun} is more exposed than the others beyond chance.")
    return [
        *sentences,
        *_accuracies("class", harm.class_accuracies),
        *_accuracies("group", harm.group_accuracies),
    ]


def _accuracies(noun: str, accuracies: Sequence[GroupAccuracy]) -> list[str]:
    """On which class or group the model is right least often, and on which most often."""
    known = [(group.name, group.on_others) for group in accuracies if group.on_others is not None]
    if len(known) < 2:
        return []
    known.sort(key=lambda pair: pair[1].value)
    (worst, least), (best, most) = known[0], known[-1]
    return [
        f"On records that it was not trained on, it is right least often for {noun} {worst}: "
        f"{percent(least.value)} ({rate_range(least)}); most often for {noun} {best}: {percent(most.value)} "
        f"({rate_range(most)})."
    ]


def ledger_sentences(audit: ModelAudit) -> list[str]:
    """What the ledger records as done to the data."""
    if audit.ledger is None:
        return []
    sentences = [
        f"{entry.label}: {_event_words(to_plain(entry.event))}." for entry in audit.ledger.entries[:_ENTRIES]
    ]
    rest = len(audit.ledger) - len(sentences)
    return [*sentences, *([f"And {_count_words(rest, 'entry', 'entries')} more."] if rest else [])]


def threat_sentences(report: ReportContent) -> list[str]:
    """One sentence for each adversary that was tried."""
    sentences: dict[str, None] = {}
    for audit in report.audits:
        for result in audit.results:
            if not result.planted:
                who = result.adversary
                sentences[f"Membership inference by somebody who sees {who.sees} and knows {who.knows}"] = (
                    None
                )
        for recovery in audit.recoveries:
            who = recovery.adversary
            words = f"Recovery of {who.wants} by somebody who sees {who.sees} and knows {who.knows}"
            sentences[words] = None
    return list(sentences)


def list_safeguards(report: ReportContent) -> list[Safeguard]:
    """Proofs that hold, and the audit itself. A contradicted claim is no safeguard."""
    proofs = [
        Safeguard(
            f"Differential privacy {'in training' if audit.table is None else 'of the table'} "
            f"({audit.name}): ε ≤ {at_most(audit.epsilon_proved)} at δ = "
            f"{small(audit.delta)}",
            [
                *proof_sentences(audit),
                *condition_sentences(audit),
                *(f"Recorded in the ledger: {words}" for words in ledger_sentences(audit)),
            ],
        )
        for audit in report.audits
        if audit.epsilon_proved is not None and audit.standing is not Standing.BROKEN
    ]
    several = len(report.audits) > 1
    tested = [
        f"{audit.name}: {words}" if several else words
        for audit in report.audits
        for words in measured_sentences(audit)
    ]
    tables = all(audit.table is not None for audit in report.audits)
    audited = Safeguard(
        f"{'Audit of the table before its release,' if tables else 'Membership-inference audit of'} "
        f"{report.origin.created:%Y-%m-%d}",
        [
            verdict(report),
            *tested,
            *warning_sentences(report),
            untested_sentence(report),
            f"Made with Privet {report.origin.version}: {report.origin.command}",
            *fingerprint_sentences(report),
        ],
    )
    return [*proofs, audited]


def _result_words(result: AttackResult) -> str:
    leakage, fpr = result.leakage, result.leakage.reported_fpr
    tpr = None if fpr is None else leakage.tpr(fpr)
    words = (
        f"an AUC of {fraction(leakage.auc.value)} ({fraction(leakage.auc.lower)} to "
        f"{fraction(leakage.auc.upper)})"
    )
    if fpr is None or tpr is None:
        return (
            f"{words}; there were too few non-members to say how many members are found when false alarms "
            f"are rare."
        )
    return (
        f"{words}; with {percent(fpr)} false alarms it finds {percent(tpr.value)} of members "
        f"({rate_range(tpr)})."
    )


def _event_words(event: Mapping[str, Any]) -> str:
    """An event in words: its kind, its numbers, and the events inside of it."""
    numbers = [
        f"{name.replace('_', ' ')} {value:g}"
        for name, value in event.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    ]
    inside = [part for value in event.values() for part in (value if isinstance(value, list) else [value])]
    inner = [_event_words(part) for part in inside if isinstance(part, dict)]
    words = str(event["kind"]).replace("-", " ") + (f" ({', '.join(numbers)})" if numbers else "")
    if not inner:
        return words
    parts = " and ".join(inner[:_ENTRIES]) + (" and others" if len(inner) > _ENTRIES else "")
    return f"{count(event['times'])} times {parts}" if event["kind"] == "repeat" else f"{words} of {parts}"


def _count_words(number: int, singular: str, plural: str = "") -> str:
    return f"{count(number)} {singular if number == 1 else plural or singular + 's'}"
