"""What black-box canaries show at ε = 8: DP-SGD on MNIST, canaries that are records, judged by the final model's confidence alone.

    python bench/audit/black_box_canaries.py   # half a minute

*Set-up*: 10,000 digits, a perceptron with 32 hidden units, 20 epochs with the default lot and clip of ``privet.train``, δ = 1e-5. Canaries
interfere, so the bounds are those that hold for any canaries: ``OneRun`` and ``OneRunFDP``, at 95 %.

*Why the range matters*: noise between 0 and 1 has a large common part, ½ in every pixel, so that all canaries pull the model in one
direction and drown each other. Noise around 0 has next to none: 784 pixels of random sign are nearly orthogonal, to each other and to
the digits. Each canary then has a direction of its own, as a Dirac gradient has.
"""

import argparse
import warnings
from pathlib import Path

import numpy as np
import torch
from torch import nn

from privet.auditing import OneRun, OneRunFDP, measure
from privet.training import Canaries, Mislabelled, OutOfDistribution, train

DATA = Path("/work/shared/data/mnist.npz")
DELTA, EPSILON = 1e-5, 8.0
KINDS = [
    Canaries(1000, Mislabelled()),
    Canaries(3000, Mislabelled()),
    Canaries(1000, OutOfDistribution(0.0, 1.0)),
    Canaries(3000, OutOfDistribution(0.0, 1.0)),
    Canaries(1000, OutOfDistribution(-1.0, 1.0)),
    Canaries(3000, OutOfDistribution(-1.0, 1.0)),
]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epochs", type=float, default=20)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    with np.load(asked.data) as found:
        inputs = torch.from_numpy(found["x_train"][:10_000]).float().flatten(1) / 255
        labels = torch.from_numpy(found["y_train"][:10_000]).long()
    print("| canaries | AUC | ε at least, OneRunFDP | OneRun |\n|---|---|---|---|")
    for canaries in KINDS:
        cells: list[list[float]] = [[], [], []]
        for seed in range(asked.seeds):
            model = nn.Sequential(nn.Linear(784, 32), nn.ReLU(), nn.Linear(32, 10))
            chosen = Canaries(canaries.count, canaries.kind, seed=seed)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # δ is at least 1/(10 n)
                run = train(
                    model,
                    (inputs, labels),
                    epsilon=EPSILON,
                    delta=DELTA,
                    epochs=asked.epochs,
                    canaries=chosen,
                )
            scores = run.canaries.scores
            cells[0].append(measure(scores).auc.value)
            cells[1].append(OneRunFDP(0.95).epsilon(scores, delta=DELTA))
            cells[2].append(OneRun(0.95).epsilon(scores, delta=DELTA))
        shown = [f"{np.median(values):.2f} ({min(values):.2f} … {max(values):.2f})" for values in cells]
        print(f"| {canaries.count:,} {canaries.kind} | {' | '.join(shown)} |", flush=True)


if __name__ == "__main__":
    main()
