"""How many people here have blue eyes? A count with Laplace noise at ε = 0.1: the noise is the same for every
village.

One person more moves a count by 1, however many people there are. So the noise has scale 1/ε = 10, in a
school of fifty as in a town of fifty thousand; it is the *relative* error that falls.

    python examples/blue_eyes.py [folder]
"""

import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from style import BLUE, GREEN, GREY, INK, ORANGE, panels, save, show, thousands

import privet
from privet.mechanisms import CountWhere, DiscreteLaplace
from privet.randomness import NoiseSource, SecureNoise, experiment

EPSILON = 0.1
SIZES = (50, 500, 5_000, 50_000)


def main(out: Path, noise: NoiseSource | None = None) -> Path:
    """Counts blue eyes in a school, a village, a town and a city."""
    noise = noise or SecureNoise()
    blue = CountWhere(lambda eyes: eyes == "blue")
    count = DiscreteLaplace.calibrated(blue, epsilon=EPSILON, adjacency=privet.AddRemove())
    error = count.error(confidence=0.95)
    print(
        f"ε = {EPSILON}: noise of scale {count.scale:g}, within ±{error} of the truth in 95 of 100 releases."
    )

    rng, rows, relative = experiment(2), [], []
    for size in SIZES:
        eyes = np.where(rng.random(size) < 0.3, "blue", "brown").tolist()
        truth, answer = eyes.count("blue"), count.release(eyes, noise)
        relative.append(error / truth)
        rows.append((f"{size:,}", f"{truth:,}", f"{answer:,}", f"±{error}", f"{100 * error / truth:.2f} %"))
    show("Blue eyes", ("people", "truth (secret)", "released", "95 % error", "of the truth"), rows)
    return save(_picture(count, np.array(relative)), out, "blue_eyes.png")


def _picture(count: DiscreteLaplace, relative: np.ndarray) -> Figure:
    figure, (neighbours, villages) = panels(2)
    x = np.arange(90, 212)
    for centre, colour, label in ((150, BLUE, "without Anna: 150"), (151, ORANGE, "with Anna: 151")):
        heights = np.exp(-np.abs(x - centre) / count.scale)
        neighbours.plot(x, heights * np.tanh(0.5 / count.scale), color=colour, linewidth=1.6, label=label)
    neighbours.axvline(163, color=GREY, linestyle="--", linewidth=1.2)
    neighbours.text(164.5, 0.030, "released: 163.\nWas Anna there?", color=INK)
    neighbours.set(xlabel="released count", ylabel="probability", ylim=(0, 0.056))
    neighbours.legend(loc="upper left")
    neighbours.set_title("Two villages that nobody can tell apart")

    villages.plot(SIZES, 100 * relative, "o-", color=GREEN, markersize=5)
    for size, share in zip(SIZES, relative, strict=True):
        villages.annotate(
            f"{100 * share:.3g} %", (size, 100 * share), (6, 6), textcoords="offset points", color=INK
        )
    villages.set(
        xscale="log",
        yscale="log",
        xlabel="people",
        ylabel="95 % error, in % of the count",
        xlim=(35, 160_000),
    )
    villages.set_ylim(0.1, 500)
    thousands(villages.xaxis)
    thousands(villages.yaxis)
    villages.set_title("The same noise matters less and less")
    return figure


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path("examples-out"))
