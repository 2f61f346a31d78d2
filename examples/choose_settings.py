"""What "try 20, publish the best" costs, and the same choice when it is paid for.

Whoever tries 20 settings and publishes the best model usually reports the ε of one run. The choice looked at
the data too. `privet.tune` pays for the runs and for the choice with one ε.

    python examples/choose_settings.py
"""

import sys
from pathlib import Path
from textwrap import fill

import torch
from matplotlib.figure import Figure
from style import BLUE, GREEN, ORANGE, panels, save, show
from torch import nn

import privet
from privet.randomness import NoiseSource, SecureNoise
from privet.training import NegativeBinomialCount, Tuned, recipe_grid

TRIES, EPSILON, DELTA = 20, 3.0, 1e-5


def main(out: Path, noise: NoiseSource | None = None) -> Path:
    """One search among 20 settings on made-up records: a table and a picture."""
    tuned = search(noise or SecureNoise())
    show(
        f"Choosing among {TRIES} settings, ε at δ = {DELTA:g}",
        ("what is counted", "ε"),
        [
            ("one run, which is what people report", f"{tuned.run_epsilon:.2f}"),
            ("training and choice, paid by privet.tune", f"{tuned.epsilon(delta=DELTA):.2f}"),
            (f"{TRIES} such tries, all counted", f"{tuned.trials_epsilon(tries=TRIES):.2f}"),
        ],
    )
    print("\n" + fill(tuned.summary(tries=TRIES), 90))
    return save(_picture(tuned), out, "choose_settings.png")


def search(noise: NoiseSource) -> Tuned:
    """The search, with 3,000 records to train on and 1,000 to choose by."""
    torch.manual_seed(1)  # of the models' first weights
    generator = torch.Generator().manual_seed(1)
    inputs = torch.randn(4000, 10, generator=generator)
    labels = (inputs[:, 0] + inputs[:, 1] ** 2 > 1).long()
    grid = recipe_grid(
        lambda: nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 2)),
        epochs=(2, 5),
        lot_size=(250,),
        learning_rate=(0.01, 0.03, 0.1, 0.3, 1.0),
        clip=(0.3, 1.0),
    )
    return privet.tune(
        grid,
        (inputs[:3000], labels[:3000]),
        validation=(inputs[3000:], labels[3000:]),
        epsilon=EPSILON,
        delta=DELTA,
        runs=NegativeBinomialCount(10),
        noise=noise,
    )


def _picture(tuned: Tuned) -> Figure:
    figure, (axes,) = panels(1)
    tries = list(range(1, TRIES + 1))
    axes.plot(
        tries, [tuned.trials_epsilon(tries=count) for count in tries], color=ORANGE, label="all tries counted"
    )
    axes.axhline(tuned.epsilon(delta=DELTA), color=GREEN, label="paid by privet.tune")
    axes.axhline(tuned.run_epsilon, color=BLUE, linestyle="--", label="reported: one run")
    axes.set(
        title="What a choice costs",
        xlabel="settings that were tried",
        ylabel=f"ε at δ = {DELTA:g}",
        ylim=(0, None),
        xlim=(1, TRIES),
    )
    axes.set_xticks([1, 5, 10, 15, 20])
    axes.legend()
    return figure


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path("examples-out"))
