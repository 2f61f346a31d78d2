"""Did you cheat on your taxes? With randomised response nobody needs to trust anybody.

Everybody tosses a coin. Heads: tell the truth. Tails: toss again and say yes on heads, no on tails. So a yes
proves nothing about the person who says it, while the share of cheats among all is 2·(share of yeses) − ½.

    python examples/taxes.py [folder]
"""

import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from style import BLUE, GREEN, GREY, INK, ORANGE, panels, save, show, thousands

import privet
from privet.mechanisms import RandomizedResponse
from privet.randomness import NoiseSource, SecureNoise, experiment

CHEATS = 0.12
SIZES = (100, 300, 1_000, 3_000, 10_000, 30_000, 100_000)


def main(out: Path, noise: NoiseSource | None = None) -> Path:
    """Asks groups of growing size, and shows what is known about all and about one."""
    noise = noise or SecureNoise()
    coin = RandomizedResponse.biased(0.25, adjacency=privet.ReplaceOne())
    cost = privet.account(coin.event, adjacency=coin.adjacency).epsilon(delta=0.0)
    print(
        f"Two coins: the truth with probability {coin.truth}, ε = ln 3 = {cost:.4f} for everybody who "
        "answers."
    )

    people = experiment(1).random(max(SIZES)) < CHEATS
    rows, found = [], []
    for size in SIZES:
        said = coin.release(people[:size], noise)
        low, high = coin.interval(said, confidence=0.95)
        found.append((coin.estimate(said), low, high))
        rows.append(
            (f"{size:,}", f"{said.mean():.3f}", f"{coin.estimate(said):+.3f}", f"{low:.3f} … {high:.3f}")
        )
    show(
        f"True share of cheats: {people.mean():.3f}",
        ("people", "share of yeses", "estimate", "95 % interval"),
        rows,
    )

    beliefs = [
        (prior, coin.posterior(True, prior=prior), coin.posterior(False, prior=prior))
        for prior in (0.02, 0.12, 0.5)
    ]
    show(
        "What to believe of one person",
        ("before", "after a yes", "after a no"),
        [tuple(f"{value:.3f}" for value in row) for row in beliefs],
    )
    return save(_picture(coin, np.array(found)), out, "taxes.png")


def _picture(coin: RandomizedResponse, found: np.ndarray) -> Figure:
    figure, (many, one) = panels(2)
    many.axhline(CHEATS, color=GREY, linestyle="--", linewidth=1.2)
    many.text(SIZES[-1], CHEATS + 0.012, "the truth", color=GREY, ha="right")
    many.fill_between(SIZES, found[:, 1], found[:, 2], color=GREEN, alpha=0.15, linewidth=0)
    many.plot(SIZES, found[:, 0], "o-", color=GREEN, markersize=5)
    many.set(xscale="log", xlabel="people asked", ylabel="estimated share of cheats", ylim=(-0.05, 0.5))
    thousands(many.xaxis)
    many.set_title("Many: the share comes out")

    prior = np.linspace(0.001, 0.999, 300)
    for answer, colour in ((True, ORANGE), (False, BLUE)):
        one.plot(prior, [coin.posterior(answer, prior=float(p)) for p in prior], color=colour)
    one.plot(prior, prior, color=GREY, linestyle="--", linewidth=1.2)
    one.text(0.22, 0.66, "after a yes", color=ORANGE)
    one.text(0.62, 0.28, "after a no", color=BLUE)
    one.plot(0.02, coin.posterior(True, prior=0.02), "o", color=INK, markersize=5)
    one.annotate(
        "0.02 → 0.058", (0.02, 0.058), (0.03, 0.48), color=INK, arrowprops={"arrowstyle": "-", "color": GREY}
    )
    one.set(xlabel="belief before", ylabel="belief after", xlim=(0, 1), ylim=(0, 1))
    one.set_title("One: nothing is proved")
    return figure


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path("examples-out"))
