"""What more access to a model is worth: labels alone, confidences, parameters. Each with a 95 % interval over targets.

Label-only: Location30 as in Choquette-Choo et al. 2021: a target with one hidden layer of 128 tanh units on 1,600 records, a
shadow model on 1,600 others, and noise that flips bits. Published: 89.2 % for robustness to noise.

White-box: an overfitted convolutional network on CIFAR-10, as in Nasr et al. 2019 (theirs: CIFAR-100, black-box to gradients
AlexNet 74.2 to 75.1 %, ResNet 62.2 to 64.3, DenseNet 67.7 to 74.3). The same classifier learns from the same shadow models,
once from what a black box shows and once from all layers.

Accuracies are balanced; each half of the records is judged by the best threshold of the other half. Differences are paired.
"""

import argparse
import math
import sys
import time
from pathlib import Path

import numpy as np
import torch
from data import DATA
from scipy import stats
from torch import nn

from privet.attacks import (
    BitFlips,
    BoostedTrees,
    Gap,
    GradientNorm,
    Loss,
    NoiseClassifier,
    NoiseRobustness,
    Shadow,
)
from privet.attacks.membership.white_box import layer_features, rank_columns
from privet.attacks.shadows import SGD, Adam, Halves, TorchRecipe
from privet.auditing import measure
from privet.scores import Challenge, Records, Scores

RATES = (0.005, 0.01, 0.02, 0.05, 0.1)


def interval(values: list[float]) -> str:
    found = 100 * np.array(values)
    wide = stats.t.ppf(0.975, len(found) - 1) * found.std(ddof=1) / math.sqrt(len(found))
    return f"{found.mean():6.1f} [{found.mean() - wide:.1f}, {found.mean() + wide:.1f}]"


def accuracy(scores: Scores) -> float:
    found = measure(scores).balanced_accuracy
    assert found is not None
    return found.value


def show(figures: dict[str, list[float]], against: str) -> None:
    for name, values in figures.items():
        gain = [value - other for value, other in zip(values, figures[against], strict=True)]
        paired = "" if name == against else f"   − {against}: {interval(gain)}"
        print(f"  {name:28}{interval(values)}{paired}")


def tanh_network() -> nn.Module:
    return nn.Sequential(nn.Linear(446, 128), nn.Tanh(), nn.Linear(128, 30))


def label_only(folder: Path, targets: int, draws: int) -> None:
    kept = np.load(folder / "location30.npz")
    rows, labels = kept["x"].astype(np.float32), kept["y"].astype(np.int64) - int(kept["y"].min())
    recipe = TorchRecipe(model=tanh_network, epochs=100, batch_size=32, learning_rate=0.001, optimizer=Adam())
    noises = tuple(BitFlips(rate) for rate in RATES)
    figures: dict[str, list[float]] = {}
    for target in range(targets):
        order = np.random.default_rng(target).permutation(len(rows))
        parts = [Records(rows[part], labels[part]) for part in np.split(order, (1600, 2600, 4200))]
        challenge, other = Challenge.of(*parts[:2]), Challenge.of(*parts[2:])
        view = recipe.fit(parts[0].inputs, parts[0].known_labels, target)
        shadow = Shadow(recipe.fit(parts[2].inputs, parts[2].known_labels, 1000 + target), other)
        for name, attack in {
            "gap": Gap(),
            "noise, untaught": NoiseRobustness(noises, draws),
            "noise, taught by a shadow": NoiseClassifier((shadow,), noises, draws),
            "loss (confidences)": Loss(),
        }.items():
            figures.setdefault(name, []).append(accuracy(attack.run(view, challenge)))
        print(
            f"    {target}: " + ", ".join(f"{name} {100 * v[-1]:.1f}" for name, v in figures.items()),
            flush=True,
        )
    print(f"Location30, {targets} targets of 1,600 records, {draws} draws of each of {len(RATES)} noises")
    show(figures, "loss (confidences)")


def small_cnn() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 16, 5, stride=2), nn.ReLU(), nn.Conv2d(16, 32, 3, stride=2), nn.ReLU(), nn.Flatten(),
        nn.Linear(1152, 64), nn.ReLU(), nn.Linear(64, 10),
    )  # fmt: skip


def images(folder: Path, count: int) -> Records:
    sys.path.insert(0, str(folder))
    import load  # the loader of the folder

    kept = load.load("cifar10")
    rows, labels = kept["x_train"], kept["y_train"]
    chosen = np.random.default_rng(0).permutation(len(rows))[:count]
    pictures = rows[chosen].astype(np.float32).transpose(0, 3, 1, 2) / 255 - 0.5
    return Records(pictures, np.asarray(labels)[chosen].astype(np.int64))


def black_box_features(view, records: Records) -> np.ndarray:
    """What a black box shows: φ, whether it is right, the entropy, and the three largest confidences in order."""
    logs = np.maximum(view.log_confidences(records.inputs), -745.0)
    entropy = -(np.exp(logs) * logs).sum(axis=1, keepdims=True)
    return np.concatenate(
        [layer_features(view, records)[:, :2], entropy, -np.sort(-logs, axis=1)[:, :3]], axis=1
    )


def white_box(folder: Path, models: int, count: int, epochs: int) -> None:
    records = images(folder, count)
    members = Halves().members(models, count, seed=7)
    recipe = TorchRecipe(
        model=small_cnn, epochs=epochs, batch_size=32, learning_rate=0.02, optimizer=SGD(momentum=0.9)
    )
    views, black, white = [], [], []
    for model, coin in enumerate(members):
        own = records.take(coin)
        view = recipe.fit(own.inputs, own.known_labels, model)
        views.append(view)
        white.append(rank_columns(layer_features(view, records)))  # as LayerClassifier takes them
        black.append(rank_columns(black_box_features(view, records)))
        right = view.labels(records.inputs) == records.known_labels
        print(f"    {model}: accuracy {right[coin].mean():.3f}, {right[~coin].mean():.3f}", flush=True)
    figures: dict[str, list[float]] = {}
    for target in range(models):
        # The target's twin was trained on exactly the other half: it would give the coin away.
        others = [model for model in range(models) if model // 2 != target // 2][:4]

        def taught(features: list[np.ndarray], target: int = target, others: list[int] = others) -> Scores:
            rows, coins = (
                np.concatenate([table[model] for model in others]) for table in (features, members)
            )
            return Scores(BoostedTrees().learn(rows, coins)(features[target]), members[target])

        challenge = Challenge(records, members[target])
        both = [np.concatenate(pair, axis=1) for pair in zip(black, white, strict=True)]
        found = {
            "black-box classifier": taught(black),
            "loss": Loss().run(views[target], challenge),
            "gradient norm": GradientNorm().run(views[target], challenge),
            "layer classifier": taught(white),
            "both classifiers' features": taught(both),
        }
        for name, scores in found.items():
            figures.setdefault(name, []).append(accuracy(scores))
        print(
            f"    {target}: " + ", ".join(f"{name} {100 * v[-1]:.1f}" for name, v in figures.items()),
            flush=True,
        )
    print(f"CIFAR-10, {models} targets of {count // 2} images, {epochs} epochs")
    show(figures, "black-box classifier")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--only", choices=("label-only", "white-box"))
    asked = parser.parse_args()
    torch.set_num_threads(1)
    began = time.process_time()
    if asked.only in (None, "label-only"):
        label_only(asked.data, *((4, 60) if asked.quick else (8, 200)))
    if asked.only in (None, "white-box"):
        white_box(asked.data, *((6, 1000, 20) if asked.quick else (8, 2000, 30)))
    print(f"{time.process_time() - began:.0f} s of processor time")


if __name__ == "__main__":
    main()
