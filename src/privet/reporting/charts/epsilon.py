"""ε from both sides: the measured lower bound, the proved upper bound, and the most that a sample of this
size can show.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from privet.reporting.charts.plotting import Figure, Trace, axis, figure, label
from privet.reporting.facts import ModelAudit
from privet.reporting.numbers import at_least, at_most

__all__ = ["Span", "attack_spans", "epsilon_chart", "model_spans"]

_SHORTEST = 1.0


class Span(NamedTuple):
    """One row of the chart."""

    name: str
    measured: float | None  # on people's records; None where none were attacked
    proved: float | None
    ceiling: float
    canaries: float | None = None  # on canaries of the run

    @property
    def highest(self) -> float:
        """The larger of the measured bounds."""
        return max(self.measured or 0.0, self.canaries or 0.0)


def attack_spans(audit: ModelAudit) -> list[Span]:
    """Each attack on one model, the strongest first."""
    ordered = sorted(audit.results, key=lambda result: -result.finding.measured.value)
    return [
        Span(
            result.name,
            None if result.planted else result.finding.measured.value,
            None if result.finding.claimed is None else result.finding.claimed.value,
            result.finding.ceiling,
            result.finding.measured.value if result.planted else None,
        )
        for result in ordered
    ]


def model_spans(audits: Sequence[ModelAudit]) -> list[Span]:
    """One row for each model, with its best attacks."""
    return [
        Span(
            audit.name,
            audit.epsilon_of_records if audit.on_records else None,
            audit.epsilon_proved,
            audit.strongest.finding.ceiling,
            audit.epsilon_of_canaries,
        )
        for audit in audits
    ]


def epsilon_chart(spans: list[Span]) -> Figure:
    """One row for each span: a bar from the measured bound to the proved one, which contains the true ε."""
    proofs = [span.proved for span in spans if span.proved is not None and math.isfinite(span.proved)]
    room = 1.12 if len(proofs) == len(spans) else 1.3  # for the words at the end of an open bar
    end = room * max(
        [_SHORTEST, *proofs, *(span.ceiling for span in spans), *(span.highest for span in spans)]
    )
    rows = list(range(len(spans)))  # by number: two long names may be cut to the same one
    until = [end if span.proved is None else min(span.proved, end) for span in spans]
    broken = [span.proved is not None and span.highest > span.proved for span in spans]
    between: Trace = {
        "type": "bar",
        "orientation": "h",
        "name": "the true ε is in here",
        "y": rows,
        "base": [min(span.highest, stop) for span, stop in zip(spans, until, strict=True)],
        "x": [abs(stop - span.highest) for span, stop in zip(spans, until, strict=True)],
        "marker": {
            "color": [
                "var(--bad-soft)"
                if bad
                else "var(--open-soft)"
                if span.proved is None
                else "var(--proof-bar)"
                for span, bad in zip(spans, broken, strict=True)
            ],
            "line": {"width": 0},
        },
        "width": 0.42,
        "hoverinfo": "skip",
        "showlegend": False,
    }
    traces = [
        between,
        _marks(
            "at least, on records",
            "var(--attack)",
            "circle",
            [(row, s.measured) for row, s in enumerate(spans) if s.measured is not None],
        ),
        _marks(
            "at least, on canaries",
            "var(--attack)",
            "circle-open",
            [(row, s.canaries) for row, s in enumerate(spans) if s.canaries is not None],
        ),
        _marks(
            "at most, proved",
            "var(--proof)",
            "diamond",
            [(row, s.proved) for row, s in enumerate(spans) if s.proved is not None and s.proved <= end],
        ),
        _marks(
            "most that this sample can show",
            "var(--muted)",
            "line-ns-open",
            [(row, s.ceiling) for row, s in enumerate(spans)],
        ),
    ]
    layout = {
        "xaxis": axis("ε (a lower bound left, an upper bound right)", {"range": [-0.045 * end, end]}),
        "yaxis": {
            "range": [len(spans) - 0.5, -0.5],
            "tickvals": rows,
            "ticktext": [label(span.name) for span in spans],
            "showgrid": False,
        },
        "annotations": [_no_proof_label(row, end) for row, span in enumerate(spans) if span.proved is None],
    }
    return figure([trace for trace in traces if trace["x"]], layout)


def _marks(name: str, colour: str, symbol: str, marks: list[tuple[int, float]]) -> Trace:
    upper = symbol == "diamond"
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "x": [value for _, value in marks],
        "y": [row for row, _ in marks],
        "text": [at_most(value) if upper else at_least(value) for _, value in marks],
        "marker": {"color": colour, "symbol": symbol, "size": 13, "line": {"width": 2.5, "color": colour}},
        "hovertemplate": "ε %{text}<extra>" + name + "</extra>",
        "cliponaxis": False,
    }


def _no_proof_label(row: int, end: float) -> dict[str, object]:
    return {
        "x": end,
        "y": row,
        "xanchor": "right",
        "text": "no proof →",
        "showarrow": False,
        "font": {"color": "var(--ink)", "size": 12},
    }
