"""Several models side by side: one table, accuracy against leakage, and ε of each from both sides."""

from collections.abc import Sequence

from privet.reporting.caution import audit_badge
from privet.reporting.charts.epsilon import epsilon_chart, model_spans
from privet.reporting.charts.figures import chart_figure
from privet.reporting.charts.frontier import accuracy_rate, frontier_chart
from privet.reporting.charts.roc import models_roc
from privet.reporting.content import ReportContent
from privet.reporting.facts import ModelAudit
from privet.reporting.markup import Html, element, join_html, section, table, text
from privet.reporting.numbers import at_least, at_most, fraction, percent
from privet.reporting.standings import badge_html

__all__ = ["comparison"]


def comparison(report: ReportContent, names: dict[str, str]) -> Html:
    """The section that compares the models of a report; ``names`` gives the anchor of each.

    Models on which membership was not attacked have no figures to compare here.
    """
    audits = [audit for audit in report.audits if audit.results]
    if len(audits) < 2:
        return Html("")
    rates = [audit.strongest.leakage.reported_fpr for audit in audits]
    fpr = None if any(rate is None for rate in rates) else max(rate for rate in rates if rate is not None)
    overview = _overview(audits, fpr, names)
    frontier = frontier_chart(audits)
    charts = []
    if frontier is not None:
        charts.append(
            chart_figure(
                "frontier",
                frontier,
                caption=(
                    "Up is more useful, left is harder to attack. Bars are intervals; those of one model "
                    "hold together with all other statements on it."
                ),
                description="Test accuracy of each model over the AUC of the strongest attack on it: "
                + "; ".join(_frontier_words(audit) for audit in audits)
                + ".",
                height=380,
                numbers=_frontier_table(audits),
            )
        )
    charts.append(
        chart_figure(
            "models-roc",
            models_roc(audits),
            caption=(
                "The strongest attack on each model, on logarithmic axes. The dashed line is blind guessing."
            ),
            description="ROC of the strongest attack on each model: "
            + "; ".join(
                f"{audit.name}, AUC {fraction(audit.strongest.leakage.auc.value)}" for audit in audits
            )
            + ".",
            height=380,
            numbers=_rates_table(audits),
        )
    )
    spans = model_spans(audits)
    both = chart_figure(
        "models-epsilon",
        epsilon_chart(spans),
        caption=(
            "At least, by attacks on records and on canaries; at most, by proof; the truth lies between. "
            "Where nothing is proved, the bar has no end. Canaries are easy to detect on purpose, and their "
            "attacker sees more: a larger ε on the canaries of one model than on the records of another "
            "does not say that the first model leaks more."
        ),
        description="; ".join(
            f"{span.name}: ε at least {_format_epsilon(span.measured)} on records, at least "
            f"{_format_epsilon(span.canaries)} on canaries, "
            + ("no proof" if span.proved is None else f"at most {at_most(span.proved)}")
            for span in spans
        )
        + ".",
        height=140 + 44 * len(spans),
        numbers=table(
            "ε of each model",
            [
                "Model",
                "At least, on records",
                "At least, on canaries",
                "At most, proved",
                "Most that so many records can show",
            ],
            [
                [
                    text(span.name),
                    text(_format_epsilon(span.measured)),
                    text(_format_epsilon(span.canaries)),
                    text("no proof" if span.proved is None else at_most(span.proved)),
                    text(at_least(span.ceiling)),
                ]
                for span in spans
            ],
        ),
    )
    return section(
        "compared",
        "The models compared",
        [
            overview,
            element("div", join_html(charts), {"class": "pair"}),
            element("h3", text("ε of each, from both sides")),
            both,
        ],
    )


def _overview(audits: Sequence[ModelAudit], fpr: float | None, names: dict[str, str]) -> Html:
    header = ["Model", "Verdict", _utility_name(audits), "AUC"]
    if fpr is not None:
        header.append(f"Found at {percent(fpr)} false alarms")
    header += ["ε at least, on records", "ε at least, on canaries", "ε at most"]
    rows = []
    for audit in audits:
        leakage, proved = audit.strongest.leakage, audit.epsilon_proved
        row = [
            element("a", text(audit.name), {"href": f"#{names[audit.name]}"}),
            badge_html(audit_badge(audit)),
            text(audit.utility or "–"),
            text(fraction(leakage.auc.value)),
        ]
        if fpr is not None:
            tpr = leakage.tpr(fpr)
            row.append(text("–" if tpr is None else percent(tpr.value)))
        row += [
            text(_format_epsilon(audit.epsilon_of_records if audit.on_records else None)),
            text(_format_epsilon(audit.epsilon_of_canaries)),
            text("no proof" if proved is None else at_most(proved)),
        ]
        rows.append(row)
    return table("All models, as given", header, rows, "overview")


def _utility_name(audits: Sequence[ModelAudit]) -> str:
    return "Test accuracy" if all(audit.regression is None for audit in audits) else "Test accuracy or R²"


def _format_epsilon(epsilon: float | None) -> str:
    return "–" if epsilon is None else at_least(epsilon)


def _frontier_words(audit: ModelAudit) -> str:
    accuracy = "not known" if audit.test_accuracy is None else percent(audit.test_accuracy)
    return f"{audit.name}, accuracy {accuracy}, AUC {fraction(audit.strongest.leakage.auc.value)}"


def _frontier_table(audits: Sequence[ModelAudit]) -> Html:
    rows = []
    for audit in audits:
        accuracy, auc = accuracy_rate(audit), audit.strongest.leakage.auc
        rows.append(
            [
                text(audit.name),
                text(
                    "–"
                    if accuracy is None
                    else f"{percent(accuracy.value)} ({percent(accuracy.lower)} to {percent(accuracy.upper)})"
                ),
                text(f"{fraction(auc.value)} ({fraction(auc.lower)} to {fraction(auc.upper)})"),
            ]
        )
    return table("Accuracy and leakage", ["Model", "Test accuracy", "AUC"], rows)


def _rates_table(audits: Sequence[ModelAudit]) -> Html:
    tprs = [(audit, audit.strongest.leakage.tprs) for audit in audits]
    rates = list(tprs[0][1])
    rows = [
        [
            text(audit.name),
            *(text("–" if (rate := by_fpr[fpr]) is None else percent(rate.value)) for fpr in rates),
        ]
        for audit, by_fpr in tprs
    ]
    return table("Members found by false-alarm rate", ["Model", *(percent(fpr) for fpr in rates)], rows)
