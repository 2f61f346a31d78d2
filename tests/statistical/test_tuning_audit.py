"""A one-run audit of the whole of ``privet.tune``: real training runs with canaries, and the choice among them.

Coins put each of 600 canaries into the training data. A canary is a direction of its own, so a linear model has a weight that only it
moves, and the guess is the margin there. The bound is at 99 % confidence: a correct search fails the first test in at most 1 % of all seeds; the
seeds are fixed and were not chosen. The second test shows that the audit sees a search whose runs spend more than their plan.
"""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

import privet
from privet.auditing import OneRun
from privet.randomness import SeededNoise
from privet.scores import Scores
from privet.training import NegativeBinomialCount, recipe_grid, train
from privet.training.tuning import search

_CANARIES, _EPSILON, _DELTA = 600, 2.0, 1e-5


def zero_model():
    model = nn.Linear(_CANARIES, 2, bias=False)
    nn.init.zeros_(model.weight)
    return model


def audit_search(seed):
    """The lower bound on ε of one search, and the search."""
    generator = np.random.default_rng(seed)
    members = generator.random(_CANARIES) < 0.5
    labels = torch.from_numpy(generator.integers(0, 2, _CANARIES))
    inputs = torch.eye(_CANARIES)
    validation = torch.from_numpy(generator.normal(size=(100, _CANARIES)).astype("f4")), labels[:100]
    tuned = privet.tune(
        recipe_grid(zero_model, epochs=(4,), lot_size=(150,), learning_rate=(0.5, 2.0, 8.0), clip=(0.5,)),
        (inputs[members], labels[members]),
        validation=validation,
        epsilon=_EPSILON,
        delta=_DELTA,
        runs=NegativeBinomialCount(5.0),
        noise=SeededNoise(seed),
    )
    weights = tuned.model.weight.detach()
    own, other = weights[labels, torch.arange(_CANARIES)], weights[1 - labels, torch.arange(_CANARIES)]
    scores = Scores((own - other).numpy().astype(float), members)
    return OneRun(0.99).epsilon(scores, delta=_DELTA), tuned


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*δ is at least")
def test_the_audit_of_a_search_stays_below_its_claim():
    measured, tuned = audit_search(seed=1)
    assert measured < tuned.epsilon(delta=_DELTA) <= _EPSILON


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*δ is at least")
def test_runs_that_spend_more_than_their_plan_are_found(monkeypatch):
    """Runs of ε = 60 that say they keep to the plan. The audit saw 3.2 of them when the claim was 6, so it is 2 here."""
    planned = []
    split = search.split_budget

    def remember(*arguments):
        planned.append(split(*arguments))
        return planned[-1]

    def overspend(model, data, *, epsilon, **options):
        train(model, data, epsilon=60.0, **options)
        return SimpleNamespace(interrupted=False, plan=planned[-1].plans[0])

    monkeypatch.setattr(search, "split_budget", remember)
    monkeypatch.setattr(search, "train", overspend)
    measured, _ = audit_search(seed=2)
    assert measured > _EPSILON
