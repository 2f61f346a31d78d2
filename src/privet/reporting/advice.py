"""Advice on what to do next. Each piece follows from figures of the report, and names them."""

from privet.auditing import OneRun
from privet.reporting.advice_piece import Advice
from privet.reporting.charts.proved_curve import ceiling_of_pair, highest_tpr
from privet.reporting.content import ReportContent
from privet.reporting.defence_advice import defence_to_try, quote_comparison
from privet.reporting.facts import ModelAudit, Standing
from privet.reporting.numbers import at_least, at_most, count, percent, percent_at_most, points, small
from privet.reporting.table_words import table_advice
from privet.reporting.text_words import text_advice
from privet.reporting.verdicts import breach

__all__ = ["Advice", "advice", "epsilon_caps"]

_TARGETS = (8.0, 3.0, 1.0)
_USUAL_CAUSES = (
    "gradients are clipped per batch and not per record, noise is scaled by the wrong batch size, batches "
    "are not drawn as accounted, records were used in training that the ledger does not contain, or "
    "members and non-members differ even without the model",
    "rows or columns were copied from the data, a domain or a bound was taken from the data without noise, "
    "one person has more rows than the ledger allows for, or targets and control differ even without the "
    "release",
)  # of a model, of a table


def advice(report: ReportContent, audit: ModelAudit) -> list[Advice]:
    """All advice on a model, the most urgent first."""
    return [
        *_settle_warnings(audit),
        *_explain_breach(audit),
        *table_advice(audit),
        *text_advice(audit),
        *quote_comparison(report, audit),
        *_train_privately(report, audit),
        *_lower_epsilon(audit),
        *defence_to_try(report, audit),
        *_look_at_groups(audit),
        *_run_stronger_attacks(audit),
        *_score_more_records(audit),
    ]


def epsilon_caps(delta: float, fpr: float) -> list[tuple[float, float]]:
    """For some values of ε, the highest true-positive rate of any attack at this false-positive rate,
    whatever the mechanism.
    """
    return [(epsilon, ceiling_of_pair(epsilon, delta, fpr)) for epsilon in _TARGETS]


def _settle_warnings(audit: ModelAudit) -> list[Advice]:
    return [
        Advice(
            f"First settle a warning: {check.name}.",
            " ".join(part for part in (check.finding, check.advice) if part),
        )
        for check in audit.warnings
    ]


def _explain_breach(audit: ModelAudit) -> list[Advice]:
    if audit.standing is not Standing.BROKEN:
        return []
    return [
        Advice(
            "Do not rely on the claim until this is explained.",
            f"What was found: {breach(audit)}. Usual causes: {_USUAL_CAUSES[audit.table is not None]}.",
        )
    ]


def _train_privately(report: ReportContent, audit: ModelAudit) -> list[Advice]:
    if audit.claim is not None or audit.table is not None:
        return []
    fpr = (audit.strongest.leakage.reported_fpr if audit.results else None) or 1e-2
    tpr = audit.strongest.leakage.tpr(fpr) if audit.results else None
    measured = "" if tpr is None else f" The attacks that were run found {percent(tpr.value)}."
    caps = ", ".join(
        f"{percent_at_most(cap)} at ε = {epsilon:g}"
        for epsilon, cap in epsilon_caps(audit.delta, fpr)
        if cap < 0.5
    )
    return [
        Advice(
            "Train with differential privacy, so that a proof caps every attack.",
            # What some attacks found is a lower bound, and a cap holds for all attacks: they are not "before"
            # and "after".
            f"Today nothing limits the share of members that an attack finds at {percent(fpr)} false "
            f"alarms.{measured} A better attack may find more, up to all of them. With a proof at δ = "
            f"{small(audit.delta)} no attack finds more than {caps}. These caps follow from (ε, δ) alone; "
            f"the full account of a training run is lower.",
        ),
        *_cost_of_privacy(report, audit, fpr),
    ]


def _cost_of_privacy(report: ReportContent, audit: ModelAudit, fpr: float) -> list[Advice]:
    """The cost of a proof in accuracy, by the other models of the report."""
    comparisons = []
    for other in report.audits:
        proved, cap = other.epsilon_proved, highest_tpr(other.claim, fpr)
        if proved is None or cap is None or other.test_accuracy is None or audit.test_accuracy is None:
            continue
        lost = audit.test_accuracy - other.test_accuracy
        cost = (
            f"costs {points(lost)} of test accuracy" if lost > 0 else f"gains {points(lost)} of test accuracy"
        )
        comparisons.append(
            f"{other.name} (ε ≤ {at_most(proved)}) {cost} and caps the share found at {percent_at_most(cap)}"
        )
    if not comparisons:
        return []
    return [
        Advice(
            "What that costs, by the models of this report.",
            f"At {percent(fpr)} false alarms: {'; '.join(comparisons)}.",
        )
    ]


def _lower_epsilon(audit: ModelAudit) -> list[Advice]:
    """Advice for a proof that allows attacks a lot."""
    fpr, proved = audit.strongest.leakage.reported_fpr if audit.results else None, audit.epsilon_proved
    cap = None if fpr is None else highest_tpr(audit.claim, fpr)
    if proved is None or fpr is None or cap is None or audit.standing is Standing.BROKEN:
        return []
    below = [
        (epsilon, pair)
        for epsilon, pair in epsilon_caps(audit.delta, fpr)
        if epsilon < 0.9 * proved and pair < cap
    ]
    if not below:
        return []
    smaller = ", ".join(f"ε = {epsilon:g} to {percent_at_most(pair)} or less" for epsilon, pair in below)
    return [
        Advice(
            "If that is too much for the people in the data, train at a smaller ε.",
            f"The proof allows an attack up to {percent_at_most(cap)} of members at {percent(fpr)} false "
            f"alarms; {smaller}.",
        )
    ]


def _look_at_groups(audit: ModelAudit) -> list[Advice]:
    if audit.harm is None:
        return []
    worse = [f"class {group.name}" for group in audit.harm.classes if group.flagged]
    worse += [f"group {group.name}" for group in audit.harm.groups if group.flagged]
    if not worse:
        return []
    return [
        Advice(
            "Look at the groups that are worse off than the rest.",
            f"Exposed more than all others together, after correction for the number of comparisons: "
            f"{', '.join(worse)}. More records of their kind, or leaving the rarest out, lowers their share "
            f"of the risk.",
        )
    ]


def _run_stronger_attacks(audit: ModelAudit) -> list[Advice]:
    if not audit.results or any(
        "reference models" in result.adversary.knows or "shadow models" in result.adversary.knows
        for result in audit.results
    ):
        return []
    return [
        Advice(
            "Let a stronger adversary try.",
            "No attack here used reference models. Give the training recipe (recipe=…, 16 references): "
            "such attacks find several times more members at low false-alarm rates.",
        )
    ]


def _score_more_records(audit: ModelAudit) -> list[Advice]:
    if not audit.results:
        return []
    result, sentences = audit.strongest, []
    members, others = result.leakage.roc.members, result.leakage.roc.others
    proved, ceiling = audit.epsilon_proved, result.finding.ceiling
    if result.leakage.tpr(1e-3) is None:
        sentences.append(
            f"{count(others)} non-members cannot show a false-alarm rate of 0.1 %, for which it takes 1,000 "
            f"or more."
        )
    if proved is not None and ceiling < proved:
        sentences.append(
            f"So many records can show an ε up to {at_least(ceiling)}, which cannot test a claim of "
            f"{at_most(proved)}."
        )
    elif not audit.detected:
        sentences.append(f"So many records can show an ε up to {at_least(ceiling)}, by a perfect attack.")
    if not sentences:
        return []
    smaller = min(members, others)
    bound = OneRun(result.finding.measured.confidence)
    if (
        abs(bound.ceiling(smaller, smaller, delta=audit.delta) - ceiling) <= 0.05 * ceiling + 0.05
    ):  # this is the bound that was used
        return [_advise_more_records(bound, smaller, audit.delta, ceiling, sentences)]
    return [Advice("Score more records, or plant canaries, to see more.", " ".join(sentences))]


def _advise_more_records(
    bound: OneRun, records_per_side: int, delta: float, ceiling: float, sentences: list[str]
) -> Advice:
    """Advice with the ceiling at several multiples of the records, because the ceiling does not grow for
    ever.

    With n records the theorem allows for 2nδ failures. Where that is above the level, a perfect attack must
    have guessed about 2nδ/level records too many, so the ceiling tends to ln(level/(2δ)) from above as n
    grows.
    """
    ceilings = {
        times: bound.ceiling(times * records_per_side, times * records_per_side, delta=delta)
        for times in (2, 3, 5, 10)
    }
    best = max(ceilings, key=lambda times: ceilings[times])
    if ceilings[best] < ceiling + 0.05:
        sentences.append(
            f"More records of this kind cannot show more at δ = {small(delta)}: ten times as many can show "
            f"up to {at_least(ceilings[10])}."
        )
        return Advice("Plant canaries, to see more.", " ".join(sentences))
    sentences.append(f"{best} times as many can show up to {at_least(ceilings[best])}.")
    if ceilings[10] < ceilings[best] - 0.005:
        sentences.append(f"More than that cannot: ten times as many can show up to {at_least(ceilings[10])}.")
    return Advice("Score more records, or plant canaries, to see more.", " ".join(sentences))
