"""A chart on the page: what is drawn, what it shows in words, and the numbers behind it for those who do not see it."""

from privet.reporting.charts.plotting import Figure, embedded
from privet.reporting.markup import Html, details, element, joined, text

__all__ = ["drawn"]


def drawn(name: str, chart: Figure, *, caption: str, described: str, height: int, numbers: Html) -> Html:
    """The place of a chart, its data, its caption and its table. The page's script draws it.

    ``described`` says in a sentence what a reader would see; ``numbers`` is a table of it.
    """
    return element(
        "figure",
        joined(
            [
                element(
                    "div",
                    "",
                    {
                        "class": "chart",
                        "id": name,
                        "role": "img",
                        "aria-label": described,
                        "style": f"height:{height}px",
                    },
                ),
                element("script", embedded(chart), {"type": "application/json", "data-for": name}),
                element("figcaption", text(caption)),
                details("The numbers behind this chart", numbers),
            ]
        ),
    )
