"""Poisson-sampled Gaussians with so little noise that a step shows whether the unit was in it.

Then the loss of a step is ln(1 − q) or, with probability q, ln q + N(1/2σ², 1/σ²), up to an overlap of at most
exp(−1/8σ²) < 1e-21; so n steps are a binomial mixture of normal losses, whose profile is in closed form.
A typed refusal is an answer; a number must be right.
"""

import pytest
from mpmath import mp, mpf

from privet.accounting import account
from privet.adjacency import AddRemove
from privet.errors import OutOfReach
from privet.events import dp_sgd


def binomial_of_normals(rate, sigma, steps, epsilon):
    """Σ P[k steps saw the unit] · E(1 − exp(ε − L))₊, L ~ N(m, s²) with m and s by k."""
    total = mpf(0)
    for k in range(1, steps + 1):
        weight = mp.binomial(steps, k) * rate**k * (1 - rate) ** (steps - k)
        mean = k / (2 * sigma**2) + k * mp.log(rate) + (steps - k) * mp.log(1 - rate)
        spread = mp.sqrt(k) / sigma
        far = (mean - epsilon) / spread
        total += weight * (mp.ncdf(far) - mp.exp(epsilon - mean + spread**2 / 2) * mp.ncdf(far - spread))
    return total


@pytest.mark.parametrize("sigma", [0.01, 0.02, 0.05])
@pytest.mark.parametrize(("rate", "steps"), [(0.5, 100), (0.01, 20)])
@pytest.mark.parametrize("seen", [0.3, 0.6, 0.7])
def test_profile(sigma, rate, steps, seen):
    epsilon = round(seen * steps / (2 * sigma**2)) if rate == 0.5 else round(seen * 10 / (2 * sigma**2))
    with mp.workdps(60):
        exact = binomial_of_normals(mpf(rate), mpf(sigma), steps, mpf(epsilon))
    event = dp_sgd(noise_multiplier=sigma, sampling_rate=rate, steps=steps)
    try:
        found = account(event, adjacency=AddRemove()).delta_bounds(epsilon=float(epsilon))
    except OutOfReach:
        return
    assert found.lower <= float(exact) * (1 + 1e-9), (found, exact)
    assert found.upper >= float(exact) * (1 - 1e-9), (found, exact)
    assert found.relative_gap <= 1e-4
