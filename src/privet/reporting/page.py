"""The report as one HTML page. The verdict is visible before a script runs; without scripts, tables replace
the charts.

``SECTIONS`` lists the sections on one model in their order.
"""

from collections.abc import Callable
from typing import NamedTuple

from privet.reporting.caution import attack_strength, audit_badge
from privet.reporting.comparison import comparison
from privet.reporting.content import ReportContent
from privet.reporting.facts import ModelAudit, Strength
from privet.reporting.fingerprint_section import identified_section
from privet.reporting.markup import Html, bullet_list, element, join_html, paragraph, text
from privet.reporting.sections_model import epsilon_section, key_figures, roc_section, scores_section
from privet.reporting.sections_people import harm_section, meaning_section
from privet.reporting.sections_recoveries import recovery_section
from privet.reporting.sections_table import table_section
from privet.reporting.sections_text import text_section
from privet.reporting.sections_trust import next_section, reproduce_section, trust_section, words_section
from privet.reporting.standings import badge_html
from privet.reporting.verdicts import sentence, verdict
from privet.reporting.whole_page import whole_page

__all__ = ["SECTIONS", "PageSection", "page"]


class PageSection(NamedTuple):
    """A section on one model: its anchor, its words in the navigation, and the function that writes it.

    The function gets a prefix for anchors, the report, and the model. Where it gives nothing, there is no
    section.
    """

    anchor: str
    link: str
    write: Callable[[str, ReportContent, ModelAudit], Html]


SECTIONS = (
    PageSection("roc", "Members found", lambda prefix, _, audit: roc_section(prefix, audit)),
    PageSection("epsilon", "ε from both sides", lambda prefix, _, audit: epsilon_section(prefix, audit)),
    PageSection("table", "Who is unique", lambda prefix, _, audit: table_section(prefix, audit)),
    PageSection("text", "What it remembers", text_section),
    PageSection("recoveries", "What is recovered", recovery_section),
    PageSection("scores", "Scores", lambda prefix, _, audit: scores_section(prefix, audit)),
    PageSection("people", "Who is exposed", lambda prefix, _, audit: harm_section(prefix, audit)),
    PageSection("meaning", "For a person", lambda prefix, _, audit: meaning_section(prefix, audit)),
    PageSection("trust", "Assumptions and checks", lambda prefix, _, audit: trust_section(prefix, audit)),
    PageSection("next", "What to do next", next_section),
)


def page(report: ReportContent) -> str:
    """One self-contained HTML file."""
    names = {audit.name: f"model-{number}" for number, audit in enumerate(report.audits)}
    main = [_verdict(report)]
    if len(report.audits) > 1:
        main.append(comparison(report, names))
    main += [
        _models(report, names),
        reproduce_section(report),
        identified_section(report),
        words_section(report),
    ]
    return whole_page(
        report.title,
        f"{report.title}: {audit_badge(report.worst).word}",
        report.origin,
        main,
    )


def _verdict(report: ReportContent) -> Html:
    badge = audit_badge(report.worst)
    return element(
        "section",
        join_html(
            [
                element("h2", text("Verdict"), {"class": "unseen-heading", "id": "verdict-heading"}),
                badge_html(badge),
                element("p", text(verdict(report)), {"class": "sentence"}),
                _strength(report.worst),
            ]
        ),
        {
            "id": "verdict",
            "class": f"verdict {badge.kind}",
            "tabindex": "-1",
            "aria-labelledby": "verdict-heading",
        },
    )


def _strength(audit: ModelAudit) -> Html:
    """How strong the attacks were, where the verdict must not be read without it."""
    if audit.strength is Strength.CALIBRATED or not audit.results:
        return Html("")
    return paragraph(attack_strength(audit), "note")


def _models(report: ReportContent, names: dict[str, str]) -> Html:
    panels = [_panel(report, audit, names[audit.name]) for audit in report.audits]
    if len(panels) == 1:
        return panels[0]
    tabs = [
        element(
            "button",
            text(audit.name),
            {
                "type": "button",
                "role": "tab",
                "id": f"{names[audit.name]}-tab",
                "aria-controls": names[audit.name],
                "data-first": str(audit is report.worst).lower(),
            },
        )
        for audit in report.audits
    ]
    strip = element(
        "div", join_html(tabs), {"class": "tabs", "role": "tablist", "aria-label": "Models", "hidden": ""}
    )
    return element("div", join_html([strip, *panels]), {"class": "models"})


def _navigation(name: str, audit: ModelAudit, sections: list[PageSection]) -> Html:
    """Links to the sections on one model."""
    links = (element("a", text(part.link), {"href": f"#{name}-{part.anchor}"}) for part in sections)
    return element("nav", bullet_list(links, "parts"), {"aria-label": f"Parts: {audit.name}"})


def _panel(report: ReportContent, audit: ModelAudit, name: str) -> Html:
    several = len(report.audits) > 1
    head = [element("h2", text(audit.name), {"id": f"{name}-heading"})]
    if several:
        head += [badge_html(audit_badge(audit)), element("p", text(sentence(audit)), {"class": "sentence"})]
    written = {part: html for part in SECTIONS if (html := part.write(name, report, audit))}
    parts = [*head, key_figures(audit), _navigation(name, audit, list(written)), *written.values()]
    return element(
        "section", join_html(parts), {"id": name, "class": "model", "aria-labelledby": f"{name}-heading"}
    )
