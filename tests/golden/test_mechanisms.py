"""Table P of the specification, P1–P7 and the literal form of P9, check by check."""

import math

import numpy as np
import pytest
from scipy import stats

from privet import account, events
from privet.adjacency import AddRemove, ReplaceOne, ZeroOut
from privet.errors import BudgetExceeded, InvalidArgument, NotProved
from privet.mechanisms import (
    BernoulliLikelihood,
    BinaryAttributes,
    BoxSum,
    Count,
    CountWhere,
    DiscreteGaussian,
    DiscreteLaplace,
    ExponentialMechanism,
    Gaussian,
    HistogramOf,
    Histograms,
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
    TallyOf,
    VectorSum,
)
from privet.randomness import SeededNoise

_COIN = RandomizedResponse.biased(0.25, adjacency=ReplaceOne())
_HAIR = ("dark", "brown", "fair", "red", "grey")
_HEADS = ["dark"] * 500 + ["brown"] * 399 + ["fair"] * 200 + ["red"] * 40 + ["grey"] * 100


def test_p1_the_coin_flip_is_log_three():
    """Warner 1965: the truth on heads, a second coin on tails."""
    assert _COIN.truth == 0.75
    assert account(_COIN.event, adjacency=ReplaceOne()).epsilon(delta=0.0) == pytest.approx(
        math.log(3), rel=1e-14
    )


def test_p1_the_posterior_of_a_yes():
    """Prior 0.02, answer yes: 0.02·¾/(0.02·¾ + 0.98·¼) = 0.058."""
    assert _COIN.posterior(True, prior=0.02) == pytest.approx(0.015 / 0.26, rel=1e-14)
    assert round(_COIN.posterior(True, prior=0.02), 3) == 0.058


def test_p1_the_posterior_of_k_answers_is_that_of_two():
    two = KaryResponse((False, True), 0.75, ReplaceOne())
    assert two.posterior(True, prior=(0.98, 0.02))[1] == pytest.approx(_COIN.posterior(True, prior=0.02))


@pytest.mark.parametrize("yes", [0, 3, 250, 400])
def test_p1_the_estimate_is_twice_the_mean_less_a_half(yes):
    answers = np.arange(400) < yes
    assert _COIN.estimate(answers) == pytest.approx(2 * answers.mean() - 0.5, abs=1e-14)


@pytest.mark.parametrize("share", [0.01, 0.02, 0.3, 0.5, 0.9])
def test_p1_the_variance_is_at_least_four_times_that_of_the_truth(share):
    """Warner 1965: λ(1 − λ)/n·(2·¾ − 1)² with λ nearer to ½ than the true share."""
    assert _COIN.variance(yes=share, people=100) >= 4 * share * (1 - share) / 100


@pytest.mark.parametrize("people", [1, 50, 10**6])
def test_p2_one_count_at_a_tenth_has_scale_ten_whatever_n(people):
    count = Laplace.calibrated(CountWhere(bool), epsilon=0.1, adjacency=AddRemove())
    count.release([True] * min(people, 50), SeededNoise(1))
    assert count.scale == 10.0
    assert DiscreteLaplace.calibrated(Count(), epsilon=0.1, adjacency=AddRemove()).scale == 10.0
    assert account(count.event, adjacency=AddRemove()).epsilon(delta=0.0) == pytest.approx(0.1, rel=1e-14)


@pytest.mark.parametrize("attributes", [1, 4, 100])
@pytest.mark.parametrize("adjacency", [AddRemove(), ReplaceOne(), ZeroOut()], ids=str)
def test_p2_p3_d_binary_attributes(attributes, adjacency):
    """Δ₁ = d and Δ₂ = √d: also an exchanged person moves a count by 1 only."""
    query = BinaryAttributes(attributes)
    assert query.l1(adjacency) == attributes
    assert query.l2(adjacency) == pytest.approx(math.sqrt(attributes), rel=1e-15)
    assert Laplace.calibrated(query, epsilon=0.5, adjacency=adjacency).scale == attributes / 0.5


@pytest.mark.parametrize("features", [1, 3, 20])
def test_p2_naive_bayes_with_d_features(features):
    """A person counts once in each feature's table of counts: scale D/ε."""
    tables = Histograms((("no", "yes"),) * features)
    assert Laplace.calibrated(tables, epsilon=0.2, adjacency=AddRemove()).scale == pytest.approx(
        features / 0.2
    )
    assert DiscreteLaplace.calibrated(tables, epsilon=0.2, adjacency=AddRemove()).scale == pytest.approx(
        features / 0.2
    )


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-5), (0.9, 1e-6)])
def test_p3_the_classic_gaussian(epsilon, delta):
    """Dwork & Roth 2014, Theorem A.1: σ = Δ₂√(2 ln(1.25/δ))/ε; accounted, it costs less than ε."""
    noise = Gaussian.classic(BinaryAttributes(9), epsilon=epsilon, delta=delta, adjacency=AddRemove())
    assert noise.scale == pytest.approx(3 * math.sqrt(2 * math.log(1.25 / delta)) / epsilon, rel=1e-14)
    assert account(noise.event, adjacency=AddRemove()).epsilon(delta=delta) < epsilon


@pytest.mark.parametrize("epsilon", [1.0, 1, 5.0])
def test_p3_the_classic_gaussian_is_refused_from_one_on(epsilon):
    with pytest.raises(InvalidArgument, match="Gaussian.analytic"):
        Gaussian.classic(Count(), epsilon=epsilon, delta=1e-6, adjacency=AddRemove())


@pytest.mark.parametrize(
    ("epsilon", "delta", "sigma"),
    [(1.0, 1e-6, 4.2246789), (0.1, 1e-6, 36.304690), (10.0, 1e-6, 0.54108683), (3.0, 1e-12, 2.2830530)],
)
def test_p3_the_analytic_gaussian(epsilon, delta, sigma):
    """Balle & Wang 2018, Theorem 8. σ by mpmath to 30 digits: Φ(1/2σ − εσ) − exp(ε)Φ(−1/2σ − εσ) = δ."""
    vector = Gaussian.analytic(VectorSum(3, 1.0), epsilon=epsilon, delta=delta, adjacency=AddRemove())
    assert vector.scale == pytest.approx(sigma, rel=1e-7)
    assert account(vector.event, adjacency=AddRemove()).epsilon(delta=delta) <= epsilon
    scalar = Gaussian.analytic(Sum(0.0, 1.0), epsilon=epsilon, delta=delta, adjacency=AddRemove())
    assert scalar.scale == pytest.approx(sigma, rel=2e-4)


_QUERIES = [
    Sum(0.0, 1.0),
    Sum(-0.3, 0.7),
    CountWhere(bool),
    BinaryAttributes(7),
    BoxSum(3, 0.0, 0.3),
    HistogramOf(("a", "b", "c")),
    VectorSum(5, 2.5),
]


@pytest.mark.parametrize("adjacency", [AddRemove(), ReplaceOne()], ids=str)
@pytest.mark.parametrize("query", _QUERIES, ids=lambda q: type(q).__name__)
@pytest.mark.parametrize(("epsilon", "delta"), [(0.2, 1e-5), (6.0, 1e-8)])
def test_p3_what_is_calibrated_is_what_is_accounted(query, adjacency, epsilon, delta):
    """The event's certified ε is not above what was asked for, and not far below it."""
    found = Gaussian.analytic(query, epsilon=epsilon, delta=delta, adjacency=adjacency)
    cost = account(found.event, adjacency=adjacency).epsilon(delta=delta)
    assert epsilon * (1 - 1e-5) <= cost <= epsilon


@pytest.mark.parametrize("query", [CountWhere(bool), BinaryAttributes(7)], ids=lambda q: type(q).__name__)
@pytest.mark.parametrize(("epsilon", "delta"), [(0.2, 1e-5), (1.0, 1e-8), (6.0, 1e-6), (20.0, 1e-6)])
def test_p4_a_discrete_gaussian_is_calibrated_for_its_own_law(query, epsilon, delta):
    """Canonne, Kamath & Steinke 2020, Theorem 7. For several coordinates and a scale below 3, concentrated DP."""
    found = DiscreteGaussian.calibrated(query, epsilon=epsilon, delta=delta, adjacency=AddRemove())
    cost = account(found.event, adjacency=AddRemove()).epsilon(delta=delta)
    loose = query.dimension > 1 and found.scale < 3.1
    assert epsilon * (0.9 if loose else 1 - 1e-5) <= cost <= epsilon


@pytest.mark.parametrize("adjacency", [AddRemove(), ReplaceOne(), ZeroOut()], ids=str)
@pytest.mark.parametrize("query", _QUERIES[:-1], ids=lambda q: type(q).__name__)
@pytest.mark.parametrize("epsilon", [0.01, 0.1, 1 / 3, 1.0, 30.0])
def test_p2_laplace_costs_exactly_epsilon(query, adjacency, epsilon):
    found = Laplace.calibrated(query, epsilon=epsilon, adjacency=adjacency)
    cost = account(found.event, adjacency=adjacency).epsilon(delta=0.0)
    assert epsilon * (1 - 1e-12) <= cost <= epsilon * (1 + 1e-15)


@pytest.mark.parametrize("adjacency", [AddRemove(), ReplaceOne()], ids=str)
def test_p5_hair_colours(adjacency):
    """500 dark, 399 the next, five colours, ε = 0.1: P[dark] ≥ 1 − 4·exp(−5) = 0.973."""
    hair = ExponentialMechanism.classic(TallyOf(_HAIR), epsilon=0.1, adjacency=adjacency)
    assert hair.weight == pytest.approx(0.05)
    chance = hair.probabilities(_HEADS)[0]
    assert chance >= 1 - 4 * math.exp(-5)
    assert 1 - 4 * math.exp(-5) == pytest.approx(0.973, abs=5e-4)
    counts = np.array([500, 399, 200, 40, 100])
    assert chance == pytest.approx(1 / np.exp(0.05 * (counts - 500)).sum(), rel=1e-7)


def test_p5_who_can_only_raise_a_score_pays_half_of_the_textbook():
    classic = ExponentialMechanism.classic(TallyOf(_HAIR), epsilon=0.1, adjacency=AddRemove())
    assert classic.event == events.ExponentialMechanism(epsilon=0.05)
    exchanged = ExponentialMechanism.classic(TallyOf(_HAIR), epsilon=0.1, adjacency=ReplaceOne())
    assert exchanged.event == events.ExponentialMechanism(epsilon=0.1)


def _profit(value, price):
    return price if value >= price else 0.0


def test_p5_two_buyers():
    """Values of 3 € and 4 €: 3 € from both is best, a cent more loses one, and noise on the price does just that."""
    score = SumOfScores((2.99, 3.0, 3.01, 4.0, 4.01), _profit, 0.0, 5.0)
    profits = score.evaluate([3.0, 4.0]) * score.grid.granularity
    assert profits == pytest.approx([5.98, 6.0, 3.01, 4.0, 0.0], abs=score.grid.granularity)
    many = [3.0, 4.0] * 100
    chosen = ExponentialMechanism(score, 1.0, AddRemove()).probabilities(many)
    assert chosen @ [598, 600, 301, 400, 0] > 0.99 * 600
    exact = Laplace(Sum(0.0, 5.0), 5.0, AddRemove())
    noisy = np.array([3.0 + exact.release([], SeededNoise(seed)) for seed in range(300)])
    assert np.mean([sum(_profit(value, price) for value in many) for price in noisy]) < 0.6 * 600


@pytest.mark.parametrize("kind", [ExponentialMechanism, PermuteAndFlip, ReportNoisyMax])
def test_p5_outputs_must_not_come_from_the_data(kind):
    for candidates in (lambda data: sorted(set(data)), np.array(_HAIR), set(_HAIR)):
        with pytest.raises(InvalidArgument, match="fixed before the data is seen"):
            kind(TallyOf(candidates), 0.1, AddRemove())


@pytest.mark.parametrize("size", [2, 5, 100])
@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999])
def test_p5_the_utility_bound(size, confidence):
    """McSherry & Talwar 2007: s* − s ≤ (2Δ/ε) ln(|O|/β|O*|) with probability 1 − β."""
    score = TallyOf(tuple(range(size)))
    mechanism = ExponentialMechanism.classic(score, epsilon=0.5, adjacency=ReplaceOne())
    theorem = 2 / 0.5 * math.log(size / (1 - confidence))
    bound = mechanism.error(confidence=confidence)
    assert bound <= math.ceil(theorem)
    data = [0] * (int(bound) + 1)  # everybody else is further behind than the bound
    assert mechanism.probabilities(data)[0] >= confidence


def test_p6_a_bernoulli_parameter_is_a_truncated_beta():
    """ε = 0.1 on (0.1, 0.9): Δ = ln 10, ε/2Δ = 0.0217, so Beta(1 + 0.0217 N_H, 1 + 0.0217 N_T), cut off."""
    coin = IntervalExponential.classic(BernoulliLikelihood(0.1, 0.9), epsilon=0.1, adjacency=AddRemove())
    assert coin.utility.sensitivity(AddRemove()) == pytest.approx(math.log(10), rel=1e-15)
    assert coin.weight == pytest.approx(0.1 / (2 * math.log(10)), rel=1e-12)
    assert round(coin.weight, 4) == 0.0217
    law = stats.beta(1 + coin.weight * 700, 1 + coin.weight * 300)
    edges = np.linspace(0.1, 0.9, coin.cells + 1)
    expected = np.diff(law.cdf(edges)) / (law.cdf(0.9) - law.cdf(0.1))
    found = coin.probabilities([True] * 700 + [False] * 300)
    assert np.abs(found - expected).sum() < 1e-4


@pytest.mark.parametrize(("lower", "upper"), [(0.0, 1.0), (0.0, 0.9), (0.1, 1.0)])
def test_p6_unrestricted_the_sensitivity_is_infinite(lower, upper):
    with pytest.raises(NotProved, match="Restrict the parameter"):
        BernoulliLikelihood(lower, upper)


def test_p7_only_answers_above_are_paid_for():
    """A thousand answers below, then two above: one event, and then the session is over."""
    mechanism = SparseVector(500.0, 1.0, AddRemove(), positives=2)
    assert mechanism.event == events.SparseVector(epsilon=1.0, positives=2)
    session = mechanism.release([1] * 1000, SeededNoise(3))
    assert not any(session.ask(CountWhere(lambda record: record == 0)) for _ in range(1000))
    assert session.left == 2
    assert session.ask(CountWhere(lambda record: record == 1))
    assert session.ask(CountWhere(lambda record: record == 1))
    with pytest.raises(BudgetExceeded):
        session.ask(CountWhere(lambda record: record == 1))
    assert account(mechanism.event, adjacency=AddRemove()).epsilon(delta=0.0) == pytest.approx(1.0)


def test_p9_the_small_database():
    """Dwork & Roth 2014, Algorithm 4: P ∝ exp(ε·n·score/2) over all C(|X| + m − 1, m) databases."""
    universe, people = (0, 1, 2), 60
    queries = tuple(lambda record, cut=cut: record >= cut for cut in (1, 2))
    mechanism = SmallDatabase(universe, queries, 4, people, 1.0, ReplaceOne())
    assert mechanism.databases == math.comb(6, 4)
    data = [0] * 30 + [1] * 20 + [2] * 10

    def score(database):
        return -max(abs(sum(map(q, data)) / people - sum(map(q, database)) / len(database)) for q in queries)

    from itertools import combinations_with_replacement

    weights = np.exp([0.5 * people * score(y) for y in combinations_with_replacement(universe, 4)])
    assert mechanism.probabilities(data) == pytest.approx(weights / weights.sum(), rel=1e-6)
    answers = mechanism.release(data, SeededNoise(1))
    assert len(answers) == 4
    assert set(answers) <= set(universe)
    assert SmallDatabase.sized(
        universe, queries, accuracy=0.5, people=people, epsilon=1.0, adjacency=ReplaceOne()
    ).size == math.ceil(math.log(2) / 0.25)
