"""Who is hurt: lists and flags that are corrected for how many are looked at."""

import numpy as np
import pytest
from scipy.stats import binom, mannwhitneyu

from privet.auditing import (
    leakage_against_gap,
    leakage_by_group,
    measure,
    most_at_risk,
    most_at_risk_over_targets,
)
from privet.errors import InvalidArgument
from privet.scores import References, Scores


def _scores(generator, members, others):
    return Scores.of(generator.normal(size=members), generator.normal(size=others))


def test_those_who_stand_out_are_on_the_list():
    generator = np.random.default_rng(0)
    values = generator.normal(size=4000)
    values[:20] += 10
    found = most_at_risk(Scores(values, np.arange(4000) < 2000), false_discoveries=0.1)
    assert set(range(20)) <= set(found.exposed.tolist())
    assert len(found.exposed) < 30
    assert found.p_values[0] == pytest.approx(1 / 2001)
    assert sorted(found.records.tolist()) == list(range(2000))  # members only


def test_a_p_value_counts_the_others_who_score_as_high():
    found = most_at_risk(Scores.of(np.array([2.0, 5.0]), np.array([1.0, 2.0, 3.0])))
    assert found.records.tolist() == [1, 0]
    assert found.p_values.tolist() == [1 / 4, 3 / 4]  # a tie counts against the member
    assert found.flagged == 0


def test_where_nothing_leaks_the_list_is_mostly_empty():
    # Under no leakage at all any listed record is a false discovery: P[list not empty] ≤ 10 %. False alarm 1e-6.
    generator = np.random.default_rng(1)
    lists = sum(most_at_risk(_scores(generator, 300, 3000)).flagged > 0 for _ in range(300))
    assert lists <= binom.isf(1e-6, 300, 0.1)


def test_without_the_correction_the_list_would_be_long():
    scores = _scores(np.random.default_rng(2), 300, 3000)
    found = most_at_risk(scores)
    assert (found.p_values <= 0.1).sum() > 10 > found.flagged


def test_several_targets_tell_a_record_from_its_own_past():
    generator = np.random.default_rng(3)
    members = generator.random((16, 200)) < 0.5
    values = generator.normal(size=(16, 200)) + 3 * generator.normal(
        size=200
    )  # some records score high, in or out
    values[:, :5] += 8.0 * members[:, :5]
    found = most_at_risk_over_targets(values, members)
    assert set(found.exposed.tolist()) >= set(range(5))
    assert found.flagged < 9


def test_several_targets_by_mann_and_whitney():
    generator = np.random.default_rng(4)
    members, values = generator.random((20, 6)) < 0.5, generator.integers(0, 6, (20, 6)).astype(float)
    found = most_at_risk_over_targets(values, members)
    for record, p in zip(found.records, found.p_values, strict=True):
        inside = members[:, record]
        expected = mannwhitneyu(
            values[inside, record], values[~inside, record], alternative="greater", method="asymptotic"
        )
        assert p == pytest.approx(expected.pvalue)


def test_a_shadow_study_tells_who_is_exposed():
    generator = np.random.default_rng(9)
    members = generator.random((16, 50)) < 0.5
    signals = generator.normal(size=(16, 1, 50)) + 6.0 * (members & (np.arange(50) == 7))[:, None]
    references = References(signals, members)
    assert most_at_risk_over_targets(references.signals[:, 0], references.members).exposed[0] == 7


def test_a_record_that_was_always_in_says_nothing():
    values = np.random.default_rng(5).normal(size=(4, 3))
    members = np.array([[True, False, True]] * 2 + [[True, True, False]] * 2)
    found = most_at_risk_over_targets(values, members)
    assert found.p_values[found.records.tolist().index(0)] == 1
    assert most_at_risk_over_targets(np.ones((4, 3)), members).flagged == 0


def test_the_group_that_is_hurt_is_flagged_and_no_other():
    generator = np.random.default_rng(6)
    groups = np.repeat(["a", "b", "c", "d"], 1000)
    members = generator.random(4000) < 0.5
    values = generator.normal(size=4000) + 1.0 * (members & (groups == "c")) + 5.0 * (groups == "d")
    found = leakage_by_group(Scores(values, members), groups)
    assert [group.name for group in found if group.flagged] == ["c"]
    assert found[0].name == "c"
    assert found[0].leakage.auc.lower > 0.65
    high = next(group for group in found if group.name == "d")
    assert high.at_common.value > 0.01  # all of its scores are higher,
    assert not high.flagged  # which is no leakage


@pytest.mark.slow
def test_flags_are_rare_where_no_group_is_worse():
    # Thirty small groups, all alike: any flag is false, and at most 5 % of runs may have one. False alarm 1e-6.
    generator = np.random.default_rng(7)
    groups = np.arange(600) % 30
    flagged = naive = 0
    for _ in range(60):
        coins = generator.random(600) < 0.5
        found = leakage_by_group(Scores(generator.normal(size=600) + 0.5 * coins, coins), groups)
        flagged += any(group.flagged for group in found)
        naive += any(group.p_value < 0.05 for group in found)
    assert flagged <= binom.isf(1e-6, 60, 0.05)
    assert naive > binom.isf(1e-6, 60, 0.05)  # without Holm's correction this test fails


def test_a_group_of_one_side_is_left_out_and_one_of_few_is_never_flagged():
    values = np.arange(10.0)
    members = np.array([True] * 3 + [False, True] * 3 + [True])
    groups = np.array(["only"] * 3 + ["few"] * 2 + ["rest"] * 5)
    found = leakage_by_group(Scores(values, members), groups)
    assert {group.name for group in found} == {"few", "rest"}
    assert not any(group.flagged for group in found)


def test_classes_are_groups():
    generator = np.random.default_rng(8)
    found = leakage_by_group(_scores(generator, 50, 50), generator.integers(0, 3, 100))
    assert {group.name for group in found} == {"0", "1", "2"}


def test_what_the_gap_alone_gives_away():
    scores = Scores.of(np.ones(100), np.zeros(100))
    right = np.r_[np.ones(100), np.arange(100) % 2].astype(bool)
    (everybody,) = leakage_against_gap(scores, right)
    assert (everybody.on_members.value, everybody.on_others.value) == (1.0, 0.5)
    assert everybody.gap == 0.5
    assert everybody.explained == 0.75
    assert everybody.leakage.balanced_accuracy.value == 1
    names = [one.name for one in leakage_against_gap(scores, right, groups=np.arange(200) % 2)]
    assert names[0] == "everybody"
    assert sorted(names[1:]) == ["0", "1"]


@pytest.mark.parametrize(
    ("call", "fix"),
    [
        (lambda s: leakage_by_group(s, np.zeros(3)), "Give one axis of that length"),
        (lambda s: leakage_against_gap(s, np.zeros(3, dtype=bool)), "Say for each record"),
        (
            lambda s: most_at_risk_over_targets(np.zeros((2, 3)), np.zeros((3, 2))),
            "Give one score and one coin",
        ),
        (lambda s: most_at_risk(s, false_discoveries=0.0), "Give a probability"),
    ],
)
def test_refusals_say_what_to_do(call, fix):
    with pytest.raises(InvalidArgument, match=fix):
        call(Scores.of(np.ones(5), np.zeros(5)))


def test_nobody_is_found_where_no_threshold_finds_anybody():
    # Everyone who stands out has the score ∞, and there are too many others among them: the rule is to call nobody.
    side = np.where(np.arange(200) < 50, np.inf, 0.0)
    scores = Scores.of(side, side)
    assert measure(scores).at(0.01).tpr.value == 0
    assert all(group.at_common.value == 0 for group in leakage_by_group(scores, np.arange(400) % 2))


def test_intervals_and_flags_of_groups_share_the_failure():
    """Half of it for Holm's flags, and the other half for two intervals of each group: all of them hold together."""
    generator = np.random.default_rng(3)
    members = np.arange(600) % 2 == 0
    groups = np.repeat(["a", "b", "c"], 200)
    scores = Scores(generator.normal(size=600) + 0.5 * (members & (groups == "a")), members)
    found = leakage_by_group(scores, groups, confidence=0.9)
    assert [group.leakage.confidence for group in found] == pytest.approx([1 - 0.1 / 4 / 3] * 3)
    least = min(group.p_value for group in found)
    flagged = {
        share: any(
            group.flagged for group in leakage_by_group(scores, groups, confidence=1 - share * 2 * 3 * least)
        )
        for share in (0.99, 1.01)
    }
    assert flagged == {0.99: False, 1.01: True}
