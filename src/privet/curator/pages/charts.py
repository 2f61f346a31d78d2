"""Charts as SVG, drawn on the server: they need no script, follow the theme, and have their numbers beside
them.
"""

import math
from collections.abc import Sequence
from datetime import datetime

from markupsafe import Markup, escape

from privet.curator.pages.answer_rows import AnswerRows
from privet.curator.pages.numbers_shown import plain_number

__all__ = ["draw_bars", "draw_spending", "draw_use"]

_WIDTH = 720


def draw_use(reached: float, cap: float, more: float = 0.0) -> Markup:
    """How much of a cap is used, and what a question would add, as a bar."""
    whole = cap if math.isfinite(cap) and cap > 0 else 1.0
    used = min(max(reached / whole, 0.0), 1.0) if math.isfinite(reached) else 1.0
    added = min(max(more / whole, 0.0), 1.0 - used)
    words = f"{100 * used:.0f} % used" + (f", this question {100 * added:.1f} %" if added else "")
    return Markup(
        '<svg class="use" viewBox="0 0 100 6" preserveAspectRatio="none" role="img" aria-label="{}">'
        '<rect class="rail" width="100" height="6" rx="1"/>'
        '<rect class="used" width="{:.2f}" height="6" rx="1"/>'
        '<rect class="more" x="{:.2f}" width="{:.2f}" height="6"/></svg>'
    ).format(words, 100 * used, 100 * used, 100 * added)


def draw_bars(answer: AnswerRows) -> tuple[Markup, ...]:
    """For each row of an answer with keys, its bar and its error bar, on one scale."""
    rows = answer.rows
    ends = [(row.value - _finite(row.error), row.value + _finite(row.error)) for row in rows]
    low = min(0.0, *(end[0] for end in ends)) if ends else 0.0
    high = max(0.0, *(end[1] for end in ends)) if ends else 1.0
    span = (high - low) or 1.0

    def place(value: float) -> float:
        return 1 + 98 * (value - low) / span

    bars = []
    for row, (lower, upper) in zip(rows, ends, strict=True):
        start, end = sorted((place(0.0), place(row.value)))
        bars.append(
            Markup(
                '<svg class="bar" viewBox="0 0 100 16" preserveAspectRatio="none" aria-hidden="true">'
                '<rect x="{:.2f}" y="3" width="{:.2f}" height="10"/><path class="axis" d="M{:.2f} 0V16"/>'
                '<path class="error" d="M{:.2f} 8H{:.2f}M{:.2f} 4.5v7M{:.2f} 4.5v7"/></svg>'
            ).format(start, end - start, place(0.0), place(lower), place(upper), place(lower), place(upper))
        )
    return tuple(bars)


def draw_spending(spends: Sequence[tuple[datetime, float]], cap: float, reached: float) -> Markup:
    """The sum of the prices over time as steps, and the cap above them.

    ``spends`` is in the order of time. The filter's own figure, ``reached``, may be lower than the sum: it
    composes.
    """
    if not spends:
        return Markup("")
    first, last = spends[0][0].timestamp(), spends[-1][0].timestamp()
    long = max(last - first, 1.0)
    total, points = 0.0, []
    for when, epsilon in spends:
        before, total = total, total + epsilon
        points.append((when.timestamp(), before, total))
    top = max(cap if math.isfinite(cap) else 0.0, total) * 1.08 or 1.0
    left, right, height, bottom = 46, 12, 240, 28

    def x(moment: float) -> float:
        return left + (moment - first) / long * (_WIDTH - left - right)

    def y(value: float) -> float:
        return 8 + (1 - value / top) * (height - bottom - 8)

    path = f"M{x(first):.1f} {y(0):.1f}"
    for moment, before, after in points:
        path += f"L{x(moment):.1f} {y(before):.1f}V{y(after):.1f}"
    parts = [
        Markup('<path class="grid" d="M{} {:.1f}H{}"/><text class="tick" x="{}" y="{:.1f}">{}</text>').format(
            left, y(tick), _WIDTH - right, left - 8, y(tick) + 4, plain_number(tick)
        )
        for tick in _ticks(top)
    ]
    parts.append(Markup('<path class="area" d="{}V{:.1f}H{:.1f}Z"/>').format(path, y(0), x(first)))
    parts.append(Markup('<path class="step" d="{}"/>').format(path))
    if math.isfinite(cap):
        parts.append(Markup('<path class="cap" d="M{} {:.1f}H{}"/>').format(left, y(cap), _WIDTH - right))
        parts.append(
            Markup('<text class="capname" x="{}" y="{:.1f}">cap {}</text>').format(
                _WIDTH - right, y(cap) - 6, plain_number(cap)
            )
        )
    if math.isfinite(reached):
        parts.append(
            Markup('<circle class="reached" cx="{:.1f}" cy="{:.1f}" r="5"/>').format(x(last), y(reached))
        )
    days = ((first, "start"), (last, "end")) if last - first > 60 else ((first, "start"),)
    for moment, anchor in days:
        words = datetime.fromtimestamp(moment, tz=spends[0][0].tzinfo).strftime("%Y-%m-%d %H:%M")
        parts.append(
            Markup('<text class="day {}" x="{:.1f}" y="{}">{}</text>').format(
                anchor, x(moment), height - 8, escape(words)
            )
        )
    label = f"{len(spends)} charges; their prices add up to {plain_number(total)} of {plain_number(cap)}"
    return Markup('<svg class="spending" viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>').format(
        _WIDTH, height, label, Markup("").join(parts)
    )


def _finite(error: float) -> float:
    return error if math.isfinite(error) else 0.0


def _ticks(top: float) -> list[float]:
    raw = top / 4
    power = 10 ** math.floor(math.log10(raw))
    step = next((power * part for part in (1, 2, 2.5, 5, 10) if power * part >= raw), power * 10)
    return [step * number for number in range(int(top / step) + 1)]
