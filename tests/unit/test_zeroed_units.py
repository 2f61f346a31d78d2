"""Zero-out adjacency: a zeroed unit keeps its place, and only sums do not show that the place is there."""

import math
from dataclasses import dataclass

import pytest

from privet.accounting import PrivacyLoss, account
from privet.accounting.atoms import restate_for_exchange
from privet.accounting.zeroed import adds_contributions, zeroed_is_absent
from privet.adjacency import AddRemove, ZeroOut
from privet.documents import event_from_json
from privet.errors import NotProved
from privet.events import (
    BandedNoise,
    Compose,
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
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
)
from privet.ledger import Ledger
from privet.testing import ACCOUNTANTS

_CLAIMS = [
    Opaque(epsilon=1.0),
    SparseVector(epsilon=1.0),
    ReportNoisyMax(epsilon=1.0),
    ExponentialMechanism(epsilon=1.0),
]


def test_randomized_response_of_a_poisson_sample():
    """0.00985 was too small. Whoever is drawn gives an answer: a random one is true with ½, told with 0.01."""
    claim = account(Poisson(0.01, RandomizedResponse(0.99)), adjacency=ZeroOut())
    assert claim.epsilon(delta=0.0) == pytest.approx(math.log(0.5 / 0.01), rel=1e-12)  # 3.912
    exact = 0.01 * (0.5 - math.exp(2.0) * 0.01)
    assert claim.delta_bounds(epsilon=2.0).lower <= exact <= claim.delta_bounds(epsilon=2.0).upper
    assert claim.delta(epsilon=2.0) == pytest.approx(exact, rel=1e-9)


@pytest.mark.parametrize("claimed", _CLAIMS, ids=lambda event: type(event).__name__)
@pytest.mark.parametrize("sample", [lambda e: Poisson(0.1, e), lambda e: FixedSize(10, 100, e)])
def test_a_sample_does_not_make_a_claim_smaller_only_rarer(claimed, sample):
    whole, sampled = (
        account(event, adjacency=ZeroOut(), accountant=PrivacyLoss()) for event in (claimed, sample(claimed))
    )
    assert sampled.epsilon(delta=0.0) == pytest.approx(1.0, rel=1e-12)
    assert sampled.delta(epsilon=0.0) == pytest.approx(0.1 * whole.delta(epsilon=0.0), rel=1e-9)


def test_samples_within_samples_are_rarer_still():
    nested = account(Poisson(0.2, FixedSize(1, 2, RandomizedResponse(0.8))), adjacency=ZeroOut())
    plain = account(Poisson(0.1, RandomizedResponse(0.8)), adjacency=ZeroOut())
    for epsilon in (0.0, 0.3, 0.9):
        assert nested.delta(epsilon=epsilon) == pytest.approx(plain.delta(epsilon=epsilon), rel=1e-9)


@pytest.mark.parametrize(
    "event",
    [
        Parallel((Gaussian(1.0), Opaque(epsilon=0.5))),
        Parallel((RandomizedResponse(0.75), RandomizedResponse(0.75))),
        Parallel((Gaussian(1.0), FixedSize(1, 2, Gaussian(1.0)))),
        Repeat(Poisson(0.5, Parallel((Laplace(1.0), SparseVector(epsilon=0.5)))), 3),
    ],
)
def test_a_split_that_looks_at_the_unit_is_refused(event):
    """The zeroed unit leaves its part: that part sees it go, which a claim under zero-out does not cover."""
    for accountant in (None, *ACCOUNTANTS):
        with pytest.raises(NotProved, match=r"\. \w"):
            account(event, adjacency=ZeroOut(), accountant=accountant)


def test_a_split_of_sums_is_proved():
    split = account(Parallel((Gaussian(1.0), Laplace(2.0))), adjacency=ZeroOut())
    same = account(Parallel((Gaussian(1.0), Laplace(2.0))), adjacency=AddRemove())
    assert split.epsilon(delta=1e-5) == same.epsilon(delta=1e-5)
    assert account(Parallel((Opaque(epsilon=0.5),)), adjacency=ZeroOut()).epsilon(delta=0.0) == 0.5


def test_which_events_do_not_show_a_zeroed_unit():
    sums = [
        Gaussian(1.0),
        Laplace(1.0),
        DiscreteGaussian(1.0),
        DiscreteLaplace(1.0),
        TreeNoise(1.0, 4),
        BandedNoise(1.0, (1.0,), 4),
        Compose((Poisson(0.5, Repeat(Gaussian(1.0), 3)), Parallel((Laplace(1.0),)))),
    ]
    shows = [RandomizedResponse(0.75), *_CLAIMS]
    for event in sums:
        assert zeroed_is_absent(event)
        assert adds_contributions(event)
    for event in shows:
        assert not adds_contributions(Compose((Gaussian(1.0), Repeat(Poisson(0.5, event), 2))))
        assert not zeroed_is_absent(event)
    fixed = Poisson(0.5, FixedSize(1, 2, Gaussian(1.0)))
    assert adds_contributions(fixed)
    assert not zeroed_is_absent(fixed)


def test_a_sample_of_everybody_still_needs_a_claim():
    """Randomised response has none under add-remove; a "sample" of everybody had one."""
    for accountant in (None, *ACCOUNTANTS):
        with pytest.raises(NotProved):
            account(FixedSize(5, 5, RandomizedResponse(0.75)), adjacency=AddRemove(), accountant=accountant)


# --- whole numbers ------------------------------------------------------------------------------------------

_WHOLE = [
    (Opaque(epsilon=1), Opaque(epsilon=1.0)),
    (Opaque(epsilon=0, delta=0), Opaque(epsilon=0.0, delta=0.0)),
    (SparseVector(epsilon=2), SparseVector(epsilon=2.0)),
    (ReportNoisyMax(epsilon=1), ReportNoisyMax(epsilon=1.0)),
    (ExponentialMechanism(epsilon=1), ExponentialMechanism(epsilon=1.0)),
    (Laplace(2), Laplace(2.0)),
    (Gaussian(2), Gaussian(2.0)),
    (DiscreteLaplace(2), DiscreteLaplace(2.0)),
    (DiscreteGaussian(2), DiscreteGaussian(2.0)),
    (BandedNoise(3, (2, 1), 4), BandedNoise(3.0, (2.0, 1.0), 4)),
    (TreeNoise(3, 4), TreeNoise(3.0, 4)),
]


@pytest.mark.parametrize(("whole", "real"), _WHOLE, ids=lambda event: type(event).__name__)
@pytest.mark.parametrize(
    "around",
    [lambda e: Repeat(e, 5), lambda e: FixedSize(1, 2, Repeat(e, 2)), lambda e: Poisson(1, e)],
    ids=["repeat", "sample", "everybody"],
)
def test_whole_numbers_are_numbers(whole, real, around):
    """Repeat(Opaque(epsilon=1), 5) was a UFuncTypeError."""
    for accountant in (None, *ACCOUNTANTS):
        try:
            wanted = account(around(real), adjacency=AddRemove(), accountant=accountant)
        except NotProved:
            continue
        found = account(around(whole), adjacency=AddRemove(), accountant=accountant)
        assert found.delta_bounds(epsilon=1) == wanted.delta_bounds(epsilon=1.0)
        assert found.epsilon_bounds(delta=0.1) == wanted.epsilon_bounds(delta=0.1)


def test_a_document_may_say_one():
    text = (
        '{"format": "privet-event", "version": 1, "event": {"kind": "repeat", "inner": '
        '{"kind": "opaque", "epsilon": 1, "delta": 0}, "times": 5}}'
    )
    claim = account(event_from_json(text), adjacency=AddRemove())
    assert claim.epsilon(delta=0.0) == 5.0
    ledger = Ledger(AddRemove()).spend("a", Repeat(Opaque(epsilon=1), 5))
    again = Ledger.from_json(ledger.to_json())
    assert again.to_json() == ledger.to_json()  # a file that said 1 goes on saying 1
    assert account(again).epsilon(delta=1e-3) == account(ledger).epsilon(delta=1e-3)


@pytest.mark.parametrize(
    "around", [lambda e: e, lambda e: Repeat(e, 3), lambda e: Compose((Gaussian(1.0), e))]
)
def test_an_event_that_no_theorem_restates_for_an_exchange_is_refused(around):
    """A new event with a claimed ε must not pass for a sum: under add-remove its ε doubles in an exchange."""

    @dataclass(frozen=True)
    class Unknown(Event):
        epsilon: float = 1.0

    with pytest.raises(NotProved, match="Unknown for one unit exchanged"):
        restate_for_exchange(around(Unknown()))


def test_claims_double_in_an_exchange_and_sums_stay():
    assert restate_for_exchange(ExponentialMechanism(epsilon=1.0)) == ExponentialMechanism(epsilon=2.0)
    for event in (Gaussian(1.0), Laplace(2.0), TreeNoise(3.0, 4, 2, 2), RandomizedResponse(0.9)):
        assert restate_for_exchange(event) == event
