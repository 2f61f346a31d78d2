"""The director's salary, by difference. Two sums, each about more than a hundred people, give away one
salary.

A company publishes the sum of all salaries in June and in July. In between the director retires. Nobody asked
about the director, and no sum is about a small group; the difference is the salary, to the euro. With
`privet.release` each sum has noise as large as the largest salary over ε. The difference then says little
about anybody, and the sum of all is still useful.

    python examples/salary_by_difference.py [folder]
"""

import sys
from pathlib import Path

import numpy as np
import polars
from matplotlib.figure import Figure
from style import BLUE, GREEN, GREY, INK, ORANGE, panels, save, show

import privet
from privet.attacks.reconstruction import Differencing, SecretNumber
from privet.auditing import measure_recoveries
from privet.randomness import NoiseSource, SecureNoise, experiment
from privet.releasing import Budget, ReleasePlan, Sum
from privet.releasing.simulated_releases import simulate_releases

PEOPLE, LARGEST, DIRECTOR = 120, 20_000, 17_250
EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
CLOSE, TIMES = 1_000, 2_000


def main(out: Path, noise: NoiseSource | None = None) -> Path:
    """Takes the difference of two exact sums, and then of two released ones."""
    noise = noise or SecureNoise()
    others = experiment(5).lognormal(8.1, 0.35, PEOPLE - 1).clip(1_500, 12_000).round()
    june, july = others.sum() + DIRECTOR, others.sum()
    secret = SecretNumber(lower=0, upper=LARGEST, tolerance=CLOSE)
    attack = Differencing(secret)
    exact = attack.estimate(np.array([june]), np.array([july]))[0]
    print(
        f"June, {PEOPLE} people: {june:,.0f} €. July, {PEOPLE - 1} people: {july:,.0f} €. Difference: "
        f"{exact:,.0f} €."
    )

    rows, shares, ceilings = [], [], []
    blind = float(np.median(others))  # the best guess about a salary without the two sums
    guess = float(np.mean(np.abs(others - blind) <= CLOSE))
    for epsilon in EPSILONS:
        plan = ReleasePlan(
            statistics=(("salaries", Sum("salary", 0, LARGEST)),),
            unit="person",
            budget=Budget(epsilon=epsilon / 2),
        )
        with_director, without = (
            _released(plan, salaries, noise) for salaries in ([*others, DIRECTOR], others)
        )
        found = attack.run(with_director, without, np.full(TIMES, DIRECTOR), blind=np.full(TIMES, blind))
        both = privet.account(privet.events.Compose((plan.event, plan.event)), adjacency=plan.relation)
        shares.append(measure_recoveries(found).success.value)
        # A guess of a salary within 1,000 € is right by luck for one in ten: an interval of 2,000 in 20,000.
        ceilings.append(both.tpr(fpr=2 * CLOSE / LARGEST))
        typical = float(np.median(np.abs(with_director - june)))
        rows.append(
            (
                f"{epsilon:g}",
                f"±{typical:,.0f} €",
                f"{100 * typical / june:.2f} %",
                f"{100 * shares[-1]:.0f} %",
                f"≤ {100 * ceilings[-1]:.0f} %",
            )
        )
    show(
        "Two sums released at ε together: how good they are, and how often the difference is within "
        f"{CLOSE:,} € of the salary",
        ("ε", "error of a sum", "of the sum", "within 1,000 €", "ceiling"),
        rows,
    )
    print(
        f"\nOf the other salaries {100 * guess:.0f} % are within {CLOSE:,} € of the median: that guess needs "
        "no sums."
    )
    return save(_picture(plan, others, shares, ceilings, noise), out, "salary_by_difference.png")


def _released(plan: ReleasePlan, salaries: object, noise: NoiseSource) -> np.ndarray:
    """Many releases of the sum, to see how often the attack works. One release is what a company makes."""
    table = polars.DataFrame({"person": range(len(salaries)), "salary": np.asarray(salaries, dtype=float)})
    return simulate_releases(plan, table, times=TIMES, noise=noise)["salaries"][:, 0]


def _picture(
    plan: ReleasePlan, others: np.ndarray, shares: list, ceilings: list, noise: NoiseSource
) -> Figure:
    figure, (estimates, curve) = panels(2)
    released = ReleasePlan(statistics=plan.statistics, unit="person", budget=Budget(epsilon=0.5))
    difference = _released(released, [*others, DIRECTOR], noise) - _released(released, others, noise)
    estimates.hist(difference / 1000, bins=np.linspace(-200, 200, 61), color=BLUE, alpha=0.75)
    estimates.axvline(DIRECTOR / 1000, color=ORANGE, linewidth=2)
    estimates.set_ylim(0, estimates.get_ylim()[1] * 1.12)
    estimates.text(DIRECTOR / 1000 + 5, estimates.get_ylim()[1] * 0.93, "the salary", color=ORANGE)
    estimates.axvspan(0, LARGEST / 1000, color=GREY, alpha=0.15, linewidth=0)
    estimates.set(xlabel="difference of the two sums, thousand €", ylabel="of 2,000 repetitions")
    estimates.set_title("At ε = 1 the difference could be anybody's")

    curve.plot(EPSILONS, 100 * np.array(ceilings), "--", color=GREEN, label="proved ceiling")
    curve.plot(
        EPSILONS, 100 * np.array(shares), "o-", color=ORANGE, markersize=5, label="difference within 1,000 €"
    )
    curve.axhline(100 * 2 * CLOSE / LARGEST, color=GREY, linestyle=":", label="by luck")
    curve.set(xscale="log", xlabel="ε of both sums together", ylabel="recovered, %", ylim=(0, 108))
    curve.set_xticks(EPSILONS, [f"{epsilon:g}" for epsilon in EPSILONS])
    curve.minorticks_off()
    curve.legend(loc="upper left", fontsize=9, labelcolor=INK)
    curve.set_title("What the attack gets, against ε")
    return figure


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path("examples-out"))
