"""All attacks on one axis: the baseline, the measured success with its interval, and the ceiling that the
proof sets.
"""

from typing import NamedTuple

from privet.auditing import Rate
from privet.reporting.charts.plotting import Figure, Trace, axis, figure, label
from privet.reporting.charts.proved_curve import highest_tpr
from privet.reporting.facts import ModelAudit
from privet.reporting.numbers import percent, percent_at_most

__all__ = ["SuccessRow", "success_chart", "success_rows"]


class SuccessRow(NamedTuple):
    """One attack: its baseline, its success and its ceiling, as shares of targets."""

    name: str
    baseline: Rate
    success: Rate
    ceiling: float | None
    compared_with: str


def success_rows(audit: ModelAudit) -> list[SuccessRow]:
    """Every recovery; then each membership attack at the false-alarm rate that the report shows."""
    rows = [
        SuccessRow(
            result.name,
            result.leakage.baseline,
            result.leakage.success,
            result.ceiling,
            str(result.leakage.baseline_kind),
        )
        for result in audit.recoveries
    ]
    for result in audit.results:
        fpr = result.leakage.reported_fpr
        tpr = None if fpr is None else result.leakage.tpr(fpr)
        if fpr is not None and tpr is not None:
            name = f"membership: {result.name}" + (" (canaries)" if result.planted else "")
            chance = Rate(fpr, fpr, fpr)
            rows.append(SuccessRow(name, chance, tpr, highest_tpr(audit.claim, fpr), "false alarms"))
    return rows


def success_chart(rows: list[SuccessRow]) -> Figure:
    """One row for each attack, from 0 to all targets."""
    places = list(range(len(rows)))
    above = [(place, row) for place, row in zip(places, rows, strict=True) if row.ceiling is not None]
    between: Trace = {
        "type": "bar",
        "orientation": "h",
        "y": [place for place, _ in above],
        "base": [row.ceiling for _, row in above],
        "x": [1 - (row.ceiling or 0.0) for _, row in above],
        "marker": {"color": "var(--proof-bar)", "line": {"width": 0}},
        "width": 0.4,
        "name": "impossible, by proof",
        "hoverinfo": "skip",
    }
    traces = [
        between,
        _marks("baseline", "var(--others)", "line-ns-open", [row.baseline for row in rows]),
        _marks("measured success", "var(--attack)", "circle", [row.success for row in rows]),
        {
            "type": "scatter",
            "mode": "markers",
            "name": "proved ceiling",
            "x": [row.ceiling for _, row in above],
            "y": [place for place, _ in above],
            "text": [percent_at_most(row.ceiling or 0.0) for _, row in above],
            "marker": {"color": "var(--proof)", "symbol": "diamond", "size": 12},
            "hovertemplate": "at most %{text}<extra>proved ceiling</extra>",
            "cliponaxis": False,
        },
    ]
    layout = {
        "xaxis": axis("share of targets", {"range": [-0.01, 1.01], "tickformat": ".0%"}),
        "yaxis": {"range": [len(rows) - 0.5, -0.75], "tickvals": [], "showgrid": False},
        "annotations": [_name_above(place, row.name) for place, row in zip(places, rows, strict=True)],
    }
    return figure([trace for trace in traces if trace["x"]], layout)


def _name_above(place: int, name: str) -> dict[str, object]:
    """The name of an attack above its row: beside it, a long name leaves no room on a phone."""
    return {
        "x": 0,
        "y": place - 0.46,
        "xanchor": "left",
        "text": label(name),
        "showarrow": False,
        "font": {"color": "var(--ink)", "size": 13},
    }


def _marks(name: str, colour: str, symbol: str, rates: list[Rate]) -> Trace:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "x": [rate.value for rate in rates],
        "y": list(range(len(rates))),
        "text": [f"{percent(rate.value)} ({percent(rate.lower)} to {percent(rate.upper)})" for rate in rates],
        "error_x": {
            "type": "data",
            "symmetric": False,
            "array": [max(rate.upper - rate.value, 0.0) for rate in rates],
            "arrayminus": [max(rate.value - rate.lower, 0.0) for rate in rates],
            "color": colour,
            "thickness": 2,
            "width": 5,
        },
        "marker": {"color": colour, "symbol": symbol, "size": 13, "line": {"width": 2.5, "color": colour}},
        "hovertemplate": "%{text}<extra>" + name + "</extra>",
        "cliponaxis": False,
    }
