"""What do trainings leak whose settings are well known? Certified from both sides, beside what was published
of them.

Three settings of DP-SGD on MNIST come from the tutorial of TensorFlow Privacy, each with its ε. The same
trainings leak less than was said: Rényi moments prove more than they need to, and the privacy-loss
distribution is exact up to its last digits. Then the same 500 answers by four theorems, and what a target ε
costs in noise.

    python examples/well_known_settings.py [folder]
"""

import math
import sys
from pathlib import Path
from typing import NamedTuple

from matplotlib.figure import Figure
from style import BLUE, GREEN, GREY, INK, ORANGE, panels, save, show, thousands

import privet
from privet.accounting import Advanced, Basic, Optimal, Renyi
from privet.events import Event, Opaque, Repeat
from privet.randomness import NoiseSource

RECORDS, LOT, DELTA = 60_000, 256, 1e-5  # MNIST
TARGETS = (1.0, 2.0, 4.0, 8.0)
SMALL, SMALL_DELTA = Repeat(Opaque(epsilon=0.001), 500), 1e-6  # the example of Kairouz, Oh & Viswanath 2015
ALONG = (1, 2, 4, 7, 12, 20, 35, 60, 100)  # epochs


class Published(NamedTuple):
    """A training whose ε has been published, in tensorflow/privacy, tutorials/README.md, "Select
    Parameters".
    """

    noise_multiplier: float
    epochs: int
    epsilon: float
    colour: str


PUBLISHED = (
    Published(0.7, 45, 7.10, ORANGE),
    Published(1.1, 60, 3.01, BLUE),
    Published(1.3, 15, 1.19, GREEN),
)


def main(out: Path, noise: NoiseSource | None = None) -> Path:
    """Three tables and a picture; nothing in them is random."""
    del noise
    rows = []
    for said in PUBLISHED:
        bounds = _claim(said.noise_multiplier, said.epochs).epsilon_bounds(delta=DELTA)
        moments = _moments(said.noise_multiplier, said.epochs)
        numbers = (f"{said.epsilon:.2f}", f"{moments:.4f}", _up(bounds.upper), _down(bounds.lower))
        rows.append((f"{said.noise_multiplier:g}", said.epochs, *numbers))
    show(
        f"DP-SGD on MNIST, lots of {LOT} out of {RECORDS:,}, ε at δ = {DELTA:g}",
        ("noise multiplier", "epochs", "published", "Rényi", "certified ≤", "certified ≥"),
        rows,
    )
    accountants = (Basic(), 0.0), (Advanced(), SMALL_DELTA), (Renyi(), SMALL_DELTA), (Optimal(), SMALL_DELTA)
    show(
        f"500 answers, each ε = 0.001: together, at δ = {SMALL_DELTA:g}",
        ("theorem", "ε"),
        [(tool.name, f"{_by(tool, delta):.4f}") for tool, delta in accountants],
    )
    show(
        "What ε costs in noise over 60 epochs, and the most that any attack or reader can reach",
        ("ε", "noise multiplier", "TPR at 0.1 % FPR", "belief 10 % becomes", "belief 50 % becomes"),
        [_bought(epsilon) for epsilon in TARGETS],
    )
    return save(_picture(), out, "well_known_settings.png")


def _training(noise_multiplier: float, epochs: float) -> Event:
    steps = int(epochs * RECORDS / LOT)
    return privet.dp_sgd(noise_multiplier=noise_multiplier, sampling_rate=LOT / RECORDS, steps=steps)


def _claim(noise_multiplier: float, epochs: float) -> privet.Guarantee:
    return privet.account(_training(noise_multiplier, epochs), adjacency=privet.AddRemove())


def _moments(noise_multiplier: float, epochs: float) -> float:
    event = _training(noise_multiplier, epochs)
    return privet.account(event, adjacency=privet.AddRemove(), accountant=Renyi()).epsilon(delta=DELTA)


def _up(value: float) -> str:
    return f"{math.ceil(1e5 * value) / 1e5:.5f}"


def _down(value: float) -> str:
    return f"{math.floor(1e5 * value) / 1e5:.5f}"


def _by(accountant: Basic | Advanced | Renyi | Optimal, delta: float) -> float:
    return privet.account(SMALL, adjacency=privet.AddRemove(), accountant=accountant).epsilon(delta=delta)


def _bought(epsilon: float) -> tuple[str, ...]:
    found = privet.calibrate(
        lambda noise_multiplier: _training(noise_multiplier, 60),
        privet.EpsilonTarget(epsilon=epsilon, delta=DELTA),
        adjacency=privet.AddRemove(),
    )
    claim = found.guarantee
    beliefs = (claim.posterior(prior=prior, delta=DELTA).upper for prior in (0.1, 0.5))
    shares = (f"{100 * share:.2f} %" for share in (claim.tpr(fpr=1e-3), *beliefs))
    return (f"{epsilon:g}", f"{found.value:.5f}", *shares)


def _picture() -> Figure:
    figure, (axes,) = panels(1)
    for said in PUBLISHED:
        certified = [_claim(said.noise_multiplier, epochs).epsilon(delta=DELTA) for epochs in ALONG]
        moments = [_moments(said.noise_multiplier, epochs) for epochs in ALONG]
        axes.plot(ALONG, certified, color=said.colour, label=f"noise {said.noise_multiplier:g}: certified")
        axes.plot(ALONG, moments, color=said.colour, linestyle=":", linewidth=1.4)
        truth = _claim(said.noise_multiplier, said.epochs).epsilon(delta=DELTA)
        axes.plot([said.epochs] * 2, [said.epsilon, truth], color=said.colour, linewidth=1)
        axes.plot(said.epochs, said.epsilon, "o", markerfacecolor="white", color=said.colour)
        axes.plot(said.epochs, truth, "o", color=said.colour)
        told = f"{said.epsilon:.2f} → {truth:.2f}"
        axes.annotate(
            told,
            (said.epochs, said.epsilon),
            (-6, 6),
            textcoords="offset points",
            color=INK,
            fontsize=9,
            ha="right",
        )
    axes.plot([], [], color=GREY, linestyle=":", label="what Rényi moments prove")
    axes.plot([], [], "o", markerfacecolor="white", color=GREY, linestyle="", label="published")
    axes.set(xscale="log", yscale="log", xlabel="epochs", ylabel=f"ε at δ = {DELTA:g}")
    thousands(axes.xaxis)
    thousands(axes.yaxis)
    axes.legend(loc="upper left", fontsize=8)
    axes.set_title("The same trainings leak less than was said")
    return figure


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path("examples-out"))
