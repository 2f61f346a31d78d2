"""The blind classifier: it finds time and style, and nothing where a coin decided."""

import numpy as np
import pytest

from privet.attacks.preflight import blind_scores, text_shift, tokens_fit, vocabulary_is_public
from privet.attacks.text import ByteEncoder, NGramModel, WordEncoder
from privet.checks import Outcome
from privet.errors import InvalidArgument

pytest.importorskip("sklearn")


def letters(seed, count, year):
    draw = np.random.default_rng(seed)
    words = [f"word{number}" for number in range(200)]
    return [f"{' '.join(draw.choice(words, 12))} in {year + int(draw.integers(0, 3))}" for _ in range(count)]


def test_a_later_year_is_found_without_any_model():
    texts = letters(0, 80, 2010) + letters(1, 80, 2013)
    members = np.arange(160) < 80
    found = text_shift(texts, members)
    assert found.outcome is Outcome.WARNED
    assert "without" in found.finding.lower()
    scores = blind_scores(texts, members)
    assert (scores.of_members[:, None] > scores.of_others).mean() > 0.95


def test_style_alone_is_found():
    texts = [text if place < 80 else text.upper() for place, text in enumerate(letters(0, 160, 2010))]
    assert text_shift(texts, np.arange(160) < 80).outcome is Outcome.WARNED


def test_coins_are_not_found():
    """Twelve fair draws: each warns in at most 0.23 %, so one warning has probability below 3 %; two never."""
    texts = letters(3, 120, 2010)
    found = [
        text_shift(texts, np.random.default_rng([1, seed]).permutation(120) < 60, seed=seed).outcome
        for seed in range(6)
    ]
    assert found.count(Outcome.WARNED) == 0


def test_few_texts_are_skipped_and_bad_coins_refused():
    assert text_shift(letters(0, 20, 2010), np.arange(20) < 10).outcome is Outcome.SKIPPED
    with pytest.raises(InvalidArgument, match="True or False for each of 20 texts"):
        text_shift(letters(0, 20, 2010), np.ones(3, dtype=bool))
    with pytest.raises(InvalidArgument, match="True or False for each of 0 texts"):
        blind_scores([], np.ones(0, dtype=bool))


def test_bytes_are_public_and_other_vocabularies_must_say_so():
    words = WordEncoder(("a", "b"))
    assert vocabulary_is_public(ByteEncoder()).outcome is Outcome.PASSED
    assert vocabulary_is_public(words).outcome is Outcome.WARNED
    assert vocabulary_is_public(words, public=True).outcome is Outcome.PASSED


def test_a_tokenizer_of_another_model_is_found_by_its_loss():
    draw = np.random.default_rng(0)
    model = NGramModel([draw.integers(0, 10, 400)], vocabulary=40)
    assert tokens_fit(model, [draw.integers(0, 10, 30)]).outcome is Outcome.PASSED
    assert tokens_fit(model, [draw.integers(10, 40, 30)]).outcome is Outcome.WARNED
    assert tokens_fit(model, []).outcome is Outcome.SKIPPED
