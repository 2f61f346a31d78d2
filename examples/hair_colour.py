"""Which hair colour is the most frequent? A choice among public answers, at ε = 0.1.

Only the winner is published, so only the winner is paid for. The exponential mechanism errs with a
probability that falls exponentially in the lead: here 1 − 4·exp(−5) = 0.973 of all releases say "dark".

    python examples/hair_colour.py [folder]
"""

import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from style import BLUE, GREEN, GREY, INK, ORANGE, panels, save, show

import privet
from privet.mechanisms import ExponentialMechanism, PermuteAndFlip, ReportNoisyMax, TallyOf
from privet.randomness import NoiseSource, SecureNoise

EPSILON, RELEASES = 0.1, 200
HEADS = {"dark": 500, "brown": 399, "fair": 240, "grey": 120, "red": 41}
WAYS = {
    "exponential mechanism": ExponentialMechanism,
    "permute and flip": PermuteAndFlip,
    "report noisy max": ReportNoisyMax,
}


def main(out: Path, noise: NoiseSource | None = None) -> Path:
    """Asks for the most frequent colour in three ways, many times over."""
    noise = noise or SecureNoise()
    data = [colour for colour, heads in HEADS.items() for _ in range(heads)]
    score, adjacency = TallyOf(tuple(HEADS)), privet.AddRemove()
    print(f"Heads: {', '.join(f'{colour} {heads}' for colour, heads in HEADS.items())}.")

    classic = ExponentialMechanism.classic(score, epsilon=EPSILON, adjacency=adjacency)
    dark = classic.probabilities(data)[0]
    print(f"Textbook, exp(ε·heads/2): P[dark] = {dark:.4f} ≥ 1 − 4·exp(−5) = {1 - 4 * np.exp(-5):.4f}.")
    print(
        f"A head more can only raise a score, so this costs ε = {classic.epsilon:g} instead of {EPSILON:g}."
    )

    rows = []
    for label, kind in WAYS.items():
        for epsilon in (0.01, 0.02, 0.05):
            mechanism = kind(score, epsilon, adjacency)
            wins = [mechanism.release(data, noise) for _ in range(RELEASES)].count("dark")
            promised = mechanism.error(confidence=0.95)
            rows.append((label, f"{epsilon:g}", f"{wins / RELEASES:.3f}", f"≤ {promised:.0f} heads"))
    show(
        f"Share of {RELEASES} releases that say “dark”, and how far behind the winner may be (95 %)",
        ("how", "ε", "dark", "behind the best"),
        rows,
    )
    return save(_picture(score, data), out, "hair_colour.png")


def _picture(score: TallyOf, data: list[str]) -> Figure:
    figure, (heads, chance) = panels(2)
    classic = ExponentialMechanism.classic(score, epsilon=EPSILON, adjacency=privet.AddRemove())
    chances = classic.probabilities(data)
    places = np.arange(len(HEADS))
    bars = heads.bar(places, list(HEADS.values()), 0.6, color=[GREEN, *["#b9c2ca"] * (len(HEADS) - 1)])
    labels = [f"{100 * share:.1f} %" if share > 5e-4 else "< 0.1 %" for share in chances]
    heads.bar_label(bars, labels, padding=3, color=INK)
    heads.set_xticks(places, list(HEADS))
    heads.set(ylabel="heads", ylim=(0, 580))
    heads.grid(visible=False, axis="x")
    heads.set_title("Heads, and the chance of each to be announced")

    epsilons = np.geomspace(0.002, 0.2, 60)
    for adjacency, colour, label in (
        (privet.AddRemove(), BLUE, "one comes or goes"),
        (privet.ReplaceOne(), ORANGE, "one is exchanged"),
    ):
        curve = [ExponentialMechanism(score, float(e), adjacency).probabilities(data)[0] for e in epsilons]
        chance.plot(epsilons, curve, color=colour, label=label)
    chance.axhline(0.2, color=GREY, linestyle="--", linewidth=1.2)
    chance.text(0.19, 0.215, "a blind guess", color=GREY, ha="right")
    chance.set(
        xscale="log", xlabel="ε that is spent", ylabel="chance that “dark” is announced", ylim=(0, 1.05)
    )
    chance.set_xticks([0.002, 0.01, 0.05, 0.2], ["0.002", "0.01", "0.05", "0.2"])
    chance.legend(loc="lower right", bbox_to_anchor=(1, 0.28))
    chance.set_title("A clear lead needs little ε")
    return figure


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path("examples-out"))
