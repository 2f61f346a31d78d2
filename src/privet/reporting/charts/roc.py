"""The ROC on logarithmic axes: the attack with its interval, between chance and the ceiling of a proof."""

import math
from collections.abc import Sequence

import numpy as np

from privet.guarantees import Guarantee
from privet.reporting.charts.plotting import Figure, Trace, axis, figure, label
from privet.reporting.charts.proved_curve import ceiling_curve
from privet.reporting.facts import AttackResult, ModelAudit
from privet.reporting.numbers import percent
from privet.views import Numbers

__all__ = ["models_roc", "roc_chart"]

_POINTS = 160
_LOWEST = 1e-5
_DASHES = ("solid", "7px,2px", "2px,2px", "10px,3px,2px,3px", "4px,4px", "1px,3px")
_HOVER = "FPR %{x:.2%}<br>TPR %{y:.2%}<extra>%{fullData.name}</extra>"


def roc_chart(audit: ModelAudit) -> Figure:
    """All attacks on one model, between chance and the ceiling; the strongest with its interval."""
    strongest = audit.strongest
    least = _axis_start([strongest])
    traces: list[Trace] = [_chance(least)]
    if audit.claim is not None:
        traces += _ceiling_traces(audit.claim, least, audit.delta)
    traces += _band(strongest, least)
    weaker = [result for result in audit.results if result is not strongest]
    for number, result in enumerate(weaker):
        curve = _curve(result, least, "var(--faint-line)", 1.5)
        traces.append({**curve, "line": {**curve["line"], "dash": _DASHES[number % len(_DASHES)]}})
    traces.append(_curve(strongest, least, "var(--attack)", 2.6))
    return _log_figure(traces, strongest.leakage.fpr_floor, least)


def models_roc(audits: Sequence[ModelAudit]) -> Figure:
    """The strongest attack on each of several models."""
    strongest = [audit.strongest for audit in audits]
    least = _axis_start(strongest)
    traces = [_chance(least)]
    for number, audit in enumerate(audits):
        curve = _curve(audit.strongest, least, f"var(--series-{number % 6})", 2.4)
        traces.append(
            {
                **curve,
                "name": label(audit.name),
                "line": {**curve["line"], "dash": _DASHES[number % len(_DASHES)]},
            }
        )
    return _log_figure(traces, max(result.leakage.fpr_floor for result in strongest), least)


def _axis_start(results: list[AttackResult]) -> float:
    """The start of both axes: half of the smallest rate that can be counted."""
    smallest = min(min(1 / result.leakage.roc.others, 1 / result.leakage.roc.members) for result in results)
    return max(min(smallest / 2, 0.05), _LOWEST)


def _curve(result: AttackResult, least: float, colour: str, width: float) -> Trace:
    band = result.leakage.roc.band(_POINTS, result.leakage.confidence)
    floor = result.leakage.fpr_floor
    return {
        "type": "scatter",
        "mode": "lines",
        "name": label(result.name),
        "x": _round(
            np.maximum(band.fpr, floor)
        ),  # "at most this rate": no threshold errs less than once in n
        "y": _round(np.maximum(band.tpr, least)),
        "line": {"color": colour, "width": width, "shape": "hv"},
        "hovertemplate": _HOVER,
    }


def _band(result: AttackResult, least: float) -> list[Trace]:
    band = result.leakage.roc.band(_POINTS, result.leakage.confidence)
    across = _round(np.maximum(band.fpr, result.leakage.fpr_floor))
    edge: Trace = {
        "type": "scatter",
        "mode": "lines",
        "x": across,
        "line": {"width": 0, "shape": "hv", "color": "var(--attack)"},
        "hoverinfo": "skip",
        "showlegend": False,
    }
    return [
        {**edge, "y": _round(np.maximum(band.lower, least))},
        {
            **edge,
            "y": _round(np.maximum(band.upper, least)),
            "fill": "tonexty",
            "fillcolor": "var(--attack-soft)",
            "name": f"{math.floor(1000 * result.leakage.confidence + 1e-9) / 10:g} % interval",
            "showlegend": True,
        },
    ]


def _ceiling_traces(claim: Guarantee, least: float, delta: float) -> list[Trace]:
    rates = np.geomspace(least, 1.0, 121)
    line: Trace = {
        "type": "scatter",
        "mode": "lines",
        "name": "at most, by proof",
        "x": _round(rates),
        "y": _round(ceiling_curve(claim, rates, delta=delta)),
        "line": {"color": "var(--proof)", "width": 2.2},
        "hovertemplate": _HOVER,
    }
    above: Trace = {
        "type": "scatter",
        "mode": "lines",
        "x": [least, 1.0],
        "y": [1.0, 1.0],
        "line": {"width": 0, "color": "var(--proof)"},
        "fill": "tonexty",
        "fillcolor": "var(--proof-soft)",
        "hoverinfo": "skip",
        "showlegend": False,
    }
    return [line, above]


def _chance(least: float) -> Trace:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": "chance",
        "x": [least, 1.0],
        "y": [least, 1.0],
        "line": {"color": "var(--muted)", "width": 1.4, "dash": "dash"},
        "hoverinfo": "skip",
    }


def _log_figure(traces: list[Trace], floor: float, least: float) -> Figure:
    span = [float(np.log10(least)), 0.02]
    ticks = [10.0**power for power in range(-5, 1) if 10.0**power >= least]
    common = {
        "type": "log",
        "range": span,
        "tickvals": ticks,
        "ticktext": [percent(tick) for tick in ticks],
    }
    layout = {
        "xaxis": axis("false alarms: others taken for members (FPR)", common),
        "yaxis": axis("members found (TPR)", common),
        "shapes": [
            {
                "type": "rect",
                "x0": least,
                "x1": floor,
                "y0": 0,
                "y1": 1,
                "yref": "paper",
                "fillcolor": "var(--hatch)",
                "line": {"width": 0},
                "layer": "below",
            },
            {
                "type": "line",
                "x0": floor,
                "x1": floor,
                "y0": 0,
                "y1": 1,
                "yref": "paper",
                "line": {"color": "var(--muted)", "width": 1, "dash": "dot"},
            },
        ],
        "annotations": [
            {
                "x": float(np.log10(floor)),
                "y": 0.98,
                "yref": "paper",
                "xanchor": "left",
                "yanchor": "top",
                "text": f" floor: {percent(floor)}",
                "showarrow": False,
                "font": {"color": "var(--muted)", "size": 12},
            }
        ],
        "hovermode": "closest",
    }
    return figure(traces, layout)


def _round(values: Numbers) -> list[float]:
    """To four digits, which is finer than a screen."""
    return [float(f"{value:.4g}") for value in values]
