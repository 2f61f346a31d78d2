"""You share a gradient, not your picture. Is that any better?

In federated learning every phone sends the gradient of its own pictures to a server. The server knows the model, so it
can ask which pictures would have given this gradient. For a model that starts with a linear layer the answer is exact, for one
person, for eight together, and after several local steps. *Noise* is what helps, as in DP-SGD: each person's gradient is clipped to length
1 and gets noise of standard deviation σ.

How much noise? That depends on the attack that one has thought of. Each of three attacks on the same gradients stops at
another σ. The proof speaks of all attacks at once: nobody who guesses among 1,000 candidates is right more often than its ceiling.

    python examples/picture_from_gradient.py [folder]
"""

import sys
from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure
from sklearn.datasets import load_digits
from style import BLUE, GREEN, GREY, INK, ORANGE, panels, save, show

import privet
from privet.attacks.inversion.gradients import (
    CandidateTest,
    ExpectedSignal,
    FirstLayer,
    PublicModel,
    RankOne,
    align_batches,
)
from privet.attacks.inversion.identification import first_of
from privet.attacks.inversion.picture_quality import measure_psnr
from privet.randomness import NoiseSource, experiment
from privet.recoveries import RecoveryGame
from privet.shared_gradients import LocalSteps, NoisyStep, OneStep, SharedGradient, Sharing

SHOWN, TARGETS, LISTED = 8, 96, 1000
SIGMAS = (0.003, 0.01, 0.03, 0.1, 0.2, 0.3, 0.5, 1.0)
DRAWN = 0.03  # the σ of the last row of pictures


def main(out: Path, noise: NoiseSource | None = None) -> Path:
    """Pictures from exact gradients, from updates, and from gradients with noise."""
    del noise  # the victims are simulated: an experiment has a seed of its own
    digits = load_digits()
    pictures, labels = digits.images[:, None] / 16.0, digits.target.astype(np.int64)
    secret, public = pictures[:LISTED], pictures[LISTED:]
    model = PublicModel(_network(), shape=(1, 8, 8))
    draws = experiment(16)

    rows = []
    for words, batch, sharing in (
        ("one person", 1, OneStep()),
        ("eight together", 8, OneStep()),
        ("eight together, 4 local steps", 8, LocalSteps(learning_rate=0.1, batch_size=4, epochs=2)),
    ):
        messages = _share(model, secret[:TARGETS], labels, batch, sharing, draws)
        targets = secret[: len(messages) * batch]
        blind = np.repeat(public.mean(axis=0)[None], len(targets), axis=0)
        game = RecoveryGame(targets, None, blind=blind, criterion=first_of(secret))
        judged = FirstLayer().run(model, messages, game)
        rows.append((words, f"{judged.hits.mean():.0%}", f"{judged.blind_hits.mean():.0%}"))
    show(
        f"{TARGETS} people share gradients: whose picture is nearest of {LISTED:,} to what was recovered?",
        ("what is shared", "found", "blind guess"),
        rows,
    )

    curves: dict[str, list[float]] = {
        "rank one": [],
        "expected signal": [],
        "candidate test": [],
        "ceiling": [],
    }
    drawn = np.zeros_like(secret[:SHOWN])
    for sigma in SIGMAS:
        chosen = draws.integers(0, LISTED, TARGETS)
        chosen[:SHOWN] = np.arange(SHOWN)
        messages = _share(
            model, secret[chosen], labels[chosen], 1, NoisyStep(clip=1.0, noise_multiplier=sigma), draws
        )
        blind = np.repeat(public.mean(axis=0)[None], TARGETS, axis=0)
        game = RecoveryGame(secret[chosen], None, blind=blind, criterion=first_of(secret))
        for attack in (RankOne(public), ExpectedSignal(public), CandidateTest(secret, labels[:LISTED])):
            curves[attack.name].append(float(attack.run(model, messages, game).hits.mean()))
        claim = privet.account(privet.events.Gaussian(sigma), adjacency=privet.AddRemove())
        curves["ceiling"].append(claim.tpr(fpr=1 / LISTED))
        if sigma == DRAWN:
            drawn = ExpectedSignal(public).recover(model, messages[:SHOWN]).rows
    show(
        f"With noise on a gradient of length 1: how often is the right one of {LISTED:,} named?",
        ("σ", *curves),
        [
            (f"{sigma:g}", *(f"{curve[place]:.2f}" for curve in curves.values()))
            for place, sigma in enumerate(SIGMAS)
        ],
    )
    at = SIGMAS.index(0.1)
    print(
        f"\nAt σ = 0.1 the first attack names {curves['rank one'][at]:.0%}, and looks like a proof that the noise is enough."
        f"\nWhoever has a list of candidates names {curves['candidate test'][at]:.0%}. Only the ceiling speaks of all attacks."
    )

    shared = _share(model, secret[:SHOWN], labels, SHOWN, OneStep(), draws)
    found = FirstLayer().recover(model, shared).rows
    montage = {
        "the truth": secret[:SHOWN],
        "from one gradient\nof all eight": found[align_batches(found, secret[:SHOWN], batch=SHOWN)],
        "blind guess": np.repeat(public.mean(axis=0)[None], SHOWN, axis=0),
        f"each alone,\nwith noise σ = {DRAWN:g}": drawn,
    }
    return save(_picture(montage, curves), out, "picture_from_gradient.png")


def _share(
    model: PublicModel,
    pictures: np.ndarray,
    labels: np.ndarray,
    batch: int,
    sharing: Sharing,
    draws: np.random.Generator,
) -> list[SharedGradient]:
    """What people send, ``batch`` of them together."""
    parts = [slice(start, start + batch) for start in range(0, len(pictures) - batch + 1, batch)]
    return [model.share(pictures[part], labels[part], sharing, randomness=draws) for part in parts]


def _network() -> torch.nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return torch.nn.Sequential(
            torch.nn.Flatten(), torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10)
        )


def _picture(montage: dict[str, np.ndarray], curves: dict[str, list[float]]) -> Figure:
    figure, (people, noise) = panels(2)
    truths = next(iter(montage.values()))
    sheet = np.full((9 * len(montage) - 1, 9 * SHOWN - 1), np.nan)
    for row, pictures in enumerate(montage.values()):
        for column, picture in enumerate(pictures):
            sheet[9 * row : 9 * row + 8, 9 * column : 9 * column + 8] = np.clip(picture[0], 0, 1)
    people.imshow(1 - sheet, cmap="gray", vmin=0, vmax=1, interpolation="nearest", aspect="equal")
    people.set_yticks([9 * row + 3.5 for row in range(len(montage))], list(montage))
    for row, pictures in enumerate(montage.values()):
        decibels = float(np.mean(measure_psnr(pictures, truths)))
        words = "" if row == 0 else "exact" if decibels > 60 else f"{decibels:.0f} dB"
        people.text(9 * SHOWN + 0.5, 9 * row + 3.5, words, va="center", color=GREY)
    people.set_xticks([])
    people.tick_params(length=0)
    people.grid(visible=False)
    people.spines[["left", "bottom"]].set_visible(False)
    people.set_title("A gradient is a picture")

    noise.fill_between(SIGMAS, curves["ceiling"], 1.0, color=BLUE, alpha=0.12, linewidth=0)
    for name, colour, style in (
        ("ceiling", BLUE, "-"),
        ("candidate test", ORANGE, "o-"),
        ("expected signal", GREEN, "o-"),
        ("rank one", GREY, "o-"),
    ):
        noise.plot(SIGMAS, curves[name], style, color=colour, markersize=5, clip_on=False)
    noise.text(1.0, 0.93, "impossible,\nby the proof", color=BLUE, ha="right", va="top")
    for height, words, colour in (
        (0.48, "the adversary has", INK),
        (0.40, "candidates", ORANGE),
        (0.32, "public pictures", GREEN),
        (0.24, "the model", GREY),
    ):
        noise.text(0.0034, height, words, color=colour)
    noise.set(xscale="log", xlabel="noise σ on a gradient of length 1", xlim=(0.003, 1.0), ylim=(0, 1.0))
    noise.set_ylabel(f"right one of {LISTED:,} named", color=INK)
    noise.set_xticks([0.003, 0.01, 0.03, 0.1, 0.3, 1], ["0.003", "0.01", "0.03", "0.1", "0.3", "1"])
    noise.set_title("How much noise it takes")
    return figure


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path("examples-out"))
