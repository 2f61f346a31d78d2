"""Anna took part, Patrick did not. What may a reader conclude about either?

A clinic publishes, with noise, how many of its patients have a certain illness. A reader thinks with
probability 0.4 that Anna is one of them; it may be a nurse, who knows of every other patient, or a neighbour,
who does not. *Anna is in the data*: whatever is published, ε bounds how far this belief can move,

    0.4/(0.4 + 0.6·exp(ε))  ≤  belief after  ≤  0.4/(0.4 + 0.6·exp(−ε)).

*Patrick is not in the data*, so nothing here can be about him. Yet if the clinic finds that nearly every
smoker is ill, the reader will think so of Patrick, who smokes. That is knowledge about people, not a leak
about Patrick: he could not have prevented it by staying away, because he did stay away. No ε forbids it, and
none should.

    python examples/anna_and_patrick.py [folder]
"""

import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from style import BLUE, GREEN, GREY, INK, ORANGE, panels, save, show

import privet
from privet.mechanisms import CountWhere, DiscreteLaplace
from privet.randomness import NoiseSource, SecureNoise

PRIOR = 0.4
OTHERS, SPREAD = 120, 5  # patients who are ill, without Anna; and how well a neighbour can guess their number
RELEASES = 400
SMOKERS, ILL = 2_000, 1_800


def main(out: Path, noise: NoiseSource | None = None) -> Path:
    """What follows about Anna at several ε, and about Patrick from a survey that he was not in."""
    noise = noise or SecureNoise()
    rows, seen = [], {}
    for epsilon in (0.01, 0.1, 0.5, 1.0, 3.0, 8.0):
        count = DiscreteLaplace.calibrated(CountWhere(bool), epsilon=epsilon, adjacency=privet.AddRemove())
        bounds = privet.account(count.event, adjacency=count.adjacency).posterior(prior=PRIOR, delta=0.0)
        nurse, neighbour = seen[epsilon] = _beliefs(count, noise)
        rows.append(
            (
                f"{epsilon:g}",
                f"{bounds.lower:.3f} … {bounds.upper:.3f}",
                f"{nurse.min():.3f} … {nurse.max():.3f}",
                f"{neighbour.min():.3f} … {neighbour.max():.3f}",
            )
        )
    show(
        f"Anna, of whom both think {PRIOR:g} before: what they think after each of {RELEASES} releases",
        ("ε", "proved: between", "the nurse", "the neighbour"),
        rows,
    )

    survey = DiscreteLaplace.calibrated(CountWhere(bool), epsilon=0.1, adjacency=privet.AddRemove())
    share = survey.release([True] * ILL + [False] * (SMOKERS - ILL), noise) / SMOKERS
    print(
        f"\nPatrick, who smokes and was not asked: {share:.2f} of the smokers in a survey at ε = 0.1 are ill."
    )
    print(f"A reader who thought {PRIOR:g} of him now thinks {share:.2f}. Nothing leaked: he was not in it.")
    return save(_picture(seen), out, "anna_and_patrick.png")


def _beliefs(count: DiscreteLaplace, noise: NoiseSource) -> tuple[np.ndarray, np.ndarray]:
    """Beliefs of the nurse, who knows all but Anna, and of the neighbour, who has an idea of the total."""
    totals = np.arange(OTHERS - 8 * SPREAD, OTHERS + 8 * SPREAD + 1)
    guess = np.exp(-0.5 * ((totals - OTHERS) / SPREAD) ** 2)
    nurse, neighbour = [], []
    for turn in range(RELEASES):
        answer = count.release([True] * (OTHERS + (turn % 5 < 2)), noise)
        nurse.append(_belief(_likelihood(count, answer - OTHERS - 1), _likelihood(count, answer - OTHERS)))
        neighbour.append(
            _belief(
                guess @ _likelihood(count, answer - totals - 1), guess @ _likelihood(count, answer - totals)
            )
        )
    return np.array(nurse), np.array(neighbour)


def _likelihood(count: DiscreteLaplace, noise: float | np.ndarray) -> np.ndarray:
    return np.exp(-np.abs(noise) / count.scale)


def _belief(if_ill: float, if_not: float) -> float:
    """Bayes' rule."""
    return float(PRIOR * if_ill / (PRIOR * if_ill + (1 - PRIOR) * if_not))


def _picture(seen: dict[float, tuple[np.ndarray, np.ndarray]]) -> Figure:
    figure, (band, people) = panels(2)
    epsilons = np.geomspace(0.005, 12, 200)
    upper = PRIOR / (PRIOR + (1 - PRIOR) * np.exp(-epsilons))
    lower = PRIOR / (PRIOR + (1 - PRIOR) * np.exp(epsilons))
    band.fill_between(epsilons, lower, upper, color=BLUE, alpha=0.12, linewidth=0)
    band.plot(epsilons, upper, color=BLUE)
    band.plot(epsilons, lower, color=BLUE)
    band.axhline(PRIOR, color=GREY, linestyle="--", linewidth=1.2)
    for epsilon, (nurse, neighbour) in seen.items():
        band.plot([epsilon] * 2, [nurse.min(), nurse.max()], "o", color=ORANGE, markersize=6)
        band.plot(
            [epsilon] * 2,
            [neighbour.min(), neighbour.max()],
            "-",
            color=GREEN,
            linewidth=5,
            solid_capstyle="butt",
        )
    band.text(0.006, 0.9, "proved for every reader", color=BLUE)
    band.text(0.006, 0.82, "the nurse, who knows all others", color=ORANGE)
    band.text(0.006, 0.74, "the neighbour, who does not", color=GREEN)
    band.text(0.006, 0.425, "before", color=GREY)
    band.set(xscale="log", xlabel="ε", ylabel="belief that Anna is ill", xlim=(0.005, 12), ylim=(-0.02, 1.02))
    band.set_xticks([0.01, 0.1, 1, 10], ["0.01", "0.1", "1", "10"])
    band.set_title("Anna: how far one release can move a belief")

    bars = people.bar(
        [0, 1, 3, 4], [0.4, _at(0.1), 0.4, ILL / SMOKERS], 0.75, color=["#b9c2ca", GREEN, "#b9c2ca", ORANGE]
    )
    people.bar_label(
        bars, ["0.40", f"≤ {_at(0.1):.2f}", "0.40", f"{ILL / SMOKERS:.2f}"], padding=3, color=INK
    )
    people.set_xticks([0, 1, 3, 4], ["before", "after", "before", "after"])
    people.text(0.5, 1.08, "Anna\nin the data", ha="center", va="center", color=INK)
    people.text(3.5, 1.08, "Patrick\nnot in the data", ha="center", va="center", color=INK)
    people.set(ylabel="belief that the person is ill", ylim=(0, 1.2), yticks=[0, 0.2, 0.4, 0.6, 0.8, 1.0])
    people.grid(visible=False, axis="x")
    people.set_title("At ε = 0.1: a person is hidden, a fact is not")
    return figure


def _at(epsilon: float) -> float:
    return float(PRIOR / (PRIOR + (1 - PRIOR) * np.exp(-epsilon)))


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path("examples-out"))
