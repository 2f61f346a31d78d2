"""Audits of text where nothing leaks: coins on sentences and on users, and a model that saw neither.

False alarms of this file: each of the counts is binomial with a share of at most 5 %; the limit is four standard errors above it,
which chance exceeds in fewer than 1 of 10,000 runs. ``bench/text/nulls.py`` does the same on real text with trained models.
"""

import numpy as np
import pytest

from privet.attacks.text import (
    AuthorLoss,
    AuthorRatio,
    Authors,
    MinK,
    MinKPlusPlus,
    NGramModel,
    ReferenceRatio,
    SequenceLoss,
    Texts,
    ZlibRatio,
    run_authors,
    run_together,
)
from privet.auditing import OneRun
from privet.scores import Scores

WORDS, PEOPLE, EACH = 30, 60, 2


def draw_people(seed):
    """Texts of people with a taste of their own, so that scores differ much from person to person."""
    draw = np.random.default_rng([seed, 18])
    tastes = draw.dirichlet(np.full(WORDS, 0.2), size=PEOPLE)
    rows = [draw.choice(WORDS, size=9, p=tastes[person // EACH]) for person in range(PEOPLE * EACH)]
    return rows, np.array([f"{person // EACH:03d}" for person in range(PEOPLE * EACH)])


def fixed_scores():
    """What every attack says, once: the model never saw a coin, so the coins are all that varies."""
    rows, names = draw_people(0)
    target, public = (NGramModel(draw_people(seed)[0], vocabulary=WORDS) for seed in (1, 2))
    texts = Texts(tuple(" ".join(map(str, row)) for row in rows), tuple(rows))
    attacks = [SequenceLoss(), ZlibRatio(), MinK(), MinKPlusPlus(), ReferenceRatio([public])]
    yield from run_together(attacks, target, texts, np.arange(len(rows)) % 2 == 0)
    authors = Authors(tuple(rows), names)
    yield from run_authors([AuthorLoss(), AuthorRatio([public])], target, authors, np.arange(PEOPLE) % 2 == 0)


@pytest.mark.parametrize("runs", [30, pytest.param(1000, marks=pytest.mark.slow)])
def test_coins_that_no_model_saw_are_not_told(runs):
    for scores in fixed_scores():
        draw = np.random.default_rng(len(scores.attack))
        claimed = sum(
            OneRun().epsilon(
                Scores(scores.values, draw.random(len(scores.values)) < 0.5, scores.attack), delta=1e-5
            )
            > 0
            for _ in range(runs)
        )
        assert claimed <= runs * 0.05 + 4 * np.sqrt(runs * 0.05 * 0.95), scores.attack
