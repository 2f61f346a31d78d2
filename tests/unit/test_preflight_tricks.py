"""Tricks that make members and non-members differ, or references unlike the target: each is warned of."""

import itertools

import numpy as np
import pytest
from scipy.stats import hypergeom
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

from privet.attacks.preflight import (
    exact_duplicates,
    label_shift,
    membership_without_a_model,
    near_duplicates,
    recipe_of,
    references_are_alike,
    same_recipe,
)
from privet.attacks.preflight.columns import ColumnCounts, count_columns, largest_difference
from privet.attacks.preflight.false_alarms import LEVEL
from privet.attacks.preflight.images import read_images
from privet.attacks.preflight.near_pairs import log_tail_of_pairs
from privet.attacks.preflight.reference_losses import compare_losses
from privet.attacks.shadows.recipe import ScikitRecipe
from privet.checks import Outcome
from privet.pipeline import audit
from privet.scores import Challenge, Records, References
from privet.views import BlackBox

PASSED, WARNED = Outcome.PASSED, Outcome.WARNED


@pytest.fixture(scope="module")
def digits():
    data = load_digits()
    order = np.random.default_rng(0).permutation(1797)[:600]
    return data.data[order], data.target[order], np.arange(600) % 2 == 0


def challenge_of(inputs, labels, coin):
    return Challenge(Records(inputs, labels), coin)


# --- single columns ---


def test_counts_of_cuts_and_values_are_those_of_a_loop():
    generator = np.random.default_rng(0)
    table = np.c_[generator.integers(0, 3, 60), generator.normal(size=60), np.ones(60)].astype(np.float32)
    table[:20, 1] = np.nan
    coin = generator.random(60) < 0.4
    counts = count_columns(table, coin)
    naive = set()
    for column in (0, 1):
        values = table[:, column]
        for value in np.unique(values[~np.isnan(values)]):
            for inside, is_value in ((values <= value, False), (values == value, True)):
                naive.add((column, int(inside.sum()), int((inside & coin).sum()), is_value))
        missing = np.isnan(values)
        naive.add((column, int(missing.sum()), int((missing & coin).sum()), True))
    found = list(zip(counts.columns, counts.records, counts.members, counts.is_value, strict=True))
    found = {(int(c), int(k), int(m), bool(v)) for c, k, m, v in found}
    assert found <= naive
    assert (1, 20, int(coin[:20].sum()), True) in found  # missing values are one value
    for value in range(3):
        own = table[:, 0] == value
        assert (0, int(own.sum()), int((own & coin).sum()), True) in found
    assert not any(column == 2 for column, *_ in found)  # a constant says nothing


def test_the_probability_of_a_difference_is_exact_and_counts_the_tests():
    records, members = np.array([30, 30, 2]), np.array([28, 15, 2])
    counts = ColumnCounts(np.arange(3), records, members, np.array([True, False, True]))
    found = largest_difference(counts, 50, 50)
    # Two records can never reach the level, so two tests are counted, not three (Tarone).
    assert found.p_value == pytest.approx(2 * 2 * hypergeom.sf(27, 100, 30, 50))
    assert (found.column, found.of_members, found.of_others, found.is_value) == (0, 28, 2, True)
    alone = ColumnCounts(np.array([0]), np.array([2]), np.array([2]), np.array([True]))
    assert largest_difference(alone, 50, 50) is None


def test_the_smallest_of_many_differences_is_no_alarm():
    """300 fair columns: without the correction the smallest p-value is below the level in half of the cases."""
    generator = np.random.default_rng(1)
    coin = np.arange(400) % 2 == 0
    alarms = naive = 0
    for _ in range(20):
        found = largest_difference(
            count_columns(generator.normal(size=(400, 300)).astype(np.float32), coin), 200, 200
        )
        alarms += found.significant
        tests = 300 * 10  # fewer than there are
        naive += found.p_value / tests <= LEVEL
    assert alarms < 3  # 20 · 0.0022 are expected; three have a chance of 1e-5
    assert naive > 10


@pytest.mark.parametrize("share", [1.0, 0.1])
def test_a_mark_in_one_column_is_found(digits, share):
    inputs, labels, coin = digits
    marked = inputs.copy()
    others = np.flatnonzero(~coin)
    marked[others[: int(share * len(others))], 7] = 15.0
    check = membership_without_a_model(challenge_of(marked, labels, coin))
    assert check.outcome is WARNED
    assert "One column (number 7) tells them apart" in check.finding


def _brighter(rows, generator):
    return rows * 1.01


def _halved_precision(rows, generator):
    return rows.astype(np.float16).astype(np.float64)


def _offset(rows, generator):
    return rows + 1e-3 * (np.arange(rows.shape[1]) == 20)


def _other_missing_code(rows, generator):
    return np.where(rows == -1, np.nan, rows)


@pytest.mark.parametrize("trick", [_brighter, _halved_precision, _offset, _other_missing_code])
def test_another_preparation_of_one_side_is_found(digits, trick):
    inputs, labels, coin = digits
    generator = np.random.default_rng(2)
    prepared = inputs / 16.0 + 1 / 3 * (trick is _halved_precision)
    prepared[generator.random(600) < 0.1, 3] = -1
    assert membership_without_a_model(challenge_of(prepared, labels, coin)).outcome is PASSED
    prepared[~coin] = trick(prepared[~coin], generator)
    assert membership_without_a_model(challenge_of(prepared, labels, coin)).outcome is WARNED


def test_compression_of_one_side_is_found():
    generator = np.random.default_rng(3)
    smooth = generator.normal(size=(400, 8, 8)).repeat(4, 1).repeat(4, 2) * 30 + 128
    images = np.clip(smooth + 4 * generator.normal(size=smooth.shape), 0, 255).round().astype(np.uint8)
    coin = np.arange(400) % 2 == 0
    assert membership_without_a_model(challenge_of(images, None, coin)).outcome is PASSED
    at = np.arange(8)
    cosines = np.cos(np.pi / 8 * (at + 0.5) * at[:, None]) / 2
    cosines[0] /= 2**0.5
    blocks = images[~coin].reshape(-1, 4, 8, 4, 8).transpose(0, 1, 3, 2, 4).astype(float)
    rounded = np.rint(cosines @ blocks @ cosines.T / 10) * 10
    pressed = (cosines.T @ rounded @ cosines).transpose(0, 1, 3, 2, 4).reshape(-1, 32, 32)
    images[~coin] = np.clip(np.rint(pressed), 0, 255)
    assert membership_without_a_model(challenge_of(images, None, coin)).outcome is WARNED


def test_sorted_rows_are_no_difference(digits):
    inputs, labels, coin = digits
    order = np.r_[np.flatnonzero(coin), np.flatnonzero(~coin)[np.argsort(inputs[~coin].sum(1))]]
    fair = challenge_of(inputs[order], labels[order], coin[order])
    assert membership_without_a_model(fair).outcome is PASSED
    assert label_shift(fair).outcome is PASSED
    assert near_duplicates(fair, fpr=1e-3).outcome is PASSED


# --- labels ---


def test_labels_that_were_shuffled_on_one_side_are_found(digits):
    inputs, labels, coin = digits
    generator = np.random.default_rng(4)
    for side in (coin, ~coin):
        some = generator.permutation(np.flatnonzero(side))[:60]
        shuffled = labels.copy()
        shuffled[some] = labels[generator.permutation(some)]
        check = label_shift(challenge_of(inputs, shuffled, coin))
        assert check.outcome is WARNED
        assert "labels of both sides from one source" in check.advice


def test_classes_that_have_other_numbers_on_one_side_are_found(digits):
    inputs, labels, coin = digits
    numbers = np.arange(10)
    numbers[[3, 8]] = 8, 3
    renamed = np.where(coin, labels, numbers[labels])
    assert label_shift(challenge_of(inputs, renamed, coin)).outcome is WARNED


def test_labels_that_are_wrong_on_both_sides_are_no_difference(digits):
    inputs, labels, coin = digits
    generator = np.random.default_rng(5)
    some = generator.permutation(600)[:180]
    noisy = labels.copy()
    noisy[some] = labels[generator.permutation(some)]
    assert label_shift(challenge_of(inputs, noisy, coin)).outcome is PASSED


# --- near pairs ---


@pytest.mark.parametrize(("members", "others", "pairs"), [(3, 5, 3), (4, 4, 4), (2, 7, 2), (5, 3, 1)])
def test_the_probability_of_pairs_across_is_that_of_all_orders(members, others, pairs):
    total = members + others
    counts = []
    for inside in itertools.combinations(range(total), members):
        coin = np.isin(np.arange(total), inside)
        counts.append(int((coin[: 2 * pairs : 2] != coin[1 : 2 * pairs : 2]).sum()))
    for across in range(pairs + 1):
        expected = np.mean(np.array(counts) >= across)
        assert np.exp(log_tail_of_pairs(across, pairs, members, others)) == pytest.approx(expected)


def _moved(images, generator):
    moved = np.stack([np.roll(image, (generator.choice([-1, 1]), 0), (0, 1)) for image in images])
    return moved + 0.1 * generator.normal(size=moved.shape)


def _mirrored(images, generator):
    return images[:, :, ::-1]


def _noisy(images, generator):
    return images + 0.5 * generator.normal(size=images.shape)


@pytest.mark.parametrize("trick", [_moved, _mirrored, _noisy])
def test_copies_that_were_changed_a_little_are_found(digits, trick):
    inputs, labels, coin = digits
    members, others = np.flatnonzero(coin)[:45], np.flatnonzero(~coin)[:45]
    copied = inputs.copy()
    copies = trick(inputs[members].reshape(-1, 8, 8), np.random.default_rng(6)).reshape(-1, 64)
    copied[others] = copies
    check = near_duplicates(challenge_of(copied, labels, coin), fpr=1e-3)
    assert check.outcome is WARNED
    assert "nearest pairs" in check.finding


def test_copies_that_coins_spread_are_not_found_by_their_sides():
    """Half of the copies across and half within, as coins put them: their number across is no surprise."""
    generator = np.random.default_rng(7)
    rows = generator.normal(size=(600, 40))
    rows[300:] = rows[:300] + 0.8 * generator.normal(size=(300, 40))
    coin = generator.permutation(np.arange(600) % 2 == 0)
    assert near_duplicates(Challenge(Records(rows), coin), fpr=1e-3).outcome is PASSED


@pytest.mark.parametrize("shape", [(64,), (8, 8), (8, 8, 1), (1, 8, 8)])
def test_images_are_recognised_in_any_form(digits, shape):
    inputs = digits[0].reshape(-1, *shape)
    assert np.array_equal(read_images(inputs)[..., 0], digits[0].reshape(-1, 8, 8))
    assert read_images(np.random.default_rng(0).normal(size=(100, 64))) is None
    assert read_images(np.array(["a", "b"])) is None


def test_channels_of_flat_images_are_recognised():
    generator = np.random.default_rng(8)
    images = generator.normal(size=(50, 4, 4, 3)).repeat(4, 1).repeat(4, 2).astype(np.float32)
    first = np.moveaxis(images, 3, 1)
    for flat in (images.reshape(50, -1), first.reshape(50, -1)):
        assert np.array_equal(read_images(flat), images)


# --- equal records ---


def test_equal_rows_of_a_coarse_table_are_no_copies_unless_they_choose_their_side():
    generator = np.random.default_rng(9)
    table = generator.integers(0, 3, size=(600, 5))
    coin = np.arange(600) % 2 == 0
    check = exact_duplicates(challenge_of(table, None, coin))
    assert check.outcome is PASSED
    assert "are common too" in check.finding
    copied = table.copy()
    copied[~coin] = table[coin]
    assert exact_duplicates(challenge_of(copied, None, coin)).outcome is WARNED


# --- references ---


class Phi(BlackBox):
    """A model with two classes and the given φ of the first."""

    def __init__(self, phi):
        self._phi = phi

    def log_confidences(self, inputs):
        return np.stack([-np.logaddexp(0, -self._phi), -np.logaddexp(0, self._phi)], axis=1)


def study(generator, *, stretch=1.0, models=9, records=500):
    """φ of models of one recipe; ``stretch`` is that of a model that was trained longer. The signs stay."""
    difficulty = generator.normal(size=records) + 1
    members = np.stack([generator.permutation(np.arange(records) % 2 == 0) for _ in range(models)])
    phi = (
        difficulty + 0.5 * generator.normal(size=(models, records)) + 0.1 * generator.normal(size=(models, 1))
    )
    phi = np.where(members, np.abs(phi) + 1, phi)
    phi[0] *= stretch
    return phi, members


@pytest.mark.parametrize(("stretch", "outcome"), [(1.0, PASSED), (1.4, WARNED), (0.7, WARNED)])
def test_references_that_are_as_accurate_and_not_as_sure_are_noticed(stretch, outcome):
    phi, members = study(np.random.default_rng(10), stretch=stretch)
    challenge = challenge_of(np.zeros((500, 1)), np.zeros(500, dtype=np.int64), members[0])
    check = references_are_alike(Phi(phi[0]), challenge, References(phi[1:, None], members[1:]))
    assert check.outcome is outcome
    assert "φ" in check.finding


def test_one_more_reference_is_seldom_unlike_the_others():
    """60 targets of the references' own recipe: 0.13 alarms are expected; three have a chance of 4e-4."""
    alarms = 0
    for seed in range(60):
        phi, members = study(np.random.default_rng(100 + seed), models=3 + seed % 8)
        alarms += compare_losses(phi[0], members[0], phi[1:], members[1:]).significant
    assert alarms < 3


def test_few_records_are_not_compared_and_equal_signals_are_alike():
    phi, members = study(np.random.default_rng(11), records=30)
    assert compare_losses(phi[0], members[0], phi[1:], members[1:]) is None
    coins = np.arange(2000).reshape(4, 500) % 2 == 0
    assert not compare_losses(np.ones(500), coins[0], np.ones((3, 500)), coins[1:]).significant


def test_a_fitted_estimator_brings_its_own_recipe():
    declared = ScikitRecipe(LogisticRegression(C=1.0, random_state=5))
    rows, labels = np.random.default_rng(0).normal(size=(40, 3)), np.arange(40) % 2
    same = LogisticRegression(C=1.0, random_state=9).fit(rows, labels)
    other = LogisticRegression(C=0.01).fit(rows, labels)
    assert same_recipe(recipe_of(same, declared), declared).outcome is PASSED
    assert same_recipe(recipe_of(other, declared), declared).outcome is WARNED
    assert recipe_of(object(), declared) is declared
    assert recipe_of(same, None) is None


def test_an_audit_compares_the_targets_recipe_with_that_of_its_references():
    generator = np.random.default_rng(12)
    rows, labels = generator.normal(size=(120, 4)), np.arange(120) % 2
    target = LogisticRegression(C=1e-4).fit(rows[:60], labels[:60])
    outcomes = {}
    for c in (1e-4, 10.0):
        report = audit(
            target,
            (rows[:60], labels[:60]),
            (rows[60:], labels[60:]),
            recipe=ScikitRecipe(LogisticRegression(C=c)),
            references=2,
            progress=False,
        )
        checks = {check.name: check.outcome for check in report.audits[0].checks}
        outcomes[c] = checks["shadow recipe = target recipe"]
    assert outcomes == {1e-4: PASSED, 10.0: WARNED}
