"""One HTML page that is complete in itself: no network, and only the scripts inside of it.

The content security policy of the page allows its own scripts by their hashes, and no connection. So text of
a model's name cannot run, and nothing is fetched even by mistake.
"""

from base64 import b64encode
from collections.abc import Sequence
from hashlib import sha256
from importlib.resources import files

from privet.reporting.charts.plotting import plotting_script
from privet.reporting.facts import Origin
from privet.reporting.markup import Html, element, join_html, paragraph, text

__all__ = ["whole_page"]


def whole_page(heading: str, title: str, origin: Origin, main: Sequence[Html]) -> str:
    """The page around its sections; the first of them has the anchor ``verdict``."""
    scripts = [_asset("theme.js"), plotting_script(), _asset("report.js")]
    body = [
        element("a", text("Skip to the verdict"), {"class": "skip", "href": "#verdict"}),
        _header(heading, origin),
        element("main", join_html(main), {"id": "main"}),
        element(
            "footer",
            paragraph(f"Privet {origin.version}. This file is complete and uses no network."),
        ),
    ]
    head = [
        Html('<meta charset="utf-8">'),
        Html(f'<meta http-equiv="Content-Security-Policy" content="{_policy(scripts)}">'),
        Html('<meta name="viewport" content="width=device-width, initial-scale=1">'),
        Html('<meta name="color-scheme" content="light dark">'),
        element("title", text(title)),
        element("style", _asset("report.css")),
        element("script", scripts[0]),
    ]
    last = [element("script", script) for script in scripts[1:]]
    page_body = element("body", join_html([*body, *last]))
    whole = join_html([element("head", join_html(head)), page_body])
    return f"<!doctype html>\n{element('html', whole, {'lang': 'en'})}\n"


def _policy(scripts: list[str]) -> str:
    """The content security policy: the scripts of this page, the styles and pictures that they make, and
    nothing else.
    """
    hashes = " ".join(
        f"'sha256-{b64encode(sha256(script.encode()).digest()).decode()}'" for script in scripts
    )
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data: blob:; "
        f"base-uri 'none'; form-action 'none'"
    )


def _asset(name: str) -> str:
    return (files("privet.reporting") / "assets" / name).read_text(encoding="utf-8")


def _header(heading: str, origin: Origin) -> Html:
    made = origin.created.strftime("%d %B %Y").lstrip("0")
    button = element(
        "button",
        text("Dark theme"),
        {"type": "button", "id": "theme", "aria-pressed": "false", "hidden": ""},
    )
    return element(
        "header",
        join_html(
            [element("div", join_html([element("h1", text(heading)), paragraph(made, "made")])), button]
        ),
    )
