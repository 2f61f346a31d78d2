"""What canaries cost, and what they show: MNIST, ε = 3, without and with them, of each kind.

    python bench/audit/canary_cost.py [--digits 20000] [--repeats 3]

Accuracy is on 10,000 digits that were not trained on; ± is the standard deviation over repeats, whose lots and noise differ.
What is measured is the one-run bound of the last repeat at 95 % confidence, by ``OneRunFDP``, which holds for any canaries, and
by ``OrderStatistic``, which needs independent ones, as spikes are; and beside it the same where the run had half of its noise.
"""

import argparse
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from privet.auditing import OneRunFDP, OrderStatistic
from privet.training import (
    Canaries,
    DiracGradient,
    Mislabelled,
    OutOfDistribution,
    Trained,
    train,
)
from privet.training.noise import distributions

DATA = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "mnist.npz"
DELTA = 1e-6
CANARIES = [
    None,
    Canaries(1000, DiracGradient()),
    Canaries(5000, DiracGradient()),
    Canaries(1000, Mislabelled()),
    Canaries(1000, OutOfDistribution(0.0, 1.0)),
]


def digits(count: int) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    with np.load(DATA) as found:
        pairs = [(found[f"x_{part}"], found[f"y_{part}"]) for part in ("train", "test")]
    tensors = [(torch.from_numpy(x).float().flatten(1) / 255, torch.from_numpy(y).long()) for x, y in pairs]
    return (tensors[0][0][:count], tensors[0][1][:count]), tensors[1]


def trained(rows: tuple[Tensor, Tensor], canaries: Canaries | None) -> Trained:
    model = nn.Sequential(nn.Linear(784, 32), nn.ReLU(), nn.Linear(32, 10))
    return train(model, rows, epsilon=3, delta=DELTA, epochs=5, canaries=canaries)


def accuracy(model: nn.Module, rows: tuple[Tensor, Tensor]) -> float:
    with torch.no_grad():
        return float((model(rows[0]).argmax(1) == rows[1]).float().mean())


def measured(run: Trained) -> str:
    if run.canaries is None:
        return "–"
    scores, claim = run.canaries.scores, run.guarantee()
    found = [audit(confidence=0.95).test(scores, claim, delta=DELTA) for audit in (OneRunFDP, OrderStatistic)]
    return " / ".join(f"{finding.measured.value:.2f} ({finding.verdict})" for finding in found)


def halved(rows: tuple[Tensor, Tensor], canaries: Canaries | None) -> str:
    honest = distributions.add_gaussian_

    def broken(buffer: Tensor, deviation: float, source: object, *, divisor: float = 1.0) -> Tensor:
        return honest(buffer, deviation / 2, source, divisor=divisor)

    if canaries is None:
        return "–"
    distributions.add_gaussian_ = broken
    try:
        return measured(trained(rows, canaries))
    finally:
        distributions.add_gaussian_ = honest


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--digits", type=int, default=20_000)
    parser.add_argument("--repeats", type=int, default=3)
    asked = parser.parse_args()
    rows, held = digits(asked.digits)
    print("| canaries | accuracy | drift | share of a lot | ε measured, of 3 claimed | with half the noise |")
    print("|---|---|---|---|---|---|")
    for canaries in CANARIES:
        runs = [trained(rows, canaries) for _ in range(asked.repeats)]
        rates = np.array([accuracy(run.model, held) for run in runs])
        planted = runs[-1].canaries
        drift = "–" if planted is None or planted.cost.drift is None else f"{planted.cost.drift:.3f}"
        share = "–" if planted is None else f"{planted.cost.share:.3f}"
        name = "none" if canaries is None else f"{canaries.count:,} {type(canaries.kind).__name__}"
        print(
            f"| {name} | {rates.mean():.4f} ± {rates.std(ddof=1):.4f} | {drift} | {share} | {measured(runs[-1])} | "
            f"{halved(rows, canaries)} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
