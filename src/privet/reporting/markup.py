"""Small functions that write HTML.

Only ``text`` turns words into ``Html``, and it escapes them: a name cannot become markup.
"""

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import NewType

__all__ = [
    "Html",
    "bullet_list",
    "description_list",
    "details",
    "element",
    "join_html",
    "paragraph",
    "section",
    "table",
    "text",
]

Html = NewType("Html", str)
_NOTHING: Mapping[str, str] = {}


def text(words: str) -> Html:
    """Escaped words."""
    return Html(escape(words, quote=True))


def join_html(parts: Iterable[Html]) -> Html:
    """Parts one after the other, a line for each."""
    return Html("\n".join(parts))


def element(tag: str, content: Html | str = "", attributes: Mapping[str, str] = _NOTHING) -> Html:
    """One element. A plain string as ``content`` counts as ``Html``; call ``text`` for words."""
    named = "".join(f' {name}="{escape(value, quote=True)}"' for name, value in attributes.items())
    return Html(f"<{tag}{named}>{content}</{tag}>")


def paragraph(words: str, kind: str = "") -> Html:
    """A paragraph of words."""
    return element("p", text(words), {"class": kind} if kind else _NOTHING)


def bullet_list(items: Iterable[Html], kind: str = "") -> Html:
    """A list of items."""
    return element(
        "ul", join_html(element("li", item) for item in items), {"class": kind} if kind else _NOTHING
    )


def description_list(rows: Iterable[tuple[str, str]]) -> Html:
    """A description list: names, each with its value as code."""
    lines = (
        element("div", join_html([element("dt", text(name)), element("dd", element("code", text(value)))]))
        for name, value in rows
    )
    return element("dl", join_html(lines), {"class": "facts"})


def section(name: str, heading: str, parts: Iterable[Html], *, level: int = 2) -> Html:
    """A section with its heading, which also labels it for screen readers."""
    head = element(f"h{level}", text(heading), {"id": f"{name}-heading"})
    return element("section", join_html([head, *parts]), {"id": name, "aria-labelledby": f"{name}-heading"})


def details(summary: str, content: Html) -> Html:
    """Content that is folded up below a summary."""
    return element("details", join_html([element("summary", text(summary)), content]))


def table(caption: str, header: Sequence[str], rows: Iterable[Sequence[Html]], kind: str = "") -> Html:
    """A table whose first column names its rows. On a narrow screen it scrolls, also by keyboard."""
    heads = join_html(element("th", text(words), {"scope": "col"}) for words in header)
    lines = [
        join_html([element("th", row[0], {"scope": "row"}), *(element("td", cell) for cell in row[1:])])
        for row in rows
    ]
    body = join_html(element("tr", line) for line in lines)
    inside = join_html(
        [
            element("caption", text(caption)),
            element("thead", element("tr", heads)),
            element("tbody", body),
        ]
    )
    return element(
        "div",
        element("table", inside, {"class": kind} if kind else _NOTHING),
        {"class": "scrolls", "tabindex": "0", "role": "region", "aria-label": caption},
    )
