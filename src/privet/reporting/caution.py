"""What must be read beside a verdict: how strong the attacks were, and a δ that is too large for so many units.

A verdict says what was found. What was not found depends on who looked: a threshold on the model's own confidence finds little,
and its silence is no evidence. So every form of a report says how strong the attacks were, and none shows a verdict in the colour
of good news where only weak attacks were run.
"""

from privet.caveats import Caveat
from privet.reporting.facts import ModelAudit, Standing, Strength
from privet.reporting.numbers import count, small
from privet.reporting.report import Report
from privet.reporting.standings import Look, look

__all__ = ["attack_strength", "delta_alarm", "look_of", "rests_on", "warned"]

_SAID = {
    Strength.TARGET_ALONE: (
        "Only weak attacks were run: each looks at the target alone, and none compares a record with reference models. Stronger "
        "attacks find more as a rule, so what these did not find says little."
    ),
    Strength.UNKNOWN: "How strong the attack is, is not known: only its scores were given.",
    Strength.CALIBRATED: (
        "Strong attacks were run: they compare what the model says of a record with what reference models, shadow models or a "
        "regression say of it."
    ),
}
_SILENT = (Standing.NOT_DETECTED, Standing.NOT_DETECTED_PROVED)


def attack_strength(audit: ModelAudit) -> str:
    """How strong the attacks on records were, in words."""
    return _SAID[audit.strength]


def look_of(audit: ModelAudit) -> Look:
    """How to show where a model stands.

    A silence of weak attacks, or of unknown ones, is not shown as good news; nor is a proof at a δ that is too large.
    """
    shown = look(audit.standing)
    if audit.standing is Standing.NOT_DETECTED_PROVED and Caveat.DELTA_TOO_LARGE in audit.caveats:
        return Look("Not detected, and δ is too large for the proof", "!", "within")
    if audit.standing in _SILENT and audit.canaries_told:
        proved = ", within the proof" if audit.standing is Standing.NOT_DETECTED_PROVED else ""
        return Look(f"Not detected on records, canaries told{proved}", "≤", "within")
    if audit.standing in _SILENT and audit.strength is not Strength.CALIBRATED:
        by = "weak attacks" if audit.strength is Strength.TARGET_ALONE else "an unknown attack"
        proved = ", bounded by proof" if audit.standing is Standing.NOT_DETECTED_PROVED else ""
        return Look(f"Not detected by {by}{proved}", "?", "unseen")
    return shown


def delta_alarm(audit: ModelAudit) -> str:
    """That δ is too large, with both numbers; empty where it is not known to be."""
    if Caveat.DELTA_TOO_LARGE not in audit.caveats:
        return ""
    among = "" if audit.population is None else f" for {count(audit.population)} records"
    return f"δ = {small(audit.delta)} is too large{among}: a mechanism that publishes a whole record now and then would have the same ε."


def rests_on(audit: ModelAudit) -> list[str]:
    """What the figures rest on: every caveat of the claim and of its δ, one sentence each."""
    return [f"This rests on a condition: {caveat.sentence}" for caveat in audit.caveats]


def warned(report: Report) -> list[str]:
    """The checks that warned, for every model."""
    several = len(report.audits) > 1
    return [
        f"{f'{audit.name}: ' if several else ''}Warning, {check.name}: {check.finding} {check.advice}".strip()
        for audit in report.audits
        for check in audit.warnings
    ]
