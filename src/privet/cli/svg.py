"""A small SVG writer: text, lines, dots and axes, without dependencies and without network access.

Functions return elements as strings; ``document`` puts them on a sheet with its own light background, so that
it looks the same in a dark viewer. The colours are Okabe & Ito's, which the colour-blind can tell apart.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import final
from xml.sax.saxutils import escape, quoteattr

__all__ = [
    "BLUE",
    "FAINT",
    "GREEN",
    "INK",
    "MUTED",
    "ORANGE",
    "PURPLE",
    "Axis",
    "LinearAxis",
    "LogAxis",
    "Panel",
    "Point",
    "area",
    "curve",
    "document",
    "dot",
    "line",
    "text",
]

INK, MUTED, FAINT = "#1b2430", "#5b6773", "#e6e8eb"
BLUE, ORANGE, GREEN, PURPLE = "#0072b2", "#d55e00", "#009e73", "#aa4499"
_PAPER, _FONTS = "#fdfdfb", "Inter, 'Helvetica Neue', Helvetica, Arial, 'DejaVu Sans', sans-serif"

Point = tuple[float, float]


def document(width: int, height: int, *, title: str, description: str, parts: Iterable[str]) -> str:
    """A whole file, with a title and a description for those who cannot see it."""
    inside = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" role="img" aria-labelledby="title description" '
        f'font-family={quoteattr(_FONTS)} fill="{INK}">\n'
        f'<title id="title">{escape(title)}</title>\n<desc id="description">{escape(description)}</desc>\n'
        f'<rect width="{width}" height="{height}" fill="{_PAPER}"/>\n{inside}\n</svg>\n'
    )


def text(
    at: Point,
    content: str,
    *,
    size: float = 13,
    colour: str = INK,
    anchor: str = "start",
    bold: bool = False,
    turn: float = 0,
    halo: bool = False,
) -> str:
    """Text whose baseline starts, has its middle or ends at a point; a halo separates it from lines below."""
    attributes: dict[str, object] = {"x": at[0], "y": at[1], "font-size": size, "fill": colour}
    if anchor != "start":
        attributes["text-anchor"] = anchor
    if bold:
        attributes["font-weight"] = 600
    if turn:
        attributes["transform"] = f"rotate({turn:g} {at[0]:.2f} {at[1]:.2f})"
    if halo:
        attributes |= {
            "stroke": _PAPER,
            "stroke-width": 5,
            "stroke-linejoin": "round",
            "paint-order": "stroke",
        }
    return _element("text", attributes, escape(content))


def line(start: Point, end: Point, *, colour: str = INK, width: float = 1, dash: str = "") -> str:
    """A straight line."""
    ends = {"x1": start[0], "y1": start[1], "x2": end[0], "y2": end[1]}
    return _element("line", {**ends, **_stroke(colour, width, dash)})


def curve(points: Sequence[Point], *, colour: str = BLUE, width: float = 2.5, dash: str = "") -> str:
    """A line through points."""
    stroke = {**_stroke(colour, width, dash), "stroke-linejoin": "round", "stroke-linecap": "round"}
    return _element("path", {"d": _path(points), "fill": "none", **stroke})


def area(points: Sequence[Point], *, colour: str = BLUE, opacity: float = 0.1) -> str:
    """A filled polygon."""
    return _element("path", {"d": _path(points) + "Z", "fill": colour, "fill-opacity": opacity})


def dot(at: Point, *, colour: str = ORANGE, radius: float = 5, hollow: bool = False) -> str:
    """A marker."""
    fill, rim = (_PAPER, colour) if hollow else (colour, _PAPER)
    return _element(
        "circle", {"cx": at[0], "cy": at[1], "r": radius, "fill": fill, "stroke": rim, "stroke-width": 2}
    )


@dataclass(frozen=True)
class Axis(ABC):
    """A range of values, what it measures, and the values that are marked with their labels."""

    low: float
    high: float
    title: str
    ticks: tuple[tuple[float, str], ...]

    @abstractmethod
    def share(self, value: float) -> float:
        """The position of a value on the axis: 0 at its start, 1 at its end, and never outside."""


@final
@dataclass(frozen=True)
class LinearAxis(Axis):
    """Equal differences are equal distances."""

    def share(self, value: float) -> float:
        return (min(max(value, self.low), self.high) - self.low) / (self.high - self.low)


@final
@dataclass(frozen=True)
class LogAxis(Axis):
    """Equal ratios are equal distances."""

    def share(self, value: float) -> float:
        return math.log(min(max(value, self.low), self.high) / self.low) / math.log(self.high / self.low)


@final
@dataclass(frozen=True)
class Panel:
    """A chart's place on the sheet and its two axes."""

    left: float
    top: float
    width: float
    height: float
    across: Axis
    up: Axis

    def place(self, x: float, y: float) -> Point:
        """The position of a pair of values on the sheet."""
        return (
            self.left + self.width * self.across.share(x),
            self.top + self.height * (1 - self.up.share(y)),
        )

    def frame(self) -> list[str]:
        """Grid, ticks and titles."""
        left, right, bottom = self.left, self.left + self.width, self.top + self.height
        parts = []
        for value, label in self.across.ticks:
            x, _ = self.place(value, self.up.low)
            parts += [
                line((x, self.top), (x, bottom), colour=FAINT),
                _tick((x, bottom + 20), label, "middle"),
            ]
        for value, label in self.up.ticks:
            _, y = self.place(self.across.low, value)
            parts += [line((left, y), (right, y), colour=FAINT), _tick((left - 9, y + 4), label, "end")]
        middle = self.top + self.height / 2
        return [
            *parts,
            line((left, bottom), (right, bottom), colour=MUTED),
            line((left, self.top), (left, bottom), colour=MUTED),
            text((left + self.width / 2, bottom + 44), self.across.title, anchor="middle"),
            text((left - 62, middle), self.up.title, anchor="middle", turn=-90),
        ]


def _tick(at: Point, label: str, anchor: str) -> str:
    return text(at, label, size=12, colour=MUTED, anchor=anchor)


def _stroke(colour: str, width: float, dash: str) -> dict[str, object]:
    return {"stroke": colour, "stroke-width": width, **({"stroke-dasharray": dash} if dash else {})}


def _path(points: Sequence[Point]) -> str:
    return "M" + "L".join(f"{x:.2f} {y:.2f}" for x, y in points)


def _element(tag: str, attributes: Mapping[str, object], content: str = "") -> str:
    shown = " ".join(
        f"{name}={quoteattr(f'{value:.2f}' if isinstance(value, float) else str(value))}"
        for name, value in attributes.items()
    )
    return f"<{tag} {shown}>{content}</{tag}>" if content else f"<{tag} {shown}/>"
