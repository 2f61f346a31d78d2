"""Success, baseline, leak, ceiling and the bound on ε of recoveries."""

import numpy as np
import pytest

from privet.accounting import account
from privet.adjacency import AddRemove, ReplaceOne
from privet.auditing import (
    BaselineKind,
    OneRunCandidates,
    Shares,
    bound_recoveries,
    measure_recoveries,
    recoveries_by_group,
)
from privet.auditing.leakage import count_intervals
from privet.bounds import Verdict
from privet.errors import InvalidArgument
from privet.events import Gaussian
from privet.guarantees import Guarantee, PairCurve
from privet.ledger import Ledger
from privet.recoveries import Recoveries
from privet.views import Adversary

ADVERSARY = Adversary(sees="", knows="", wants="")
COIN = np.arange(400) % 2 == 0


def found(hits, members=None, **more):
    return Recoveries("a", ADVERSARY, "exact", np.asarray(hits), members, **more)


def claim(epsilon, delta=0.0, adjacency=None):
    return Guarantee(PairCurve(epsilon, delta), adjacency or AddRemove(), "claim")


def leaking(inside=0.9, outside=0.1):
    number = np.arange(400) // 2 / 200
    return found(np.where(COIN, number < inside, number < outside), COIN)


def test_success_and_baseline_are_the_two_sides_of_the_coin():
    measured = measure_recoveries(leaking())
    assert (measured.success.value, measured.baseline.value, measured.leak.value) == (0.9, 0.1, 0.8)
    assert measured.baseline_kind is BaselineKind.LEFT_OUT
    assert (measured.inside, measured.outside) == (200, 200)
    assert measured.detected


def test_a_blind_guess_is_the_baseline_where_all_are_in():
    blind = np.arange(400) < 120
    measured = measure_recoveries(found(np.arange(400) < 100, blind_hits=blind))
    assert measured.baseline_kind is BaselineKind.PUBLIC
    assert measured.leak.value == pytest.approx(-0.05)
    assert measured.blind is None


def test_a_blind_guess_stands_beside_the_coin():
    number = np.arange(400) // 2
    measured = measure_recoveries(found(number < 150, COIN, blind_hits=number < 140))
    assert measured.leak.value == 0
    assert measured.blind.value == 0.7
    assert measured.above_blind.value == pytest.approx(0.05)
    assert measured.failure == pytest.approx(5 * 0.05)
    assert not measured.detected  # better guessing is no leak


class TestCeilings:
    def test_it_is_the_claims_rate_at_the_baseline(self):
        measured = measure_recoveries(leaking(0.2, 0.1))
        assert measured.ceiling(claim(1.0)) == pytest.approx(np.exp(1) * 0.1, rel=1e-6)
        assert measured.sure_ceiling(claim(1.0)) == pytest.approx(
            np.exp(1) * measured.baseline.upper, rel=1e-6
        )
        assert measured.ceiling(None) is None

    def test_a_baseline_of_nothing_has_a_ceiling(self):
        measured = measure_recoveries(leaking(0.2, 0.0))
        assert 0 < measured.ceiling(claim(1.0, 1e-6)) < 1e-5
        assert measured.sure_ceiling(claim(1.0, 1e-6)) > 0.03

    def test_only_what_is_surely_above_breaks_the_claim(self):
        assert measure_recoveries(leaking(0.9, 0.1)).is_above_ceiling(claim(1.0))
        near = measure_recoveries(leaking(0.3, 0.1))  # above the ceiling of 0.27, within the intervals
        assert near.success.value > near.ceiling(claim(1.0))
        assert not near.is_above_ceiling(claim(1.0))
        assert not measure_recoveries(leaking(0.9, 0.1)).is_above_ceiling(None)

    def test_a_claim_for_a_group_allows_more(self):
        measured = measure_recoveries(leaking(0.9, 0.1))
        guarantee = account(Ledger(AddRemove()).spend("x", Gaussian(1.0)))
        assert measured.is_above_ceiling(guarantee)
        assert not measured.is_above_ceiling(guarantee.group(size=4))


class TestBounds:
    def test_coins_give_a_bound(self):
        bound = bound_recoveries(leaking(), delta=1e-6)
        assert 1.0 < bound.epsilon < np.log(9)
        assert "Steinke" in bound.method

    def test_it_refutes_a_claim(self):
        assert bound_recoveries(leaking(), claim(0.5), delta=1e-6).finding.verdict is Verdict.VIOLATED
        assert bound_recoveries(leaking(), claim(3.0), delta=1e-6).finding.verdict is Verdict.CONSISTENT

    def test_a_blind_baseline_gives_none_and_says_why(self):
        bound = bound_recoveries(found(np.ones(400), blind_hits=np.zeros(400)), delta=1e-6)
        assert bound.finding is None
        assert bound.epsilon is None
        assert "proves nothing about ε" in bound.method

    def test_candidates_give_a_bound_under_the_claims_adjacency(self):
        hits = found(np.arange(400) < 300, candidates=10)
        swap = bound_recoveries(hits, claim(2.0, adjacency=ReplaceOne()), delta=0.0)
        both = bound_recoveries(hits, claim(2.0), delta=0.0)
        assert swap.epsilon == pytest.approx(2 * both.epsilon, rel=1e-4)
        assert swap.finding.verdict is Verdict.VIOLATED
        assert both.finding.verdict is Verdict.CONSISTENT
        assert "replace-one" in swap.method

    def test_confidence_makes_room_for_abstention(self):
        sure = (np.arange(400) // 2 % 2).astype(float)
        hits = np.where(sure > 0, COIN, np.arange(400) // 4 % 2)
        with_order = bound_recoveries(found(hits, COIN, confidence=sure), delta=1e-6).epsilon
        assert with_order > bound_recoveries(found(hits, COIN), delta=1e-6).epsilon + 0.5

    def test_another_adjacency_is_refused(self):
        with pytest.raises(InvalidArgument, match="adjacency of the bound, add-remove, got replace-one"):
            OneRunCandidates().test(found(COIN, candidates=2), claim(1.0, adjacency=ReplaceOne()), delta=0.0)

    def test_candidates_must_be_known(self):
        with pytest.raises(InvalidArgument, match="how many candidates"):
            OneRunCandidates().epsilon(found(COIN, COIN), delta=0.0)


def test_groups_share_the_failure_and_the_worst_comes_first():
    groups = np.where(np.arange(400) < 200, "a", "b")
    groups[-1] = "alone"
    hits = np.where(groups == "b", COIN, False)
    table = recoveries_by_group(found(hits, COIN, groups=groups), confidence=0.95)
    assert [group.name for group in table] == ["b", "a"]
    assert table[0].leakage.detected
    assert not table[1].leakage.detected
    assert sum(group.leakage.failure for group in table) == pytest.approx(0.05)
    assert recoveries_by_group(leaking()) == ()


def test_shares_of_a_report_with_recoveries_add_up():
    some = [
        leaking(),
        found(COIN, blind_hits=COIN),
        found(COIN, candidates=3),
        found(COIN, COIN, blind_hits=COIN),
    ]
    shares = Shares.of(0.95, others=[500, 500], recoveries=some)
    intervals = sum(measure_recoveries(each, confidence=shares.interval).failure for each in some)
    intervals += 2 * count_intervals(500) * (1 - shares.interval)
    assert 6 * (1 - shares.bound) + intervals == pytest.approx(0.05, rel=1e-9)
    assert Shares.of(0.95, others=[], recoveries=[leaking()]).bound == pytest.approx(0.975)
    with pytest.raises(InvalidArgument, match="the number of attacks"):
        Shares.of(0.95, others=[])
