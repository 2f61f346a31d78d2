"""Histograms of the scores of members and others.

They are binned in Python, so the page does not grow with the records.
"""

from typing import Any, NamedTuple

import numpy as np

from privet.reporting.charts.plotting import Figure, Trace, axis, figure
from privet.reporting.facts import AttackResult
from privet.scores import Scores
from privet.views import Numbers

__all__ = ["ScoreHistogram", "bin_scores", "scores_chart"]

_BINS = 48
_TAIL = 0.005  # this share of all scores at either end is counted in the last bin


class ScoreHistogram(NamedTuple):
    """Shares of members and of others in each bin; the bins at the ends hold everything beyond them."""

    edges: Numbers
    members: Numbers
    others: Numbers


def bin_scores(scores: Scores, bins: int = _BINS) -> ScoreHistogram:
    """One bin_scores for each side, over the same bins."""
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
    return ScoreHistogram(edges, sides[0], sides[1])


def scores_chart(result: AttackResult) -> Figure:
    """Both histograms of one attack, and the threshold with one false alarm in a thousand where it exists."""
    bins = bin_scores(result.scores)
    traces = [
        _side("others", bins.edges, bins.others, "var(--others)", "var(--others-soft)"),
        _side("members", bins.edges, bins.members, "var(--attack)", "var(--attack-soft)"),
    ]
    layout: dict[str, Any] = {
        "xaxis": axis("score (higher = taken for a member)"),
        "yaxis": axis("share of records", {"ticksuffix": "\u00a0%", "rangemode": "tozero"}),
        "hovermode": "x",
    }
    point = result.leakage.at(1e-3)
    if point is not None and bins.edges[0] < point.threshold < bins.edges[-1]:
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
