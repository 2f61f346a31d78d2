"""What must be read beside a verdict: how strong the attacks were, and a δ that is too large for so many
units.

A verdict says what was found. A weak attack, such as a threshold on the model's own confidence, finds little,
so it is no evidence where it finds nothing. Every form of a report says how strong the attacks were, and none
shows a verdict in the colour of good news where only weak attacks were run.
"""

from privet.caveats import Caveat
from privet.reporting.content import ReportContent
from privet.reporting.facts import ModelAudit, Standing, Strength
from privet.reporting.numbers import at_least, count, small
from privet.reporting.standings import Badge, standing_badge

__all__ = ["attack_strength", "audit_badge", "condition_sentences", "delta_alarm", "warning_sentences"]

_STRENGTH_SENTENCES = {
    Strength.TARGET_ALONE: (
        "Only weak attacks were run: each looks at the target alone, and none compares a record with "
        "reference models. Stronger attacks find more as a rule, so what these did not find says little."
    ),
    Strength.UNKNOWN: "It is not known how strong the attack is: only its scores were given.",
    Strength.CALIBRATED: (
        "Strong attacks were run: they compare what the model says of a record with what reference models, "
        "shadow models or a regression say of it."
    ),
}
_NOT_DETECTED = (Standing.NOT_DETECTED, Standing.NOT_DETECTED_PROVED)


def attack_strength(audit: ModelAudit) -> str:
    """One or two sentences on how strong the attacks on records were."""
    return _STRENGTH_SENTENCES[audit.strength]


def audit_badge(audit: ModelAudit) -> Badge:
    """The badge of a model.

    "Not detected" by weak or unknown attacks is not shown as good news; nor is a proof at a δ that is too
    large. Canaries that were detected are named together with the ε that they show, because an attack can
    tell canaries apart without showing an ε above 0. An audit of canaries alone says nothing about records.
    """
    proved = audit.epsilon_proved is not None
    if audit.standing is Standing.NOT_DETECTED_PROVED and Caveat.DELTA_TOO_LARGE in audit.caveats:
        return Badge("Not detected, and δ is too large for the proof", "!", "within")
    if audit.standing is not Standing.BROKEN and audit.canaries_detected and not audit.detected:
        records = (
            f"Not detected on records{_weak_attacks(audit)}" if audit.on_records else "No records attacked"
        )
        within = ", within the proof" if proved else ""
        return Badge(
            f"{records}; canaries detected, {_shown_by_canaries(audit)}{within}",
            "≤" if proved else "!",
            "within" if proved or audit.on_records else "leaks",
        )
    if audit.standing in _NOT_DETECTED and audit.table is None and audit.strength is not Strength.CALIBRATED:
        bounded = ", bounded by proof" if proved else ""
        return Badge(f"Not detected{_weak_attacks(audit)}{bounded}", "?", "unseen")
    return standing_badge(audit.standing)


def _weak_attacks(audit: ModelAudit) -> str:
    match audit.strength:
        case Strength.TARGET_ALONE:
            return " by weak attacks"
        case Strength.UNKNOWN:
            return " by an unknown attack"
        case Strength.CALIBRATED:
            return ""


def _shown_by_canaries(audit: ModelAudit) -> str:
    measured = audit.epsilon_of_canaries
    if not measured:
        return "no ε above 0 shown"
    shown = at_least(measured)
    return "ε > 0" if shown == "0" else f"ε ≥ {shown}"


def delta_alarm(audit: ModelAudit) -> str:
    """A sentence that δ is too large for the number of records; empty where that is not known."""
    if Caveat.DELTA_TOO_LARGE not in audit.caveats:
        return ""
    among = "" if audit.population is None else f" for {count(audit.population)} records"
    return (
        f"δ = {small(audit.delta)} is too large{among}: a mechanism that publishes a whole record now and "
        f"then would have the same ε."
    )


def condition_sentences(audit: ModelAudit) -> list[str]:
    """One sentence for every caveat of the claim and of its δ."""
    return [f"This rests on a condition: {caveat.sentence}" for caveat in audit.caveats]


def warning_sentences(report: ReportContent) -> list[str]:
    """One sentence for every check that warned."""
    several = len(report.audits) > 1
    return [
        f"{f'{audit.name}: ' if several else ''}Warning, {check.name}: {check.finding} {check.advice}".strip()
        for audit in report.audits
        for check in audit.warnings
    ]
