"""The errors against ε, a panel for each domain and number of columns."""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.ticker import FuncFormatter, NullLocator

STYLES = {
    "AIM": ("#0b6e4f", "-", "o"),
    "MST": ("#3a7ca5", "-", "s"),
    "MWEM": ("#b5651d", "-", "^"),
    "Gaussian, each marginal": ("#777777", "--", "v"),
    "Laplace, each marginal": ("#bbbbbb", "--", "D"),
    "Laplace, whole histogram": ("#c44536", ":", "x"),
}


def draw(path: Path, results: dict[str, dict[str, dict[float, tuple[float, ...]]]]) -> None:
    """``results``: domain → method → ε → errors; what is in brackets behind a name is not drawn."""
    plt.rcParams.update({"svg.hashsalt": "privet", "svg.fonttype": "none"})
    figure, panels = plt.subplots(
        len(results), 3, figsize=(10.5, 3.1 * len(results)), sharex=True, sharey=True
    )
    for row, (title, methods) in zip(panels, results.items(), strict=True):
        bare = {name.partition(" (")[0]: by for name, by in methods.items()}
        for order, panel in enumerate(row):
            for name, (colour, line, mark) in STYLES.items():
                found = sorted(bare.get(name, {}).items())
                if found:
                    points = [(e, errors[order]) for e, errors in found]
                    panel.plot(
                        *zip(*points, strict=True), line, color=colour, marker=mark, markersize=4, label=name
                    )
            panel.set(xscale="log", yscale="log", ylim=(1e-4, 1))
            panel.set_title(f"{title.split(',')[0]}: {order + 1}-way marginals", fontsize=10)
            panel.grid(True, which="major", color="#e6e6e6", linewidth=0.7)
            panel.spines[["top", "right"]].set_visible(False)
            panel.set_xticks([0.1, 0.3, 1, 3, 10])
            panel.xaxis.set_minor_locator(NullLocator())
            panel.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
            panel.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        row[0].set_ylabel("mean total variation distance", fontsize=9)
    for panel in panels[-1]:
        panel.set_xlabel("ε")
    seen = {}
    for panel in panels.ravel():
        for handle, name in zip(*panel.get_legend_handles_labels(), strict=True):
            seen.setdefault(name, handle)
    names = [name for name in STYLES if name in seen]
    figure.legend(
        [seen[n] for n in names], names, loc="lower center", ncols=len(names), frameon=False, fontsize=9
    )
    figure.tight_layout(rect=(0, 0.06, 1, 1))
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
