"""The part of a model card on attacks that recover something."""

from privet.exhibits import Picture, Shown
from privet.reporting.content import ReportContent
from privet.reporting.documents.markdown import escape_markdown, markdown_table
from privet.reporting.facts import ModelAudit
from privet.reporting.numbers import at_least, count, percent, percent_at_most, rate_range
from privet.reporting.pictures import data_uri
from privet.reporting.recovery_facts import RecoveryResult
from privet.reporting.recovery_words import leak_range

__all__ = ["recovery_parts"]

_HEADER = [
    "Model",
    "Attack",
    "Sees",
    "A hit means",
    "Targets in / left out",
    "Baseline",
    "Success",
    "Leak, in points",
    "At most, by proof",
    "ε, at least",
]
_EXHIBITS = ["Truth", "Recovered", "Blind guess", "Result"]


def recovery_parts(report: ReportContent) -> list[str]:
    """A heading and a table of all recoveries, and a gallery where it was asked for; nothing without
    recoveries.
    """
    pairs = [(audit, result) for audit in report.audits for result in audit.recoveries]
    if not pairs:
        return []
    return [
        "### What attacks recover",
        "Success is the share of targets in the data that an attack recovers. Only what goes beyond the "
        "baseline is a leak.",
        markdown_table(_HEADER, [_row(audit, result) for audit, result in pairs]),
        *(_gallery(report) if report.exhibits else []),
    ]


def _row(audit: ModelAudit, result: RecoveryResult) -> list[str]:
    leakage = result.leakage
    return [
        audit.name,
        result.name,
        result.adversary.sees,
        leakage.criterion,
        f"{count(leakage.inside)} / {count(leakage.outside)}",
        f"{percent(leakage.baseline.value)} ({leakage.baseline_kind})",
        f"{percent(leakage.success.value)} ({rate_range(leakage.success)})",
        f"{100 * leakage.leak.value:+.1f} ({leak_range(leakage)})",
        "nothing is proved" if result.ceiling is None else percent_at_most(result.ceiling),
        "not known" if result.epsilon is None else at_least(result.epsilon),
    ]


def _gallery(report: ReportContent) -> list[str]:
    parts = []
    for audit in report.audits:
        for result in audit.recoveries:
            if result.exhibits:
                rows = [
                    [
                        _show(each.truth),
                        _show(each.recovered),
                        _show(each.blind),
                        escape_markdown(each.caption),
                    ]
                    for each in result.exhibits
                ]
                lines = [_EXHIBITS, ["---"] * len(_EXHIBITS), *rows]
                parts += [
                    f"**Recovered by {escape_markdown(result.name)}. These are private data: keep this file "
                    f"as confidential as the data.**",
                    "\n".join(f"| {' | '.join(line)} |" for line in lines),
                ]
    return parts


def _show(thing: Shown | None) -> str:
    if thing is None:
        return "–"
    return f"![picture]({data_uri(thing)})" if isinstance(thing, Picture) else escape_markdown(thing)
