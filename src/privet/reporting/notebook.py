"""A report in a notebook: the verdict and a table of the attacks, as a piece of HTML without styles or
scripts.
"""

from privet.reporting.caution import attack_strength
from privet.reporting.content import ReportContent
from privet.reporting.markup import Html, element, join_html, paragraph, text
from privet.reporting.numbers import at_least, at_most, fraction, percent
from privet.reporting.verdicts import verdict

__all__ = ["notebook_summary"]

_HEADER = ("Model", "Attack", "AUC", "Members found", "ε at least", "ε at most")


def notebook_summary(report: ReportContent) -> str:
    """Escaped HTML: nothing in a name becomes markup."""
    rows = [_row(cells) for cells in _cells(report)]
    head = element("tr", join_html(element("th", text(words)) for words in _HEADER))
    table = element("table", join_html([element("thead", head), element("tbody", join_html(rows))]))
    heading = element("strong", text(report.title))
    parts = [heading, paragraph(verdict(report)), table]
    parts += [paragraph(attack_strength(report.worst))] if report.worst.results else []
    return element("div", join_html(parts))


def _row(cells: list[str]) -> Html:
    return element("tr", join_html(element("td", text(cell)) for cell in cells))


def _cells(report: ReportContent) -> list[list[str]]:
    rows = []
    for audit in report.audits:
        proved = "no proof" if audit.epsilon_proved is None else at_most(audit.epsilon_proved)
        for result in audit.results:
            fpr = result.leakage.reported_fpr
            tpr = None if fpr is None else result.leakage.tpr(fpr)
            found = "–" if fpr is None or tpr is None else f"{percent(tpr.value)} at {percent(fpr)}"
            auc, measured = fraction(result.leakage.auc.value), at_least(result.finding.measured.value)
            rows.append([audit.name, result.name, auc, found, measured, proved])
        for recovery in audit.recoveries:
            success, baseline = recovery.leakage.success.value, recovery.leakage.baseline.value
            rates = f"{percent(success)} recovered, baseline {percent(baseline)}"
            shown = "–" if recovery.epsilon is None else at_least(recovery.epsilon)
            rows.append([audit.name, recovery.name, "–", rates, shown, proved])
    return rows
