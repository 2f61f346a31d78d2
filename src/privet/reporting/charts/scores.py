"""Histograms of the scores: members beside others. Counted in Python, so a page with 10⁵ records is as small as one with 100."""

from typing import Any, NamedTuple

import numpy as np

from privet.reporting.charts.plotting import Figure, Trace, axis, figure
from privet.reporting.facts import AttackResult
from privet.scores import Scores
from privet.views import Numbers

__all__ = ["Histogram", "histogram", "scores_chart"]

_BINS = 48
_TAIL = 0.005  # of all scores at either end is counted in the last bin there


class Histogram(NamedTuple):
    """Shares of members and of others in each bin; the bins at the ends hold all that lies beyond them."""

    edges: Numbers
    members: Numbers
    others: Numbers


def histogram(scores: Scores, bins: int = _BINS) -> Histogram:
    """One histogram for each side, over the same bins."""
    values = scores.values
    finite = values[np.isfinite(values)]
    low, high = np.quantile(finite, [_TAIL, 1 - _TAIL]) if len(finite) else (0.0, 1.0)
    if not high > low:
        low, high = low - 0.5, high + 0.5
    edges = np.linspace(low, high, bins + 1)
    sides = [
        np.histogram(np.clip(side, low, high), edges)[0] / len(side)
        for side in (scores.of_members, scores.of_others)
    ]
    return Histogram(edges, sides[0], sides[1])


def scores_chart(result: AttackResult) -> Figure:
    """Both histograms of one attack, and the threshold with one false alarm in a thousand where there is one."""
    found = histogram(result.scores)
    traces = [
        _side("others", found.edges, found.others, "var(--others)", "var(--others-soft)"),
        _side("members", found.edges, found.members, "var(--attack)", "var(--attack-soft)"),
    ]
    layout: dict[str, Any] = {
        "xaxis": axis("score (higher = taken for a member)"),
        "yaxis": axis("share of records", {"ticksuffix": "\u00a0%", "rangemode": "tozero"}),
        "hovermode": "x",
    }
    point = result.leakage.at(1e-3)
    if point is not None and found.edges[0] < point.threshold < found.edges[-1]:
        layout["shapes"] = [
            {
                "type": "line",
                "x0": point.threshold,
                "x1": point.threshold,
                "y0": 0,
                "y1": 1,
                "yref": "paper",
                "line": {"color": "var(--muted)", "width": 1.2, "dash": "dot"},
            }
        ]
        layout["annotations"] = [
            {
                "x": point.threshold,
                "y": 1,
                "yref": "paper",
                "xanchor": "right",
                "yanchor": "top",
                "text": "one false alarm in 1,000 → ",
                "showarrow": False,
                "font": {"color": "var(--muted)", "size": 12},
            }
        ]
    return figure(traces, layout)


def _side(name: str, edges: Numbers, shares: Numbers, colour: str, fill: str) -> Trace:
    middles = (edges[1:] + edges[:-1]) / 2
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "x": [float(f"{value:.6g}") for value in middles],
        "y": [float(f"{100 * value:.4g}") for value in shares],
        "line": {"color": colour, "width": 1.8, "shape": "hvh"},
        "fill": "tozeroy",
        "fillcolor": fill,
        "hovertemplate": "%{y:.2f}\u00a0% of " + name + "<extra></extra>",
    }
