"""Lower bounds on ε: what they refuse, what ties do to them, and the ceiling that every one of them states."""

import dataclasses
import math
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from privet.adjacency import AddRemove
from privet.auditing import (
    EVERYBODY,
    PLAN,
    ApproximateCurves,
    ClopperPearson,
    GaussianCurves,
    GaussianFit,
    Guesses,
    OneRun,
    OneRunFDP,
    OrderStatistic,
    RankedThresholds,
    SelectionSplit,
    WeightedRanks,
)
from privet.auditing.curves import OneCurve, gaussian_epsilon
from privet.auditing.guesses import GuessResult, count_right_guesses, plan_counts
from privet.auditing.one_run_fdp import is_refuted
from privet.bounds import Side, Verdict
from privet.errors import InvalidArgument
from privet.guarantees import Guarantee, PairCurve
from privet.scores import Scores

DELTA = 1e-5
ALL = [
    ClopperPearson(),
    OneRun(),
    OneRunFDP(),
    OrderStatistic(),
    GaussianFit(),
    RankedThresholds(),
    WeightedRanks(),
]
ONE_RUN = [OneRun(), OneRunFDP(), OrderStatistic()]


@pytest.fixture(autouse=True)
def _few_simulations(monkeypatch):
    monkeypatch.setattr("privet.auditing.weighted_ranks._SIMULATIONS", 2000)


def _named(audit):
    return type(audit).__name__


def _perfect(members, others=None):
    return Scores.of(np.ones(members), np.zeros(others or members))


def _claim(epsilon):
    return Guarantee(PairCurve(epsilon, DELTA), AddRemove(), "by hand")


@pytest.mark.parametrize("audit", ALL, ids=_named)
def test_a_perfect_attack_does_not_pass_the_ceiling(audit):
    scores = _perfect(200)
    finding = audit.test(scores, None, delta=DELTA)
    assert 0 < finding.measured.value <= finding.ceiling
    assert finding.measured.side is Side.LOWER
    assert finding.measured.confidence == 0.95
    assert finding.verdict is None


@pytest.mark.parametrize("audit", ALL, ids=_named)
def test_the_ceiling_grows_with_the_records_and_falls_with_the_confidence(audit):
    ceilings = [audit.ceiling(n, n, delta=DELTA) for n in (50, 200, 800, 3200)]
    assert ceilings == sorted(ceilings)
    assert dataclasses.replace(audit, confidence=0.99).ceiling(200, 200, delta=DELTA) < ceilings[1]


@pytest.mark.parametrize("audit", ALL, ids=_named)
def test_a_claim_below_the_bound_is_violated_and_one_above_is_not(audit):
    scores = _perfect(2000)
    bound = audit.bound(scores, delta=DELTA).value
    assert audit.test(scores, _claim(0.5 * bound), delta=DELTA).verdict is Verdict.VIOLATED
    assert audit.test(scores, _claim(2 * bound), delta=DELTA).verdict is Verdict.CONSISTENT


@pytest.mark.parametrize("audit", ALL, ids=_named)
def test_constant_scores_show_nothing(audit):
    assert audit.bound(Scores(np.zeros(500), np.arange(500) % 2 == 0), delta=DELTA).value == 0
    # members first: a tie that were broken by the order of records would tell them all
    assert audit.bound(Scores.of(np.zeros(250), np.zeros(250)), delta=DELTA).value == 0


@pytest.mark.parametrize("audit", ALL, ids=_named)
def test_infinite_scores_are_scores(audit):
    scores = Scores.of(np.full(300, np.inf), np.full(300, -np.inf))
    assert audit.bound(scores, delta=DELTA).value == pytest.approx(
        audit.bound(_perfect(300), delta=DELTA).value
    )


@pytest.mark.parametrize("audit", ALL, ids=_named)
def test_an_attack_that_is_always_wrong_shows_little(audit):
    scores = Scores.of(np.zeros(300), np.ones(300))
    assert audit.bound(scores, delta=DELTA).value == 0


@pytest.mark.parametrize("audit", ALL, ids=_named)
def test_the_bound_does_not_depend_on_the_scale_of_scores(audit):
    generator = np.random.default_rng(0)
    scores = Scores.of(generator.normal(2, 1, 500), generator.normal(0, 1, 500))
    warped = dataclasses.replace(scores, values=np.exp(3 * scores.values))
    assert audit.bound(scores, delta=DELTA) == audit.bound(warped, delta=DELTA)


@pytest.mark.parametrize("audit", ALL, ids=_named)
def test_every_bound_says_what_it_assumes(audit):
    assert audit.assumes.endswith(".")
    assert "Gaussian" in audit.assumes or type(audit) in (ClopperPearson, OneRun)


@pytest.mark.parametrize("audit", [ClopperPearson(), GaussianFit()], ids=_named)
def test_one_member_is_too_few_to_choose_and_to_measure(audit):
    with pytest.raises(InvalidArgument, match="at least two of either side"):
        audit.bound(Scores.of(np.ones(1), np.zeros(50)), delta=DELTA)


@pytest.mark.parametrize("audit", ONE_RUN, ids=_named)
def test_coins_that_cannot_be_fair_are_refused(audit):
    with pytest.raises(InvalidArgument, match="Draw at random as many"):
        audit.bound(_perfect(1000, 500), delta=DELTA)
    with pytest.raises(InvalidArgument, match="Draw at random as many"):
        audit.bound(_perfect(580, 420), delta=DELTA)  # five standard deviations
    assert audit.bound(_perfect(520, 480), delta=DELTA).value > 0


@pytest.mark.parametrize("audit", ONE_RUN, ids=_named)
@pytest.mark.parametrize("count", [1, 2, 3, 19, 39, 40, 41])
def test_few_canaries_give_small_bounds_and_no_errors(audit, count):
    assert 0 <= audit.bound(_perfect(count), delta=DELTA).value <= audit.ceiling(count, count, delta=DELTA)


@pytest.mark.parametrize("audit", ALL, ids=_named)
@pytest.mark.parametrize("delta", [-0.1, 1.0, math.nan])
def test_a_delta_that_is_none_is_refused(audit, delta):
    with pytest.raises(InvalidArgument, match="Give a probability"):
        audit.bound(_perfect(100), delta=delta)


@pytest.mark.parametrize("kind", [type(audit) for audit in ALL])
@pytest.mark.parametrize("confidence", [0.0, 1.0, 95.0])
def test_a_confidence_that_is_none_is_refused(kind, confidence):
    with pytest.raises(InvalidArgument, match="Give a probability inside"):
        kind(confidence)


def test_gaussian_curves_have_no_epsilon_at_delta_zero():
    for audit in (OneRunFDP(), OrderStatistic(), GaussianFit(), RankedThresholds(), WeightedRanks()):
        with pytest.raises(InvalidArgument, match="at δ = 0 their ε is infinite"):
            audit.bound(_perfect(100), delta=0.0)
    assert OneRun().bound(_perfect(100), delta=0.0).value > 0
    assert ClopperPearson().bound(_perfect(100), delta=0.0).value > 0
    assert OneRunFDP(curves=ApproximateCurves(0.0)).bound(_perfect(100), delta=0.0).value > 0


def test_curves_for_one_delta_are_not_asked_at_another():
    with pytest.raises(InvalidArgument, match="Make the curves for this δ"):
        OneRunFDP(curves=ApproximateCurves(1e-6)).bound(_perfect(100), delta=1e-5)


@pytest.mark.parametrize(
    ("members", "others", "fix"),
    [
        (1.5, 0.0, "Give a share"),
        (0.0, 0.0, "guessed once or not at all"),
        (0.7, 0.7, "guessed once or not at all"),
    ],
)
def test_a_plan_that_cannot_be_carried_out_is_refused(members, others, fix):
    with pytest.raises(InvalidArgument, match=fix):
        Guesses(members=members, others=others)


def test_an_empty_plan_and_a_split_without_a_rest_are_refused():
    with pytest.raises(InvalidArgument, match="number of lines"):
        OneRun(plan=())
    with pytest.raises(InvalidArgument, match="strictly between"):
        SelectionSplit(share=1.0)


@given(st.integers(1, 300))
@settings(max_examples=60, deadline=None)
def test_a_plan_guesses_each_record_at_most_once(records):
    for line in plan_counts(PLAN, records):
        assert 1 <= line.members + line.others <= records
    (all_of_them,) = plan_counts(EVERYBODY, records)
    assert sum(all_of_them) == records


def test_guesses_are_counted_on_their_side():
    values = np.array([5.0, 4.0, 3.0, 2.0, 1.0, 0.0])
    members = np.array([True, False, True, True, False, True])
    line = Guesses(members=1 / 3, others=1 / 2).counts(6)
    assert count_right_guesses(values, members, [line]) == [
        GuessResult(5, 2)
    ]  # 5 in: right, 4 in: wrong; 2, 1, 0 out: one right


def test_the_profile_of_gaussian_noise():
    for mu in (0.01, 0.3, 1.0, 4.0, 20.0):
        for delta in (1e-12, 1e-5, 0.1):
            epsilon = gaussian_epsilon(mu, delta)
            if epsilon == 0:
                assert 2 * norm.cdf(mu / 2) - 1 <= delta
                continue
            first = norm.cdf(mu / 2 - epsilon / mu)
            second = math.exp(epsilon + norm.logcdf(-mu / 2 - epsilon / mu))
            assert first - second == pytest.approx(delta, rel=1e-3, abs=1e-16)


@pytest.mark.parametrize("curves", [GaussianCurves(), ApproximateCurves(1e-3)], ids=_named)
def test_a_family_is_one_curve_after_another(curves):
    def tradeoff(fpr):
        if isinstance(curves, GaussianCurves):
            return float(norm.cdf(norm.ppf(1 - fpr) - 1.3))
        return max(1 - 1e-3 - math.exp(1.3) * fpr, math.exp(-1.3) * (1 - 1e-3 - fpr), 0.0)

    one = OneCurve(tradeoff)
    for true in (1e-3, 0.01, 0.3, 0.8, 0.99):
        assert one.least_false(0.0, true) == pytest.approx(curves.least_false(1.3, true), rel=1e-6, abs=1e-12)
    masses = np.array([1e-2, 0.1, 0.5, 0.9, 1.0])
    assert one.false_share(0.0, masses) == pytest.approx(curves.false_share(1.3, masses), rel=1e-6, abs=1e-9)
    with pytest.raises(InvalidArgument, match="Call 'refutes'"):
        one.epsilon(0.0, DELTA)


def test_any_curve_can_be_refuted():
    generator = np.random.default_rng(1)
    scores = Scores.of(generator.normal(2, 1, 2000), generator.normal(0, 1, 2000))

    def gaussian(mu):
        return lambda fpr: float(norm.cdf(norm.ppf(1 - fpr) - mu))

    audit = OneRunFDP(0.95)
    assert audit.refutes(scores, gaussian(0.5))
    assert not audit.refutes(scores, gaussian(2.0))
    # the claim of an accountant is a curve too
    claim = _claim(1.0)
    assert audit.refutes(scores, lambda fpr: 1 - claim.tpr(fpr=fpr) if fpr > 0 else 1.0)


def test_refuting_is_monotone_in_what_was_guessed_and_in_the_curve():
    for right in range(55, 100, 5):
        line, more = GuessResult(100, right), GuessResult(100, right + 1)
        verdicts = [is_refuted(line, 1000, GaussianCurves(), mu, 0.05) for mu in np.linspace(0.05, 6, 40)]
        assert verdicts == sorted(verdicts, reverse=True)
        better = [is_refuted(more, 1000, GaussianCurves(), mu, 0.05) for mu in np.linspace(0.05, 6, 40)]
        assert sum(better) >= sum(verdicts)


def test_the_fit_knows_the_separation():
    generator = np.random.default_rng(2)
    scores = Scores.of(generator.normal(1.5, 1, 20_000), generator.normal(0, 1, 20_000))
    interval = GaussianFit(0.95).separation(scores)
    assert interval.lower < 1.5 < interval.upper
    assert interval.upper - interval.lower < 0.2


def test_auditing_is_light_and_knows_no_accountant():
    code = (
        "import sys, privet.auditing as a; a.OneRun\n"
        "bad = [m for m in sys.modules if m in ('torch', 'sklearn', 'scipy.stats') or m.startswith(('privet.accounting',"
        " 'privet.attacks', 'privet.training'))]\n"
        "assert not bad, bad"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
