"""Every wrong argument of every event is refused, by its name, with a sentence that says how to mend it."""

import math

import pytest

from privet.errors import InvalidArgument, PrivetError
from privet.events import (
    BandedNoise,
    Compose,
    DiscreteGaussian,
    DiscreteLaplace,
    ExponentialMechanism,
    FixedSize,
    Gaussian,
    Laplace,
    Opaque,
    Parallel,
    Poisson,
    RandomizedResponse,
    Repeat,
    ReportNoisyMax,
    SparseVector,
    TreeNoise,
    banded_dp_sgd,
    classic_gaussian,
    dp_sgd,
)

_NOT_POSITIVE = [0, 0.0, -1.0, math.nan, math.inf, -math.inf, True, "1", None, 1j, [1.0], 10**400]
_NOT_COUNTS = [0, -3, 2.0, 2.5, math.nan, math.inf, True, "2", None]
_NOT_HALVES = [0, -3, 0.25, 2.7, 0.1, math.nan, math.inf, True, "2", None, 10**20]
_NOT_RATES = [0.0, -0.1, 1.0000001, 2, math.nan, math.inf, True, "0.5", None]


def assert_refused(make, name):
    with pytest.raises(InvalidArgument) as caught:
        make()
    message = str(caught.value)
    assert f"'{name}" in message
    assert message.count(". ") >= 1, f"no second sentence with the fix: {message}"
    assert message.endswith(".")
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, PrivetError)


@pytest.mark.parametrize("value", _NOT_POSITIVE, ids=lambda v: repr(v)[:12])
@pytest.mark.parametrize(
    ("make", "name"),
    [
        (Gaussian, "noise_multiplier"),
        (Laplace, "noise_multiplier"),
        (DiscreteGaussian, "scale"),
        (DiscreteLaplace, "scale"),
        (lambda v: ExponentialMechanism(epsilon=v), "epsilon"),
        (lambda v: ReportNoisyMax(epsilon=v), "epsilon"),
        (lambda v: SparseVector(epsilon=v), "epsilon"),
        (lambda v: TreeNoise(v, 8), "noise_multiplier"),
        (lambda v: BandedNoise(v, (1.0,), 8), "noise_multiplier"),
        (lambda v: dp_sgd(noise_multiplier=v, sampling_rate=0.1, steps=10), "noise_multiplier"),
        (lambda v: classic_gaussian(epsilon=v, delta=1e-5), "epsilon"),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_what_must_be_positive(make, name, value):
    assert_refused(lambda: make(value), name)


@pytest.mark.parametrize("value", _NOT_HALVES, ids=repr)
@pytest.mark.parametrize("kind", [DiscreteGaussian, DiscreteLaplace])
def test_what_must_be_a_multiple_of_one_half(kind, value):
    assert_refused(lambda: kind(1.0, value), "contribution")


@pytest.mark.parametrize("value", _NOT_COUNTS, ids=repr)
@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda v: Repeat(Gaussian(1.0), v), "times"),
        (lambda v: RandomizedResponse(0.75, v), "categories"),
        (lambda v: SparseVector(epsilon=1.0, positives=v), "positives"),
        (lambda v: FixedSize(v, 10, Gaussian(1.0)), "size"),
        (lambda v: FixedSize(1, v, Gaussian(1.0)), "population"),
        (lambda v: TreeNoise(1.0, v), "steps"),
        (lambda v: TreeNoise(1.0, 8, v), "separation"),
        (lambda v: TreeNoise(1.0, 8, 1, v), "participations"),
        (lambda v: BandedNoise(1.0, (1.0,), v), "steps"),
        (lambda v: dp_sgd(noise_multiplier=1.0, sampling_rate=0.1, steps=v), "steps"),
        (
            lambda v: banded_dp_sgd(noise_multiplier=1.0, coefficients=(1.0,), sampling_rate=0.1, steps=v),
            "steps",
        ),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_what_must_be_a_whole_number(make, name, value):
    assert_refused(lambda: make(value), name)


@pytest.mark.parametrize("value", _NOT_RATES, ids=repr)
def test_rates(value):
    assert_refused(lambda: Poisson(value, Gaussian(1.0)), "rate")


@pytest.mark.parametrize("value", [1, *_NOT_RATES], ids=repr)
def test_truth_is_a_probability_inside(value):
    assert_refused(lambda: RandomizedResponse(value), "truth")


def test_truth_is_not_below_chance():
    assert_refused(lambda: RandomizedResponse(0.3, 2), "truth")
    assert RandomizedResponse(0.3, 4).truth == 0.3


@pytest.mark.parametrize("value", [-0.1, 1.0, 2.0, math.nan, math.inf, True, "0"], ids=repr)
def test_opaque_delta(value):
    assert_refused(lambda: Opaque(epsilon=1.0, delta=value), "delta")


@pytest.mark.parametrize("value", [-0.1, math.nan, math.inf, True, "0", None], ids=repr)
def test_opaque_epsilon(value):
    assert_refused(lambda: Opaque(epsilon=value), "epsilon")


@pytest.mark.parametrize("value", [None, 1.0, "gaussian", Gaussian, {"kind": "gaussian"}], ids=repr)
def test_inner_events(value):
    assert_refused(lambda: Poisson(0.1, value), "inner")
    assert_refused(lambda: FixedSize(1, 2, value), "inner")
    assert_refused(lambda: Repeat(value, 2), "inner")
    assert_refused(lambda: Compose((value,)), "parts")
    assert_refused(lambda: Parallel((value,)), "parts")


@pytest.mark.parametrize("value", [None, "events", Gaussian(1.0)], ids=repr)
def test_parts_are_a_tuple(value):
    assert_refused(lambda: Compose(value), "parts")
    assert_refused(lambda: Parallel(value), "parts")


def test_parallel_needs_a_part():
    assert_refused(lambda: Parallel(()), "parts")


def test_a_sample_is_at_most_everybody():
    assert_refused(lambda: FixedSize(11, 10, Gaussian(1.0)), "size")


def test_participations_must_fit_into_the_steps():
    assert_refused(lambda: TreeNoise(1.0, 8, 4, 3), "participations")
    assert TreeNoise(1.0, 9, 4, 3).participations == 3


@pytest.mark.parametrize(
    "column", [(), "ab", (1.0, 2.0), (-1.0,), (0.0,), (1.0, math.nan), (1.0,) * 9], ids=repr
)
def test_banded_coefficients(column):
    assert_refused(lambda: BandedNoise(1.0, column, 8), "coefficients")


def test_bands_times_rate_is_a_probability():
    assert_refused(
        lambda: banded_dp_sgd(noise_multiplier=1.0, coefficients=(1.0, 0.5), sampling_rate=0.6, steps=4),
        "sampling_rate",
    )


@pytest.mark.parametrize("epsilon", [1, 1.0, 1.5, 100.0])
def test_the_classic_gaussian_is_refused_where_its_theorem_does_not_hold(epsilon):
    """Dwork & Roth 2014, Theorem A.1 needs ε < 1."""
    assert_refused(lambda: classic_gaussian(epsilon=epsilon, delta=1e-5), "epsilon")


@pytest.mark.parametrize("delta", [0.0, 1.0, -1e-5, math.nan])
def test_the_classic_gaussian_needs_a_delta(delta):
    assert_refused(lambda: classic_gaussian(epsilon=0.5, delta=delta), "delta")


def test_the_classic_gaussian_is_dwork_and_roths():
    """σ/Δ₂ = √(2 ln(1.25/δ))/ε (Dwork & Roth 2014, Theorem A.1)."""
    event = classic_gaussian(epsilon=0.5, delta=1e-5)
    assert event == Gaussian(math.sqrt(2 * math.log(1.25e5)) / 0.5)


def test_events_are_frozen_and_hashable():
    event = Poisson(0.1, Gaussian(1.0))
    with pytest.raises(AttributeError):
        event.rate = 0.2
    assert len({event, Poisson(0.1, Gaussian(1.0)), Poisson(0.2, Gaussian(1.0))}) == 2
