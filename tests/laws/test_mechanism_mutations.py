"""Mistakes that people make, put into each mechanism on purpose: an ε measured from its samples must exceed the claim.

The unbroken mechanism must pass the same measurement. Each measurement may raise a false alarm with probability 1e-3 at
most; where it has slack, far less. It shares no code with the mechanisms or with the accountants.
"""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

from privet import account
from privet.adjacency import AddRemove, ReplaceOne
from privet.mechanisms import (
    BinaryAttributes,
    BoxSum,
    CountWhere,
    DiscreteGaussian,
    DiscreteLaplace,
    ExponentialMechanism,
    Gaussian,
    HistogramOf,
    IntervalExponential,
    KaryResponse,
    Laplace,
    PermuteAndFlip,
    RandomizedResponse,
    ReportNoisyMax,
    SmallDatabase,
    SparseVector,
    Sum,
    SumOfScores,
    SumUtility,
    TallyOf,
    VectorSum,
    gaussian,
    grids,
    interval,
    laplace,
    queries,
    randomized_response,
    selection,
    small_database,
    sparse_vector,
    vector_queries,
)
from privet.randomness import SeededNoise

_PATH = Path(__file__).parents[1] / "statistical" / "lower_bound.py"
_SPEC = importlib.util.spec_from_file_location("privet_tests_lower_bound", _PATH)
_MODULE = importlib.util.module_from_spec(_SPEC)
sys.modules[_SPEC.name] = _MODULE
_SPEC.loader.exec_module(_MODULE)
epsilon_lower_bound = _MODULE.epsilon_lower_bound

A, R = AddRemove(), ReplaceOne()
_FAILURE = 1e-3


def measured(sample, *, delta=0.0):
    """The ε that is certainly spent; ``sample`` gives outcomes under one neighbour or the other."""
    return epsilon_lower_bound(
        sample(False, SeededNoise(101)), sample(True, SeededNoise(202)), delta=delta, failure=_FAILURE
    )


def repeated(release, statistic, times):
    """Outcomes of many releases as numbers."""
    return lambda other, noise: np.array([statistic(release(other, noise)) for _ in range(times)])


def claimed(mechanism, delta=0.0):
    return account(mechanism.event, adjacency=mechanism.adjacency).epsilon(delta=delta)


def halved(sampler):
    """Half of the noise that was asked for."""
    return lambda scale, size, source: sampler(0.5 * scale, size, source)


# Independent coordinates of one release are independent samples of the mechanism for one count.


def coordinates(kind, scale, size=20_000):
    def sample(other, noise):
        return kind(BinaryAttributes(size), scale, A).release([[int(other)] * size], noise)

    return sample, kind(CountWhere(bool), scale, A)


@pytest.mark.parametrize("kind", [Laplace, DiscreteLaplace])
def test_laplace_with_half_the_noise(kind, monkeypatch):
    sample, one = coordinates(kind, 1.0)
    assert 0.85 < measured(sample) <= claimed(one)
    monkeypatch.setattr(laplace, "discrete_laplace", halved(laplace.discrete_laplace))
    assert measured(sample) > 1.5


@pytest.mark.parametrize("kind", [Gaussian, DiscreteGaussian])
def test_gaussian_with_half_the_noise(kind, monkeypatch):
    sample, one = coordinates(kind, 2.0)
    delta = 1e-3
    limit = claimed(one, delta)
    assert 0.4 * limit < measured(sample, delta=delta) <= limit
    monkeypatch.setattr(gaussian, "discrete_gaussian", halved(gaussian.discrete_gaussian))
    assert measured(sample, delta=delta) > 1.2 * limit


def test_a_vector_with_half_the_noise_and_one_that_is_not_clipped(monkeypatch):
    mechanism = Gaussian(VectorSum(1, 1.0), 2.0, A)
    release = lambda other, noise: mechanism.release([[50.0]] if other else [], noise)  # noqa: E731
    sample = repeated(release, lambda answer: answer[0], 1500)
    limit = claimed(mechanism, 2e-2)
    assert 0.2 * limit < measured(sample, delta=2e-2) <= limit
    with monkeypatch.context() as broken:
        broken.setattr(gaussian, "rounded_gaussian", halved(gaussian.rounded_gaussian))
        assert measured(sample, delta=2e-2) > limit
    with monkeypatch.context() as broken:
        broken.setattr(vector_queries.VectorSum, "_clip", lambda self, rows, grid: rows)
        assert measured(sample, delta=2e-2) > 2 * limit


@pytest.mark.parametrize("kind", [Laplace, Gaussian])
def test_a_sum_that_is_not_clamped(kind, monkeypatch):
    mechanism = kind(Sum(0.0, 1.0), 1.0, A)
    delta = 0.0 if kind is Laplace else 1e-3
    sample = repeated(lambda other, noise: mechanism.release([30.0] if other else [], noise), float, 1500)
    limit = claimed(mechanism, delta)
    assert measured(sample, delta=delta) <= limit
    monkeypatch.setattr(
        grids.StepGrid,
        "fine_steps",
        lambda self, values, low, high: np.rint(values / self.fine).astype(np.int64),
    )
    assert measured(sample, delta=delta) > 1.2 * limit


@pytest.mark.parametrize("kind", [Laplace, Gaussian])
def test_a_sum_whose_exchange_forgets_the_factor_two(kind, monkeypatch):
    delta = 0.0 if kind is Laplace else 1e-2

    def build():
        if kind is Laplace:
            return Laplace.calibrated(Sum(-1.0, 1.0), epsilon=1.0, adjacency=R)
        return Gaussian.analytic(Sum(-1.0, 1.0), epsilon=1.0, delta=delta, adjacency=R)

    def sample(other, noise):
        many = kind(BoxSum(10_000, -1.0, 1.0), one.scale, R, one.granularity)
        return many.release([[1.0 if other else -1.0] * 10_000], noise)

    one = build()
    assert measured(sample, delta=delta) <= 1.0
    with monkeypatch.context() as broken:
        broken.setattr(queries, "ReplaceOne", type("Nobody", (), {}))  # as if somebody came or went
        one = build()
    assert measured(sample, delta=delta) > 1.2


@pytest.mark.parametrize("kind", [DiscreteLaplace, pytest.param(Laplace, marks=pytest.mark.slow)])
def test_a_histogram_whose_exchange_touches_one_cell_only(kind, monkeypatch):
    def sample(other, noise):
        release = lambda o, n: mechanism.release(["a" if o else "b"], n)  # noqa: E731
        return repeated(release, lambda cells: cells[0] - cells[1], 4000)(other, noise)

    query = HistogramOf(("a", "b"))
    mechanism = kind.calibrated(query, epsilon=1.0, adjacency=R)
    assert measured(sample) <= 1.0
    monkeypatch.setattr(HistogramOf, "touched_coordinates", lambda self, adjacency: 1)
    mechanism = kind.calibrated(query, epsilon=1.0, adjacency=R)
    assert measured(sample) > 1.0


@pytest.mark.parametrize(
    "mechanism",
    [RandomizedResponse(0.75, R), KaryResponse((False, True, "perhaps"), 0.6, R)],
    ids=lambda m: type(m).__name__,
)
def test_randomised_response_with_half_the_lies(mechanism, monkeypatch):
    def sample(other, noise):
        said = mechanism.release([other] * 10_000, noise)
        return np.array([2 if answer == "perhaps" else int(answer) for answer in said])

    limit = claimed(mechanism)
    assert 0.85 * limit < measured(sample) <= limit
    honest = randomized_response.bernoulli
    monkeypatch.setattr(
        randomized_response, "bernoulli", lambda truth, size, source: honest(0.5 * (1 + truth), size, source)
    )
    assert measured(sample) > 1.3 * limit


# One person goes over from the first of two candidates to the second: from a draw, they end up 2 apart.

_DATA = {False: ["second", "first"], True: ["second", "second"]}
_CHOICE = ("first", "second")
_SCORES = [
    (TallyOf(_CHOICE), lambda self, adjacency: 1),
    (
        SumOfScores(_CHOICE, lambda record, candidate: float(record == candidate), 0.0, 1.0),
        lambda self, adjacency: self.grid.distance(0.0, 1.0),
    ),
]


_SELECTIONS = [
    (ExponentialMechanism, *_SCORES[0]),
    (ExponentialMechanism, *_SCORES[1]),
    (PermuteAndFlip, *_SCORES[0]),
    (ReportNoisyMax, *_SCORES[0]),
]


@pytest.mark.parametrize(("kind", "score", "forgetful"), _SELECTIONS)
def test_a_selection_whose_exchange_forgets_the_factor_two(kind, score, forgetful, monkeypatch):
    mechanism = kind(score, 2.0, R)
    times = 3000 if kind is ReportNoisyMax else 1500
    sample = repeated(lambda other, noise: mechanism.release(_DATA[other], noise), _CHOICE.index, times)
    assert 0.8 < measured(sample) <= 2.0
    monkeypatch.setattr(type(score), "swing_steps", forgetful)
    assert measured(sample) > 2.0


@pytest.mark.slow
@pytest.mark.parametrize("kind", [PermuteAndFlip, ReportNoisyMax])
def test_a_selection_with_half_the_noise(kind, monkeypatch):
    mechanism = kind(TallyOf(_CHOICE), 2.0, R)
    sample = repeated(lambda other, noise: mechanism.release(_DATA[other], noise), _CHOICE.index, 3000)
    monkeypatch.setattr(selection, "discrete_laplace", halved(selection.discrete_laplace))
    assert measured(sample) > 2.0


def test_an_interval_whose_exchange_forgets_the_factor_two(monkeypatch):
    utility = SumUtility(0.0, 1.0, lambda record, points: (points < 0.5) == (record == "first"), 0.0, 1.0)
    mechanism = IntervalExponential(utility, 2.0, R, cells=2)
    sample = repeated(lambda other, noise: mechanism.release(_DATA[other], noise), float, 1500)
    assert 0.8 < measured(sample) <= 2.0
    monkeypatch.setattr(
        interval.SumUtility, "swing_steps", lambda self, adjacency: self.grid.distance(0.0, 1.0)
    )
    assert measured(sample) > 2.0


def test_a_small_database_without_its_factor_two(monkeypatch):
    mechanism = SmallDatabase((0, 1), (bool,), 2, 4, 2.0, R)
    data = {False: [1, 0, 0, 0], True: [1, 1, 0, 0]}
    sample = repeated(lambda other, noise: mechanism.release(data[other], noise), sum, 1500)
    assert 0.9 < measured(sample) <= 2.0
    honest = small_database.exact_log_weights
    monkeypatch.setattr(
        small_database, "exact_log_weights", lambda steps, epsilon, swing: honest(steps, epsilon, swing // 2)
    )
    assert measured(sample) > 2.0


def _first_above(mechanism, below, last, times):
    """When the session says "above": many queries rise by 1 and the last one falls by 1, or the other way round."""

    def sample(other, noise):
        return np.array([_asked(mechanism.release(["b" if other else "a"], noise)) for _ in range(times)])

    def _asked(session):
        return next((place for place, query in enumerate((*below, last)) if session.ask(query)), -1)

    return sample


_IS_A, _IS_B = CountWhere(lambda record: record == "a"), CountWhere(lambda record: record == "b")


def test_sparse_vector_with_half_the_noise(monkeypatch):
    mechanism = SparseVector(0.5, 2.0, R)
    assert 0.5 < measured(_first_above(mechanism, (_IS_B,) * 3, _IS_A, 1500)) <= 2.0
    monkeypatch.setattr(sparse_vector, "discrete_laplace", halved(sparse_vector.discrete_laplace))
    assert measured(_first_above(mechanism, (_IS_B,) * 3, _IS_A, 4000)) > 2.0


@pytest.mark.slow
def test_sparse_vector_whose_threshold_has_no_noise(monkeypatch):
    """Stoddard et al. 2014's variant, which Lyu, Su & Li 2017 show not to be private for any ε."""
    mechanism = SparseVector(0.5, 2.0, R)
    sample = _first_above(mechanism, (_IS_B,) * 6, _IS_A, 8000)
    assert measured(sample) <= 2.0
    honest = sparse_vector.discrete_laplace
    threshold = mechanism.scales[0]
    monkeypatch.setattr(
        sparse_vector,
        "discrete_laplace",
        lambda scale, size, source: honest(scale * (1e-6 if scale == threshold else 1.0), size, source),
    )
    assert measured(sample) > 2.0
