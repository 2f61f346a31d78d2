"""What one benchmark found, the data that it reads, and the non-private training that it is held against."""

import math
import sys
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev

import torch
from torch import Tensor, nn

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"


@dataclass(frozen=True)
class Outcome:
    """Accuracies on test rows, as fractions; ``epsilon`` was asked for, and ``proved`` is what the ledger says."""

    dataset: str
    model: str
    epsilon: float
    delta: float
    accuracies: tuple[float, ...]
    plain: float
    minutes: float  # of the processor, for the features and one private fit
    proved: float
    adjacency: str = "add-remove"

    def accuracy(self) -> str:
        """Mean and deviation in per cent."""
        spread = f" ± {100 * stdev(self.accuracies):.2f}" if len(self.accuracies) > 1 else ""
        return f"{100 * mean(self.accuracies):.2f}{spread}"

    def cells(self) -> tuple[str, ...]:
        return (
            self.dataset,
            self.model,
            f"{self.epsilon:g}",
            f"{self.delta:g}",
            self.adjacency,
            self.accuracy(),
            f"{100 * self.plain:.2f}",
            f"{self.minutes:.1f}",
            f"{math.ceil(1e4 * self.proved) / 1e4:.4f}",  # up, as every upper bound
        )


HEADER = (
    "data",
    "model",
    "ε",
    "δ",
    "adjacency",
    "accuracy, %",
    "the same model, not private, %",
    "processor minutes",
    "proved ε",
)


def table(outcomes: list[Outcome]) -> str:
    """As Markdown, which reads well in a terminal too."""
    rows = [HEADER, tuple("---" for _ in HEADER), *(outcome.cells() for outcome in outcomes)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def found(name: str) -> Path:
    """The file, or an end with the reason."""
    path = DATA / name
    if not path.exists():
        sys.exit(f"{path} is not there.")
    return path


@torch.no_grad()
def accuracy(model: nn.Module, inputs: Tensor, labels: Tensor) -> float:
    hits = [
        (model(x).argmax(1) == y).sum() for x, y in zip(inputs.split(1000), labels.split(1000), strict=True)
    ]
    return float(sum(hits) / len(labels))


def plainly_trained(
    model: nn.Module, inputs: Tensor, labels: Tensor, *, epochs: int, rate: float, seed: int
) -> nn.Module:
    """Adam with batches of 256 and a rate that falls to 0: no clip, no noise."""
    order = torch.Generator().manual_seed(seed)
    batches = -(-len(labels) // 256)
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.01, total_iters=epochs * batches)
    for _ in range(epochs):
        for rows in torch.randperm(len(labels), generator=order).split(256):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(inputs[rows]), labels[rows]).backward()
            optimizer.step()
            schedule.step()
    return model.eval()
