"""The cost of privacy: how much worse a private linear model is, against the number of rows and against ε.

Theory (Bassily, Smith & Thakurta 2014) says that the excess of the mean loss over the best in a ball of
radius R can be kept below a constant times R√(d ln 1/δ)/(nε), and that for some data it cannot be kept lower.
Such worst data are built here: the few people who have something to say are as many as the noise hides, and
all others cancel out. There the cost falls with a slope of −1, as the theory has it. Kind data have many
people in every direction. There the noise moves the weights about the bottom of a bowl, so that the cost
falls with the square, (√d/nε)², for whoever regularises little enough; output perturbation must regularise,
and is held by that.

    python examples/cost_of_privacy.py [folder]
"""

import math
import sys
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from style import BLUE, GREEN, GREY, INK, ORANGE, panels, save, show, thousands

from privet.adjacency import ReplaceOne
from privet.learning.losses import ConvexLoss, LogisticLoss, SmoothedHingeLoss
from privet.learning.noisy_sgd import NoisySGD
from privet.learning.objective_perturbation import ObjectivePerturbation
from privet.learning.output_perturbation import OutputPerturbation
from privet.learning.risk import Risk, minimize
from privet.learning.scaling import UnitBall
from privet.learning.solver import PreparedFit, Problem, gaussian_multiplier
from privet.randomness import NoiseSource, SecureNoise, experiment

DIMENSION, DELTA = 20, 1e-6
RADIUS, SMALL_RADIUS = 8.0, 0.4  # of the ball for kind and for worst data
ROWS, EPSILONS = (500, 1000, 2000, 4000, 8000, 16000, 32000), (0.0625, 0.125, 0.25, 0.5, 1.0, 2.0, 4.0)
FIXED_ROWS, FIXED_EPSILON, FITS = 4000, 1.0, 8
WORST = "noisy SGD, worst data"
LINES = {
    WORST: (INK, "D--", -5),
    "output perturbation, kind data": (ORANGE, "s-", 5),
    "objective perturbation, kind data": (BLUE, "o-", -7),
    "noisy SGD, kind data": (GREEN, "^-", 7),
}  # colour, style, and how far up the slope is written
Points = list[dict[str, tuple[float, float]]]


def main(out: Path, noise: NoiseSource | None = None) -> Path:
    """Fits a few hundred private models to made-up people."""
    noise = noise or SecureNoise()
    by_rows = [_excess(count, FIXED_EPSILON, noise) for count in ROWS]
    by_epsilon = [_excess(FIXED_ROWS, epsilon, noise) for epsilon in EPSILONS]
    header = ("excess of the mean loss, over R", *(f"{count:,}" for count in ROWS), "slope")
    show(f"Against the number of rows, ε = {FIXED_EPSILON:g}", header, _table(ROWS, by_rows))
    header = ("excess of the mean loss, over R", *(f"{epsilon:g}" for epsilon in EPSILONS), "slope")
    show(f"Against ε, {FIXED_ROWS:,} rows", header, _table(EPSILONS, by_epsilon))
    print(
        "\nSlopes are of the right half. Theory: −1 for the worst data, and −2 for kind data once the noise is "
        "small."
    )

    figure, (left, right) = panels(2)
    _panel(left, ROWS, by_rows, FIXED_EPSILON)
    _panel(right, EPSILONS, by_epsilon, FIXED_ROWS)
    left.set(xlabel=f"rows n, at ε = {FIXED_EPSILON:g}", ylabel="excess of the mean loss, over R")
    right.set(xlabel=f"ε, at {FIXED_ROWS:,} rows")
    right.tick_params(labelleft=False)
    left.set_title("Privacy gets cheaper with more people …")
    right.set_title("… and in the same way with a larger ε")
    handles, labels = left.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, fontsize=9)
    return save(figure, out, "cost_of_privacy.png")


def _excess(count: int, epsilon: float, noise: NoiseSource) -> dict[str, tuple[float, float]]:
    """For each line the mean excess over the best, over R, of several fits, and its standard error."""
    prepared = _prepared(count, epsilon)
    rows, labels = _kind(count)
    plain = Risk(LogisticLoss(), rows, labels, 0.0)
    best = plain.value(minimize(Risk(LogisticLoss(), rows, labels, 1e-6), 1e-4))
    found = {WORST: _worst_excess(count, epsilon, noise)}
    for name in [line for line in LINES if line != WORST]:
        above = [plain.value(prepared[name].run(rows, labels, noise)) - best for _ in range(FITS)]
        found[name] = _summary(above, RADIUS * count)
    return found


def _worst_excess(count: int, epsilon: float, noise: NoiseSource) -> tuple[float, float]:
    rows, labels, direction = _worst(count, _scale(epsilon))
    plain, prepared = Risk(SmoothedHingeLoss(0.5), rows, labels, 0.0), _prepared(count, epsilon)[WORST]
    best = plain.value(SMALL_RADIUS * direction)
    above = [plain.value(prepared.run(rows, labels, noise)) - best for _ in range(FITS)]
    return _summary(above, SMALL_RADIUS * count)


def _scale(epsilon: float) -> float:
    """σ on a sum to which each row gives at most 1."""
    return gaussian_multiplier(epsilon, DELTA, 1, ReplaceOne())


def _kind(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows in all directions of the unit sphere, with labels that a hidden vector makes likely."""
    generator = experiment(7)
    rows = UnitBall(1e-9, intercept=False).rows(generator.normal(size=(count, DIMENSION)))
    hidden = np.full(DIMENSION, 6.0 / math.sqrt(DIMENSION))
    likely = 1 / (1 + np.exp(-rows @ hidden))
    return rows, np.where(generator.random(count) < likely, 1.0, -1.0)


def _worst(count: int, scale: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """σ√d people who agree on a direction, and others in pairs that cancel out: signal and noise are equally
    long.
    """
    direction = np.full(DIMENSION, 1 / math.sqrt(DIMENSION))
    agree = min(2 * round(0.5 * scale * math.sqrt(DIMENSION)), count)
    signs = np.where(np.arange(count) % 2 == 0, 1.0, -1.0)
    signs[:agree] = 1.0
    return signs[:, None] * direction * (1 - 1e-9), np.ones(count), direction


def _prepared(count: int, epsilon: float) -> dict[str, PreparedFit]:
    """Each solver with its public numbers, which come from n, d, ε, δ and R alone."""
    scale = _scale(epsilon)
    # Noise of σ/nλ in each of d weights costs at most ½β d (σ/nλ)², β = ¼; regularising ½λR². The sum is
    # least here:
    output = (0.5 * DIMENSION * (scale / count) ** 2 / RADIUS**2) ** (1 / 3)
    # A random tilt b costs at most ‖b‖²/2Λ, Λ = nλ, and ‖b‖ is about σ√d; regularising ½ΛR². The sum is
    # least here:
    objective = scale * math.sqrt(DIMENSION) / (RADIUS * count)
    # Rows in all directions have a curvature of at most β/d: steps half as long as the longest stable ones.
    descent = NoisySGD(steps=60, radius=RADIUS, step_size=4.0 * DIMENSION, momentum=0.0)
    # Where the loss is a plane, one long step goes where the noisy mean of the people points.
    one_step = NoisySGD(steps=1, radius=SMALL_RADIUS, step_size=1e6)
    each = (
        (one_step, SmoothedHingeLoss(0.5), 0.0),
        (OutputPerturbation(), LogisticLoss(), output),
        (ObjectivePerturbation(), LogisticLoss(), objective),
        (descent, LogisticLoss(), 0.0),
    )
    return {
        name: solver.prepare(_terms(loss, count, regularization), epsilon=epsilon, delta=DELTA)
        for name, (solver, loss, regularization) in zip(LINES, each, strict=True)
    }


def _terms(loss: ConvexLoss, count: int, regularization: float) -> Problem:
    return Problem(
        loss=loss,
        dimension=DIMENSION,
        population=count,
        regularization=regularization,
        adjacency=ReplaceOne(),
    )


def _summary(above: list[float], unit: float) -> tuple[float, float]:
    return float(np.mean(above)) / unit, float(np.std(above)) / math.sqrt(FITS) / unit


def _slope(values: tuple[float, ...], means: list[float]) -> float:
    """Of the straight line through the right half of the points, in logarithms."""
    half = len(values) // 2
    return float(np.polyfit(np.log(values[half:]), np.log(means[half:]), 1)[0])


def _table(values: tuple[float, ...], points: Points) -> list[tuple[str, ...]]:
    rows = []
    for name in LINES:
        means = [point[name][0] for point in points]
        slope = f"{_slope(values, means):.2f}".replace("-", "−")
        rows.append((name, *(f"{mean:.5f}" for mean in means), slope))
    return rows


def _panel(axes: Axes, values: tuple[float, ...], points: Points, fixed: float) -> None:
    reach = np.geomspace(values[0], values[-1], 50)
    theory = math.sqrt(DIMENSION * math.log(1 / DELTA)) / (reach * fixed)
    axes.plot(reach, theory, color=GREY, linewidth=6, alpha=0.3, label="theory, worst data: √(d ln 1/δ)/(nε)")
    for name, (color, style, up) in LINES.items():
        means, errors = zip(*(point[name] for point in points), strict=True)
        axes.errorbar(
            values, means, errors, fmt=style, color=color, markersize=4.5, linewidth=1.7, label=name
        )
        slope = f"{_slope(values, list(means)):.1f}".replace("-", "−")
        axes.annotate(
            slope, (values[-1], means[-1]), (8, up), textcoords="offset points", color=color, va="center"
        )
    axes.set(xscale="log", yscale="log", ylim=(1e-5, 0.1), xlim=(values[0] / 1.2, values[-1] * 1.9))
    axes.set_xticks(values)
    thousands(axes.xaxis)
    axes.minorticks_off()


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path("examples-out"))
