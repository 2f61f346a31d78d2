"""The report as one page: HTML that needs nothing else, no network, and only the scripts that are in it.

The page's security policy names its scripts by their hashes and allows no connection, so that nothing in a name can run, and nothing
can be fetched even by mistake. The verdict is there before a script runs; without scripts tables stand in for the charts.
"""

from base64 import b64encode
from hashlib import sha256
from importlib.resources import files

from privet.reporting.caution import attack_strength, look_of
from privet.reporting.charts.plotting import library
from privet.reporting.comparison import comparison
from privet.reporting.facts import ModelAudit, Strength
from privet.reporting.identified import identified_section
from privet.reporting.markup import Html, element, joined, listed, paragraph, text
from privet.reporting.report import Report
from privet.reporting.sections_model import epsilon_section, key_figures, roc_section, scores_section
from privet.reporting.sections_people import harm_section, meaning_section
from privet.reporting.sections_trust import next_section, reproduce_section, trust_section, words_section
from privet.reporting.standings import badge
from privet.reporting.verdicts import sentence

__all__ = ["page"]


def page(report: Report) -> str:
    """One self-contained HTML file."""
    scripts = [_asset("theme.js"), library(), _asset("report.js")]
    names = {audit.name: f"model-{place}" for place, audit in enumerate(report.audits)}
    main = [_verdict(report)]
    if len(report.audits) > 1:
        main.append(comparison(report, names))
    main += [_models(report, names), reproduce_section(report), identified_section(report), words_section()]
    body = [
        element("a", text("Skip to the verdict"), {"class": "skip", "href": "#verdict"}),
        _header(report),
        element("main", joined(main), {"id": "main"}),
        element(
            "footer",
            paragraph(
                f"Privet {report.origin.version}. This file is complete: it asks nothing of the network."
            ),
        ),
    ]
    head = [
        Html('<meta charset="utf-8">'),
        Html(f'<meta http-equiv="Content-Security-Policy" content="{_policy(scripts)}">'),
        Html('<meta name="viewport" content="width=device-width, initial-scale=1">'),
        Html('<meta name="color-scheme" content="light dark">'),
        element("title", text(f"{report.title}: {look_of(report.worst).word}")),
        element("style", _asset("report.css")),
        element("script", scripts[0]),
    ]
    late = [element("script", script) for script in scripts[1:]]
    page_body = element("body", joined([*body, *late]))
    return f"<!doctype html>\n{element('html', joined([element('head', joined(head)), page_body]), {'lang': 'en'})}\n"


def _policy(scripts: list[str]) -> str:
    """Nothing from anywhere, but the scripts of this page and the styles and pictures that they make."""
    hashes = " ".join(
        f"'sha256-{b64encode(sha256(script.encode()).digest()).decode()}'" for script in scripts
    )
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data: blob:; "
        f"base-uri 'none'; form-action 'none'"
    )


def _asset(name: str) -> str:
    return (files("privet.reporting") / "assets" / name).read_text(encoding="utf-8")


def _header(report: Report) -> Html:
    made = report.origin.created.strftime("%d %B %Y").lstrip("0")
    button = element(
        "button",
        text("Dark theme"),
        {"type": "button", "id": "theme", "aria-pressed": "false", "hidden": ""},
    )
    return element(
        "header",
        joined(
            [element("div", joined([element("h1", text(report.title)), paragraph(made, "made")])), button]
        ),
    )


def _verdict(report: Report) -> Html:
    shown = look_of(report.worst)
    return element(
        "section",
        joined(
            [
                element("h2", text("Verdict"), {"class": "unseen-heading", "id": "verdict-heading"}),
                badge(shown),
                element("p", text(report.verdict), {"class": "sentence"}),
                _strength(report.worst),
            ]
        ),
        {
            "id": "verdict",
            "class": f"verdict {shown.kind}",
            "tabindex": "-1",
            "aria-labelledby": "verdict-heading",
        },
    )


def _strength(audit: ModelAudit) -> Html:
    """How strong the attacks were, where that must be read beside the verdict."""
    if audit.strength is Strength.CALIBRATED:
        return Html("")
    return paragraph(attack_strength(audit), "note")


def _models(report: Report, names: dict[str, str]) -> Html:
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
        "div", joined(tabs), {"class": "tabs", "role": "tablist", "aria-label": "Models", "hidden": ""}
    )
    return element("div", joined([strip, *panels]), {"class": "models"})


def _parts(name: str, audit: ModelAudit) -> Html:
    """Where to find what, in the order of the page."""
    places = [
        ("roc", "Members found"),
        ("epsilon", "ε from both sides"),
        ("scores", "Scores"),
        *([] if audit.harm is None else [("people", "Who is exposed")]),
        ("meaning", "For a person"),
        ("trust", "Assumptions and checks"),
        ("next", "What to do next"),
    ]
    links = (element("a", text(words), {"href": f"#{name}-{part}"}) for part, words in places)
    return element("nav", listed(links, "parts"), {"aria-label": f"Parts: {audit.name}"})


def _panel(report: Report, audit: ModelAudit, name: str) -> Html:
    several = len(report.audits) > 1
    head = [element("h2", text(audit.name), {"id": f"{name}-heading"})]
    if several:
        head += [badge(look_of(audit)), element("p", text(sentence(audit)), {"class": "sentence"})]
    parts = [
        *head,
        key_figures(audit),
        _parts(name, audit),
        roc_section(name, audit),
        epsilon_section(name, audit),
        scores_section(name, audit),
        harm_section(name, audit),
        meaning_section(name, audit),
        trust_section(name, audit),
        next_section(name, report, audit),
    ]
    return element(
        "section", joined(parts), {"id": name, "class": "model", "aria-labelledby": f"{name}-heading"}
    )
