"""Accuracy against leakage: each model's test accuracy over the AUC of the strongest attack on it."""

from collections.abc import Sequence

from privet.auditing import Rate
from privet.auditing.proportions import rate
from privet.reporting.charts.plotting import SYMBOLS, Figure, Trace, axis, figure, label
from privet.reporting.facts import ModelAudit
from privet.reporting.numbers import at_most

__all__ = ["accuracy_rate", "frontier_chart"]


def accuracy_rate(audit: ModelAudit) -> Rate | None:
    """The accuracy on non-members with its interval; None where it is not known."""
    if audit.test_accuracy is None:
        return None
    others = audit.strongest.leakage.roc.others
    return rate(round(audit.test_accuracy * others), others, audit.strongest.leakage.confidence)


def frontier_chart(audits: Sequence[ModelAudit]) -> Figure | None:
    """Test accuracy over the AUC of the strongest attack.

    None where fewer than two models have an accuracy.
    """
    known = [(audit, accuracy) for audit in audits if (accuracy := accuracy_rate(audit)) is not None]
    if len(known) < 2:
        return None
    aucs = [audit.strongest.leakage.auc for audit, _ in known]
    marks = [_mark(audit, audits.index(audit), accuracy) for audit, accuracy in known]
    ends = [min(0.48, *(auc.lower for auc in aucs)), max(0.56, *(auc.upper for auc in aucs))]
    heights = [100 * min(f.lower for _, f in known), 100 * max(f.upper for _, f in known)]
    room = 0.2 * (heights[1] - heights[0])
    layout = {
        "xaxis": axis(
            "AUC of the strongest attack (0.5 = chance)", {"range": [ends[0] - 0.02, ends[1] + 0.04]}
        ),
        "yaxis": axis(
            "test accuracy", {"ticksuffix": "\u00a0%", "range": [heights[0] - room, heights[1] + room]}
        ),
        "shapes": [
            {
                "type": "line",
                "x0": 0.5,
                "x1": 0.5,
                "y0": 0,
                "y1": 1,
                "yref": "paper",
                "line": {"color": "var(--muted)", "width": 1.2, "dash": "dash"},
            }
        ],
        "hovermode": "closest",
    }
    return figure(marks, layout)


def _mark(audit: ModelAudit, number: int, accuracy: Rate) -> Trace:
    auc, colour = audit.strongest.leakage.auc, f"var(--series-{number % 6})"
    return {
        "type": "scatter",
        "mode": "markers",
        "name": label(_name(audit)),
        "x": [auc.value],
        "y": [100 * accuracy.value],
        "error_x": _error_bars(auc, colour),
        "error_y": _error_bars(Rate(*(100 * end for end in accuracy)), colour),
        "marker": {"size": 13, "color": colour, "symbol": SYMBOLS[number % len(SYMBOLS)]},
        "hovertemplate": "AUC %{x:.3f}<br>test accuracy %{y:.1f}\u00a0%<extra>%{fullData.name}</extra>",
        "showlegend": True,
        "cliponaxis": False,
    }


def _error_bars(interval: Rate, colour: str) -> dict[str, object]:
    return {
        "type": "data",
        "symmetric": False,
        "array": [interval.upper - interval.value],
        "arrayminus": [interval.value - interval.lower],
        "color": colour,
        "thickness": 1.2,
        "width": 3,
    }


def _name(audit: ModelAudit) -> str:
    proved = audit.epsilon_proved
    return f"{audit.name} (no proof)" if proved is None else f"{audit.name} (ε ≤ {at_most(proved)})"
