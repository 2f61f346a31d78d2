"""The verdict in one sentence. It never says "private": it says what was found, at which power, and what is proved."""

from privet.reporting.caution import delta_alarm
from privet.reporting.facts import ModelAudit, Standing
from privet.reporting.numbers import at_least, at_most, percent
from privet.reporting.report import Report

__all__ = ["sentence", "verdict"]


def verdict(report: Report) -> str:
    """One sentence for a report: that of its only model, or of the worst with a word on the others."""
    worst = report.worst
    said = sentence(worst)
    if len(report.audits) == 1:
        return said
    alike = sum(audit.standing is worst.standing for audit in report.audits)
    if alike == len(report.audits):
        return f"{said} The others stand alike."
    better = len(report.audits) - alike
    return f"{said} {better} of {len(report.audits)} models {'stands' if better == 1 else 'stand'} better."


def sentence(audit: ModelAudit) -> str:
    """One sentence for a model, and a second one where its δ is too large."""
    alarm = delta_alarm(audit)
    return f"{_finding(audit)} {alarm}" if alarm else _finding(audit)


def _finding(audit: ModelAudit) -> str:
    ceiling = at_least(audit.strongest.finding.ceiling)
    measured = at_least(audit.epsilon_measured)
    proved = "∞" if audit.epsilon_proved is None else at_most(audit.epsilon_proved)
    match audit.standing:
        case Standing.BROKEN:
            return (
                f"{audit.name} breaks its claim: an attack shows ε ≥ {measured} at {100 * audit.confidence:.3g} % confidence, "
                f"and ε ≤ {proved} was claimed."
            )
        case Standing.LEAKS:
            return (
                f"{audit.name} leaks who was in its training data{_power(audit)}, and no proof caps how much."
            )
        case Standing.LEAKS_WITHIN:
            return f"{audit.name} leaks, and within its proof: {_measured(audit)}, and at most ε = {proved} by proof."
        case Standing.NOT_DETECTED_PROVED:
            return (
                f"Membership in {audit.name} was not detected at this power (an ε above {ceiling} cannot be "
                f"seen with so many records), and it leaks at most ε = {proved} by proof{_planted(audit)}."
            )
        case Standing.NOT_DETECTED:
            return (
                f"Membership in {audit.name} was not detected at this power; an ε above {ceiling} cannot be seen "
                f"with so many records, and nothing is proved."
            )


def _planted(audit: ModelAudit) -> str:
    """What canaries showed where attacks on records showed nothing."""
    if audit.epsilon_measured == 0:
        return ""
    return f"; canaries in its training show that it is at least ε = {at_least(audit.epsilon_measured)}"


def _power(audit: ModelAudit) -> str:
    found = audit.strongest.leakage.tpr(1e-3)
    if found is not None and found.lower > 2e-3:
        return f": at one false alarm in a thousand, {percent(found.value)} of members are found"
    return f": an attack tells members from others with AUC {audit.strongest.leakage.auc.value:.2f}"


def _measured(audit: ModelAudit) -> str:
    if audit.epsilon_measured > 0:
        return f"attacks show ε ≥ {at_least(audit.epsilon_measured)}"
    return f"an attack has AUC {audit.strongest.leakage.auc.value:.2f}"
