"""Preflight: each check where it must warn, where it must not, and where it cannot say."""

import sys
import time

import numpy as np
import pytest
import torch
from torch import nn

from privet.attacks import LogisticClassifier, Probabilities, see
from privet.attacks.preflight import (
    answers_are_probabilities,
    answers_repeat,
    canaries_present,
    enough_records,
    exact_duplicates,
    label_shift,
    membership_without_a_model,
    near_duplicates,
    preflight,
    references_are_alike,
    references_have_their_own_coins,
    same_recipe,
)
from privet.attacks.shadows.recipe import CallableRecipe
from privet.checks import Outcome
from privet.errors import InvalidArgument
from privet.scores import Challenge, Records, References
from privet.views import BlackBox, LabelOnly

PASSED, WARNED, SKIPPED = Outcome.PASSED, Outcome.WARNED, Outcome.SKIPPED


def fair(count=600, width=6, *, seed=0, labels=None):
    generator = np.random.default_rng(seed)
    coin = generator.permutation(np.arange(count) % 2 == 0)
    return Challenge(Records(generator.normal(size=(count, width)), labels), coin)


def with_inputs(challenge, inputs):
    return Challenge(Records(inputs, challenge.records.labels), challenge.members)


class Words(LabelOnly):
    def labels(self, inputs):
        return np.zeros(len(inputs), dtype=np.int64)


class Answers(BlackBox):
    def __init__(self, answer):
        self._answer = answer

    def log_confidences(self, inputs):
        with np.errstate(divide="ignore"):
            return np.log(self._answer(inputs))


def even(inputs):
    return np.full((len(inputs), 2), 0.5)


# --- members and non-members are alike ---


def test_a_fair_challenge_shows_nothing_without_a_model():
    """43 fair challenges; each warns by mistake in 1 of 1,000 cases, so three of them in 1e-5."""
    found = [membership_without_a_model(fair(300, seed=seed), seed=seed) for seed in range(3)]
    for seed in range(3, 43):
        found.append(
            membership_without_a_model(fair(300, seed=seed), seed=seed, classifier=LogisticClassifier())
        )
    assert sum(check.outcome is WARNED for check in found) < 3
    assert {check.outcome for check in found} <= {PASSED, WARNED}


def test_a_shift_shows_without_a_model():
    challenge = fair()
    inputs = challenge.records.inputs.copy()
    inputs[challenge.members, 2] += 0.7
    check = membership_without_a_model(with_inputs(challenge, inputs))
    assert check.outcome is WARNED
    assert "fair coin" in check.advice


def test_a_shift_of_images_shows_in_their_brightness():
    generator = np.random.default_rng(1)
    challenge = fair(400)
    images = generator.integers(0, 200, size=(400, 28, 28), dtype=np.uint8)
    assert membership_without_a_model(with_inputs(challenge, images)).outcome is PASSED
    images[challenge.members] += 4
    assert membership_without_a_model(with_inputs(challenge, images)).outcome is WARNED


def test_a_shift_of_texts_shows_in_their_words():
    generator = np.random.default_rng(2)
    challenge = fair(400)
    texts = np.array([" ".join(generator.choice(["a", "b", "c", "d"], 12)) for _ in range(400)])
    assert membership_without_a_model(with_inputs(challenge, texts)).outcome is PASSED
    dated = np.array(
        [f"{text} 2024" if member else text for text, member in zip(texts, challenge.members, strict=True)]
    )
    assert membership_without_a_model(with_inputs(challenge, dated)).outcome is WARNED


def test_without_scikit_learn_it_is_skipped_with_the_reason(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn", None)
    check = membership_without_a_model(fair())
    assert check.outcome is SKIPPED
    assert "scikit-learn" in check.finding


def test_a_few_records_are_too_few_to_learn_from():
    assert membership_without_a_model(fair(60)).outcome is SKIPPED


# --- labels ---


def test_labels_of_a_fair_challenge_are_alike():
    """200 fair challenges with common and rare classes: 0.2 false alarms are expected, and 5 have a chance of 2e-6."""
    found = []
    for seed in range(200):
        labels = np.random.default_rng(1000 + seed).geometric(0.3, size=400)
        found.append(label_shift(fair(400, seed=seed, labels=labels)))
    assert sum(check.outcome is WARNED for check in found) < 5


def test_a_shift_of_labels_is_found():
    challenge = fair()
    labels = np.empty(600, dtype=np.int64)
    labels[challenge.members] = np.arange(300) % 3
    labels[~challenge.members] = np.arange(300) % 2
    check = label_shift(Challenge(Records(challenge.records.inputs, labels), challenge.members))
    assert check.outcome is WARNED
    assert "0.333" in check.finding


def test_labels_that_are_missing_or_of_one_class_say_nothing():
    assert label_shift(fair()).outcome is SKIPPED
    assert label_shift(fair(labels=np.zeros(600, dtype=np.int64))).outcome is PASSED


# --- duplicates ---


@pytest.mark.parametrize("kind", ["float", "image", "text"])
def test_a_record_on_both_sides_is_found(kind):
    challenge = fair()
    inputs = challenge.records.inputs
    if kind == "image":
        inputs = (100 * inputs).astype(np.int16).reshape(600, 2, 3)
    if kind == "text":
        inputs = np.array([f"text number {i}" for i in range(600)], dtype=object)
    assert exact_duplicates(with_inputs(challenge, inputs)).outcome is PASSED
    inputs = inputs.copy()
    inputs[np.flatnonzero(challenge.members)[0]] = inputs[np.flatnonzero(~challenge.members)[0]]
    check = exact_duplicates(with_inputs(challenge, inputs))
    assert check.outcome is WARNED
    assert check.finding.startswith("2 of 600 records have an equal one on the other side, 0 have")


def test_copies_within_a_side_are_warned_of_when_they_are_many():
    challenge = fair()
    members = np.flatnonzero(challenge.members)
    for copies, outcome in ((2, PASSED), (30, WARNED)):
        inputs = challenge.records.inputs.copy()
        inputs[members[:copies]] = inputs[members[0]]
        check = exact_duplicates(with_inputs(challenge, inputs))
        assert check.outcome is outcome
        assert f"0 of 600 records have an equal one on the other side, {copies} have" in check.finding


def test_minus_zero_is_zero():
    inputs = np.array([[0.0, 1.0], [-0.0, 1.0], [2.0, 2.0]])
    assert exact_duplicates(Challenge(Records(inputs), np.array([True, False, True]))).outcome is WARNED


@pytest.mark.parametrize("width", [6, 500])
def test_near_copies_on_the_other_side_are_found(width):
    challenge = fair(2000, width)
    assert near_duplicates(challenge, fpr=0.01).outcome is PASSED
    inputs = challenge.records.inputs.copy()
    members, others = np.flatnonzero(challenge.members), np.flatnonzero(~challenge.members)
    noise = np.random.default_rng(1).normal(size=(100, width))
    inputs[others[:100]] = inputs[members[:100]] + 0.005 * noise
    check = near_duplicates(with_inputs(challenge, inputs), fpr=0.01)
    assert check.outcome is WARNED
    assert 190 <= int(check.finding.split()[0]) <= 210
    assert near_duplicates(with_inputs(challenge, inputs), fpr=0.2).outcome is PASSED


def test_in_few_columns_neighbours_are_near_by_chance():
    assert near_duplicates(fair(3000, 1), fpr=0.01).outcome is PASSED
    assert near_duplicates(fair(3000, 2), fpr=0.01).outcome is PASSED


@pytest.mark.parametrize("seed", range(3))
def test_few_directions_among_many_columns_are_few_columns(seed):
    # One number and five marks, and a surface in fifty columns: neighbours are as near by chance as in one or two columns.
    generator = np.random.default_rng(seed)
    marked = np.c_[generator.normal(size=1000), generator.random((1000, 5)) < 0.4]
    bent = np.tanh(generator.normal(size=(1000, 2)) @ generator.normal(size=(2, 50)))
    for inputs in (marked, bent):
        assert near_duplicates(with_inputs(fair(1000), inputs), fpr=1e-3).outcome is PASSED
        copied = inputs.copy()
        coin = fair(1000).members
        copied[np.flatnonzero(coin)[:200]] = copied[np.flatnonzero(~coin)[:200]] + 1e-4
        if inputs is bent:
            assert near_duplicates(with_inputs(fair(1000), copied), fpr=1e-3).outcome is WARNED


def test_near_copies_on_one_side_and_equal_records_are_not_meant():
    challenge = fair(1000)
    inputs = challenge.records.inputs.copy()
    members, others = np.flatnonzero(challenge.members), np.flatnonzero(~challenge.members)
    inputs[members[:100]] = inputs[members[100:200]] + 1e-4
    inputs[members[300:400]] = inputs[others[:100]]
    assert near_duplicates(with_inputs(challenge, inputs), fpr=0.01).outcome is PASSED


def test_records_that_are_all_equal_have_no_near_copies():
    assert near_duplicates(with_inputs(fair(), np.ones((600, 3))), fpr=0.01).outcome is SKIPPED


@pytest.mark.slow
def test_a_hundred_thousand_images_take_seconds():
    challenge = fair(100_000, 784)
    began = time.process_time()
    exact_duplicates(challenge)
    near_duplicates(challenge, fpr=1e-3)
    assert time.process_time() - began < 60


# --- reference models ---


def test_a_reference_model_with_the_targets_own_coin_is_noticed():
    challenge = fair(600)
    generator = np.random.default_rng(3)
    coins = np.stack([generator.permutation(np.arange(600) % 2 == 0) for _ in range(6)])
    signals = generator.normal(size=(6, 1, 600))
    assert references_have_their_own_coins(challenge, References(signals, coins)).outcome is PASSED
    for shared in (challenge.members, ~challenge.members):
        check = references_have_their_own_coins(
            challenge, References(signals, np.concatenate([coins[:5], shared[None]]))
        )
        assert check.outcome is WARNED
        assert check.finding.startswith("1 of 6 ")
    assert references_have_their_own_coins(challenge, None).outcome is SKIPPED
    everyone = np.ones((2, 600), dtype=bool)
    assert references_have_their_own_coins(challenge, References(signals[:2], everyone)).outcome is PASSED


# --- the target ---


@pytest.mark.parametrize("layer", [nn.Dropout(0.5), nn.BatchNorm1d(6)], ids=["dropout", "batch norm"])
def test_a_model_that_is_served_in_training_mode_is_noticed(layer):
    module = nn.Sequential(layer, nn.Linear(6, 3), nn.Softmax(1))
    challenge = fair()

    def answer(rows):
        with torch.no_grad():
            return module(torch.from_numpy(rows).float()).numpy()

    assert answers_repeat(Probabilities(answer), challenge).outcome is WARNED
    module.eval()
    assert answers_repeat(Probabilities(answer), challenge).outcome is PASSED
    module.train()
    assert answers_repeat(see(module[:2]), challenge).outcome is PASSED  # a view of a module evaluates it


def test_labels_that_change_are_noticed():
    class Dice(LabelOnly):
        generator = np.random.default_rng(1)

        def labels(self, inputs):
            return self.generator.integers(0, 3, len(inputs))

    assert answers_repeat(Dice(), fair()).outcome is WARNED
    assert answers_repeat(Words(), fair()).outcome is PASSED


def test_answers_that_are_not_probabilities_are_noticed():
    assert answers_are_probabilities(Answers(even), fair()).outcome is PASSED
    assert answers_are_probabilities(Answers(lambda x: 2 * even(x)), fair()).outcome is WARNED
    assert answers_are_probabilities(Answers(lambda x: np.nan * even(x)), fair()).outcome is WARNED
    refused = answers_are_probabilities(Probabilities(lambda x: 7 + even(x)), fair())
    assert refused.outcome is WARNED
    assert "Logits" in refused.advice
    assert answers_are_probabilities(Words(), fair()).outcome is SKIPPED


# --- references ---


def right(rate, count, generator):
    """φ of a model that is right in that share."""
    return np.where(generator.uniform(size=count) < rate, 2.0, -2.0)


@pytest.mark.parametrize(
    ("inside", "outside", "outcome"), [(0.95, 0.8, PASSED), (0.8, 0.8, WARNED), (0.95, 0.6, WARNED)]
)
@pytest.mark.parametrize("models", [1, 8])
def test_references_that_are_less_accurate_are_noticed(inside, outside, outcome, models):
    generator = np.random.default_rng(3)
    count = 2000
    challenge = fair(count, labels=np.zeros(count, dtype=np.int64))
    target = np.where(challenge.members, right(0.95, count, generator), right(0.8, count, generator))
    first = 1 / (1 + np.exp(-target))
    view = Answers(lambda rows: np.stack([first[: len(rows)], 1 - first[: len(rows)]], axis=1))
    members = np.stack([generator.permutation(np.arange(count) % 2 == 0) for _ in range(models)])
    signals = np.stack(
        [np.where(m, right(inside, count, generator), right(outside, count, generator)) for m in members]
    )
    check = references_are_alike(view, challenge, References(signals[:, None], members))
    assert check.outcome is outcome
    assert "trained on" in check.finding


def test_without_references_or_labels_there_is_nothing_to_compare():
    signals, members = np.zeros((1, 1, 600)), np.ones((1, 600), dtype=bool)
    assert references_are_alike(Answers(even), fair(), None).outcome is SKIPPED
    assert references_are_alike(Answers(even), fair(), References(signals, members)).outcome is SKIPPED


def test_recipes_are_compared_by_their_description():
    def recipe(version):
        return CallableRecipe(lambda inputs, labels, seed: Answers(even), version=version)

    assert same_recipe(recipe("a"), recipe("a")).outcome is PASSED
    assert same_recipe(recipe("a"), recipe("b")).outcome is WARNED
    assert same_recipe(recipe("a"), recipe(None)).outcome is SKIPPED
    assert same_recipe(None, recipe("a")).outcome is SKIPPED


# --- the design ---


@pytest.mark.parametrize(("fpr", "outcome"), [(0.1, PASSED), (0.03, WARNED), (1e-3, WARNED)])
def test_records_must_be_enough_for_the_rate_asked_for(fpr, outcome):
    check = enough_records(fair(), fpr=fpr)
    assert check.outcome is outcome
    assert "0.0033" in check.finding
    if outcome is WARNED:
        assert f"{10 / fpr:.0f} non-members" in check.advice


def test_one_side_alone_is_warned_of():
    lonely = Challenge(fair().records, np.ones(600, dtype=bool))
    assert enough_records(lonely, fpr=0.1).outcome is WARNED


def test_a_rate_that_is_none_is_refused():
    with pytest.raises(InvalidArgument, match="fpr"):
        enough_records(fair(), fpr=0.0)


def test_canaries_are_asked_for():
    assert canaries_present(None).outcome is SKIPPED
    assert canaries_present(0).outcome is WARNED
    assert canaries_present(1000).outcome is PASSED


# --- all together ---


def test_all_checks_are_run_and_never_raise():
    labels = np.arange(600) % 2
    found = preflight(Answers(even), fair(labels=labels), canaries=100, fpr=0.05)
    assert len({check.name for check in found}) == len(found) == 11
    assert all(check.outcome is not WARNED for check in found)
    assert all(check.finding for check in found)


def test_warnings_come_with_advice():
    lonely = Challenge(Records(np.ones((50, 2)), np.zeros(50, dtype=np.int64)), np.arange(50) < 25)
    found = preflight(Answers(lambda x: 3 * even(x)), lonely, canaries=0, fpr=1e-4)
    warned = [check for check in found if check.outcome is WARNED]
    assert len(warned) == 4
    assert all(check.advice for check in warned)
