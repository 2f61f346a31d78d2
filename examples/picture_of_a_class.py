"""A picture of a class: what a model learnt of people whom the adversary never saw, drawn from the model alone.

The people are digits here: a model knows the handwritten digits 0 to 4 and nothing else; the adversary has pictures of 5 to 9 only.
From the parameters they draw, for each class, the picture that the model is surest of. Three judges of different kinds, which
the attack never touched, say what each picture shows. Beside it: the blind guess, the mean of the public pictures.

    python examples/picture_of_a_class.py [folder]
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import torch
from sklearn.datasets import load_digits
from style import INK, save, show
from torch import nn

import privet
from privet.attacks import see
from privet.attacks.inversion import GradientPrototype, JudgePanel, PixelPrior, PrototypeGame
from privet.randomness import NoiseSource, SecureNoise, experiment

CLASSES, TRAINED, EPSILON, DELTA = 5, 400, 1.0, 1e-4


def main(out: Path, noise: NoiseSource | None = None) -> Path:
    """Draws the classes of a plain, a private and an untrained model."""
    noise = noise or SecureNoise()
    pictures, labels = _digits()
    mine = labels < CLASSES
    inside = np.flatnonzero(mine)[:TRAINED]
    rest = np.setdiff1d(np.arange(len(labels)), inside)
    game = PrototypeGame(
        np.arange(CLASSES),
        JudgePanel.learn(pictures[rest], labels[rest]),
        pictures[~mine],
        np.stack([pictures[inside][labels[inside] == number][0] for number in range(CLASSES)]),
    )
    attack = GradientPrototype(PixelPrior.mean(pictures[~mine]), denoising=0.01)
    drawn, rows = {}, []
    for title, model in _models(pictures[inside], labels[inside], noise).items():
        told = game.play(attack, see(model))
        drawn[title] = told.pictures
        right = (
            see(model).labels(pictures[rest][labels[rest] < CLASSES]) == labels[rest][labels[rest] < CLASSES]
        )
        rows.append(
            (
                title,
                f"{100 * right.mean():.0f} %",
                *(f"{share * CLASSES:.0f} of {CLASSES}" for share in told.by_judge.values()),
            )
        )
    show("What the judges recognise", ("model", "accuracy on others", *game.panel.judges), rows)
    print(
        "\nA picture of a class is not a picture of one person: it tells what the people of a class have in common."
    )
    return save(_montage(game, drawn), out, "picture_of_a_class.png")


def _digits():  # noqa: ANN202 - two arrays
    data = load_digits()
    order = experiment(0).permutation(len(data.target))
    return data.images[order] / 16.0, data.target[order]


def _models(pictures, labels, noise):  # noqa: ANN001, ANN202
    rows = torch.as_tensor(pictures, dtype=torch.float32)
    plain, private, untrained = (_network() for _ in range(3))
    optimizer = torch.optim.Adam(plain.parameters(), lr=0.01)
    for _ in range(80):
        optimizer.zero_grad()
        nn.functional.cross_entropy(plain(rows), torch.as_tensor(labels)).backward()
        optimizer.step()
    trained = privet.train(
        private,
        (rows, torch.as_tensor(labels)),
        epsilon=EPSILON,
        delta=DELTA,
        epochs=20,
        noise=noise,
    )
    return {"plain": plain, f"private (ε = {EPSILON:g})": trained.model, "untrained": untrained}


def _network() -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, CLASSES))


def _montage(game, drawn):  # noqa: ANN001, ANN202
    lines = {
        "a picture\nin the data": game.truths,
        **{f"drawn from\nthe {k} model": v for k, v in drawn.items()},
        "blind guess": game.blind,
    }
    figure, axes = plt.subplots(len(lines), CLASSES, figsize=(5.6, 0.95 * len(lines)), layout="constrained")
    for row, (title, shown) in zip(axes, lines.items(), strict=True):
        for axis, picture in zip(row, shown, strict=True):
            axis.imshow(picture, cmap="gray_r", vmin=0, vmax=1, interpolation="bilinear")
            axis.set(xticks=[], yticks=[])
            axis.grid(visible=False)
        row[0].set_ylabel(
            title,
            rotation=0,
            ha="right",
            va="center",
            color=INK,
        )
    return figure


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "examples-out"))
