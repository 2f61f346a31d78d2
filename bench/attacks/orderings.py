"""Do the orderings that the papers report hold here? Each with a 95 % interval over targets.

A study of 32 models gives 32 targets: models of the first half are attacked with the second half as references, and the other
way round. A pair of halves is never split between them: the twin of a target would give its members away. Differences are
paired, target by target, and their intervals are Student's over targets. The loss threshold is φ itself.
"""

import argparse
import math
import time
from pathlib import Path

import numpy as np
from data import DATA, baskets, digits
from scipy import stats
from torch import nn

from privet.attacks import (
    BASE,
    RMIA,
    AugmentationRobustness,
    BaVarIA,
    BoundaryDistance,
    Gap,
    GaussianNoise,
    LiRA,
    Loss,
    NoiseRobustness,
    OfflineLiRA,
    OfflineRMIA,
    PerRecord,
    Pooled,
    shift_transforms,
)
from privet.attacks.membership.signals import TargetSignals
from privet.attacks.shadows import SGD, TorchRecipe, conduct
from privet.auditing import measure
from privet.scores import Challenge, Records, References, Scores

FIGURES = ("TPR at 1 %", "TPR at 0.1 %", "AUC")


def mlp(classes: int) -> nn.Module:
    return nn.Sequential(nn.Linear(600, 128), nn.ReLU(), nn.Linear(128, classes))


def cnn() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(512, 64), nn.ReLU(), nn.Linear(64, 10),
    )  # fmt: skip


def studied(data: Path, cache: Path, *, models: int, records: int, classes: int, epochs: int) -> References:
    recipe = TorchRecipe(
        model=lambda: mlp(classes),
        epochs=epochs,
        learning_rate=0.1,
        optimizer=SGD(momentum=0.9, weight_decay=1e-4),
    )
    found = conduct(recipe, baskets(data, records, classes), models, seed=1, cache=cache)
    print(f"  {found}", flush=True)
    return found.references


def figures(values: np.ndarray, members: np.ndarray) -> list[float]:
    leakage = measure(Scores(values, members))
    rates = [leakage.tpr(rate) for rate in (0.01, 0.001)]
    return [*(math.nan if rate is None else rate.value for rate in rates), leakage.auc.value]


def against_all(references: References, attacks: dict) -> dict[str, np.ndarray]:
    """Attack → targets × figures. ``attacks`` are functions from references and the signals of a target to scores."""
    half = references.models // 2
    found: dict[str, list[list[float]]] = {name: [] for name in attacks}
    sides = (np.arange(half), np.arange(half, 2 * half))
    assert references.softened is not None
    for mine, theirs in (sides, sides[::-1]):
        known = references.pick_models(theirs)
        for model in mine:
            target = TargetSignals(references.signals[model], references.softened[:, model])
            for name, attack in attacks.items():
                found[name].append(figures(attack(known, target), references.members[model]))
    return {name: np.array(rows) for name, rows in found.items()}


def interval(values: np.ndarray) -> str:
    if np.isnan(values).any():
        return "not supported"
    mean, spread = values.mean(), values.std(ddof=1) / math.sqrt(len(values))
    wide = stats.t.ppf(0.975, len(values) - 1) * spread
    return f"{mean:+.4f} [{mean - wide:+.4f}, {mean + wide:+.4f}]"


def verdict(values: np.ndarray) -> str:
    """Whether the mean of the differences is at least 0, as far as the interval tells."""
    mean, spread = values.mean(), values.std(ddof=1) / math.sqrt(len(values))
    wide = stats.t.ppf(0.975, len(values) - 1) * spread
    return "holds" if mean - wide >= 0 else ("FAILS" if mean + wide < 0 else "not decided")


def show(title: str, difference: np.ndarray) -> None:
    for place, figure in enumerate(FIGURES):
        values = difference[:, place]
        if not np.isnan(values).any():
            print(f"  {title:54}{figure:14}{interval(values):34}{verdict(values)}")


def orderings(data: Path, cache: Path, quick: bool) -> None:
    models, records = (16, 4096) if quick else (32, 8192)
    print(f"\nbaskets, 100 classes, {records} records, {models} models")
    references = studied(data, cache, models=models, records=records, classes=100, epochs=20)
    budget = models // 2
    attacks = {
        "loss": lambda _known, target: target.phi[0],
        "LiRA pooled": lambda known, target: LiRA(known, Pooled()).judge(target),
        "LiRA per record": lambda known, target: LiRA(known, PerRecord()).judge(target),
        "LiRA offline": lambda known, target: OfflineLiRA(known).judge(target),
        "RMIA": lambda known, target: RMIA(known).judge(target),
        "RMIA offline": lambda known, target: OfflineRMIA(known).judge(target),
        "BASE": lambda known, target: BASE(known).judge(target),
        "BaVarIA": lambda known, target: BaVarIA(known).judge(target),
    }
    for few in (2, 4, 8):
        attacks[f"LiRA, {few}"] = lambda known, target, few=few: LiRA(known.first(few)).judge(target)
        attacks[f"RMIA, {few}"] = lambda known, target, few=few: RMIA(known.first(few)).judge(target)
        attacks[f"LiRA offline, {few}"] = lambda known, target, few=few: OfflineLiRA(known.first(few)).judge(
            target
        )
        attacks[f"RMIA offline, {few}"] = lambda known, target, few=few: OfflineRMIA(known.first(few)).judge(
            target
        )
    found = against_all(references, attacks)
    print(f"  {'':22}" + "".join(f"{figure:>34}" for figure in FIGURES))
    for name, rows in found.items():
        print(f"  {name:22}" + "".join(f"{interval(rows[:, place]):>34}" for place in range(3)))
    print(f"  differences, {budget} references")
    show("LiRA: pooled − per record", found["LiRA pooled"] - found["LiRA per record"])
    for few in (2, 4, 8):
        each = f"{few} references ({few // 2} without the record)"
        show(f"{each}: RMIA − LiRA", found[f"RMIA, {few}"] - found[f"LiRA, {few}"])
        show(f"{each}: both offline", found[f"RMIA offline, {few}"] - found[f"LiRA offline, {few}"])
    for name in list(attacks)[1:8]:
        show(f"{name} − loss", found[name] - found["loss"])


def growth(data: Path, cache: Path, quick: bool) -> None:
    models, records = (8, 2048) if quick else (16, 8192)
    attacks = {
        "loss": lambda _known, target: target.phi[0],
        "LiRA pooled": lambda known, target: LiRA(known).judge(target),
    }
    for title, cases in (
        ("epochs", [(100, epochs) for epochs in (1, 2, 5, 10, 20, 40)]),
        ("classes", [(classes, 20) for classes in (2, 10, 20, 50, 100)]),
    ):
        print(f"\nleakage against {title}")
        before: dict[str, np.ndarray] = {}
        for classes, epochs in cases:
            references = studied(data, cache, models=models, records=records, classes=classes, epochs=epochs)
            found = against_all(references, attacks)
            for name, rows in found.items():
                step = verdict(rows[:, 2] - before[name][:, 2]) if name in before else ""
                print(
                    f"  {classes:4} classes {epochs:3} epochs {name:14} AUC {interval(rows[:, 2])}  grows: {step or '—'}"
                )
            before = found


def label_only(data: Path, quick: bool) -> None:
    """MNIST, 1,000 training records. Published: gap 53.2, confidence 55.7, label-only 57.8 to 58.7 %."""
    from privet.attacks import see

    targets = 2 if quick else 6
    print(f"\nMNIST, 1,000 training records, {targets} targets: balanced accuracy")
    attacks = [
        Gap(),
        Loss(),
        NoiseRobustness(
            (GaussianNoise(0.1, (0.0, 1.0)), GaussianNoise(0.3, (0.0, 1.0)), GaussianNoise(0.5, (0.0, 1.0)))
        ),
        AugmentationRobustness(shift_transforms(2), (GaussianNoise(0.3, (0.0, 1.0)),)),
        BoundaryDistance(rounds=3, probes=50, bounds=(0.0, 1.0)),
    ]
    accuracies: dict[str, list[float]] = {}
    for target in range(targets):
        records = digits(data, 2000, seed=target)
        recipe = TorchRecipe(model=cnn, epochs=20, learning_rate=0.05)
        members = np.arange(2000) < 1000
        view = recipe.fit(records.inputs[:1000], records.known_labels[:1000], target)
        right = view.labels(records.inputs) == records.known_labels
        accuracies.setdefault("train − test accuracy", []).append(
            right[members].mean() - right[~members].mean()
        )
        challenge = Challenge(Records(records.inputs, records.labels), members)
        for attack in attacks:
            leakage = measure(attack.run(see(view), challenge))
            assert leakage.balanced_accuracy is not None
            accuracies.setdefault(attack.name, []).append(leakage.balanced_accuracy.value)
            print(f"    {target} {attack.name} {leakage.balanced_accuracy.value:.3f}", flush=True)
    for name, values in accuracies.items():
        print(f"  {name:30}{interval(np.array(values))}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--cache", type=Path, default=Path(__file__).parent / ".cache")
    parser.add_argument("--only", choices=("orderings", "growth", "label-only"))
    asked = parser.parse_args()
    began = time.monotonic()
    if asked.only in (None, "orderings"):
        orderings(asked.data, asked.cache, asked.quick)
    if asked.only in (None, "growth"):
        growth(asked.data, asked.cache, asked.quick)
    if asked.only in (None, "label-only"):
        label_only(asked.data, asked.quick)
    print(f"\n{time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
