"""Multi-party computation: results are right, and a view says nothing but the result.

Laws of views are compared with a false-alarm rate of 1e-8 for each test.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

from privet.errors import InvalidArgument
from privet.federated.sums.private_arithmetic import PrivateArithmetic, simulate_view
from privet.federated.sums.shamir import draw_element

FALSE_ALARM = 1e-8
SMALL = 11  # a field so small that laws can be counted


@given(st.lists(st.integers(0, 10**9), min_size=3, max_size=3))
@settings(deadline=None)
def test_sums_and_products(secrets):
    parties = PrivateArithmetic(3)
    shared = [parties.share(owner, secret) for owner, secret in enumerate(secrets)]
    assert parties.open(parties.add(*shared)) == sum(secrets)
    product = parties.multiply(parties.multiply(shared[0], shared[1]), shared[2])
    assert parties.open(product) == secrets[0] * secrets[1] * secrets[2] % parties.prime


@given(st.integers(0, 255), st.integers(0, 255))
@settings(deadline=None)
def test_comparisons(first, second):
    parties = PrivateArithmetic(3)
    shared = parties.share_bits(0, first, bits=8), parties.share_bits(2, second, bits=8)
    assert parties.open(parties.compare(*shared)) == (first > second)


def test_five_parties_of_whom_two_collude():
    parties = PrivateArithmetic(5, colluding=2)
    shared = [parties.share(owner, owner + 1) for owner in range(5)]
    assert parties.open(parties.multiply(shared[2], parties.add(*shared))) == 45


def add_all(parties, secrets):
    return parties.open(parties.add(*(parties.share(owner, each) for owner, each in enumerate(secrets))))


def multiply_two(parties, secrets):
    shared = [parties.share(owner, each) for owner, each in enumerate(secrets)]
    return parties.open(parties.multiply(shared[0], shared[1]))


def compare_two(parties, secrets):
    bits = [parties.share_bits(owner, each, bits=2) for owner, each in enumerate(secrets)]
    return parties.open(parties.compare(bits[0], bits[1]))


def real_views(program, secrets, party, runs, draw=draw_element):
    for _ in range(runs):
        parties = PrivateArithmetic(3, prime=SMALL, draw=draw)
        program(parties, secrets)
        yield parties.views[party].received


def simulated_views(program, secrets, party, runs):
    like = PrivateArithmetic(3, prime=SMALL)
    result = program(PrivateArithmetic(3, prime=SMALL), secrets)
    for _ in range(runs):
        yield simulate_view(program, party=party, secret=secrets[party], results=[result], like=like).received


def laws_agree(first, second):
    """Whether two lists of views have the same law: every number, every pair of neighbours in time, and every
    pair of a number and the last one. Bonferroni over all tables.
    """
    first, second = np.array(list(first)), np.array(list(second))
    width = first.shape[1]
    tables = [(place, place + 1) for place in range(width - 1)] + [
        (place, width - 1) for place in range(width - 2)
    ]
    for one, other in tables:
        cells = [
            np.bincount(views[:, one] * SMALL + views[:, other], minlength=SMALL**2)
            for views in (first, second)
        ]
        both = cells[0] + cells[1]
        seen = both > 0
        differences = (cells[0] - cells[1])[seen] ** 2 / both[seen]
        if differences.sum() > chi2.isf(FALSE_ALARM / len(tables), max(int(seen.sum()) - 1, 1)):
            return False
    return True


SLOW = pytest.mark.slow


@pytest.mark.parametrize("party", [0, pytest.param(1, marks=SLOW), pytest.param(2, marks=SLOW)])
@pytest.mark.parametrize(
    ("program", "secrets"),
    [(add_all, (2, 3, 4)), (multiply_two, (5, 7, 0)), pytest.param(compare_two, (3, 1, 0), marks=SLOW)],
)
def test_a_view_can_be_made_from_the_result_alone(program, secrets, party):
    real = real_views(program, secrets, party, 1500)
    assert laws_agree(real, simulated_views(program, secrets, party, 1500))


def test_other_inputs_with_the_same_result_look_alike():
    first = real_views(add_all, (2, 3, 4), 0, 1500)
    assert laws_agree(first, real_views(add_all, (2, 7, 0), 0, 1500))


def test_another_result_is_seen():
    """The control: 1,500 views are enough to tell two results apart."""
    first = real_views(add_all, (2, 3, 4), 0, 1500)
    assert not laws_agree(first, real_views(add_all, (2, 3, 5), 0, 1500))


def test_shares_that_are_not_random_are_found():
    """Polynomials without random coefficients: each share is the secret."""
    first = real_views(add_all, (2, 3, 4), 0, 1500, draw=lambda prime: 0)
    assert not laws_agree(first, simulated_views(add_all, (2, 3, 4), 0, 1500))


def test_shares_that_are_reused_are_found():
    """Every polynomial of one run has the same slope."""

    def reuse():
        for _ in range(1500):
            slope = draw_element(SMALL)
            yield from real_views(add_all, (2, 3, 4), 0, 1, draw=lambda prime, slope=slope: slope)

    assert not laws_agree(reuse(), simulated_views(add_all, (2, 3, 4), 0, 1500))


def test_what_makes_no_sense_is_refused():
    with pytest.raises(InvalidArgument, match="below half of 3 parties, got 2"):
        PrivateArithmetic(3, colluding=2)
    parties = PrivateArithmetic(3)
    with pytest.raises(InvalidArgument, match="from 0 to 15, and is not"):
        parties.share_bits(0, 16, bits=4)
    with pytest.raises(InvalidArgument, match="Shift or scale it first"):
        parties.share(0, -1)
    with pytest.raises(InvalidArgument, match="4 bits like the first, got 5"):
        parties.compare(parties.share_bits(0, 1, bits=4), parties.share_bits(1, 1, bits=5))
