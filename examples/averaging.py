"""Ask the same question a thousand times, and average: the noise goes away. The ledger is what stops it.

Each answer has Laplace noise of scale 10 at ε = 0.1. The mean of K answers is off by about 14/√K, so after a
thousand the secret is out. But every answer is charged before it is given, and the budget allows ten. Whoever
asks again gets the stored answer, which is the same, and costs nothing.

    python examples/averaging.py [folder]
"""

import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from style import GREEN, GREY, INK, ORANGE, panels, save, show, thousands

import privet
from privet.errors import BudgetExceeded
from privet.mechanisms import CountWhere, DiscreteLaplace
from privet.randomness import NoiseSource, SecureNoise

EPSILON, BUDGET, MOST = 0.1, 1.0, 1000
PEOPLE = ["blue"] * 150 + ["brown"] * 350


def main(out: Path, noise: NoiseSource | None = None) -> Path:
    """Averages without a ledger, and then tries it with one."""
    noise = noise or SecureNoise()
    blue = CountWhere(lambda eyes: eyes == "blue")
    count = DiscreteLaplace.calibrated(blue, epsilon=EPSILON, adjacency=privet.AddRemove())
    truth = PEOPLE.count("blue")

    answers = np.array([count.release(PEOPLE, noise) for _ in range(MOST)])
    means = np.cumsum(answers) / np.arange(1, MOST + 1)
    rows = []
    for times in (1, 10, 100, 1000):
        spent = privet.account(privet.events.Repeat(count.event, times), adjacency=count.adjacency)
        rows.append(
            (
                times,
                f"{means[times - 1]:.2f}",
                f"{abs(means[times - 1] - truth):.2f}",
                f"{spent.epsilon(delta=0.0):.1f}",
                f"{spent.epsilon(delta=1e-6):.2f}",
            )
        )
    show(
        f"Without a ledger: the mean of K answers, truth {truth}",
        ("K", "mean", "off by", "ε spent (δ = 0)", "ε spent (δ = 1e-6)"),
        rows,
    )

    ledger, given, refusal = _with_a_ledger(count, noise)
    print(
        f"\nWith a ledger and a budget of ε = {BUDGET:g}: {given} answers, then\n  BudgetExceeded: {refusal}"
    )
    print(f"  The ledger still holds {len(ledger)} entries: nothing was spent on what was refused.")
    return save(_picture(means, truth, given), out, "averaging.png")


def _with_a_ledger(count: DiscreteLaplace, noise: NoiseSource) -> tuple[privet.Ledger, int, str]:
    """Answers until the budget is spent: the ledger, how many answers there were, and the words of the
    refusal.
    """
    ledger, given = privet.Ledger(count.adjacency), 0
    while True:
        try:
            ledger = _charged(ledger, count)
        except BudgetExceeded as refused:
            return ledger, given, str(refused)
        count.release(PEOPLE, noise)
        given += 1


def _charged(ledger: privet.Ledger, count: DiscreteLaplace) -> privet.Ledger:
    """The ledger with one answer more, if the budget allows it. Charged first, answered then."""
    charged = count.charge(ledger, f"blue eyes, answer {len(ledger) + 1}")
    spent = privet.account(charged).epsilon(delta=0.0)
    if spent > BUDGET * (1 + 1e-12):  # ten times 0.1 is 1 but for the last digit
        raise BudgetExceeded(
            f"This answer would bring the total to ε = {spent:.2f}, and the budget is {BUDGET:g}. "
            f"Use the answers that were given, or ask for a larger budget."
        )
    return charged


def _picture(means: np.ndarray, truth: int, given: int) -> Figure:
    figure, (errors, cost) = panels(2)
    times = np.arange(1, MOST + 1)
    spread = np.sqrt(2) / EPSILON / np.sqrt(times)
    errors.fill_between(times, truth - 2 * spread, truth + 2 * spread, color=ORANGE, alpha=0.13, linewidth=0)
    errors.plot(times, means, color=ORANGE)
    errors.axhline(truth, color=GREY, linestyle="--", linewidth=1.2)
    errors.axvline(given, color=GREEN, linewidth=1.4)
    errors.text(given * 1.12, truth + 21, "the ledger stops here", color=GREEN)
    errors.text(90, truth + 7, "twice 14/√K", color=ORANGE)
    errors.text(MOST * 0.93, truth - 4.2, "the truth", color=GREY, ha="right")
    errors.set(xscale="log", xlabel="answers that are averaged, K", ylabel="mean of the answers")
    errors.set(xlim=(1, MOST), ylim=(truth - 28, truth + 28))
    thousands(errors.xaxis)
    errors.set_title("Averaging removes the noise")

    beliefs = np.array([0.5 / (0.5 + 0.5 * np.exp(-EPSILON * k)) for k in times])
    cost.plot(times, 100 * beliefs, color=ORANGE)
    cost.axvline(given, color=GREEN, linewidth=1.4)
    at_stop = 100 * beliefs[given - 1]
    cost.plot(given, at_stop, "o", color=INK, markersize=5)
    cost.annotate(f"{at_stop:.0f} %", (given, at_stop), (8, -12), textcoords="offset points", color=INK)
    cost.set(
        xscale="log", xlabel="answers that are given, K", ylabel="highest belief that Anna is in, from 50 %"
    )
    cost.set(xlim=(1, MOST), ylim=(48, 102))
    cost.yaxis.set_major_formatter(lambda value, _: f"{value:.0f} %")
    thousands(cost.xaxis)
    cost.set_title("… and with it Anna's protection")
    return figure


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path("examples-out"))
