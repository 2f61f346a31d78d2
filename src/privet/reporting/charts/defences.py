"""The frontier of defences: test accuracy over the members that attacks find, population and most exposed."""

import math
from collections.abc import Sequence

from privet.auditing import Rate
from privet.reporting.charts.plotting import Figure, Trace, axis, figure, label
from privet.reporting.defence_choice import dominating
from privet.reporting.defence_facts import ComparedDefence, ComparisonContent
from privet.reporting.numbers import at_most

__all__ = ["defences_chart", "defences_chart_height"]

_HEIGHT = 520
_LINE = 17  # pixels between two names


def defences_chart_height(comparison: ComparisonContent) -> int:
    """The height in pixels, so that the names of many defences have room."""
    return max(_HEIGHT, 180 + 30 * len(comparison.defences))


def defences_chart(comparison: ComparisonContent) -> Figure:
    """Accuracy over the share found, on a logarithmic axis. What lies left of the axis is drawn at its edge.

    A full mark is the most exposed records, an empty one the population; a line joins the two of a defence.
    """
    defences = comparison.defences
    left = comparison.fpr / 3
    found = [rate for each in defences for rate in (each.tpr_population, each.tpr_exposed)]
    right = min(1.0, max(3 * comparison.fpr, *(rate.upper for rate in found)))
    lowest = 100 * min(each.test_accuracy.lower for each in defences)
    highest = 100 * max(each.test_accuracy.upper for each in defences)
    room = 0.08 * max(highest - lowest, 0.5)
    heights = (lowest - room, highest + room)
    traces = [trace for each in defences for trace in _marks(each, defences, left)]
    layout = {
        "xaxis": axis(
            "members found by the best attack",
            {
                "type": "log",
                "range": [math.log10(left) - 0.05, math.log10(right) + 0.75],
                **_ticks(comparison.fpr, right),
            },
        ),
        "yaxis": axis("test accuracy", {"ticksuffix": "\u00a0%", "range": list(heights)}),
        "shapes": [
            {
                "type": "line",
                "x0": comparison.fpr,
                "x1": comparison.fpr,
                "y0": 0,
                "y1": 1,
                "yref": "paper",
                "line": {"color": "var(--muted)", "width": 1.2, "dash": "dash"},
            }
        ],
        "annotations": _names(defences, (left, right), heights, defences_chart_height(comparison)),
        "hovermode": "closest",
        "showlegend": False,
    }
    return figure(traces, layout)


def _ticks(fpr: float, right: float) -> dict[str, object]:
    powers = range(math.floor(math.log10(fpr)), math.floor(math.log10(right)) + 1)
    values = [step * 10.0**power for power in powers for step in (1, 3) if step * 10.0**power <= 1]
    return {"tickvals": values, "ticktext": [f"{100 * value:.4g}\u00a0%" for value in values]}


def _colour(defence: ComparedDefence, defences: Sequence[ComparedDefence]) -> str:
    if dominating(defence, defences) is not None:
        return "var(--faint-line)"
    return "var(--proof)" if defence.proved else "var(--attack)"


def _marks(defence: ComparedDefence, defences: Sequence[ComparedDefence], left: float) -> list[Trace]:
    colour, height = _colour(defence, defences), 100 * defence.test_accuracy.value
    opacity = 0.6 if dominating(defence, defences) is not None else 1.0
    ends = [max(left, defence.tpr_population.value), max(left, defence.tpr_exposed.value)]
    joined = {
        "type": "scatter",
        "mode": "lines",
        "x": ends,
        "y": [height, height],
        "line": {"color": colour, "width": 1, "dash": "dot"},
        "opacity": opacity,
        "hoverinfo": "skip",
    }
    kinds = (
        (defence.tpr_population, ends[0], "population", True),
        (defence.tpr_exposed, ends[1], "exposed", False),
    )
    marks = [
        {
            "type": "scatter",
            "mode": "markers",
            "name": label(defence.name),
            "x": [place],
            "y": [height],
            "error_x": _error_bar(rate, place, left, colour),
            **({} if empty else {"error_y": _error_bar_of_accuracy(defence.test_accuracy, colour)}),
            "marker": {
                "size": 8 if empty else 12,
                "color": "var(--surface)" if empty else colour,
                "symbol": "diamond" if defence.proved else "circle",
                "line": {"color": colour, "width": 1.5},
            },
            "opacity": opacity,
            "hovertemplate": f"{label(defence.name)}<br>{words}: {100 * rate.value:.3g}\u00a0% found<br>"
            "test accuracy %{y:.1f}\u00a0%<extra></extra>",
            "cliponaxis": False,
        }
        for rate, place, words, empty in kinds
    ]
    return [joined, *marks]


def _error_bar(rate: Rate, place: float, left: float, colour: str) -> dict[str, object]:
    return {
        "type": "data",
        "symmetric": False,
        "array": [max(rate.upper, left) - place],
        "arrayminus": [place - max(rate.lower, left)],
        "color": colour,
        "thickness": 1,
        "width": 3,
    }


def _error_bar_of_accuracy(rate: Rate, colour: str) -> dict[str, object]:
    return {
        "type": "data",
        "symmetric": False,
        "array": [100 * (rate.upper - rate.value)],
        "arrayminus": [100 * (rate.value - rate.lower)],
        "color": colour,
        "thickness": 1,
        "width": 3,
    }


def _names(
    defences: Sequence[ComparedDefence],
    widths: tuple[float, float],
    heights: tuple[float, float],
    pixels: int,
) -> list[dict[str, object]]:
    """A name at the right edge for each defence, with a thin line to its interval. Names keep the order of
    the accuracies and a line's distance from each other.

    On a narrow screen the page's script shows what ``name`` holds: the number of the defence.
    """
    per_point = (pixels - 70) / (heights[1] - heights[0])
    numbers = {each.name: number for number, each in enumerate(defences, start=1)}
    order = sorted(defences, key=lambda each: -each.test_accuracy.value)
    wanted = [(heights[1] - 100 * each.test_accuracy.value) * per_point for each in order]
    return [
        {
            "x": math.log10(max(widths[0], each.tpr_exposed.upper)),
            "y": 100 * each.test_accuracy.value,
            "text": label(_title(each)),
            "name": str(numbers[each.name]),
            "showarrow": True,
            "arrowhead": 0,
            "arrowwidth": 0.6,
            "arrowcolor": "var(--faint-line)",
            "axref": "x",
            "ax": math.log10(widths[1]) + 0.06,
            "ay": place - want,
            "xanchor": "left",
            "align": "left",
            "font": {"size": 12, "color": _colour(each, defences)},
        }
        for each, want, place in zip(order, wanted, _spread(wanted, pixels - 70.0), strict=True)
    ]


def _spread(wanted: Sequence[float], most: float) -> list[float]:
    """Places near those that are wanted, in their order, with room for a line between two of them."""
    places: list[float] = []
    for want in wanted:
        places.append(want if not places else max(want, places[-1] + _LINE))
    over = places[-1] - (most - _LINE / 2)
    if over > 0:
        places[-1] -= over
        for back in range(len(places) - 2, -1, -1):
            places[back] = min(places[back], places[back + 1] - _LINE)
    return places


def _title(defence: ComparedDefence) -> str:
    return (
        defence.name
        if defence.epsilon_proved is None
        else f"{defence.name} (ε ≤ {at_most(defence.epsilon_proved)})"
    )
