"""Samplers of noise against their laws. Each test states its false-alarm rate and the deviation that it finds.

The laws themselves are held to 60 digits, word by word, in tests/unit/test_sampling_tables.py; here all is put
together, with bits from the operating system. "Finds" means: with probability above 0.99.
"""

import numpy as np
import pytest
from scipy.stats import chi2, norm

from privet.mechanisms.sampling import (
    bernoulli,
    choose,
    discrete_gaussian,
    discrete_laplace,
    uniform_integers,
)
from privet.randomness import SecureNoise

FALSE_ALARM = 1e-8  # of each test
BINS = 40
MANY, SLOWLY = 1_000_000, 200_000  # draws, fast and in constant time

SCALES = [0.4, 1.0, 3.7, 20.0, 31.0, 33.0, 127.0, 129.0, 500.0, 1e4]
NOISES = pytest.mark.parametrize("noise", [discrete_laplace, discrete_gaussian])
EVENLY = pytest.mark.parametrize("constant_time", [False, True], ids=["fast", "constant-time"])


def log_weights(noise, scale, numbers):
    return -np.abs(numbers) / scale if noise is discrete_laplace else -((numbers / scale) ** 2) / 2


def law(noise, scale):
    """All numbers of a probability that counts, and their probabilities in float64."""
    reach = int(np.ceil(60 * scale)) + 2
    numbers = np.arange(-reach, reach + 1)
    weights = np.exp(log_weights(noise, scale, numbers))
    return numbers, weights / weights.sum()


def bins(probabilities):
    """Where to cut, so that neighbours are together until each bin has 1/BINS, or all that is left."""
    return np.unique(np.searchsorted(np.cumsum(probabilities), np.arange(1, BINS) / BINS))


def chi_square(counts, probabilities):
    """The statistic, and its limit at the false-alarm rate; rare bins are put together."""
    expected = counts.sum() * probabilities
    common = expected >= 20
    if not common.all():
        counts = np.append(counts[common], counts[~common].sum())
        expected = np.append(expected[common], expected[~common].sum())
    counts, expected = counts[expected > 0], expected[expected > 0]
    return ((counts - expected) ** 2 / expected).sum(), chi2.isf(FALSE_ALARM, df=max(counts.size - 1, 1))


def fit(numbers, noise, scale):
    """χ² of numbers against the law, in bins of about equal probability and at the middle each number by itself."""
    support, probabilities = law(noise, scale)
    edges = np.union1d(support[bins(probabilities)], np.arange(-5, 6))
    cells = np.searchsorted(edges, support)
    expected = np.bincount(cells, weights=probabilities, minlength=edges.size + 1)
    return chi_square(np.bincount(np.searchsorted(edges, numbers), minlength=edges.size + 1), expected)


@NOISES
@EVENLY
@pytest.mark.parametrize("scale", SCALES)
def test_numbers_follow_their_law(noise, constant_time, scale):
    """χ² with up to 50 bins, of 10⁶ numbers (2·10⁵ in constant time); false alarm 1e-8.

    Finds a scale that is 2 % off (5 % in constant time) with probability above 0.99; see the mutation below.
    """
    size = SLOWLY if constant_time else MANY
    statistic, limit = fit(noise(scale, size, SecureNoise(), constant_time=constant_time), noise, scale)
    assert statistic < limit


@NOISES
@EVENLY
@pytest.mark.parametrize("scale", [1.0, 33.0, 1e4])
def test_the_fit_finds_a_scale_that_is_a_little_off(noise, constant_time, scale):
    """The power that is claimed above. A miss has a probability below 1e-9, by the noncentral χ²."""
    size, off = (SLOWLY, 1.05) if constant_time else (MANY, 1.02)
    for factor in (off, 1 / off):
        numbers = noise(scale * factor, size, SecureNoise(), constant_time=constant_time)
        statistic, limit = fit(numbers, noise, scale)
        assert statistic > limit


@NOISES
@EVENLY
@pytest.mark.parametrize("places", [20, 36, 50])
def test_the_largest_scales(noise, constant_time, places):
    """χ² of the size on 40 bins, and of the low 6 bits; false alarm 2e-8.

    At these scales the law is that of real noise, up to 1e-6. Finds a scale 2 % off, and a low bit set with
    probability 0.507 (5 % and 0.516 in constant time).
    """
    scale = 2.0**places
    numbers = noise(scale, SLOWLY if constant_time else MANY, SecureNoise(), constant_time=constant_time)
    levels = np.arange(1, BINS) / BINS
    if noise is discrete_laplace:
        quantiles = np.sign(levels - 0.5) * -np.log1p(-np.abs(2 * levels - 1))
    else:
        quantiles = norm.ppf(levels)
    counts = np.bincount(np.searchsorted(quantiles, numbers / scale), minlength=BINS)
    statistic, limit = chi_square(counts, np.full(BINS, 1 / BINS))
    assert statistic < limit
    statistic, limit = chi_square(np.bincount(numbers & 63, minlength=64), np.full(64, 1 / 64))
    assert statistic < limit


@NOISES
@EVENLY
@pytest.mark.parametrize("scale", [0.6, 5.0, 1e3, 2.0**40])
def test_the_sign_is_fair(noise, constant_time, scale):
    """Normal test of the numbers other than 0; false alarm 1e-8; finds P[x > 0 | x ≠ 0] = 0.508 (0.517)."""
    size = SLOWLY if constant_time else MANY
    numbers = noise(scale, size, SecureNoise(), constant_time=constant_time)
    above, below = (numbers > 0).sum(), (numbers < 0).sum()
    assert abs(above - below) < norm.isf(FALSE_ALARM / 2) * np.sqrt(above + below)


@NOISES
@pytest.mark.parametrize("scale", [1.0, 25.0, 200.0, 2.0**40])
@pytest.mark.parametrize("lag", [1, 2, 3, 4, 8192])
def test_numbers_are_independent_of_those_before(noise, scale, lag):
    """χ² of 8×8 pairs, four of which share a word and 8,192 a chunk; false alarm 1e-8; finds a correlation of 0.013."""
    numbers = noise(scale, MANY, SecureNoise())
    cuts = np.unique(np.quantile(numbers, np.arange(1, 8) / 8))
    cells = np.searchsorted(cuts, numbers)
    kinds = cuts.size + 1
    pairs = np.bincount(kinds * cells[:-lag] + cells[lag:], minlength=kinds**2).reshape(kinds, kinds)
    expected = pairs.sum(axis=1)[:, None] * pairs.sum(axis=0) / pairs.sum()
    used = expected > 0
    statistic = ((pairs - expected)[used] ** 2 / expected[used]).sum()
    assert statistic < chi2.isf(FALSE_ALARM, df=(kinds - 1) ** 2)


@pytest.mark.parametrize("bound", [2, 3, 6, 10, 100])
def test_integers_are_uniform(bound):
    """χ² of 10⁶ integers; false alarm 1e-8; finds one of 6 that has 2.1 % more than its share."""
    counts = np.bincount(uniform_integers(bound, MANY, SecureNoise()), minlength=bound)
    statistic, limit = chi_square(counts, np.full(bound, 1 / bound))
    assert statistic < limit


@pytest.mark.parametrize("bound", [3 * 2**61, 2**63 - 1])
def test_large_integers_are_uniform(bound):
    """χ² of the sixths; false alarm 1e-8; the modulus of a 64-bit word would put 1.33 times as many in the first half."""
    counts = np.bincount(uniform_integers(bound, MANY, SecureNoise()) // (bound // 6 + 1), minlength=6)
    statistic, limit = chi_square(counts, np.full(6, 1 / 6))
    assert statistic < limit


@pytest.mark.parametrize("probability", [0.5, 0.1, 0.999, 1e-4])
def test_coins_have_their_bias(probability):
    """Normal test of 10⁶ coins; false alarm 1e-8; finds 0.5041 for ½, and 1.9e-4 for 1e-4."""
    seen = int(bernoulli(probability, MANY, SecureNoise()).sum())
    statistic, limit = chi_square(np.array([seen, MANY - seen]), np.array([probability, 1 - probability]))
    assert statistic < limit


def test_choices_have_their_weights():
    """χ² of 20,000 choices among 6; false alarm 1e-8; finds a log-weight that is 0.15 off."""
    weights = np.array([0.0, 1.0, -np.inf, 1.5, -2.0, 0.3])
    source = SecureNoise()
    counts = np.bincount([choose(weights, source) for _ in range(20_000)], minlength=weights.size)
    assert counts[2] == 0
    chances = np.exp(weights) / np.exp(weights).sum()
    statistic, limit = chi_square(np.delete(counts, 2), np.delete(chances, 2))
    assert statistic < limit


@pytest.mark.slow
@NOISES
@pytest.mark.parametrize("scale", [1.0, 10.0, 1e3, 1e6])
def test_far_tails_of_many_numbers(noise, scale):
    """Of 3·10⁸ numbers those beyond the quantile of 1e-6; false alarm 1e-8; finds a tail that is 1.6 times as heavy."""
    support, probabilities = law(noise, scale if scale < 1e5 else 1e5)
    ratio = scale / min(scale, 1e5)
    tail = np.cumsum(probabilities[::-1])[::-1]
    start = support[np.argmax(tail < 1e-6)]
    expected = 2 * tail[np.argmax(tail < 1e-6)]
    source, seen, draws = SecureNoise(), 0, 30
    for _ in range(draws):
        seen += int((np.abs(noise(scale, 10_000_000, source)) >= start * ratio).sum())
    mean = draws * 1e7 * expected
    # The bound of the tail at the larger scale is that of the smaller, stretched: off by less than 1e-4.
    assert abs(seen - mean) < norm.isf(FALSE_ALARM / 2) * np.sqrt(mean) + 1e-4 * mean
