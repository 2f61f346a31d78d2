"""What to do next, with numbers. Each piece of advice follows from a figure of the report, which it names."""

from typing import NamedTuple

from privet.auditing import OneRun
from privet.reporting.charts.proved_curve import most_found, pair_ceiling
from privet.reporting.facts import ModelAudit, Standing
from privet.reporting.meaning import telling_rate
from privet.reporting.numbers import at_least, at_most, count, percent, percent_at_most, points, small
from privet.reporting.report import Report
from privet.reporting.verdicts import breach

__all__ = ["Advice", "advice", "caps"]

_TARGETS = (8.0, 3.0, 1.0)
_WIDE_GAP = 0.02


class Advice(NamedTuple):
    """What to do, and the figures that say why."""

    what: str
    why: str


def advice(report: Report, audit: ModelAudit) -> list[Advice]:
    """In the order in which to go about it."""
    return [
        *_checks(audit),
        *_broken(audit),
        *_train_privately(report, audit),
        *_lower(audit),
        *_gap(audit),
        *_harmed(audit),
        *_stronger(audit),
        *_larger(audit),
    ]


def caps(delta: float, fpr: float) -> list[tuple[float, float]]:
    """For a few ε, the most that any attack finds at this false-positive rate, whatever the mechanism is."""
    return [(epsilon, pair_ceiling(epsilon, delta, fpr)) for epsilon in _TARGETS]


def _checks(audit: ModelAudit) -> list[Advice]:
    return [
        Advice(
            f"First settle a warning: {check.name}.",
            " ".join(part for part in (check.finding, check.advice) if part),
        )
        for check in audit.warnings
    ]


def _broken(audit: ModelAudit) -> list[Advice]:
    if audit.standing is not Standing.BROKEN:
        return []
    return [
        Advice(
            "Do not rely on the claim until this is explained.",
            f"What was found: {breach(audit)}. Usual causes: gradients clipped for a batch and not for each record, noise that is scaled by the wrong batch size, "
            f"batches that are not drawn as accounted, records used before the training that the ledger knows, "
            f"or members and non-members that differ without the model.",
        )
    ]


def _train_privately(report: Report, audit: ModelAudit) -> list[Advice]:
    if audit.claim is not None:
        return []
    fpr = telling_rate(audit.strongest) or 1e-2
    found = audit.strongest.leakage.tpr(fpr)
    now = "" if found is None else f" The attacks that were run found {percent(found.value)}."
    told = ", ".join(
        f"{percent_at_most(cap)} at ε = {epsilon:g}" for epsilon, cap in caps(audit.delta, fpr) if cap < 0.5
    )
    return [
        Advice(
            "Train with differential privacy, so that a proof caps every attack.",
            # What some attacks found is a floor, and a cap is a ceiling for all: they are not before and after.
            f"Nothing limits now what share of members an attack finds at {percent(fpr)} false alarms.{now} A better attack may find "
            f"more, up to all of them. With a proof at δ = {small(audit.delta)} no attack finds more than {told}. "
            f"These caps follow from (ε, δ) alone; the full account of a training run is lower.",
        ),
        *_cost(report, audit, fpr),
    ]


def _cost(report: Report, audit: ModelAudit, fpr: float) -> list[Advice]:
    """What the other models of the report show that a proof costs."""
    told = []
    for other in report.audits:
        proved, cap = other.epsilon_proved, most_found(other.claim, fpr)
        if proved is None or cap is None or other.test_accuracy is None or audit.test_accuracy is None:
            continue
        lost = audit.test_accuracy - other.test_accuracy
        cost = (
            f"costs {points(lost)} of test accuracy" if lost > 0 else f"gains {points(lost)} of test accuracy"
        )
        told.append(
            f"{other.name} (ε ≤ {at_most(proved)}) {cost} and caps the share found at {percent_at_most(cap)}"
        )
    if not told:
        return []
    return [
        Advice(
            "What that costs, by the models of this report.",
            f"At {percent(fpr)} false alarms: {'; '.join(told)}.",
        )
    ]


def _lower(audit: ModelAudit) -> list[Advice]:
    """A proof that caps little."""
    fpr, proved = telling_rate(audit.strongest), audit.epsilon_proved
    cap = None if fpr is None else most_found(audit.claim, fpr)
    if proved is None or fpr is None or cap is None or audit.standing is Standing.BROKEN:
        return []
    below = [
        (epsilon, pair) for epsilon, pair in caps(audit.delta, fpr) if epsilon < 0.9 * proved and pair < cap
    ]
    if not below:
        return []
    told = ", ".join(f"ε = {epsilon:g} to {percent_at_most(pair)} or less" for epsilon, pair in below)
    return [
        Advice(
            "If that is too much for the people in the data, train at a smaller ε.",
            f"The proof leaves an attack up to {percent_at_most(cap)} of members at {percent(fpr)} false alarms; {told}.",
        )
    ]


def _gap(audit: ModelAudit) -> list[Advice]:
    if audit.train_accuracy is None or audit.test_accuracy is None:
        return []
    gap = audit.train_accuracy - audit.test_accuracy
    if gap < _WIDE_GAP:
        return []
    return [
        Advice(
            "Fit the data less closely.",
            f"Accuracy is {points(gap)} higher on members than on others. Fewer epochs, weight decay or augmentation lower what attacks "
            f"find, and bound nothing: audit again afterwards.",
        )
    ]


def _harmed(audit: ModelAudit) -> list[Advice]:
    if audit.harm is None:
        return []
    flagged = [f"class {group.name}" for group in audit.harm.classes if group.flagged]
    flagged += [f"group {group.name}" for group in audit.harm.groups if group.flagged]
    if not flagged:
        return []
    return [
        Advice(
            "Look at those who are worse off than the rest.",
            f"Exposed more than all others together, after correction for the number of comparisons: {', '.join(flagged)}. "
            f"More records of their kind, or leaving the rarest out, lowers their share of the risk.",
        )
    ]


def _stronger(audit: ModelAudit) -> list[Advice]:
    if any(
        "reference models" in result.adversary.knows or "shadow models" in result.adversary.knows
        for result in audit.results
    ):
        return []
    return [
        Advice(
            "Let a stronger adversary try.",
            "No attack here compared with reference models. Give the training recipe (recipe=…, 16 references): such attacks "
            "find several times more members at low false-alarm rates.",
        )
    ]


def _larger(audit: ModelAudit) -> list[Advice]:
    result, told = audit.strongest, []
    members, others = result.leakage.roc.members, result.leakage.roc.others
    proved, ceiling = audit.epsilon_proved, result.finding.ceiling
    if result.leakage.tpr(1e-3) is None:
        told.append(
            f"{count(others)} non-members cannot show a false-alarm rate of 0.1 %, for which it takes 1,000 or more."
        )
    if proved is not None and ceiling < proved:
        told.append(
            f"So many records can show an ε up to {at_least(ceiling)}, which cannot test a claim of {at_most(proved)}."
        )
    elif not audit.detected:
        told.append(f"So many records can show an ε up to {at_least(ceiling)}, by a perfect attack.")
    if not told:
        return []
    smaller = min(members, others)
    judge = OneRun(result.finding.measured.confidence)
    if (
        abs(judge.ceiling(smaller, smaller, delta=audit.delta) - ceiling) <= 0.05 * ceiling + 0.05
    ):  # the bound that was used
        return [_more_records(judge, smaller, audit.delta, ceiling, told)]
    return [Advice("Score more records, or plant canaries, to see more.", " ".join(told))]


def _more_records(judge: OneRun, count_of_each: int, delta: float, ceiling: float, told: list[str]) -> Advice:
    """What more records would show: the ceiling at several multiples, because it does not grow for ever.

    With n records the theorem allows for 2nδ failures. Where that is above the level, a perfect attack must have guessed about 2nδ/level
    records too many, so the ceiling tends to ln(level/(2δ)) from above as n grows.
    """
    ceilings = {
        times: judge.ceiling(times * count_of_each, times * count_of_each, delta=delta)
        for times in (2, 3, 5, 10)
    }
    best = max(ceilings, key=lambda times: ceilings[times])
    if ceilings[best] < ceiling + 0.05:
        told.append(
            f"More records of this kind cannot show more at δ = {small(delta)}: ten times as many can show up to "
            f"{at_least(ceilings[10])}."
        )
        return Advice("Plant canaries, to see more.", " ".join(told))
    told.append(f"{best} times as many can show up to {at_least(ceilings[best])}.")
    if ceilings[10] < ceilings[best] - 0.005:
        told.append(f"More than that cannot: ten times as many can show up to {at_least(ceilings[10])}.")
    return Advice("Score more records, or plant canaries, to see more.", " ".join(told))
