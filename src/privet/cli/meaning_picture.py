"""The picture of ``privet explain``: the ceiling over every attack, and what a belief can become."""

import math

import numpy as np

from privet.bounds import Interval
from privet.cli.meaning import Meaning
from privet.cli.output import percent, percent_down, percent_up
from privet.cli.svg import (
    INK,
    MUTED,
    ORANGE,
    LinearAxis,
    LogAxis,
    Panel,
    Point,
    area,
    curve,
    document,
    dot,
    line,
    text,
)
from privet.errors import PrivetError
from privet.guarantees import Guarantee

__all__ = ["meaning_picture"]

_SIDE = 350.0
_TOP = 132.0
_LEAST = 1e-5
_RATES = tuple((10.0**-k, f"{100 * 10.0**-k:g} %") for k in (5, 4, 3, 2, 1, 0))
_SHARES = tuple((k / 4, f"{25 * k} %") for k in range(5))


def meaning_picture(heading: str, guarantee: Guarantee, delta: float, meaning: Meaning) -> str:
    """Two charts side by side, each with the numbers that it shows below it."""
    adjacency = guarantee.adjacency
    protected = f"Protected: one {adjacency.unit}, {adjacency.relation} adjacency."
    subtitle = f"{protected} Accountant: {guarantee.accountant}."
    parts = [
        text((34, 48), heading, size=23, bold=True),
        text((34, 74), subtitle, size=13.5, colour=MUTED),
        *_attack_panel(guarantee, delta, meaning),
        *_belief_panel(meaning),
    ]
    return document(980, 654, title=heading, description=_describe(meaning), parts=parts)


def _attack_panel(guarantee: Guarantee, delta: float, meaning: Meaning) -> list[str]:
    panel = Panel(
        104,
        _TOP,
        _SIDE,
        _SIDE,
        LogAxis(_LEAST, 1.0, "false-positive rate", _RATES),
        LogAxis(_LEAST, 1.0, "true-positive rate", _RATES),
    )
    ceiling = _ceiling(guarantee, delta)
    points = [panel.place(x, y) for x, y in ceiling]
    above = max(y for x, y in ceiling if x <= 1e-3) < 0.3  # there is room for words above the curve
    corner = panel.place(1.0, _LEAST)
    rows = [(percent(fpr), f"at most {percent_up(tpr)}", panel.place(fpr, tpr)) for fpr, tpr in meaning.tpr]
    return [
        text((34, _TOP - 18), "The best that any attack can do", size=15, bold=True),
        *panel.frame(),
        area([*points, corner, panel.place(_LEAST, _LEAST)]),
        *_diagonal(panel, "blind guessing"),
        curve(points),
        *([text((panel.left + 14, panel.top + 24), "no attack gets here", colour=MUTED)] if above else []),
        *_mark_points(panel, rows, ("false positives", "true positives")),
    ]


def _belief_panel(meaning: Meaning) -> list[str]:
    loss = meaning.kept.loss
    panel = Panel(
        594,
        _TOP,
        _SIDE,
        _SIDE,
        LinearAxis(0.0, 1.0, "belief before the release", _SHARES),
        LinearAxis(0.0, 1.0, "belief after the release", _SHARES),
    )
    odds = np.linspace(-loss - 9, loss + 9, 241)
    priors = [0.0, *(float(_logistic(o)) for o in odds), 1.0]
    upper = [panel.place(p, _update_belief(p, loss)) for p in priors]
    lower = [panel.place(p, _update_belief(p, -loss)) for p in priors]
    rows = [
        (percent(prior), f"{percent_down(after.lower)} to {percent_up(after.upper)}", (0.0, 0.0))
        for prior, after in meaning.posterior
    ]
    spans = [(panel.place(p, after.lower), panel.place(p, after.upper)) for p, after in meaning.posterior]
    return [
        text((524, _TOP - 18), "What a reader may come to believe", size=15, bold=True),
        *panel.frame(),
        area([*upper, *reversed(lower)]),
        *_diagonal(panel, "nothing learnt"),
        curve(upper),
        curve(lower),
        *(line(low, high, colour=ORANGE, width=1.5) for low, high in spans),
        *(dot(low, radius=4) for low, _ in spans),
        *_mark_points(
            panel, [(*row[:2], high) for row, (_, high) in zip(rows, spans, strict=True)], ("before", "after")
        ),
    ]


def _diagonal(panel: Panel, label: str) -> list[str]:
    start, end = (panel.left, panel.top + panel.height), (panel.left + panel.width, panel.top)
    x, y = panel.left + 0.72 * panel.width, panel.top + 0.28 * panel.height
    return [
        line(start, end, colour=MUTED, width=1.25, dash="5 4"),
        text((x + 13, y + 13), label, size=12, colour=MUTED, anchor="middle", turn=-45),
    ]


def _mark_points(panel: Panel, rows: list[tuple[str, str, Point]], header: tuple[str, str]) -> list[str]:
    """Dots on the chart, and their numbers in two columns under it."""
    first, second, top = panel.left + 76, panel.left + 104, panel.top + panel.height + 80
    parts = [
        text((first, top), header[0], size=12, colour=MUTED, anchor="end"),
        text((second, top), header[1], size=12, colour=MUTED),
    ]
    for number, (given, found, at) in enumerate(rows, start=1):
        y = top + 22 * number
        parts += [
            dot(at),
            dot((first + 14, y - 4.5), radius=4),
            text((first, y), given, anchor="end"),
            text((second, y), found, bold=True, colour=INK),
        ]
    return parts


def _ceiling(guarantee: Guarantee, delta: float) -> list[Point]:
    """The highest true-positive rate for many false-positive rates.

    Every ε gives a valid ceiling, so the smallest of about forty is valid too. The difference is invisible.
    """
    reach = _reach(guarantee)
    grid = {*(reach * k / 40 for k in range(41)), min(guarantee.epsilon(delta=delta), reach)}
    rates = np.geomspace(_LEAST, 1.0, 201)
    best = np.ones_like(rates)
    for epsilon in sorted(grid):
        leaked = _delta_at(guarantee, epsilon)
        best = np.minimum(best, leaked + math.exp(epsilon) * rates)
        best = np.minimum(best, 1 - math.exp(-epsilon) * (1 - leaked - rates))
    return [(float(x), float(y)) for x, y in zip(rates, np.clip(best, rates, 1.0), strict=True)]


def _reach(guarantee: Guarantee) -> float:
    """An ε above which the ceiling no longer falls at the drawn rates."""
    reach = 0.125
    while _delta_at(guarantee, reach) > 0.01 * math.exp(reach) * _LEAST and reach < -math.log(_LEAST):
        reach *= 1.5
    return reach


def _delta_at(guarantee: Guarantee, epsilon: float) -> float:
    try:
        return guarantee.delta(epsilon=epsilon)
    except PrivetError:  # this ε gives no ceiling; others do
        return 1.0


def _update_belief(prior: float, epsilon: float) -> float:
    if prior in (0.0, 1.0):
        return prior
    return _logistic(math.log(prior) - math.log1p(-prior) + epsilon)


def _logistic(odds: float) -> float:
    return 1 / (1 + math.exp(-odds)) if odds > -700 else 0.0


def _describe(meaning: Meaning) -> str:
    attacks = "; ".join(f"{percent_up(t)} at {percent(f)}" for f, t in meaning.tpr)
    beliefs = "; ".join(f"from {percent(p)}, {_span(after)}" for p, after in meaning.posterior)
    return (
        f"Left: the highest true-positive rate of any attack against its false-positive rate ({attacks}). "
        f"Right: the range of a reader's belief after the release against the belief before it ({beliefs})."
    )


def _span(after: Interval) -> str:
    return f"{percent_down(after.lower)} to {percent_up(after.upper)}"
