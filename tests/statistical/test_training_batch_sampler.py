"""The law of lots. Every check has a false-alarm rate of 10⁻⁸ or less."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from privet.randomness import SecureNoise
from privet.training.noise.secure_stream import expand_source
from privet.training.sampling import subsets
from privet.training.sampling.batch_sampler import (
    FixedSizeBatchSampler,
    PoissonBatchSampler,
    ShuffledBatchSampler,
)
from privet.training.sampling.subsets import draw_binomial

SMALLEST = 1e-8
WAYS = {
    "coins": {"_COINS": 1 << 19},
    "coins in parts": {"_COINS": 100, "_COIN_RATE": 0.0},
    "a count and a subset": {"_COINS": 0, "_COIN_RATE": 2.0},
}


def passes(members: np.ndarray, rate: float) -> bool:
    """Whether rows of 0 and 1 are independent coins with this rate: sizes, each column, and each pair of columns.

    With 6000 lots of 40 this finds, with a chance of over 99 %, a rate that is off by 5 %, one column that is off by 20 %,
    and two columns that are always together.
    """
    draws, columns = members.shape
    variance = rate * (1 - rate)
    total = stats.binomtest(int(members.sum()), members.size, rate).pvalue
    each = ((members.sum(axis=0) - draws * rate) ** 2).sum() / (draws * variance)
    centred = members - rate
    products = (centred.T @ centred) / (variance * math.sqrt(draws))
    pairs = products[np.triu_indices(columns, 1)]
    sizes = np.bincount(members.sum(axis=1), minlength=columns + 1)
    expected = draws * stats.binom.pmf(np.arange(columns + 1), columns, rate)
    wide = expected >= 10
    spread = ((sizes - expected)[wide] ** 2 / expected[wide]).sum()
    return bool(
        total > SMALLEST
        and stats.chi2.sf(each, columns) > SMALLEST
        and np.abs(pairs).max() < 7.5
        and stats.chi2.sf(spread, int(wide.sum())) > SMALLEST
    )


def drawn(lots, draws: int) -> np.ndarray:
    members = np.zeros((draws, lots.population), dtype=np.int64)
    for row in members:
        row[lots.draw().numpy()] = 1
    return members


@pytest.mark.parametrize("way", list(WAYS))
@pytest.mark.parametrize("rate", [0.1, 0.75])
def test_poisson_lots_are_independent_coins(monkeypatch, way, rate):
    for name, value in WAYS[way].items():
        monkeypatch.setattr(subsets, name, value)
    assert passes(drawn(PoissonBatchSampler(40, rate, SecureNoise()), 6000), rate)


def test_the_check_sees_what_is_wrong():
    """Mutations: fixed-size lots, shuffled epochs, a wrong rate and two inseparable examples are no Poisson lots."""
    assert not passes(drawn(FixedSizeBatchSampler(40, 4, SecureNoise()), 6000), 0.1)
    assert not passes(drawn(ShuffledBatchSampler(40, 4, SecureNoise()), 6000), 0.1)
    members = drawn(PoissonBatchSampler(40, 0.1, SecureNoise()), 6000)
    assert not passes(members, 0.105)
    members[:, 0] = members[:, 1]
    assert not passes(members, 0.1)


def test_fixed_lots_are_uniform_subsets():
    """All 20 sets of 3 of 6, 6000 draws: false alarm 10⁻⁸, finds a set that is 40 % too frequent."""
    for size in (3, 4):
        lots, sets = (
            FixedSizeBatchSampler(6, size, SecureNoise()),
            list(itertools.combinations(range(6), size)),
        )
        seen = dict.fromkeys(sets, 0)
        for _ in range(6000):
            seen[tuple(lots.draw().tolist())] += 1
        assert stats.chisquare(list(seen.values())).pvalue > SMALLEST


def test_shuffles_are_uniform():
    """All 24 orders of 4, 6000 draws: false alarm 10⁻⁸, finds an order that is 40 % too frequent."""
    lots = ShuffledBatchSampler(4, 1, SecureNoise())
    seen = dict.fromkeys(itertools.permutations(range(4)), 0)
    for _ in range(6000):
        seen[tuple(int(lots.draw()[0]) for _ in range(4))] += 1
    assert stats.chisquare(list(seen.values())).pvalue > SMALLEST


@pytest.mark.parametrize(("trials", "probability"), [(20, 0.3), (200, 0.01), (70, 2 / 3)])
def test_binomial_counts_have_their_law(trials, probability):
    """8000 counts: false alarm 10⁻⁸, finds a probability that is off by 5 %."""
    source = expand_source(SecureNoise())
    counts = np.bincount(
        [draw_binomial(trials, probability, source) for _ in range(8000)], minlength=trials + 1
    )
    expected = 8000 * stats.binom.pmf(np.arange(trials + 1), trials, probability)
    wide = expected >= 10
    assert stats.chi2.sf(((counts - expected)[wide] ** 2 / expected[wide]).sum(), int(wide.sum())) > SMALLEST


def test_a_rate_of_one_in_ten_million_over_a_hundred_million():
    """Four lots, 40 examples expected: false alarm 10⁻⁸, finds a rate that is 3 times too high. See the slow one."""
    lots = PoissonBatchSampler(10**8, 1e-7, SecureNoise())
    total = sum(lots.draw().numel() for _ in range(4))
    assert min(stats.poisson.cdf(total, 40), stats.poisson.sf(total - 1, 40)) > SMALLEST / 2


@pytest.mark.slow
def test_the_rate_is_not_that_of_float32_coins():
    """400 lots, 4000 examples expected: false alarm 10⁻⁸, finds the 19 % that a float32 coin is off by, surely."""
    lots = PoissonBatchSampler(10**8, 1e-7, SecureNoise())
    total = sum(lots.draw().numel() for _ in range(400))
    assert abs(total - 4000) < 5.8 * math.sqrt(4000)
    assert 2 * 5.8 * math.sqrt(4000) < 0.19 * 4000
