"""The section on attacks that recover something: one chart for all attacks, tables, and a gallery where it is
asked for.
"""

from privet.exhibits import Exhibit, Picture, Shown
from privet.reporting.charts.figures import chart_figure
from privet.reporting.charts.recoveries import SuccessRow, success_chart, success_rows
from privet.reporting.content import ReportContent
from privet.reporting.facts import ModelAudit
from privet.reporting.markup import Html, bullet_list, element, join_html, paragraph, section, table, text
from privet.reporting.numbers import at_least, count, percent, percent_at_most, rate_range
from privet.reporting.pictures import data_uri
from privet.reporting.recovery_facts import RecoveryResult
from privet.reporting.recovery_words import leak_range, leak_sentence, recovery_sentences

__all__ = ["recovery_section", "recovery_tiles"]

_PRIVATE = (
    "This gallery shows private data: the truth of each target beside what was recovered. Keep this file as "
    "confidential as the data."
)


def recovery_tiles(audit: ModelAudit) -> list[tuple[str, str, str]]:
    """Figures to remember of each recovery: its success and its leak."""
    cards = []
    for result in audit.recoveries:
        leakage = result.leakage
        capped = "" if result.ceiling is None else f"; at most {percent_at_most(result.ceiling)} by proof"
        cards.append(
            (
                f"Recovered by {result.name}",
                percent(leakage.success.value),
                f"{rate_range(leakage.success)}; baseline: {percent(leakage.baseline.value)}{capped}",
            )
        )
    return cards


def recovery_section(prefix: str, report: ReportContent, audit: ModelAudit) -> Html:
    """What attacks recover, against what they would without the data; empty where none was run."""
    if not audit.recoveries:
        return Html("")
    rows = success_rows(audit)
    parts = [
        bullet_list((text(words) for words in recovery_sentences(audit)), "said"),
        chart_figure(
            f"{prefix}-recoveries-chart",
            success_chart(rows),
            caption=(
                "Each attack from left to right: how often it would succeed anyway (baseline), how often it "
                "succeeded (with its interval), and how often any attack can succeed by proof (ceiling). "
                "Only the way from baseline to success is a leak."
            ),
            description="; ".join(_row_words(row) for row in rows) + ".",
            height=130 + 64 * len(rows),
            numbers=_success_table(rows),
        ),
        _leak_table(audit),
    ]
    for result in audit.recoveries:
        parts += [_group_table(result), *_gallery(result, shown=report.exhibits)]
    return section(f"{prefix}-recoveries", "What attacks recover", parts, level=3)


def _row_words(row: SuccessRow) -> str:
    proved = "nothing proved" if row.ceiling is None else f"at most {percent_at_most(row.ceiling)} by proof"
    return (
        f"{row.name}: baseline {percent(row.baseline.value)}, success {percent(row.success.value)} "
        f"({rate_range(row.success)}), {proved}"
    )


def _success_table(rows: list[SuccessRow]) -> Html:
    return table(
        "Every attack between its baseline and its ceiling",
        ["Attack", "Baseline", "Compared with", "Success", "At most, by proof"],
        [
            [
                text(row.name),
                text(percent(row.baseline.value)),
                text(row.compared_with),
                join_html([text(percent(row.success.value)), _range(rate_range(row.success))]),
                text("no proof" if row.ceiling is None else percent_at_most(row.ceiling)),
            ]
            for row in rows
        ],
    )


def _leak_table(audit: ModelAudit) -> Html:
    return table(
        "Leak: success minus baseline",
        ["Attack", "A hit means", "In the data", "Left out", "Leak", "ε at least"],
        [
            [
                text(result.name),
                text(result.leakage.criterion),
                text(count(result.leakage.inside)),
                text(count(result.leakage.outside) if result.leakage.outside else "none"),
                join_html(
                    [text(_signed_points(result.leakage.leak.value)), _range(leak_range(result.leakage))]
                ),
                text("–" if result.epsilon is None else at_least(result.epsilon)),
            ]
            for result in audit.recoveries
        ],
        "recovered",
    )


def _group_table(result: RecoveryResult) -> Html:
    if not result.groups:
        return Html("")
    figures = table(
        f"{result.name}, by group",
        ["Group", "Success", "Baseline", "Leak"],
        [
            [
                text(group.name),
                join_html(
                    [text(percent(group.leakage.success.value)), _range(rate_range(group.leakage.success))]
                ),
                text(percent(group.leakage.baseline.value)),
                join_html(
                    [text(_signed_points(group.leakage.leak.value)), _range(leak_range(group.leakage))]
                ),
            ]
            for group in result.groups
        ],
    )
    sentences = (text(f"{group.name}: {leak_sentence(group.leakage)}") for group in result.groups)
    return join_html([figures, bullet_list(sentences, "said")])


def _gallery(result: RecoveryResult, *, shown: bool) -> list[Html]:
    """Recovered things beside the truth and the best blind guess, or a sentence in their place."""
    if not result.exhibits:
        return []
    if not shown:
        return [
            paragraph(
                f"{count(len(result.exhibits))} recovered things of {result.name} can be shown beside the "
                f"truth. They are private data, so they are left out: save the report with exhibits=True to "
                f"see them.",
                "note",
            )
        ]
    return [
        element("h4", text(f"Recovered by {result.name}, beside the truth and the best blind guess")),
        paragraph(_PRIVATE, "private"),
        element("ul", join_html(_exhibit(exhibit) for exhibit in result.exhibits), {"class": "gallery"}),
    ]


def _exhibit(exhibit: Exhibit) -> Html:
    things = [("Truth", exhibit.truth), ("Recovered", exhibit.recovered)]
    things += [] if exhibit.blind is None else [("Blind guess", exhibit.blind)]
    inside = join_html(
        element("div", join_html([_show(thing, name, exhibit.caption), element("span", text(name))]))
        for name, thing in things
    )
    kind = "pictures" if isinstance(exhibit.truth, Picture) else "texts"
    member = {True: " In the data.", False: " Left out.", None: ""}[exhibit.member]
    words = f"{exhibit.caption[:1].upper()}{exhibit.caption[1:]}." if exhibit.caption else ""
    caption = f"{words}{member}".strip()
    return element(
        "li",
        join_html([element("div", inside, {"class": kind}), element("p", text(caption), {"class": "note"})]),
    )


def _show(thing: Shown, name: str, caption: str) -> Html:
    if isinstance(thing, str):
        return element("code", text(thing))
    height, width = thing.pixels.shape[:2]
    words = f"{name}, a picture of {width} by {height} pixels" + (f"; {caption}" if caption else "")
    return Html(f'<img src="{data_uri(thing)}" alt="{text(words)}" width="{width}" height="{height}">')


def _signed_points(value: float) -> str:
    return f"{100 * value:+.1f}".replace("-", "−") + "\u00a0points"


def _range(words: str) -> Html:
    return element("span", text(words), {"class": "range"})
