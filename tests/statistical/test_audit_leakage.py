"""Intervals of what an attack achieved, simulated where the truth is known. False alarm 1e-6 each."""

import numpy as np
import pytest
from scipy.stats import binom, norm

from privet.auditing import measure
from privet.scores import Scores

RUNS = 300


@pytest.mark.parametrize(("members", "others"), [(5, 5), (8, 200), (100, 100)])
@pytest.mark.parametrize("separation", [0.0, 1.0, 3.0])
def test_the_interval_of_the_area_covers(members, others, separation):
    """At 95 % nominal; an approximation for few records, so 90 % is asked for. An interval of no width would fail at once."""
    generator, truth = np.random.default_rng(1), norm.cdf(separation / np.sqrt(2))
    missed = 0
    for _ in range(RUNS):
        scores = Scores.of(generator.normal(separation, 1, members), generator.normal(0, 1, others))
        area = measure(scores).auc
        missed += not area.lower <= truth <= area.upper
    assert missed <= binom.isf(1e-6, RUNS, 0.1)


def test_half_of_the_members_exposed_is_not_gaussian_and_is_still_covered():
    generator, missed = np.random.default_rng(2), 0
    truth = 0.5 * 1.0 + 0.5 * 0.5
    for _ in range(RUNS):
        exposed = generator.random(60) < 0.5
        scores = Scores.of(generator.normal(size=60) + 50 * exposed, generator.normal(size=3000))
        area = measure(scores).auc
        missed += not area.lower <= truth <= area.upper
    assert missed <= binom.isf(1e-6, RUNS, 0.07)


def test_balanced_accuracy_is_not_flattered_by_its_threshold():
    """Where nothing leaks it is ½ on average; the maximum over thresholds is not, which is the mistake that is avoided."""
    generator = np.random.default_rng(3)
    found, best, missed = [], [], 0
    for _ in range(RUNS):
        leakage = measure(Scores.of(generator.normal(size=60), generator.normal(size=60)))
        found.append(leakage.balanced_accuracy.value)
        best.append(leakage.roc.best_balanced_accuracy)
        missed += not leakage.balanced_accuracy.lower <= 0.5 <= leakage.balanced_accuracy.upper
    error = np.std(found) / np.sqrt(RUNS)
    assert abs(np.mean(found) - 0.5) < 5 * error
    assert np.mean(best) - 0.5 > 5 * error
    assert missed <= binom.isf(1e-6, RUNS, 0.05)


def test_the_interval_of_a_rate_covers_the_rate_of_its_threshold():
    generator, missed = np.random.default_rng(4), 0
    for _ in range(RUNS):
        point = measure(Scores.of(generator.normal(1, 1, 80), generator.normal(0, 1, 500))).at(0.01)
        truth = norm.sf(point.threshold - 1)
        missed += not point.tpr.lower <= truth <= point.tpr.upper
    assert missed <= binom.isf(1e-6, RUNS, 0.05)
