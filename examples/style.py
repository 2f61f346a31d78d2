"""How the examples look: one small table on the screen, one picture in a file."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")  # draws into files; no screen is needed

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

__all__ = ["BLUE", "GREEN", "GREY", "INK", "ORANGE", "PALE", "panels", "save", "show", "thousands"]

INK, GREY, PALE = "#1b2430", "#5b6773", "#e6e8eb"
GREEN, ORANGE, BLUE = "#009e73", "#d55e00", "#0072b2"  # Okabe & Ito: the colour-blind can tell them apart

_LOOK = {
    "figure.dpi": 130,
    "font.size": 10,
    "font.family": "DejaVu Sans",
    "text.color": INK,
    "axes.edgecolor": GREY,
    "axes.labelcolor": INK,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlepad": 12,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": PALE,
    "grid.linewidth": 0.8,
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
    "lines.linewidth": 2,
    "savefig.bbox": "tight",
    "savefig.facecolor": "white",
}


mpl.rcParams.update(_LOOK)


def panels(count: int) -> tuple[Figure, list[Axes]]:
    """A figure with so many pictures side by side."""
    figure, axes = plt.subplots(1, count, figsize=(5.6 * count, 4.0), squeeze=False, layout="constrained")
    figure.get_layout_engine().set(wspace=0.08)
    return figure, list(axes[0])


def thousands(axis: Axis) -> None:
    """Writes 10,000 instead of 10⁴ along a logarithmic axis."""
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}" if value >= 1 else f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def save(figure: Figure, out: Path, name: str) -> Path:
    """Writes the figure into the folder ``out``, and says where."""
    out.mkdir(parents=True, exist_ok=True)
    path = out / name
    figure.savefig(path)
    plt.close(figure)
    print(f"\npicture: {path}")
    return path


def show(title: str, header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Prints a table, numbers to the right and words to the left."""
    cells = [[str(cell) for cell in row] for row in rows]
    widths = [max(len(line[place]) for line in [list(header), *cells]) for place in range(len(header))]
    words = [all(not _is_number(line[place]) for line in cells) for place in range(len(header))]
    print(f"\n{title}\n")
    for line in [list(header), ["-" * width for width in widths], *cells]:
        parts = (
            cell.ljust(width) if word else cell.rjust(width)
            for cell, width, word in zip(line, widths, words, strict=True)
        )
        print("  " + "  ".join(parts).rstrip())


def _is_number(text: str) -> bool:
    return text[:1].isdigit() or text[:2].lstrip("+-−±≤≥").isdigit()
