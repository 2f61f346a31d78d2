"""MemGuard on Location30: attack accuracy against the distortion budget, and two attacks that ignore it.

    python bench/defences/memguard_curve.py

The setting of Jia et al. 2019: a network with three hidden layers on 1,000 members, an attacker's network on a
shadow model without the defence, balanced members and others. Beside it: the label-only gap attack, which the
defence cannot change, and an attacker whose shadow model uses MemGuard too.
"""

import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
from torch import nn

from privet.attacks.shadows import Adam, TorchRecipe
from privet.defending import MemGuard
from privet.defending.memguard import _train_classifier

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "shared" / "data"))


def _model() -> nn.Module:
    sizes = (446, 1024, 512, 256, 128)
    layers = [part for a, b in pairwise(sizes) for part in (nn.Linear(a, b), nn.ReLU())]
    return nn.Sequential(*layers, nn.Linear(128, 30))


def _balanced(odds: np.ndarray, members: int) -> float:
    return float(0.5 * ((odds[:members] > 0).mean() + (odds[members:] <= 0).mean()))


def main(runs: int = 2) -> None:
    import torch
    from load import load

    data = load("location30")
    x, y = data["x"].astype(np.float32), data["y"].astype(np.int64)
    y = y - y.min()
    recipe = TorchRecipe(model=_model, epochs=30, batch_size=64, learning_rate=5e-4, optimizer=Adam())
    budgets = (0.0, 0.1, 0.3, 0.5, 0.7, 1.0)
    found, adapted, gaps, accuracy = np.zeros((runs, 6)), np.zeros((runs, 6)), [], []
    for run in range(runs):
        members, others, defender, shadow, apart = np.array_split(
            np.random.default_rng(run).permutation(len(y))[:5000], 5
        )
        target, copy = recipe.fit(x[members], y[members], run), recipe.fit(x[shadow], y[shadow], 100 + run)
        logs = {
            name: target.log_confidences(x[rows])
            for name, rows in [("in", members), ("out", others), ("known", defender)]
        }
        own, rest = copy.log_confidences(x[shadow]), copy.log_confidences(x[apart])
        attacker = _train_classifier(own, rest, 7 + run)
        right = np.concatenate([logs["in"], logs["out"]]).argmax(axis=1) == np.concatenate(
            [y[members], y[others]]
        )
        gaps.append(_balanced(right - 0.5, len(members)))
        accuracy.append((logs["in"].argmax(axis=1) == y[members]).mean())
        accuracy.append((logs["out"].argmax(axis=1) == y[others]).mean())
        both = np.concatenate([logs["in"], logs["out"]])
        for place, budget in enumerate(budgets):
            guard = MemGuard(budget).learn(logs["in"], logs["known"], run)
            shown = guard.mask(both, np.random.default_rng(run))
            found[run, place] = _balanced(attacker(torch.as_tensor(np.exp(shown))).numpy(), len(members))
            # The adapted attacker masks the shadow model's answers by a guard of its own first.
            mask = MemGuard(budget).learn(own, rest, 50 + run)
            taught = _train_classifier(
                mask.mask(own, np.random.default_rng(1)), mask.mask(rest, np.random.default_rng(2)), 9
            )
            adapted[run, place] = _balanced(taught(torch.as_tensor(np.exp(shown))).numpy(), len(members))
    print("train, test accuracy", np.mean(accuracy[::2]).round(3), np.mean(accuracy[1::2]).round(3))
    print("| distortion | " + " | ".join(f"{b:g}" for b in budgets) + " |")
    print("| attack that does not know | " + " | ".join(f"{v:.3f}" for v in found.mean(axis=0)) + " |")
    print(
        "| attack with a masked shadow model | " + " | ".join(f"{v:.3f}" for v in adapted.mean(axis=0)) + " |"
    )
    print(f"| labels alone (gap) | {np.mean(gaps):.3f} everywhere |")


if __name__ == "__main__":
    main()
