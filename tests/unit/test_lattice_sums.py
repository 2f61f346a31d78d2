"""Sums over a grid of losses, on fine and on coarse grids."""

import math
import time

import numpy as np
import pytest

from privet.accounting import account, calibrate
from privet.accounting.lattice import _sums
from privet.accounting.targets import EpsilonTarget
from privet.adjacency import AddRemove
from privet.events import dp_sgd


@pytest.mark.parametrize("step", [0.01, 1.0, 4.9, 5.1, 60.0, 600.0, 1e6])
@pytest.mark.parametrize("size", [1, 2, 400])
def test_sums_are_those_of_the_definition(step, size):
    masses = np.random.default_rng(0).dirichlet(np.ones(size))
    total, scaled = _sums(masses, step)
    for j in range(0, size, 7):
        assert total[j] == pytest.approx(math.fsum(masses[j:]), rel=1e-12)
        terms = [mass * math.exp(-step * k) for k, mass in enumerate(masses[j:])]
        assert scaled[j] == pytest.approx(math.fsum(terms), rel=1e-12)


def test_a_coarse_grid_takes_no_longer_than_a_fine_one():
    masses = np.full(2**20, 2.0**-20)
    began = time.process_time()
    _sums(masses, 1e3)
    assert time.process_time() - began < 2  # a loop over all cells takes 20 s


def test_many_steps_at_a_high_rate_are_calibrated():
    """The search begins at little noise, where losses are large and the grid is coarse."""
    found = calibrate(
        lambda noise: dp_sgd(noise_multiplier=noise, sampling_rate=0.5, steps=100_000),
        EpsilonTarget(epsilon=3.0, delta=1e-5),
        adjacency=AddRemove(),
    ).value
    spent = account(dp_sgd(noise_multiplier=found, sampling_rate=0.5, steps=100_000), adjacency=AddRemove())
    assert 2.97 < spent.epsilon(delta=1e-5) <= 3.0
