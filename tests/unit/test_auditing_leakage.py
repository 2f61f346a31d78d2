"""What an attack achieved: exact counts, ties, and intervals that say how little few records tell."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privet.auditing import Roc, measure
from privet.auditing.proportions import at_least, at_most, few_errors, rate
from privet.errors import InvalidArgument
from privet.scores import Scores

coarse = st.lists(st.integers(0, 5), min_size=1, max_size=30)


def _scores(members, others):
    return Scores.of(np.array(members, dtype=float), np.array(others, dtype=float))


@given(coarse, coarse)
@settings(max_examples=60, deadline=None)
def test_the_area_is_the_share_of_pairs_won_with_ties_by_half(members, others):
    pairs = [(a > b) + 0.5 * (a == b) for a in members for b in others]
    scores = _scores(members, others)
    assert measure(scores).auc.value == pytest.approx(np.mean(pairs))


@given(coarse, coarse, st.sampled_from([0.05, 0.1, 0.29, 1 / 3, 0.5, 1.0]))
@settings(max_examples=60, deadline=None)
def test_a_rate_is_that_of_the_best_threshold_there_is(members, others, fpr):
    best = max(
        np.mean(np.array(members) >= t)
        for t in [np.inf, *members, *others]
        if np.sum(np.array(others) >= t) <= fpr * len(others) + 1e-9
    )
    found = measure(_scores(members, others)).tpr(fpr)
    if fpr * len(others) < 1 - 1e-9:
        assert found is None  # below one false positive in n
    else:
        assert found.value == pytest.approx(best)
        assert found.lower <= found.value <= found.upper


def test_a_group_of_ties_is_one_step():
    roc = Roc.of(_scores([1, 1, 2], [1, 1, 1, 0]))
    assert roc.thresholds.tolist() == [np.inf, 2, 1, 0]
    assert roc.true_positives.tolist() == [0, 1, 3, 3]
    assert roc.false_positives.tolist() == [0, 0, 3, 4]
    # three of four others stand with the tie: at 50 % FPR it cannot be taken
    assert roc.at(0.5).tpr.value == pytest.approx(1 / 3)
    assert roc.at(0.75).tpr.value == 1


def test_a_rate_that_is_not_a_float_is_still_met():
    scores = _scores(np.arange(100) + 0.5, np.arange(100))
    assert measure(scores).at(0.29).fpr.value == 0.29  # 0.29 × 100 is 28.999999999999996


def test_constant_scores_say_nothing():
    leakage = measure(_scores([3] * 40, [3] * 60))
    assert leakage.auc.value == 0.5
    assert leakage.auc.lower < 0.5 < leakage.auc.upper
    assert leakage.tpr(0.1).value == 0
    assert leakage.tpr(1.0).value == 1
    assert leakage.balanced_accuracy.value == 0.5


def test_one_member_only():
    leakage = measure(_scores([9], np.arange(1000)))
    assert leakage.tpr(0.01).value == 0
    assert leakage.balanced_accuracy is None
    assert leakage.auc.lower < 0.3  # one member's score is one number
    assert measure(_scores([5], [5])).auc.value == 0.5


def test_infinite_scores_are_scores():
    leakage = measure(_scores([np.inf, np.inf, 0], [-np.inf, -np.inf, np.inf]))
    assert leakage.auc.value == pytest.approx((2 * (1 + 1 + 0.5) + 2) / 9)
    assert leakage.roc.thresholds.tolist() == [np.inf, np.inf, 0, -np.inf]


def test_a_perfect_attack_on_few_records_is_not_certain():
    leakage = measure(_scores([2, 2, 2, 2], [1, 1, 1, 1]))
    assert leakage.auc.value == 1
    assert leakage.auc.lower < 0.75
    assert leakage.auc.upper == 1
    assert leakage.at(0.25).tpr.lower == pytest.approx(0.025**0.25)
    # one of four false alarms leaves it open that the threshold's rate is far above a quarter
    assert leakage.tpr(0.25).lower == pytest.approx(0.0125**0.25 * 0.25 / float(at_most(1, 4, 0.0125)))


def test_rates_below_the_floor_are_not_given():
    leakage = measure(_scores(np.arange(50), np.arange(500)))
    assert leakage.fpr_floor == 1 / 500
    assert [fpr for fpr, found in leakage.tprs.items() if found is None] == [1e-3, 1e-4]
    assert leakage.precision(prior=0.1, fpr=1e-3) is None
    assert "not supported" in str(leakage)


def test_precision_at_a_realistic_prior():
    values = np.arange(1000.0)
    leakage = measure(_scores(values + 500, values))  # TPR at 1 % FPR: 51 %
    point = leakage.at(0.01)
    assert (point.tpr.value, point.fpr.value) == (0.51, 0.01)
    found = leakage.precision(prior=0.01, fpr=0.01)
    assert found.value == pytest.approx(0.0051 / (0.0051 + 0.0099))
    assert found.lower < found.value < found.upper
    assert measure(_scores(values + 2000, values)).precision(prior=0.01, fpr=0.01).lower < 0.9


def test_the_order_of_records_does_not_matter():
    generator = np.random.default_rng(3)
    values, members = generator.integers(0, 20, 500).astype(float), generator.random(500) < 0.4
    shuffled = generator.permutation(500)
    first, second = (
        measure(Scores(values, members)),
        measure(Scores(values[shuffled], members[shuffled])),
    )
    assert first.auc == second.auc
    assert first.roc.true_positives.tolist() == second.roc.true_positives.tolist()


def test_a_band_follows_the_curve():
    generator = np.random.default_rng(0)
    band = measure(Scores.of(generator.normal(1, 1, 5000), generator.normal(0, 1, 5000))).roc.band(points=50)
    assert len(band.fpr) <= 51
    assert band.fpr[-1] == 1
    assert (band.lower <= band.tpr).all()
    assert (band.tpr <= band.upper).all()
    assert band.fpr[0] <= 1 / 5000


def test_many_scores_take_a_sort():
    generator = np.random.default_rng(0)
    leakage = measure(Scores.of(generator.normal(0.2, 1, 200_000), generator.normal(0, 1, 200_000)))
    assert leakage.auc.upper - leakage.auc.lower < 0.005
    assert leakage.tprs[1e-4].lower > 1e-4


@pytest.mark.parametrize("fpr", [0.0, -0.1, 1.5, np.nan])
def test_a_rate_outside_is_refused(fpr):
    with pytest.raises(InvalidArgument, match="Give a rate"):
        measure(_scores([1], [0])).tpr(fpr)


@pytest.mark.parametrize("confidence", [0.0, 1.0, 2.0])
def test_a_confidence_outside_is_refused(confidence):
    with pytest.raises(InvalidArgument, match="Give a probability"):
        measure(_scores([1], [0]), confidence=confidence)


def test_limits_are_those_of_clopper_and_pearson():
    # scipy.stats.binomtest(k, n).proportion_ci(method="exact") is another implementation of the same limits
    from scipy.stats import binomtest

    for hits, trials in [(0, 1), (1, 1), (3, 10), (10, 10), (17, 1000)]:
        exact = binomtest(hits, trials).proportion_ci(0.95, method="exact")
        assert rate(hits, trials, 0.95)[1:] == pytest.approx((exact.low, exact.high), abs=1e-12)
    assert at_least(np.array([0, 5]), 10, 0.05).shape == (2,)
    assert float(at_most(10, 10, 0.05)) == 1


def test_binomial_tails_keep_their_digits():
    from scipy.stats import binom

    assert float(few_errors(2, 1000, 1e-9)) == pytest.approx(1)
    assert float(few_errors(3, 50, 0.2)) == pytest.approx(binom.cdf(3, 50, 0.2))
    assert few_errors(np.array([-1, 0, 50, 60]), 50, 0.5).tolist() == pytest.approx([0, 0.5**50, 1, 1])


@pytest.mark.parametrize(("members", "others"), [(3, 3), (2, 6), (3, 4), (1, 20)])
def test_a_perfect_order_of_a_handful_does_not_exclude_chance(members, others):
    # So few records are in perfect order by chance in more than 5 % of cases, one way or the other.
    area = measure(Scores.of(np.arange(members) + 100.0, np.arange(others) * 1.0)).auc
    assert area.value == 1.0
    assert area.lower <= 0.5
    area = measure(Scores.of(np.arange(members) * 1.0, np.arange(others) + 100.0)).auc
    assert area.upper >= 0.5


def test_both_rates_of_a_threshold_share_the_failure():
    """Precision takes one rate from below and the other from above, so each interval has half of the failure."""
    generator = np.random.default_rng(4)
    leakage = measure(Scores.of(generator.normal(size=400) + 1, generator.normal(size=400)), confidence=0.9)
    told, each = leakage.reported_point, leakage.roc.at(0.01, 0.95)
    assert told == each
    found = leakage.precision(prior=0.5, fpr=0.01)
    assert found.lower == pytest.approx(each.tpr.lower / (each.tpr.lower + each.fpr.upper))
    assert found.upper == pytest.approx(each.tpr.upper / (each.tpr.upper + each.fpr.lower))
