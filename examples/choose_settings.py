"""Choosing settings: what "try 20, publish the best" costs, and the same choice when it is paid for.

Whoever tries 20 settings and publishes the best model usually reports the ε of one run. The choice looked at
the data too. ``privet.tune`` pays for the runs and for the choice with one ε.

    python examples/choose_settings.py
"""

import torch
from torch import nn

import privet
from privet.randomness import NoiseSource, SecureNoise
from privet.training import NegativeBinomialCount, Tuned, recipe_grid

TRIES, EPSILON, DELTA = 20, 3.0, 1e-5


def main(noise: NoiseSource | None = None) -> Tuned:
    """One search among 20 settings on made-up records."""
    generator = torch.Generator().manual_seed(1)
    inputs = torch.randn(4000, 10, generator=generator)
    labels = (inputs[:, 0] + inputs[:, 1] ** 2 > 1).long()
    grid = recipe_grid(
        lambda: nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 2)),
        epochs=(2, 5),
        lot_size=(250,),
        learning_rate=(0.01, 0.03, 0.1, 0.3, 1.0),
        clip=(0.3, 1.0),
    )
    tuned = privet.tune(
        grid,
        (inputs[:3000], labels[:3000]),
        validation=(inputs[3000:], labels[3000:]),
        epsilon=EPSILON,
        delta=DELTA,
        runs=NegativeBinomialCount(10),
        noise=noise or SecureNoise(),
    )
    print(f"ε at δ = {DELTA:g}:")
    print(f"  of one run, which is what people report      {tuned.run_epsilon:5.2f}")
    print(f"  of training and choice, paid by privet.tune  {tuned.epsilon(delta=DELTA):5.2f}")
    print(f"  of {TRIES} such tries, all counted                {tuned.trials_epsilon(tries=TRIES):5.2f}")
    print(tuned.summary(tries=TRIES))
    return tuned


if __name__ == "__main__":
    main()
