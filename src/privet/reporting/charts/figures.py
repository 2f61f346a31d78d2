"""A chart on the page: its data, a description in words, and a table of its numbers for those who do not see
it.
"""

from privet.reporting.charts.plotting import Figure, embed_json
from privet.reporting.markup import Html, details, element, join_html, text

__all__ = ["chart_figure"]


def chart_figure(
    name: str, chart: Figure, *, caption: str, description: str, height: int, numbers: Html
) -> Html:
    """A figure with the data of a chart, its caption and its table. The page's script draws the chart.

    ``description`` says in a sentence what a reader would see; ``numbers`` is a table of it.
    """
    return element(
        "figure",
        join_html(
            [
                element(
                    "div",
                    "",
                    {
                        "class": "chart",
                        "id": name,
                        "role": "img",
                        "aria-label": description,
                        "style": f"height:{height}px",
                    },
                ),
                element("script", embed_json(chart), {"type": "application/json", "data-for": name}),
                element("figcaption", text(caption)),
                details("The numbers behind this chart", numbers),
            ]
        ),
    )
