"""The only module that knows the plotting library: its script for the page, and the specifications that it
draws.

A specification is plain data. Colours are names of the page's style, ``var(--…)``. The page's script resolves
them when it draws, so that a chart follows the theme; the script also sets fonts and backgrounds. Nothing is
drawn in Python.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from privet.errors import MissingPackage

__all__ = ["SYMBOLS", "Figure", "Trace", "axis", "embed_json", "figure", "label", "plotting_script"]

Trace: TypeAlias = dict[str, Any]
Figure: TypeAlias = dict[str, Any]

SYMBOLS = (
    "circle",
    "square",
    "diamond",
    "triangle-up",
    "x",
    "star",
)  # models differ by more than their colour
_LONGEST = 32


def plotting_script() -> str:
    """The script of Plotly (MIT licence), to be put into the page once."""
    try:
        from plotly.offline import get_plotlyjs  # type: ignore[import-untyped]  # it has no types
    except ImportError:
        raise MissingPackage(
            "'plotly' must be installed to write a report in HTML, and it is not. Install it with pip "
            "install 'privet[report]', or save the report as .json or .md."
        ) from None
    return str(get_plotlyjs())


def figure(traces: Sequence[Trace], layout: Mapping[str, Any]) -> Figure:
    """The specification of one chart."""
    return {"data": list(traces), "layout": dict(layout)}


def axis(title: str, options: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """An axis with its title; the script of the page adds what all axes share."""
    return {"title": {"text": title}, **(options or {})}


def label(words: str) -> str:
    """Words for a chart, where tags would be markup: they are escaped, and a long name is cut.

    >>> label("<b>bold</b>")
    '&lt;b>bold&lt;/b>'
    """
    short = words if len(words) <= _LONGEST else f"{words[: _LONGEST - 1]}…"
    return short.replace("&", "&amp;").replace("<", "&lt;")


def embed_json(value: object) -> str:
    """JSON for the inside of a script element: nothing in it can end the element.

    >>> embed_json({"name": "</script>"})
    '{"name":"\\\\u003c/script>"}'
    """
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).replace(
        "<", "\\u003c"
    )
