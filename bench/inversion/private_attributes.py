"""Attribute inversion of private models: success beside the ceiling of the proof, over many runs.

    python bench/inversion/private_attributes.py [--runs 17] [--epsilons 8 3 1]

GSS, 500 members and 500 people left out in each run, an MLP by ``privet.train``. *above* counts runs in which success is above the
ceiling, both intervals read in favour of the claim; *point above* compares the estimates; *leak* counts runs that claim a leak.
"""

import argparse
import warnings

import numpy as np
import torch
from attributes import gss
from torch import nn

import privet
from privet.attacks import see
from privet.attacks.inversion import AttributeGame, ImputedInversion, PublicPeople, SecretAttribute
from privet.auditing import measure_recoveries

PEOPLE, DELTA = 500, 1e-4


def main():
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=17)
    parser.add_argument("--epsilons", type=float, nargs="+", default=[8.0, 3.0, 1.0])
    options = parser.parse_args()
    features, secret, labels, name = gss()
    table = features.to_numpy(np.float32)
    table = (table - table.mean(axis=0)) / np.maximum(table.std(axis=0), 1e-6)
    inputs = np.column_stack([table, secret.to_numpy(np.float32)]).astype(np.float32)
    third = np.arange(len(labels) - 4000, len(labels))
    public = PublicPeople(
        inputs[third], labels[third], SecretAttribute.read(inputs[third], inputs.shape[1] - 1, name=name)
    )
    print("| ε | success | baseline | ceiling | above | point above | leak |\n|---|---|---|---|---|---|---|")
    for epsilon in options.epsilons:
        rows = []
        for run in range(options.runs):
            order = np.random.default_rng(run).permutation(len(labels) - 4000)[: 2 * PEOPLE]
            with torch.random.fork_rng():
                torch.manual_seed(run)
                model = nn.Sequential(nn.Linear(inputs.shape[1], 64), nn.Tanh(), nn.Linear(64, 3))
            data = inputs[order[:PEOPLE]], labels[order[:PEOPLE]]
            trained = privet.train(model, data, epsilon=epsilon, delta=DELTA, epochs=20)
            game = AttributeGame(inputs[order], labels[order], np.arange(2 * PEOPLE) < PEOPLE, public)
            found = measure_recoveries(ImputedInversion().run(see(trained.model), game).recoveries)
            claim = privet.account(trained.ledger)
            ceiling = found.ceiling(claim)
            rows.append(
                [
                    found.success.value,
                    found.baseline.value,
                    ceiling,
                    found.is_above_ceiling(claim),
                    found.success.value > ceiling,
                    found.detected,
                ]
            )
        figures = np.array(rows, dtype=float)
        counts = " | ".join(f"{int(count)} of {options.runs}" for count in figures[:, 3:].sum(axis=0))
        print(
            f"| {epsilon:g} | "
            + " | ".join(f"{value:.3f}" for value in figures[:, :3].mean(axis=0))
            + f" | {counts} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
