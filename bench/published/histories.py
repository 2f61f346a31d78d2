"""Sparse histories: the share re-identified against the number of known items, beside the rate of absent targets that are "found".

    python bench/published/histories.py [--seeds 5] [--targets 500] [--decoys 1000] [--draw FOLDER] [--quick] [--only TEXT]

On MovieLens small (ratings with dates), retail baskets (items only), and check-ins (places only). In each game a fair coin leaves
each target out of the release. ``Scoreboard`` is that of the paper with φ = 1.5; "calibrated" holds the rate of absent targets at
5 % by decoys from the release. Shares with exact 95 % intervals over all games. ``--draw`` writes the curves as pictures.
"""

import argparse
import sys
import time
from pathlib import Path

import numpy as np
from scipy.stats import binomtest

from privet.attacks.linkage.histories import (
    Histories,
    HistoryGame,
    HistoryLikelihood,
    KnownItems,
    Scoreboard,
)
from privet.randomness import experiment

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"
ATTACKS = {"scoreboard": Scoreboard(), "likelihood": HistoryLikelihood()}


def load(name):
    sys.path.insert(0, str(next(path for path in (SHARED, Path("/work/shared/data")) if path.exists())))
    from load import load as read

    return read(name)


def movielens():
    table = load("movielens_small")
    return Histories.of(
        table["userId"].to_numpy(),
        table["movieId"].to_numpy(),
        value=table["rating"].to_numpy(),
        day=table["timestamp"].to_numpy() / 86400,
    )


def baskets():
    bits = np.unpackbits(load("retail600_purchaselike")["x_packed"], axis=1)[:, :600]
    return Histories.of(*np.nonzero(bits))


def places():
    rows, columns = np.nonzero(load("location30")["x"])
    return Histories.of(rows, columns)


def share(hits):
    low, high = binomtest(int(hits.sum()), len(hits)).proportion_ci(method="exact")
    return f"{hits.mean():.3f} [{low:.3f}, {high:.3f}]"


def measure(histories, known, arguments):
    """Hits of present and of absent targets, and whose best fit is right, for each attack, plain and calibrated."""
    found = {}
    for seed in range(arguments.seeds):
        game = HistoryGame.draw(
            histories, known, targets=arguments.targets, generator=experiment(7000 + seed)
        )
        inside = game.truth >= 0
        for name, attack in ATTACKS.items():
            started = time.perf_counter()
            answer = attack.identify(game.released, game.knowledge)
            seconds = time.perf_counter() - started
            calibrated = attack.calibrate(
                game.released, known, absent_rate=0.05, decoys=arguments.decoys, seed=8000 + seed
            )
            right = answer.best == game.truth
            for title, each in ((name, attack), (f"{name}, calibrated", calibrated)):
                claimed = answer.confidence > each.threshold  # as ``run`` decides
                hits = np.where(inside, claimed & right, claimed)
                found.setdefault(title, []).append((hits[inside], hits[~inside], right[inside], seconds))
    return {
        title: (
            *(np.concatenate([draw[k] for draw in draws]) for k in range(3)),
            float(np.median([draw[3] for draw in draws])),
        )
        for title, draws in found.items()
    }


def main(arguments):
    films = movielens()
    questions = {
        "MovieLens, dates ± 14 days": (films, [KnownItems(k, day_error=14) for k in (1, 2, 3, 4, 6, 8)]),
        "MovieLens, no dates": (films, [KnownItems(k, days=False) for k in (1, 2, 3, 4, 6, 8)]),
        "MovieLens, titles only": (films, [KnownItems(k, values=False, days=False) for k in (2, 4, 6, 8)]),
        "MovieLens, 2 of 8 wrong": (
            films,
            [KnownItems(8, wrong=2, day_error=14), KnownItems(8, wrong=2, days=False)],
        ),
        "MovieLens, dates ± 3 days": (films, [KnownItems(2, day_error=3)]),
        "retail baskets": (baskets(), [KnownItems(k) for k in (2, 4, 5)]),
        "check-ins": (places(), [KnownItems(k) for k in (2, 4, 8, 16)]),
    }
    if arguments.quick:
        questions = {
            title: (data, known[1:2]) for title, (data, known) in questions.items() if len(known) > 1
        }
    if arguments.only:
        questions = {title: each for title, each in questions.items() if arguments.only in title}
    curves = {}
    for title, (histories, knowledge) in questions.items():
        print(f"\n{title}: {histories}")
        for known in knowledge:
            for name, (present, absent, best, seconds) in measure(histories, known, arguments).items():
                curves.setdefault(title, {}).setdefault(name, []).append(
                    (known.count, present.mean(), absent.mean())
                )
                dates = "" if known.days and histories.day is not None else ", no dates"
                print(
                    f"  {known.count:2} known{dates:10} | {name:23} | re-identified {share(present)} | absent found "
                    f"{share(absent)} | best fit {best.mean():.3f} | {seconds:.2f} s",
                    flush=True,
                )
    if arguments.draw:
        draw_curves(curves, Path(arguments.draw))


def draw_curves(curves, folder):
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    folder.mkdir(parents=True, exist_ok=True)
    shown = {title: lines for title, lines in curves.items() if len(next(iter(lines.values()))) > 2}
    columns = 3
    rows = -(-len(shown) // columns)
    figure, axes = plt.subplots(
        rows, columns, figsize=(4.6 * columns, 3.6 * rows), layout="constrained", squeeze=False
    )
    colors = {"scoreboard": "#5b6773", "likelihood": "#d55e00"}
    for axis, (title, lines) in zip(axes.ravel(), shown.items(), strict=False):
        for name, points in lines.items():
            known, present, absent = np.array(points).T
            color, style = colors[name.partition(",")[0]], "--" if "calibrated" in name else "-"
            axis.plot(known, 100 * present, style, color=color, marker="o", label=name)
            axis.plot(known, 100 * absent, style, color=color, marker="x", alpha=0.5)
        axis.set(title=title, ylim=(-3, 103), xlabel="known items", ylabel="%")
        axis.grid(alpha=0.3)
    for axis in axes.ravel()[len(shown) :]:
        axis.set_visible(False)
    lines, names = axes[0, 0].get_legend_handles_labels()
    figure.legend(
        lines,
        names,
        loc="outside lower center",
        ncols=4,
        title="● re-identified    × absent, and still found",
    )
    figure.savefig(folder / "histories.png", dpi=120)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--targets", type=int, default=500)
    parser.add_argument("--decoys", type=int, default=1000)
    parser.add_argument("--draw", metavar="FOLDER")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", help="questions whose title has this in it")
    main(parser.parse_args())
