"""The film lover: ratings without names, and a few public reviews.

In 2006 a film rental published the ratings of half a million subscribers, without names. Somebody who writes reviews elsewhere
under their own name, or talks about films over lunch, gives away a few of these ratings. Narayanan and Shmatikov showed that this
is enough: few people have seen the same obscure films. Here subscribers and films are invented. Half of the reviewers are not
among the published people at all. The scoreboard of the paper "finds" many of these too; an attack that multiplies likelihoods, and
that tries its threshold on published people beforehand, finds more of those who are there and about 5 % of those who are not.

    python examples/film_lover.py [folder]
"""

import sys
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from style import BLUE, GREY, ORANGE, panels, save, show

from privet.attacks.linkage.histories import (
    Histories,
    HistoryGame,
    HistoryLikelihood,
    KnownItems,
    Scoreboard,
)
from privet.auditing import measure_recoveries
from privet.randomness import NoiseSource, experiment

PEOPLE, FILMS, REVIEWERS = 1_000, 2_000, 400
KNOWN = (1, 2, 3, 4, 6, 8)
PAPER, OURS = "scoreboard, φ = 1.5", "likelihood, calibrated"


def main(out: Path, noise: NoiseSource | None = None) -> Path:
    """Looks for reviewers among subscribers, by one to eight known ratings."""
    del noise  # nothing here is private
    ratings = _invent_ratings(experiment(2006))
    print(f"{ratings}. Of {REVIEWERS} reviewers a coin leaves half out of what is published.")
    figure, axes = panels(2)
    titles = {"stars and dates ± 14 days": True, "stars, no dates": False}
    for axis, (title, days) in zip(axes, titles.items(), strict=True):
        curves = {PAPER: [], OURS: []}
        for count in KNOWN:
            known = KnownItems(count, day_error=14.0, days=days)
            game = HistoryGame.draw(ratings, known, targets=REVIEWERS, generator=experiment(count))
            calibrated = HistoryLikelihood().calibrate(game.released, known, absent_rate=0.05, decoys=400)
            for name, attack in ((PAPER, Scoreboard()), (OURS, calibrated)):
                measured = measure_recoveries(attack.play(game))
                curves[name].append((measured.success.value, measured.baseline.value))
        show(
            f"Known of each reviewer: {title}",
            ("ratings", *(f"{name}{what}" for name in curves for what in ("", ": absent"))),
            [
                (count, *(f"{100 * value:.0f} %" for name in curves for value in curves[name][place]))
                for place, count in enumerate(KNOWN)
            ],
        )
        _draw(axis, title, curves)
    axes[1].legend(loc="center right", fontsize=9)
    print(
        "\nA handful of ratings is a name. Taking out the dates costs an attacker a few ratings more, and no more than that."
    )
    return save(figure, out, "film_lover.png")


def _invent_ratings(generator: np.random.Generator) -> Histories:
    """Films of very different popularity, people of very different activity, who watch in spells."""
    popularity = 1.0 / np.arange(1, FILMS + 1) ** 0.9
    counts = np.clip(generator.lognormal(3.7, 0.8, PEOPLE), 12, 400).astype(np.int64)
    quality = generator.normal(3.4, 0.5, FILMS)
    person, film, day = [], [], []
    for who, count in enumerate(counts):
        seen = generator.choice(FILMS, count, replace=False, p=popularity / popularity.sum())
        spells = generator.uniform(0, 2000, 1 + count // 15)
        person.append(np.full(count, who))
        film.append(seen)
        day.append(generator.choice(spells, count) + generator.exponential(10.0, count))
    films = np.concatenate(film)
    stars = np.clip(np.round(2 * generator.normal(quality[films], 0.9)) / 2, 0.5, 5.0)
    return Histories.of(np.concatenate(person), films, value=stars, day=np.concatenate(day))


def _draw(axis: Axes, title: str, curves: dict[str, list[tuple[float, float]]]) -> None:
    for (name, points), color in zip(curves.items(), (BLUE, ORANGE), strict=True):
        found, absent = 100 * np.array(points).T
        axis.plot(KNOWN, found, color=color, marker="o", label=name)
        axis.plot(KNOWN, absent, color=color, marker="x", linestyle=":", label="… absent, and still found")
    axis.axhline(5, color=GREY, linewidth=0.8, linestyle="--")
    axis.set_ylim(-3, 103)
    axis.set_xticks(KNOWN)
    axis.set_xlabel("known ratings of a reviewer")
    axis.set_ylabel("reviewers, %")
    axis.set_title(title[0].upper() + title[1:])


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "examples-out"))
