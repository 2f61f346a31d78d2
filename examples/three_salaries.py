"""Three salaries. Three colleagues learn their mean salary, and who of two earns more, and nobody tells a salary.

Each splits a salary into three random numbers, one for each of them: points of a random line whose value at 0 is
the salary. They compute on their points and open results only. Ben sees some numbers on the way. The left picture
shows the one that he gets of Anna's salary, for two salaries that she may have: both look alike. The right one
shows all that he sees, beside numbers that were made up from the result and his own salary alone. They have the same
law, so what he sees tells him the result, and nothing else. The result itself does tell: with two salaries and the
mean, the third is known.

    python examples/three_salaries.py [folder]
"""

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
from style import BLUE, GREEN, ORANGE, panels, save, show

from privet.federated.sums import PrivateArithmetic, simulate_view
from privet.mechanisms.sampling import uniform_integers
from privet.randomness import NoiseSource, SecureNoise

NAMES, SALARIES, OTHER = ("Anna", "Ben", "Cleo"), (3_100, 2_900, 4_200), 4_000
BEN, BITS, TIMES = 1, 13, 2_000


def main(out: Path, noise: NoiseSource | None = None) -> Path:
    """Computes on the shares of three salaries, and looks at what Ben saw."""
    source = noise or SecureNoise()

    def draw(bound: int) -> int:
        return int(uniform_integers(bound, 1, source)[0])

    parties = PrivateArithmetic(3, draw=draw)
    total = add_salaries(parties, SALARIES)
    anna, _, cleo = (parties.share_bits(owner, salary, bits=BITS) for owner, salary in enumerate(SALARIES))
    anna_above = parties.open(parties.compare(anna, cleo))
    show(
        "What three colleagues computed together",
        ("question", "answer"),
        (
            ("the sum of the salaries", f"{total:,} €"),
            ("their mean", f"{total / 3:,.0f} €"),
            ("does Anna earn more than Cleo?", "yes" if anna_above else "no"),
            ("numbers that Ben was sent", f"{len(parties.views[BEN].received)}"),
        ),
    )

    seen = {salary: collect_shares((salary, *SALARIES[1:]), draw) for salary in (SALARIES[0], OTHER)}
    real = [view for _ in range(TIMES // 10) for view in look_at_ben(draw)]
    made = [view for _ in range(TIMES // 10) for view in make_up(total, draw)]
    rows = [
        (f"Anna earns {salary:,} €", f"{np.mean(shares):.2f}", f"{np.std(shares):.2f}")
        for salary, shares in seen.items()
    ]
    rows.append(("any number at all", "0.50", "0.29"))
    show(
        "What Ben is sent of Anna's salary, as a share of the largest number",
        ("if", "mean", "deviation"),
        rows,
    )

    figure, (left, right) = panels(2)
    edges = np.linspace(0, 1, 21)
    for (salary, shares), color in zip(seen.items(), (BLUE, ORANGE), strict=True):
        left.hist(shares, edges, histtype="step", color=color, linewidth=2, label=f"she earns {salary:,} €")
    left.set(title="What Ben is sent of Anna's salary", xlabel="share of the largest number", ylabel="times")
    left.set_ylim(0, 1.6 * TIMES / 20)
    left.legend()
    right.hist(real, edges, histtype="step", color=GREEN, linewidth=2, label="what he saw")
    right.hist(made, edges, histtype="step", color=ORANGE, linewidth=2, label="made up from the result")
    right.set(title="All that Ben sees of the sum", xlabel="share of the largest number", ylabel="numbers")
    right.set_ylim(0, 1.6 * len(real) / 20)
    right.legend()
    return save(figure, out, "three_salaries.png")


def add_salaries(parties: PrivateArithmetic, salaries: tuple[int, ...]) -> int:
    """What the three compute: shares of each salary, added up and opened."""
    return parties.open(parties.add(*(parties.share(owner, salary) for owner, salary in enumerate(salaries))))


def collect_shares(salaries: tuple[int, ...], draw: Callable[[int], int]) -> np.ndarray:
    """Ben's share of Anna's salary, in many runs."""
    found = []
    for _ in range(TIMES):
        parties = PrivateArithmetic(3, draw=draw)
        found.append(parties.share(0, salaries[0]).shares[BEN] / parties.prime)
    return np.array(found)


def look_at_ben(draw: Callable[[int], int]) -> list[float]:
    """All that Ben is sent in one run of the sum."""
    parties = PrivateArithmetic(3, draw=draw)
    add_salaries(parties, SALARIES)
    return [number / parties.prime for number in parties.views[BEN].received]


def make_up(total: int, draw: Callable[[int], int]) -> list[float]:
    """The same numbers, made from the sum and Ben's own salary alone."""
    parties = PrivateArithmetic(3, draw=draw)
    view = simulate_view(add_salaries, party=BEN, secret=SALARIES[BEN], results=[total], like=parties)
    return [number / parties.prime for number in view.received]


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "examples-out"))
