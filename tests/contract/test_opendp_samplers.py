"""OpenDP's samplers as the oracle: both libraries draw from one law.

OpenDP samples the same laws by another way: rational arithmetic and rejection, bit by bit (Canonne, Kamath & Steinke
2020), in Rust. It is not a dependency: these tests run where it is installed.
"""

import numpy as np
import pytest
from scipy.stats import chi2

from privet.mechanisms.sampling import discrete_gaussian, discrete_laplace
from privet.mechanisms.sampling.decay import Decay, cumulative_edges
from privet.randomness import SecureNoise

opendp = pytest.importorskip(
    "opendp.prelude", reason="opendp is not installed; pip install opendp to run these"
)

FALSE_ALARM = 1e-8
THEIRS, OURS = 60_000, 2_000_000
SCALES = pytest.mark.parametrize("scale", [0.3, 1.0, 7.5, 40.0, 200.0, 1e4, 2.0**33])


def of_opendp(noise, scale, size):
    opendp.enable_features("contrib")
    domain = opendp.vector_domain(opendp.atom_domain(T="i64"))
    if noise is discrete_laplace:
        release = opendp.m.make_laplace(domain, opendp.l1_distance(T="i64"), scale=scale)
    else:
        release = opendp.m.make_gaussian(domain, opendp.l2_distance(T="f64"), scale=scale)
    return np.array(release([0] * size), dtype=np.int64)


@SCALES
@pytest.mark.parametrize("noise", [discrete_laplace, discrete_gaussian])
@pytest.mark.parametrize("constant_time", [False, True], ids=["fast", "constant-time"])
def test_both_draw_from_one_law(noise, constant_time, scale):
    """χ² of two samples in up to 40 bins; false alarm 1e-8; finds a scale that is 6 % off, with probability 0.99."""
    theirs = of_opendp(noise, scale, THEIRS)
    ours = noise(scale, OURS // 10 if constant_time else OURS, SecureNoise(), constant_time=constant_time)
    cuts = np.unique(np.quantile(ours, np.arange(1, 40) / 40, method="nearest"))
    counts = np.array(
        [np.bincount(np.searchsorted(cuts, sample), minlength=cuts.size + 1) for sample in (theirs, ours)]
    )
    counts = counts[:, counts.sum(axis=0) > 0]
    expected = counts.sum(axis=1)[:, None] * counts.sum(axis=0) / counts.sum()
    assert ((counts - expected) ** 2 / expected).sum() < chi2.isf(FALSE_ALARM, df=counts.shape[1] - 1)


@pytest.mark.parametrize("scale", [0.3, 1.0, 7.5, 30.0])
@pytest.mark.parametrize(
    ("noise", "law"), [(discrete_laplace, Decay.laplace), (discrete_gaussian, Decay.gaussian)]
)
def test_opendp_draws_from_our_table(noise, law, scale):
    """χ² of OpenDP's numbers against the table's cumulative_edges sums; false alarm 1e-8; finds 6 % off in the scale."""
    table = np.array(cumulative_edges(law(scale), 63, folded=True), dtype=np.float64) / 2.0**63
    sizes = np.abs(of_opendp(noise, scale, THEIRS))
    common = np.flatnonzero(np.diff(table, prepend=0.0) * THEIRS >= 20)
    last = int(common.max())
    expected = THEIRS * np.append(np.diff(table[: last + 1], prepend=0.0), 1 - table[last])
    counts = np.bincount(np.minimum(sizes, last + 1), minlength=last + 2)
    counts, expected = counts[expected > 5], expected[expected > 5]
    assert ((counts - expected) ** 2 / expected).sum() < chi2.isf(FALSE_ALARM, df=max(counts.size - 1, 1))
