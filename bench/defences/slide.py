"""Adversarial regularisation in the setting of its paper, attacked as the paper attacks it.

    python bench/defences/slide.py [weights …]

Nasr, Shokri & Houmansadr 2018: the classifier learns 4,000 baskets, the attacker's reference records are 4,000 others, and judged are
the members against 4,000 that no model saw. The paper's attack is a network on the answer and the label, which learns from one half of
members and others and is judged on the other half. It does not know the defence, but it learns from the defended model. Beside it:
*right answers*, the attack that calls everybody a member whose label the model answers (the gap attack). No network is needed for it,
and no defence that keeps the gap escapes it.
"""

import sys
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits, one_hot

from privet.attacks.shadows import TorchRecipe
from privet.defending import AdversarialRegularization

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "shared" / "data"))
SIZE, CLASSES = 4000, 100


def _model() -> nn.Module:
    return nn.Sequential(nn.Linear(600, 128), nn.ReLU(), nn.Linear(128, CLASSES))


class AttackNetwork(nn.Module):
    """The two branches of the paper's figure 3, smaller."""

    def __init__(self) -> None:
        super().__init__()
        self.answers = nn.Sequential(nn.Linear(CLASSES, 256), nn.ReLU(), nn.Linear(256, 64), nn.ReLU())
        self.labels = nn.Sequential(nn.Linear(CLASSES, 64), nn.ReLU())
        self.joint = nn.Sequential(nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, answers, labels):
        tags = one_hot(labels, CLASSES).float()
        return self.joint(torch.cat([self.answers(answers), self.labels(tags)], dim=1))[:, 0]


def attack(inside, outside, inside_labels, outside_labels):
    """Balanced accuracy on the second halves after learning from the first."""
    torch.manual_seed(5)
    network = AttackNetwork()
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
    half = len(inside) // 2
    for _ in range(30):
        for a, b in zip(torch.randperm(half).split(64), torch.randperm(half).split(64), strict=True):
            odds = network(
                torch.cat([inside[a], outside[b]]), torch.cat([inside_labels[a], outside_labels[b]])
            )
            coin = torch.cat([torch.ones(len(a)), torch.zeros(len(b))])
            optimizer.zero_grad()
            binary_cross_entropy_with_logits(odds, coin).backward()
            optimizer.step()
    with torch.no_grad():
        found = (network(inside[half:], inside_labels[half:]) > 0).float().mean()
        kept = (network(outside[half:], outside_labels[half:]) <= 0).float().mean()
    return float(0.5 * (found + kept))


def main() -> None:
    torch.set_num_threads(1)
    from load import load

    weights = [float(word) for word in sys.argv[1:]] or [1.0, 3.0]
    data = load("retail600_purchaselike")
    x = np.unpackbits(data["x_packed"], axis=1)[:, :600].astype(np.float32)
    y = data["y100"].astype(np.int64)
    order = np.random.default_rng(3).permutation(len(y))
    both, outside = order[: 2 * SIZE], order[2 * SIZE : 3 * SIZE]
    recipe = TorchRecipe(model=_model, epochs=20, batch_size=64, learning_rate=0.05)
    print("| | train | test | the paper's attack | right answers |")
    for weight in (0.0, *weights):
        defence = AdversarialRegularization(weight or 1.0, share=0.5)
        inside = both[defence.trained_on(len(both), 0)]
        if weight:
            view = defence.protect(recipe).fit(x[both], y[both], 0)
        else:
            view = recipe.fit(x[inside], y[inside], 0)
        answers = [torch.as_tensor(view.confidences(x[rows])).float() for rows in (inside, outside)]
        labels = [torch.as_tensor(y[rows]) for rows in (inside, outside)]
        train, test = (
            float((a.argmax(dim=1) == b).float().mean()) for a, b in zip(answers, labels, strict=True)
        )
        print(
            f"| {defence.name if weight else 'none'} | {100 * train:.1f} | {100 * test:.1f} | "
            f"{100 * attack(*answers, *labels):.1f} | {100 * (1 + train - test) / 2:.1f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
