"""Unique in the population, judged by samples of populations that are known.

The interval holds the truth in at least 95 % of samples. Over 60 samples, fewer than 51 hold it with a
probability of 6e-4 if the coverage is 95 % exactly; over 300, fewer than 272 with 1e-3.
"""

import numpy as np
import pytest
from scipy.stats import binom

from privet.attacks.linkage import estimate_population_uniqueness
from privet.errors import InvalidArgument


def draw_population(kind, coins):
    if kind == "alike":
        sizes = coins.poisson(2.0, 4000)
    elif kind == "heavy":
        sizes = coins.zipf(1.8, 3000) % 2000
    else:
        sizes = coins.poisson(coins.gamma(0.1, 20.0, 8000))
    return sizes[sizes > 0]


def count_covered(runs, seed, fractions=(0.05, 0.2, 0.5)):
    coins = np.random.default_rng(seed)
    covered = of_unique = total = 0
    for run in range(runs):
        sizes = draw_population(("alike", "heavy", "uneven")[run % 3], coins)
        fraction = fractions[run // 3 % len(fractions)]
        people = np.repeat(np.arange(len(sizes)), sizes)
        drawn = coins.choice(people, round(fraction * len(people)), replace=False)
        counts = np.bincount(drawn, minlength=len(sizes))
        found = estimate_population_uniqueness(counts[counts > 0], len(drawn) / len(people))
        truth = (sizes == 1).sum() / len(people)
        both = ((counts == 1) & (sizes == 1)).sum() / max((counts == 1).sum(), 1)
        covered += found.share_between.lower - 1e-9 <= truth <= found.share_between.upper + 1e-9
        of_unique += found.of_unique_between.lower - 1e-9 <= both <= found.of_unique_between.upper + 1e-9
        total += 1
    return covered, of_unique, total


def test_the_interval_holds_the_truth():
    covered, of_unique, total = count_covered(27, seed=11)
    least = binom.ppf(1e-3, total, 0.95)
    assert min(covered, of_unique) >= least


@pytest.mark.slow
def test_the_interval_holds_the_truth_in_300_samples():
    covered, of_unique, total = count_covered(300, seed=12, fractions=(0.01, 0.05, 0.1, 0.3, 0.7))
    assert min(covered, of_unique) >= binom.ppf(1e-3, total, 0.95)


def test_half_of_the_population_gives_a_useful_interval():
    """Power: from half of 100,000 people the share is known to a few points, and the estimate is near."""
    coins = np.random.default_rng(3)
    sizes = coins.poisson(1.0, 60_000)
    counts = coins.binomial(sizes, 0.5)
    found = estimate_population_uniqueness(counts[counts > 0], counts.sum() / sizes.sum())
    truth = (sizes == 1).sum() / sizes.sum()
    assert found.share_between.upper - found.share_between.lower < 0.15
    assert abs(found.share - truth) < 0.05


def test_sample_uniques_are_not_population_uniques():
    """Everybody has a double, and a sample of 5 % is nearly all unique: at 0 in the population."""
    coins = np.random.default_rng(5)
    drawn = coins.choice(np.repeat(np.arange(100_000), 4), 20_000, replace=False)
    counts = np.bincount(drawn)
    found = estimate_population_uniqueness(counts[counts > 0], 0.05)
    assert (counts == 1).sum() / 20_000 > 0.8
    assert found.share_between.lower == 0.0
    assert found.of_unique_between.upper < 0.6


def test_the_whole_population_is_known():
    found = estimate_population_uniqueness(np.array([1, 2, 3]), 1.0)
    assert found.share == found.share_between.lower == found.share_between.upper == 1 / 6


@pytest.mark.parametrize("fraction", [0.0, 1.5, -0.1, float("nan")])
def test_a_fraction_is_a_fraction(fraction):
    with pytest.raises(InvalidArgument, match="'fraction' must be above 0"):
        estimate_population_uniqueness(np.array([1, 2]), fraction)
