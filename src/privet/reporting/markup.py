"""HTML by small functions. Text becomes ``Html`` through ``text`` alone, which escapes it: a name cannot become markup."""

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import NewType

__all__ = [
    "Html",
    "described",
    "details",
    "element",
    "joined",
    "listed",
    "paragraph",
    "section",
    "table",
    "text",
]

Html = NewType("Html", str)
_NOTHING: Mapping[str, str] = {}


def text(words: str) -> Html:
    """Words as they are to be read."""
    return Html(escape(words, quote=True))


def joined(parts: Iterable[Html]) -> Html:
    """One after the other."""
    return Html("\n".join(parts))


def element(tag: str, content: Html | str = "", attributes: Mapping[str, str] = _NOTHING) -> Html:
    """One element. ``content`` that is a plain string is taken for ``Html``; call ``text`` for words."""
    named = "".join(f' {name}="{escape(value, quote=True)}"' for name, value in attributes.items())
    return Html(f"<{tag}{named}>{content}</{tag}>")


def paragraph(words: str, kind: str = "") -> Html:
    """A paragraph of words."""
    return element("p", text(words), {"class": kind} if kind else _NOTHING)


def listed(items: Iterable[Html], kind: str = "") -> Html:
    """A list of items."""
    return element("ul", joined(element("li", item) for item in items), {"class": kind} if kind else _NOTHING)


def described(rows: Iterable[tuple[str, str]]) -> Html:
    """Names, each with its value, which is shown as code."""
    lines = (
        element("div", joined([element("dt", text(name)), element("dd", element("code", text(value)))]))
        for name, value in rows
    )
    return element("dl", joined(lines), {"class": "facts"})


def section(name: str, heading: str, parts: Iterable[Html], *, level: int = 2) -> Html:
    """A part of the page under its heading, which names it for those who jump from heading to heading."""
    head = element(f"h{level}", text(heading), {"id": f"{name}-heading"})
    return element("section", joined([head, *parts]), {"id": name, "aria-labelledby": f"{name}-heading"})


def details(summary: str, content: Html) -> Html:
    """Something to unfold."""
    return element("details", joined([element("summary", text(summary)), content]))


def table(caption: str, header: Sequence[str], rows: Iterable[Sequence[Html]], kind: str = "") -> Html:
    """A table whose first column names its rows. It scrolls by itself where the screen is narrow, by keyboard too."""
    heads = joined(element("th", text(words), {"scope": "col"}) for words in header)
    lines = [
        joined([element("th", row[0], {"scope": "row"}), *(element("td", cell) for cell in row[1:])])
        for row in rows
    ]
    body = joined(element("tr", line) for line in lines)
    inside = joined(
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
