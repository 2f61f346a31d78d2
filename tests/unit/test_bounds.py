import math

import pytest

from privet.bounds import EpsilonBound, Finding, Interval, Side, Verdict
from privet.errors import InvalidArgument


def upper(value=2.0, delta=1e-5):
    return EpsilonBound(value=value, delta=delta, side=Side.UPPER)


def lower(value=1.0, delta=1e-5):
    return EpsilonBound(value=value, delta=delta, side=Side.LOWER, confidence=0.95)


def test_a_measurement_below_the_claim_is_consistent():
    assert Finding(measured=lower(1.9), ceiling=5.0, claimed=upper(2.0)).verdict is Verdict.CONSISTENT


def test_a_measurement_above_the_claim_breaks_it():
    assert Finding(measured=lower(2.1), ceiling=5.0, claimed=upper(2.0)).verdict is Verdict.VIOLATED


def test_without_a_claim_there_is_no_verdict():
    assert Finding(measured=lower(), ceiling=5.0).verdict is None


def test_sides_are_not_mixed_up():
    with pytest.raises(InvalidArgument, match=r"'measured' must be a lower bound.*Swap"):
        Finding(measured=upper(), ceiling=5.0)
    with pytest.raises(InvalidArgument, match=r"'claimed' must be an upper bound.*Swap"):
        Finding(measured=lower(), ceiling=5.0, claimed=lower())


def test_both_bounds_are_at_one_delta():
    with pytest.raises(InvalidArgument, match=r"must be at one δ.*Ask"):
        Finding(measured=lower(delta=1e-5), ceiling=5.0, claimed=upper(delta=1e-6))


@pytest.mark.parametrize("value", [-0.1, math.nan, math.inf, True])
def test_bounds_are_proper_numbers(value):
    with pytest.raises(InvalidArgument, match=r"'value'"):
        upper(value=value)
    with pytest.raises(InvalidArgument, match=r"'ceiling'"):
        Finding(measured=lower(), ceiling=value)


@pytest.mark.parametrize("delta", [-1e-9, 1.0, math.nan])
def test_delta_is_a_probability(delta):
    with pytest.raises(InvalidArgument, match=r"'delta'"):
        upper(delta=delta)


@pytest.mark.parametrize("confidence", [0.0, 1.1, -0.5, math.nan])
def test_confidence_is_a_probability(confidence):
    with pytest.raises(InvalidArgument, match=r"'confidence'"):
        EpsilonBound(value=1.0, delta=0.0, side=Side.LOWER, confidence=confidence)


def test_relative_gap():
    assert Interval(1.0, 2.0).relative_gap == 0.5
    assert Interval(0.0, 0.0).relative_gap == 0.0
    assert Interval(3.0, math.inf).relative_gap == 1.0
