"""MemGuard on Location30: attack accuracy against the distortion budget, and two attacks that ignore it.

    python bench/defences/memguard_curve.py

The setting of Jia et al. 2019 as their program has it: a network with four hidden layers on 1,000 members, trained by
SGD at 0.01; an attacker's network of three hidden layers on a shadow model without the defence, trained by SGD at 0.01;
balanced members and others; the share of right answers over the defence's own coins. Deviations:
a momentum of 0.9 and a tenth of the epochs (20 in place of 200, 40 of 400), and a shadow model of 1,000 records.

Beside it: the label-only gap attack, which the defence cannot change, and an attacker whose shadow model uses MemGuard too.
"""

import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from torch import nn

from privet.attacks.shadows import SGD, TorchRecipe
from privet.defending import MemGuard

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "shared" / "data"))


def _model() -> nn.Module:
    sizes = (446, 1024, 512, 256, 128)
    layers = [part for a, b in pairwise(sizes) for part in (nn.Linear(a, b), nn.ReLU())]
    network = nn.Sequential(*layers, nn.Linear(128, 30))
    for layer in network:
        if isinstance(layer, nn.Linear):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)
    return network


def _learn_attack(members: np.ndarray, others: np.ndarray, seed: int):
    """The attacker's network on sorted confidences: ln odds of membership of rows of confidences."""
    generator = torch.Generator().manual_seed(seed)
    torch.manual_seed(seed)
    rows = torch.as_tensor(np.exp(np.concatenate([members, others]))).float().sort(dim=1).values
    coin = torch.cat([torch.ones(len(members)), torch.zeros(len(others))])
    sizes = (rows.shape[1], 512, 256, 128)
    layers = [part for a, b in pairwise(sizes) for part in (nn.Linear(a, b), nn.ReLU())]
    network = nn.Sequential(*layers, nn.Linear(128, 1))
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9)
    for _ in range(40):
        for batch in torch.randperm(len(rows), generator=generator).split(64):
            odds = network(rows[batch])[:, 0]
            optimizer.zero_grad()
            nn.functional.binary_cross_entropy_with_logits(odds, coin[batch]).backward()
            optimizer.step()

    def judge(logs: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return network(torch.as_tensor(np.exp(logs)).float().sort(dim=1).values)[:, 0].numpy()

    return judge


def _balanced(odds: np.ndarray, members: int) -> float:
    return float(0.5 * ((odds[:members] > 0).mean() + (odds[members:] <= 0).mean()))


def main(runs: int = 2) -> None:
    torch.set_num_threads(1)
    from load import load

    data = load("location30")
    x, y = data["x"].astype(np.float32), data["y"].astype(np.int64)
    y = y - y.min()
    recipe = TorchRecipe(model=_model, epochs=20, batch_size=64, learning_rate=0.01, optimizer=SGD())
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
        attacker = _learn_attack(own, rest, 7 + run)
        print(
            "train, test",
            (logs["in"].argmax(axis=1) == y[members]).mean(),
            (logs["out"].argmax(axis=1) == y[others]).mean(),
            flush=True,
        )
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
            found[run, place] = _balanced(attacker(shown), len(members))
            # The adapted attacker masks the shadow model's answers by a guard of its own first.
            mask = MemGuard(budget).learn(own, rest, 50 + run)
            taught = _learn_attack(
                mask.mask(own, np.random.default_rng(1)), mask.mask(rest, np.random.default_rng(2)), 9
            )
            adapted[run, place] = _balanced(taught(shown), len(members))
        print(f"run {run}: {found[run].round(3)} {adapted[run].round(3)} gap {gaps[-1]:.3f}", flush=True)
    print("train, test accuracy", np.mean(accuracy[::2]).round(3), np.mean(accuracy[1::2]).round(3))
    print("| distortion | " + " | ".join(f"{b:g}" for b in budgets) + " |")
    print("| attack that does not know | " + " | ".join(f"{v:.3f}" for v in found.mean(axis=0)) + " |")
    print(
        "| attack with a masked shadow model | " + " | ".join(f"{v:.3f}" for v in adapted.mean(axis=0)) + " |"
    )
    print(f"| labels alone (gap) | {np.mean(gaps):.3f} everywhere |")


if __name__ == "__main__":
    main()
