"""Advice on defences: what a comparison measured, or which defence to try first and by which command.

*With a comparison* its recommendation is quoted, with its numbers. *Without one* the figures of the audit say
where to begin. A model that fits members better than others is fitted too closely: early stopping, then
weight decay; hidden confidences do not help there, because the label alone tells. A model that is as good on
others, and still leaks, knows single records: clipping and noise limit each of them. An empirical defence
never gets an ε here.
"""

from privet.reporting.advice_piece import Advice
from privet.reporting.content import ReportContent
from privet.reporting.defence_choice import choose_defence, recommendation
from privet.reporting.defence_facts import WITHOUT_DEFENCE, ComparisonContent
from privet.reporting.facts import ModelAudit, Standing
from privet.reporting.numbers import count, percent, points

__all__ = ["defence_to_try", "quote_comparison"]

_WIDE_GAP = 0.02
_COMMAND = "privet compare study.py --out defences.json"
_HOW = f"{_COMMAND} measures it beside others, and privet audit --comparison defences.json quotes it."
_STUDY = "study.py sets recipes = [NoDefence(), EarlyStop(), PrivateTraining(epsilon=8, delta=1e-5)]."


def quote_comparison(report: ReportContent, audit: ModelAudit) -> list[Advice]:
    """The recommendation of the report's comparison; nothing without one, nor for a table."""
    comparison = report.comparison
    if comparison is None or audit.table is not None:
        return []
    taken = choose_defence(comparison).taken
    what = (
        "Use the defence that was measured to be the best choice."
        if taken.name != WITHOUT_DEFENCE
        else "Keep the training as it is: no defence was measured to be a better choice."
    )
    where = (
        f"Measured on {count(comparison.records)} records and {count(comparison.exposed)} most exposed ones, "
        f"at {percent(comparison.fpr)} false alarms, by attacks with {comparison.references} reference "
        f"models that use the same defence."
    )
    doubt = (
        "" if taken.proved else " A better attack may find more of it, because nothing is proved about it."
    )
    return [Advice(what, f"{recommendation(comparison)} {_plain_words(comparison)}{where}{doubt}")]


def defence_to_try(report: ReportContent, audit: ModelAudit) -> list[Advice]:
    """The defence to try first for this model, and the command; nothing where a comparison is quoted."""
    if report.comparison is not None or audit.table is not None or audit.text is not None:
        return []
    if audit.regression is not None:
        return _fit_quantities_less(audit)
    if audit.train_accuracy is None or audit.test_accuracy is None:
        return _try_without_accuracies(audit)
    gap = audit.train_accuracy - audit.test_accuracy
    return _fit_less(gap) if gap >= _WIDE_GAP else _limit_each_record(audit)


def _plain_words(comparison: ComparisonContent) -> str:
    """The model without a defence, where the recommendation does not compare with it already."""
    plain = next((each for each in comparison.defences if each.name == WITHOUT_DEFENCE), None)
    if plain is None or plain in choose_defence(comparison):
        return ""
    return (
        f"Without a defence the accuracy is {percent(plain.test_accuracy.value)}, and attacks find "
        f"{percent(plain.tpr_population.value)} of the population and {percent(plain.tpr_exposed.value)} of "
        "the most exposed. "
    )


def _fit_less(gap: float) -> list[Advice]:
    # A member is right with probability a, another with a − gap. Guessing "member" where the label is right
    # is then correct for a share of (a + 1 − (a − gap))/2 = (1 + gap)/2 of a balanced set.
    return [
        Advice(
            "Fit the data less closely: try early stopping first.",
            f"Accuracy is {points(gap)} higher on members than on others. After early stopping try weight "
            f"decay (of trees: larger leaves). To hide confidences does not help: whether the label is "
            f"right tells members from others in {percent((1 + gap) / 2)} of cases. Such defences prove "
            f"nothing, and single records may stay exposed. {_HOW} {_STUDY}",
        )
    ]


def _limit_each_record(audit: ModelAudit) -> list[Advice]:
    if audit.claim is not None or audit.standing is Standing.BROKEN:
        return []
    if not audit.detected:
        return [Advice("See what a proof would cost before you decide.", f"{_HOW} {_STUDY}")]
    fpr = audit.strongest.leakage.reported_fpr
    tpr = None if fpr is None else audit.strongest.leakage.tpr(fpr)
    found = "" if tpr is None or fpr is None else f" ({percent(tpr.value)} at {percent(fpr)} false alarms)"
    return [
        Advice(
            "Limit what each record can teach: try DP-SGD first, also at a large ε.",
            f"The model is about as accurate on others as on members, and attacks still find members{found}. "
            f"So it knows single records, which early stopping and weight decay leave exposed. DP-SGD "
            f"clips each record. {_HOW} {_STUDY}",
        )
    ]


def _try_without_accuracies(audit: ModelAudit) -> list[Advice]:
    if audit.claim is not None or not (audit.results and audit.detected):
        return []
    return [
        Advice(
            "Try early stopping and DP-SGD first.",
            "The accuracies on members and on others are not known here. If they differ, early stopping "
            "lowers what attacks find; if not, single records are known, and DP-SGD limits each of them. "
            f"{_HOW} {_STUDY}",
        )
    ]


def _fit_quantities_less(audit: ModelAudit) -> list[Advice]:
    fit = audit.regression
    if fit is None or fit.train_r2 is None or fit.test_r2 is None or fit.train_r2 - fit.test_r2 < _WIDE_GAP:
        return []
    return [
        Advice(
            "Fit the data less closely: try early stopping first.",
            f"R² is {fit.train_r2:.3f} on members and {fit.test_r2:.3f} on others. After early stopping try "
            "weight decay (of trees: larger leaves). They prove nothing. A study of defences takes "
            "classifiers alone, so audit each model, and put the reports side by side: privet compare "
            "before.json after.json.",
        )
    ]
