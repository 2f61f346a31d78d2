"""Everybody's secret bit, from sums that are each about half of the people.

Fifty people have a secret bit. Somebody asks for two hundred sums, each over a random half of them. One sum
tells nothing about a person, and all of them together give away every bit, unless their errors are of the
order of √n (Dinur and Nissim 2003). Released with `privet.release`, the attack gets no more than a blind
guess at a sensible ε, and the ceiling of the proof holds at every ε.

    python examples/everybodys_bit.py [folder]
"""

import sys
from functools import cache
from pathlib import Path

import numpy as np
import polars
from matplotlib.figure import Figure
from style import BLUE, GREEN, GREY, ORANGE, panels, save, show

import privet
from privet.attacks.reconstruction import LeastSquares, SubsetSums
from privet.randomness import NoiseSource, SecureNoise, experiment
from privet.releasing import Budget, ReleasePlan, Sum
from privet.releasing.simulated_releases import simulate_releases

PEOPLE, SUMS, SHARE, DRAWS = 50, 200, 0.58, 4
ERRORS = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0)
EPSILONS = (1.0, 3.0, 10.0, 30.0, 100.0, 400.0)


def main(out: Path, noise: NoiseSource | None = None) -> Path:
    """Attacks sums with errors, and then released ones."""
    noise, attack = noise or SecureNoise(), LeastSquares(prior=SHARE)
    plain, blind = [], []
    for error in ERRORS:
        games = [_draw(experiment(draw)) for draw in range(DRAWS)]
        found = []
        for generator, bits, queries in games:
            answers = queries @ bits + generator.uniform(-1, 1, SUMS) * error * np.sqrt(PEOPLE)
            found.append(attack.run(SubsetSums(queries, answers), bits))
        plain.append(_mean([each.hits for each in found]))
        blind.append(_mean([each.blind_hits for each in found]))
    show(
        f"{SUMS} sums about {PEOPLE} people, each off by up to E·√n: bits that are right (a blind guess: "
        f"{100 * blind[0]:.0f} %)",
        ("E", "off by up to", "recovered"),
        [
            (f"{error:g}", f"{error * np.sqrt(PEOPLE):.1f}", f"{100 * share:.0f} %")
            for error, share in zip(ERRORS, plain, strict=True)
        ],
    )

    rows, released, ceilings = [], [], []
    for epsilon in EPSILONS:
        found = []
        for draw in range(DRAWS):
            _, bits, queries = _draw(experiment(draw))
            found.append(attack.run(_released(queries, bits, epsilon, noise), bits).hits)
        released.append(_mean(found))
        plan = _plan(epsilon)
        ceilings.append(privet.account(plan.event, adjacency=plan.relation).tpr(fpr=SHARE))
        rows.append((f"{epsilon:g}", f"{100 * released[-1]:.0f} %", f"≤ {100 * ceilings[-1]:.0f} %"))
    show("The same sums, released at ε for all of them together", ("ε", "recovered", "ceiling"), rows)
    return save(_picture(plain, released, ceilings, blind[0]), out, "everybodys_bit.png")


def _draw(generator: np.random.Generator) -> tuple[np.random.Generator, np.ndarray, np.ndarray]:
    bits = (generator.random(PEOPLE) < SHARE).astype(int)
    return generator, bits, (generator.random((SUMS, PEOPLE)) < 0.5).astype(int)


@cache
def _plan(epsilon: float) -> ReleasePlan:
    statistics = tuple((f"q{place}", Sum(f"q{place}", 0, 1)) for place in range(SUMS))
    return ReleasePlan(statistics=statistics, unit=None, budget=Budget(epsilon=epsilon))


def _released(queries: np.ndarray, bits: np.ndarray, epsilon: float, noise: NoiseSource) -> SubsetSums:
    """The sums with the noise of a release. The width of the noise is public."""
    table = polars.DataFrame({f"q{place}": row * bits for place, row in enumerate(queries)})
    answers = simulate_releases(_plan(epsilon), table, times=1, noise=noise)
    flat = np.array([answers[f"q{place}"][0, 0] for place in range(SUMS)])
    return SubsetSums(queries, flat, noise=np.sqrt(2) * SUMS / epsilon)


def _mean(hits: list) -> float:
    return float(np.mean(np.concatenate(hits)))


def _picture(plain: list, released: list, ceilings: list, blind: float) -> Figure:
    figure, (errors, curve) = panels(2)
    errors.plot(ERRORS, 100 * np.array(plain), "o-", color=BLUE, markersize=5)
    errors.axhline(100 * blind, color=GREY, linestyle=":")
    errors.text(ERRORS[-1], 100 * blind - 4, "blind guess", color=GREY, ha="right")
    errors.set(xlabel="error of a sum, in √n", ylabel="bits recovered, %", ylim=(40, 104))
    errors.set_title("Errors below √n do not protect anybody")

    curve.plot(EPSILONS, 100 * np.array(ceilings), "--", color=GREEN, label="proved ceiling")
    curve.plot(EPSILONS, 100 * np.array(released), "o-", color=ORANGE, markersize=5, label="recovered")
    curve.axhline(100 * blind, color=GREY, linestyle=":", label="blind guess")
    curve.set(xscale="log", xlabel="ε of all sums together", ylabel="bits recovered, %", ylim=(40, 104))
    curve.set_xticks(EPSILONS, [f"{epsilon:g}" for epsilon in EPSILONS])
    curve.minorticks_off()
    curve.legend(loc="lower right", fontsize=9)
    curve.set_title("Released with noise: recovered against ε")
    return figure


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path("examples-out"))
