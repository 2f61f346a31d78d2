"""The verdict in one sentence. It never says "private".

It says what was found, at which power, and what is proved.
"""

from privet.reporting.caution import delta_alarm
from privet.reporting.content import ReportContent
from privet.reporting.facts import AttackResult, ModelAudit, Standing
from privet.reporting.numbers import at_least, at_most, fraction, percent, percent_at_most
from privet.reporting.recovery_words import recovery_breach, recovery_clause

__all__ = ["breach", "sentence", "verdict"]


def verdict(report: ReportContent) -> str:
    """The sentence of a report: that of its worst model, with a word on the others."""
    worst = report.worst
    of_worst = sentence(worst)
    if len(report.audits) == 1:
        return of_worst
    alike = sum(audit.standing is worst.standing for audit in report.audits)
    if alike == len(report.audits):
        return f"{of_worst} The others have the same standing."
    better = len(report.audits) - alike
    return (
        f"{of_worst} {better} of {len(report.audits)} models {'stands' if better == 1 else 'stand'} better."
    )


def sentence(audit: ModelAudit) -> str:
    """The sentence of a model, and a second one where its δ is too large."""
    alarm = delta_alarm(audit)
    return f"{_finding(audit)} {alarm}" if alarm else _finding(audit)


def _finding(audit: ModelAudit) -> str:
    proved = "∞" if audit.epsilon_proved is None else at_most(audit.epsilon_proved)
    match audit.standing:
        case Standing.BROKEN:
            return f"{audit.name} breaks its claim: {breach(audit)}."
        case Standing.LEAKS:
            what = "who was in its training data" if audit.on_records else "which canaries it was trained on"
            if not audit.detected and audit.recovered:
                what = "what it was trained on" if audit.table is None else "facts about the people in it"
            return (
                f"{audit.name} leaks {what}: {_detection_clause(audit)}, and no proof caps how "
                f"much{_canaries(audit)}."
            )
        case Standing.LEAKS_WITHIN:
            return (
                f"{audit.name} leaks, and within its proof: {_detection_clause(audit)}, and it leaks at most "
                f"ε = {proved} by proof{_canaries(audit)}."
            )
        case Standing.NOT_DETECTED_PROVED:
            return (
                f"{_nothing_found(audit)} (an ε above {_power(audit)} cannot be seen with so many "
                f"records), and it leaks at most ε = {proved} by proof{_canaries(audit)}."
            )
        case Standing.NOT_DETECTED:
            return (
                f"{_nothing_found(audit)}; an ε above {_power(audit)} cannot be seen with so many "
                f"records, and nothing is proved{_canaries(audit)}."
            )


def _nothing_found(audit: ModelAudit) -> str:
    recovered = "no attack recovered more than its baseline"
    if not audit.results:
        return f"A leak of {audit.name} was not detected at this power: {recovered}"
    more = f", and {recovered}" if audit.recoveries else ""
    return f"Membership in {audit.name} was not detected at this power{more}"


def _power(audit: ModelAudit) -> str:
    """The largest ε that so many records could have shown."""
    if audit.results:
        return at_least(audit.strongest.finding.ceiling)
    findings = [recovery.bound.finding for recovery in audit.recoveries]
    return at_least(max([0.0, *(finding.ceiling for finding in findings if finding is not None)]))


def breach(audit: ModelAudit) -> str:
    """A clause that says which measured lower bound is above which claimed upper bound."""
    sure = f"at {100 * audit.confidence:.3g} % confidence"
    if audit.violated:
        what = "an attack"
        if audit.results and audit.tightest.finding.measured.value == audit.epsilon_measured:
            what = "an attack" if audit.tightest in audit.on_records else "an attack on canaries"
        return (
            f"{what} shows ε ≥ {at_least(audit.epsilon_measured)} {sure}, "
            f"and ε ≤ {at_most(audit.epsilon_proved or 0.0)} was claimed"
        )
    for result in audit.recoveries:
        if result.is_above_ceiling:
            return f"{recovery_breach(result)}, {sure}"
    rate = audit.above_ceiling[0]
    return (
        f"“{rate.attack}” finds at least {percent(rate.tpr.lower)} of members with {percent(rate.fpr)} false "
        f"alarms, {sure}, and the claim allows any attack {percent_at_most(rate.ceiling)}"
    )


def _canaries(audit: ModelAudit) -> str:
    """Clauses on what recoveries and canaries showed beside the rest."""
    recovered = f"; {recovery_clause(audit)}" if audit.detected and audit.recovered else ""
    return f"{recovered}{_canary_clause(audit)}"


def _canary_clause(audit: ModelAudit) -> str:
    """A clause on what canaries showed."""
    if not audit.canaries_detected or not audit.on_records:
        return ""
    measured = audit.epsilon_of_canaries
    if measured:
        return f"; canaries in its training show that it is at least ε = {at_least(measured)}"
    auc = max(result.leakage.auc.value for result in audit.on_canaries if result.detected)
    return (
        f"; an attack tells the canaries in its training from others (AUC {fraction(auc)}), and shows no ε "
        f"above 0"
    )


def _detection_clause(audit: ModelAudit) -> str:
    """A clause on the statement that excludes chance, the one with the fewest false alarms.

    Canaries are called canaries: to find them is not to find a person.
    """
    if audit.recovered and not audit.detected:
        return recovery_clause(audit)
    result = audit.strongest
    leakage = result.leakage
    members = "canaries" if result.planted else "members"
    rates = [(fpr, tpr) for fpr, tpr in sorted(leakage.tprs.items()) if tpr is not None and tpr.lower > fpr]
    if rates:
        fpr, tpr = rates[0]
        return (
            f"with {percent(fpr)} false alarms, {percent(tpr.value)} of {members} are "
            f"found{_and_epsilon(result)}"
        )
    if not leakage.auc.lower <= 0.5 <= leakage.auc.upper:
        return (
            f"an attack tells {members} from others with AUC "
            f"{fraction(leakage.auc.value)}{_and_epsilon(result)}"
        )
    if result.finding.measured.value > 0:
        on = " on canaries" if result.planted else ""
        return f"an attack{on} shows ε ≥ {at_least(result.finding.measured.value)}"
    if result.detected:
        return f"an attack names {members} more often than others"
    return _in_a_group(audit)


def _and_epsilon(result: AttackResult) -> str:
    measured = result.finding.measured.value
    return f" and ε is at least {at_least(measured)}" if measured > 0 else ""


def _in_a_group(audit: ModelAudit) -> str:
    """A clause for a model where membership was detected in one class or group only."""
    if audit.harm is not None:
        for noun, groups in (("class", audit.harm.classes), ("group", audit.harm.groups)):
            for group in groups:
                if group.flagged or not group.leakage.auc.lower <= 0.5 <= group.leakage.auc.upper:
                    return (
                        f"members of {noun} {group.name} are told from others with AUC "
                        f"{fraction(group.leakage.auc.value)}"
                    )
    return "an attack tells members from others"
