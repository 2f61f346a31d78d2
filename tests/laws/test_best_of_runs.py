"""The best of a random number of runs: exact procedures, enumerated, never exceed the claim."""

import dataclasses
import math
import sys

import numpy as np
import pytest
from tests.oracle.repeated_runs import hockey_stick, number_of_runs, score_orders, shown

from privet import caveats, events
from privet.accounting import Pure, account
from privet.accounting.best_of import NegativeBinomialRuns, PoissonRuns
from privet.adjacency import AddRemove, ReplaceOne
from privet.documents import event_from_json, event_to_json
from privet.errors import InvalidArgument, NotProved
from privet.events import BestOfNegativeBinomial, BestOfPoisson, Gaussian, Opaque, Repeat

_EPSILONS = (0.0, 0.3, 0.7, 1.1, 1.6, 2.2, 3.0)


def laws_of(*candidates):
    return [
        BestOfPoisson(candidates, 1.0),
        BestOfPoisson(candidates, 6.0),
        BestOfNegativeBinomial(candidates, 1.0, 0.5),
        BestOfNegativeBinomial(candidates, 1.0, 0.1),
        BestOfNegativeBinomial(candidates, 0.0, 0.05),
        BestOfNegativeBinomial(candidates, -0.5, 0.05),
        BestOfNegativeBinomial(candidates, 3.0, 0.3),
    ]


def worst_pair(epsilon, delta):
    """The pair that every (ε, δ) mechanism is a post-processing of (Kairouz, Oh & Viswanath 2015)."""
    high = (1 - delta) * math.exp(epsilon) / (1 + math.exp(epsilon))
    return np.array([delta, high, 1 - delta - high, 0.0]), np.array([0.0, 1 - delta - high, high, delta])


def worst_seen(event, pairs):
    """The largest H_y over the pairs and all orders of scores, at each ε."""
    runs, _ = number_of_runs(event)
    found, known = np.zeros(len(_EPSILONS)), {}
    for p, q in pairs:
        for scores in score_orders(len(p)):
            first, second = shown(p, scores, runs, known), shown(q, scores, runs, known)
            found = np.maximum(found, [hockey_stick(first, second, epsilon) for epsilon in _EPSILONS])
    return found


def check_claim(event, pairs):
    claim = account(event, adjacency=AddRemove())
    claimed = np.array([claim.delta(epsilon=epsilon) for epsilon in _EPSILONS])
    seen = worst_seen(event, pairs)
    assert (seen <= claimed + 1e-12).all(), (event, seen - claimed)
    return seen, claimed


@pytest.mark.parametrize("event", laws_of(Opaque(epsilon=0.7, delta=0.05)), ids=repr)
def test_every_order_of_scores_stays_below_the_claim(event):
    seen, claimed = check_claim(event, [worst_pair(0.7, 0.05)])
    assert claimed[3] <= 3 * seen[3] + 1e-3  # the claim says something


@pytest.mark.slow
@pytest.mark.parametrize("event", laws_of(Opaque(epsilon=0.7, delta=0.05)), ids=repr)
def test_random_mechanisms_stay_below_the_claim(event):
    """Every mechanism that is (ε, δ)-private is a random function of the worst pair's outcome."""
    generator = np.random.default_rng(0)
    p, q = worst_pair(0.7, 0.05)
    channels = [generator.dirichlet(np.full(5, 0.3), size=4) for _ in range(4)]
    check_claim(event, [(p @ channel, q @ channel) for channel in channels])


@pytest.mark.parametrize("law", [1, *(pytest.param(law, marks=pytest.mark.slow) for law in (3, 4))])
def test_candidates_that_differ_stay_below_the_claim(law):
    """Which candidate ran is part of the result, so a score may use it."""
    event = laws_of(Opaque(epsilon=0.3), Opaque(epsilon=1.0))[law]
    (p1, q1), (p2, q2) = worst_pair(0.3, 0.0), worst_pair(1.0, 0.0)
    for share in (0.2, 0.7):
        p = np.concatenate([share * p1[1:3], (1 - share) * p2[1:3]])
        q = np.concatenate([share * q1[1:3], (1 - share) * q2[1:3]])
        check_claim(event, [(p, q)])


@pytest.mark.parametrize("event", laws_of(Gaussian(2.0)), ids=repr)
def test_the_law_of_the_number_of_runs(event):
    """The mean and f′ in closed form are those of the terms."""
    runs, lost = number_of_runs(event)
    k = np.arange(runs.size)
    assert lost < 1e-9
    assert runs @ k == pytest.approx(event.mean, rel=1e-6)
    law = (
        PoissonRuns(event.mean)
        if isinstance(event, BestOfPoisson)
        else NegativeBinomialRuns(event.mean, event.shape, event.stop)
    )
    x = np.array([0.0, 0.3, 0.8, 0.95])
    slopes = np.polynomial.polynomial.polyval(x, (k * runs)[1:])
    assert np.exp(law.log_slope(x)) == pytest.approx(slopes, rel=1e-6)
    masses = np.array([0.3, 0.5, 0.15, 0.05])
    rises = np.diff(np.polynomial.polynomial.polyval(np.cumsum(np.append(0.0, masses)), runs))
    assert law.increments(masses) == pytest.approx(rises, rel=1e-6)


@pytest.mark.parametrize("delta", [pytest.param(1e-3, marks=pytest.mark.slow), 1e-6])
def test_a_tuned_run_costs_more_than_one_run_and_more_with_more_runs(delta):
    one = account(Repeat(Gaussian(20.0), 100), adjacency=AddRemove()).epsilon(delta=delta)
    for make in (
        lambda mean: BestOfPoisson((Repeat(Gaussian(20.0), 100),), mean),
        lambda mean: BestOfNegativeBinomial((Repeat(Gaussian(20.0), 100),), 1.0, 1 / mean),
    ):
        found = [account(make(mean), adjacency=AddRemove()).epsilon(delta=delta) for mean in (1.2, 5, 40)]
        assert one < found[0] < found[1] < found[2]


def test_a_choice_that_is_forgotten_is_found(monkeypatch):
    """The mutation: the best of many runs is priced as one run."""
    event = BestOfPoisson((Opaque(epsilon=0.7, delta=0.05),), 6.0)
    monkeypatch.setattr(sys.modules["privet.accounting.privacy_loss"], "best_of", lambda run, law: run)
    with pytest.raises(AssertionError):
        check_claim(event, [worst_pair(0.7, 0.05)])


def test_a_mean_that_is_halved_is_found(monkeypatch):
    event = BestOfNegativeBinomial((Opaque(epsilon=0.7, delta=0.05),), 1.0, 0.05)
    fewer = dataclasses.replace(event, stop=0.5)
    kept = sys.modules["privet.accounting.best_of"].law_of
    monkeypatch.setattr(sys.modules["privet.accounting.privacy_loss"], "law_of", lambda event: kept(fewer))
    with pytest.raises(AssertionError):
        check_claim(event, [worst_pair(0.7, 0.05)])


@pytest.mark.slow
def test_both_orders_of_neighbours_count():
    """Sampled runs leak more in one order; the best of them is bounded in both."""
    run = events.dp_sgd(noise_multiplier=0.8, sampling_rate=0.1, steps=4)
    claim = account(BestOfPoisson((run,), 5.0), adjacency=AddRemove())
    assert claim.epsilon(delta=1e-5) > account(run, adjacency=AddRemove()).epsilon(delta=1e-5)
    assert claim.epsilon_bounds(delta=1e-5).lower > 0
    assert caveats.Caveat.BEST_OF_SECRET_RUNS in claim.caveats


def test_documents_keep_the_event():
    for event in laws_of(Gaussian(2.0), Repeat(Gaussian(3.0), 4)):
        assert event_from_json(event_to_json(event)) == event


@pytest.mark.slow
def test_one_unit_exchanged_costs_more():
    event = BestOfPoisson((Gaussian(4.0),), 5.0)
    added, exchanged = (account(event, adjacency=a).epsilon(delta=1e-6) for a in (AddRemove(), ReplaceOne()))
    assert exchanged > 1.5 * added


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: BestOfPoisson((), 3.0), "at least one event"),
        (lambda: BestOfPoisson((3.0,), 3.0), "event"),
        (lambda: BestOfPoisson((Gaussian(1.0),), 0.5), "at least one run"),
        (lambda: BestOfPoisson((Gaussian(1.0),), math.inf), "finite"),
        (lambda: BestOfNegativeBinomial((Gaussian(1.0),), -1.0, 0.5), "above -1"),
        (lambda: BestOfNegativeBinomial((Gaussian(1.0),), 1.0, 0.0), "stop"),
        (lambda: BestOfNegativeBinomial((Gaussian(1.0),), 1.0, 1.0), "stop"),
    ],
)
def test_refusals(make, says):
    with pytest.raises(InvalidArgument, match=says):
        make()


def test_accountants_without_a_theorem_refuse():
    with pytest.raises(NotProved):
        account(BestOfPoisson((Opaque(epsilon=1.0),), 5.0), adjacency=AddRemove(), accountant=Pure())
