"""Charts of a published table: the share unique by the number of columns, and the rows by class size."""

from collections.abc import Sequence

from privet.reporting.charts.plotting import Figure, Trace, axis, figure, label
from privet.reporting.numbers import count, percent
from privet.reporting.table_facts import ClassBin, UniquenessBySize

__all__ = ["bin_name", "class_chart", "uniqueness_chart"]


def uniqueness_chart(curve: Sequence[UniquenessBySize]) -> Figure:
    """Lowest, median and highest share unique over all sets of each size."""
    traces = [
        _line(curve, "the set with most unique rows", [each.highest for each in curve], "var(--attack)"),
        _line(curve, "median set", [each.median for each in curve], "var(--others)", dash="dash"),
        _line(curve, "the set with fewest", [each.lowest for each in curve], "var(--faint-line)", dash="dot"),
    ]
    layout = {
        "xaxis": axis(
            "quasi-identifiers that are known",
            {
                "tickvals": [each.size for each in curve],
                "range": [curve[0].size - 0.3, curve[-1].size + 0.3],
            },
        ),
        "yaxis": axis("share of rows that are unique", {"range": [-0.02, 1.04], "tickformat": ".0%"}),
    }
    return figure(traces, layout)


def class_chart(bins: Sequence[ClassBin], rows: int) -> Figure:
    """The share of rows in classes of each size; classes of one row stand out."""
    colours = ["var(--attack)" if each.most == 1 else "var(--others)" for each in bins]
    bars: Trace = {
        "type": "bar",
        "x": [bin_name(each) for each in bins],
        "y": [each.rows / rows for each in bins],
        "text": [percent(each.rows / rows) for each in bins],
        "textposition": "outside",
        "cliponaxis": False,
        "marker": {"color": colours, "line": {"width": 0}},
        "showlegend": False,
        "customdata": [f"{count(each.rows)} rows in {count(each.classes)} classes" for each in bins],
        "hovertemplate": "%{customdata}<extra></extra>",
    }
    layout = {
        "xaxis": axis("rows with the same quasi-identifiers", {"type": "category", "showgrid": False}),
        "yaxis": axis("share of rows", {"range": [0, 1.08], "tickformat": ".0%"}),
    }
    return figure([bars], layout)


def bin_name(each: ClassBin) -> str:
    """The sizes of a bin in words.

    >>> bin_name(ClassBin(1, 1, 5, 5)), bin_name(ClassBin(5, 9, 1, 7))
    ('1', '5–9')
    """
    if each.least == each.most:
        return count(each.least)
    return f"{count(each.least)}–{count(each.most)}"


def _line(
    curve: Sequence[UniquenessBySize], name: str, shares: Sequence[float], colour: str, dash: str = "solid"
) -> Trace:
    worst = ["; ".join(" + ".join(found.columns) for found in each.worst[:1]) for each in curve]
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": name,
        "x": [each.size for each in curve],
        "y": list(shares),
        "line": {"color": colour, "width": 2.4, "dash": dash},
        "marker": {"color": colour, "size": 8},
        "text": [label(words) for words in worst],
        "hovertemplate": "%{y:.1%}<extra>" + name + "</extra>",
        "cliponaxis": False,
    }
