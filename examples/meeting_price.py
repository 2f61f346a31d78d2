"""What should a ticket to the meeting cost? Where noise on the answer fails, and choosing with noise works.

Two people would come: one would pay 3 €, the other 4 €. At 3 € both come and 6 € are made; at 3.01 € only one
comes. The profit jumps. The best price plus a little noise is therefore often one of the worst prices. The
exponential mechanism does not add noise to the price; it chooses among public prices, the better the
likelier.

    python examples/meeting_price.py [folder]
"""

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from style import BLUE, GREEN, GREY, INK, ORANGE, panels, save, show

import privet
from privet.mechanisms import ExponentialMechanism, Laplace, Sum, SumOfScores
from privet.randomness import NoiseSource, SecureNoise

EPSILON, MOST = 1.0, 5.0
PRICES = tuple(cent / 100 for cent in range(5, 501, 5))
RELEASES = 120


def main(out: Path, noise: NoiseSource | None = None) -> Path:
    """Compares both ways on two buyers and on two hundred."""
    noise = noise or SecureNoise()
    rows, made = [], {}
    for buyers in (2, 20, 200):
        values = [3.0, 4.0] * (buyers // 2)
        best = max(PRICES, key=lambda price: _profit(values, price))
        noisy, chosen = _noisy_prices(best, noise), _chosen_prices(values, noise)
        for label, prices in (("noise on the price", noisy), ("chosen with noise", chosen)):
            profits = np.array([_profit(values, price) for price in prices]) / _profit(values, best)
            made[buyers, label] = profits
            rows.append((buyers, label, f"{np.mean(prices):.2f} €", f"{100 * profits.mean():.0f} %"))
    show(
        f"Mean over {RELEASES} releases at ε = {EPSILON:g} each; the best price is 3 €",
        ("people", "how", "mean price", "of the best profit"),
        rows,
    )
    return save(_picture(made), out, "meeting_price.png")


def _profit(values: Sequence[float], price: float) -> float:
    return price * sum(value >= price for value in values)


def _noisy_prices(best: float, noise: NoiseSource) -> list[float]:
    """The best price, which one person can move from anywhere to anywhere, plus noise of that size over ε."""
    price = Laplace.calibrated(Sum(0.0, MOST), epsilon=EPSILON, adjacency=privet.AddRemove())
    return [float(np.clip(price.release([best], noise), 0, MOST)) for _ in range(RELEASES)]


def _chosen_prices(values: Sequence[float], noise: NoiseSource) -> list[float]:
    score = SumOfScores(PRICES, lambda value, price: price * (value >= price), 0.0, MOST)
    mechanism = ExponentialMechanism(score, EPSILON, privet.AddRemove())
    return [mechanism.release(list(values), noise) for _ in range(RELEASES)]


def _picture(made: dict[tuple[int, str], np.ndarray]) -> Figure:
    figure, (jump, ways) = panels(2)
    for low, high, buyers in ((0, 3, 2), (3, 4, 1), (4, 5, 0)):
        jump.plot([low, high], [buyers * low, buyers * high], color=BLUE)
        if buyers > 0:
            jump.plot(high, buyers * high, "o", color=BLUE, markersize=5)
        if buyers < 2:
            jump.plot(low, buyers * low, "o", color=BLUE, markersize=5, markerfacecolor="white")
    jump.text(2.85, 6.2, "3.00 €: both come, 6.00 €", color=INK, ha="right")
    jump.text(3.1, 2.45, "3.01 €: one comes, 3.01 €", color=INK)
    jump.set(xlabel="price (€)", ylabel="profit (€)", ylim=(-0.2, 7), xlim=(0, 5))
    jump.set_title("The profit jumps at what people would pay")

    sizes = sorted({buyers for buyers, _ in made})
    for offset, (label, colour) in zip(
        (-0.2, 0.2), (("noise on the price", ORANGE), ("chosen with noise", GREEN)), strict=True
    ):
        means = [100 * made[size, label].mean() for size in sizes]
        bars = ways.bar(np.arange(len(sizes)) + offset, means, 0.36, color=colour, label=label)
        ways.bar_label(bars, [f"{mean:.0f} %" for mean in means], padding=3, color=INK)
    ways.axhline(100, color=GREY, linestyle="--", linewidth=1.2)
    ways.set_xticks(range(len(sizes)), [f"{size} people" for size in sizes])
    ways.set(ylabel="mean profit, in % of the best", ylim=(0, 128))
    ways.grid(visible=False, axis="x")
    ways.legend(loc="upper left", ncols=2)
    ways.set_title(f"Noise fails; choosing works (ε = {EPSILON:g})")
    return figure


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path("examples-out"))
