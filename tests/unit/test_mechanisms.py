"""What mechanisms are made of: fields, events, charges, errors, and what they refuse."""

import math
from dataclasses import FrozenInstanceError

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privet import Caveat, Ledger, account, events
from privet.adjacency import AddRemove, ReplaceOne, Unit, ZeroOut
from privet.errors import BudgetExceeded, InvalidArgument, NotProved, OutOfReach
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
    IntervalExponential,
    KaryResponse,
    Laplace,
    PermuteAndFlip,
    QuantileRank,
    RandomizedResponse,
    ReportNoisyMax,
    SmallDatabase,
    SparseVector,
    Sum,
    SumOfScores,
    SumUtility,
    TallyOf,
    VectorSum,
)
from privet.mechanisms.noise_scales import (
    discrete_gaussian_quantile,
    discrete_laplace_quantile,
    divide_up,
    split_failure,
)
from privet.randomness import SecureNoise, SeededNoise

A, R = AddRemove(), ReplaceOne()
_HAIR = TallyOf(("dark", "fair", "red"))

MECHANISMS = [
    (RandomizedResponse(0.75, R), [True, False, "neither"]),
    (KaryResponse(("a", "b", "c"), 0.5, R), ["a", "b", None]),
    (Laplace(Sum(0.0, 1.0), 2.0, A), [0.5, None]),
    (Laplace(BinaryAttributes(3), 2.0, A), [(1, 0, 1)]),
    (DiscreteLaplace(Count(), 2.0, A), [1, 2]),
    (DiscreteLaplace(HistogramOf(("a", "b")), 2.0, R), ["a"]),
    (Gaussian(Sum(0.0, 1.0), 2.0, A), [0.5]),
    (Gaussian(VectorSum(2, 1.0), 2.0, A), [(1.0, 2.0)]),
    (DiscreteGaussian(CountWhere(bool), 2.0, R), [1, 0]),
    (ExponentialMechanism(_HAIR, 0.5, A), ["dark", "blue"]),
    (PermuteAndFlip(_HAIR, 0.5, A), ["dark", "blue"]),
    (ReportNoisyMax(_HAIR, 0.5, R), ["dark", "blue"]),
    (IntervalExponential(BernoulliLikelihood(0.1, 0.9), 0.5, A, cells=16), [True, False]),
    (IntervalExponential(QuantileRank(0.5, 0.0, 1.0), 0.5, R, cells=16), [0.2, 0.9]),
    (IntervalExponential(SumUtility(0.0, 1.0, lambda x, t: -abs(x - t), -1.0, 0.0), 0.5, A, cells=16), [0.2]),
    (SparseVector(10.0, 1.0, A), [1, 2, 3]),
    (SmallDatabase((0, 1), (bool,), 3, 2, 1.0, R), [0, 1]),
]
_IDS = [f"{type(m).__name__}-{place}" for place, (m, _) in enumerate(MECHANISMS)]


@pytest.mark.parametrize(("mechanism", "data"), MECHANISMS, ids=_IDS)
def test_every_mechanism_is_frozen_and_has_an_event_of_a_known_cost(mechanism, data):
    with pytest.raises(FrozenInstanceError):
        mechanism.adjacency = A
    assert isinstance(mechanism.event, events.Event)
    delta = 1e-6 if "Gaussian" in type(mechanism).__name__ else 0.0
    assert 0 < account(mechanism.event, adjacency=mechanism.adjacency).epsilon(delta=delta) < math.inf


@pytest.mark.parametrize(("mechanism", "data"), MECHANISMS, ids=_IDS)
def test_every_mechanism_draws_secure_noise_unless_told_otherwise(mechanism, data):
    mechanism.release(data)
    first, second = (mechanism.release(data, SeededNoise(5)) for _ in range(2))
    if not isinstance(mechanism, SparseVector):
        assert np.array_equal(np.asarray(first), np.asarray(second))


@pytest.mark.parametrize(("mechanism", "data"), MECHANISMS, ids=_IDS)
def test_a_charge_carries_the_event_and_what_the_noise_must_say(mechanism, data):
    empty = Ledger(mechanism.adjacency)
    assert mechanism.charge(empty, "asked").entries[0].event == mechanism.event
    assert mechanism.charge(empty, "asked", noise=SecureNoise()).caveats == frozenset()
    assert Caveat.SEEDED_NOISE in mechanism.charge(empty, "asked", noise=SeededNoise(1)).caveats
    assert len(empty) == 0
    with pytest.raises(InvalidArgument, match="same adjacency"):
        mechanism.charge(Ledger(ZeroOut()), "asked")
    with pytest.raises(InvalidArgument, match="same adjacency"):
        mechanism.charge(Ledger(type(mechanism.adjacency)(Unit.USER)), "asked")


@pytest.mark.parametrize(("mechanism", "data"), MECHANISMS, ids=_IDS)
def test_empty_data_is_answered_like_any_other(mechanism, data):
    """Whether anybody is there is a secret; only where the number of people is public may it be told."""
    if isinstance(mechanism, SmallDatabase):
        with pytest.raises(InvalidArgument, match="state the true one"):
            mechanism.release([])
    else:
        mechanism.release([])


@pytest.mark.parametrize("bad", [math.nan, math.inf, None, {}, [], "x", b"", object(), 10**400, -(10**400)])
@pytest.mark.parametrize(("mechanism", "data"), MECHANISMS, ids=_IDS)
def test_no_single_record_raises_or_warns(mechanism, data, bad):
    released = mechanism.release([*data[1:], bad])
    if isinstance(mechanism, SparseVector):
        released.ask(CountWhere(lambda record: record + 1 > 0))


def test_answers_have_the_type_of_the_question():
    assert isinstance(Laplace(Count(), 1.0, A).release([1]), float)
    assert isinstance(DiscreteLaplace(Count(), 1.0, A).release([1]), int)
    assert Laplace(BinaryAttributes(4), 1.0, A).release([(1, 1, 0, 0)]).shape == (4,)
    assert DiscreteGaussian(BinaryAttributes(4), 1.0, A).release([(1, 1, 0, 0)]).dtype == np.int64
    assert RandomizedResponse(0.75, R).release([True, False]).dtype == np.bool_
    assert set(KaryResponse(("a", "b"), 0.75, R).release(["a"] * 50)) <= {"a", "b"}


@pytest.mark.parametrize("mechanism", [Laplace(Sum(0.0, 0.3), 1.7, A), Gaussian(Sum(0.0, 0.3), 1.7, A)])
def test_answers_lie_on_a_public_power_of_two_grid(mechanism):
    step = mechanism.grid.granularity
    assert math.frexp(step)[0] == 0.5
    assert step <= mechanism.scale / 64
    answers = [mechanism.release([0.1] * 7) for _ in range(50)]
    assert all(answer / step == round(answer / step) for answer in answers)


@pytest.mark.parametrize(
    ("query", "adjacency", "event"),
    [
        (CountWhere(bool), A, events.DiscreteLaplace(2048.0, 1024)),
        (CountWhere(bool), R, events.DiscreteLaplace(2048.0, 512)),
        (Sum(-1.0, 3.0), A, events.DiscreteLaplace(1024.0, 1536)),
        (Sum(-1.0, 3.0), R, events.DiscreteLaplace(512.0, 512)),
        (BinaryAttributes(3), A, events.Repeat(events.DiscreteLaplace(2048.0, 1024), 3)),
        (HistogramOf((1, 2)), R, events.Repeat(events.DiscreteLaplace(2048.0, 512), 2)),
    ],
)
def test_the_event_is_in_steps_and_relative_to_one_contribution(query, adjacency, event):
    assert Laplace(query, 2.0, adjacency).event == event


def test_a_distance_between_two_steps_is_rounded_up_and_accounted_so():
    found = Laplace.calibrated(Sum(0.0, 0.3), epsilon=1.0, adjacency=A)
    steps = 0.3 / found.grid.granularity
    assert steps != round(steps)
    assert found.event.contribution == math.ceil(steps)
    assert 0.3 < found.scale < 0.3 * 1.001


def test_an_odd_distance_is_half_a_contribution_of_an_exchange():
    """½ each, for a distance of 1 between 0 and 1."""
    assert DiscreteGaussian(CountWhere(bool), 3.0, R).event == events.DiscreteGaussian(3.0, 0.5)


@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.99])
@pytest.mark.parametrize("kind", [Laplace, DiscreteLaplace, Gaussian, DiscreteGaussian])
def test_the_error_is_the_quantile_of_the_noise(kind, confidence):
    """20,000 numbers at once: false alarm 1e-9; finds a coverage that is 2 % off."""
    size = 20_000
    mechanism = kind(BinaryAttributes(size), 3.0, A)
    one = kind(CountWhere(bool), 3.0, A)
    noise = mechanism.release([[0] * size], SeededNoise(11))
    covered = (np.abs(noise) <= one.error(confidence=confidence)).mean()
    slack = 6.2 * math.sqrt(confidence * (1 - confidence) / size)
    assert covered >= confidence - slack
    assert covered <= confidence + slack + (0.17 if isinstance(one.error(confidence=0.9), int) else 0.002)
    assert mechanism.error(confidence=confidence) > one.error(confidence=confidence)


@pytest.mark.parametrize("scale", [0.2, 1.0, 7.3, 500.0])
@pytest.mark.parametrize("failure", [0.5, 0.05, 1e-6])
def test_quantiles_are_the_smallest(scale, failure):
    x = np.arange(0, int(60 * scale) + 60)
    for quantile, heights in (
        (discrete_laplace_quantile, np.exp(-x / scale)),
        (discrete_gaussian_quantile, np.exp(-0.5 * (x / scale) ** 2)),
    ):
        total = 2 * heights.sum() - heights[0]
        found = quantile(scale, failure)
        assert 2 * heights[found + 1 :].sum() / total <= failure * (1 + 1e-9)
        if found > 0:
            assert 2 * heights[found:].sum() / total > failure * (1 - 1e-9)


def test_quantiles_of_wide_noise():
    """From scale 4096 on a normal quantile and a step: never too small."""
    assert discrete_gaussian_quantile(5000.0, 0.05) == math.ceil(1.959963985 * 5000) + 1
    assert split_failure(0.1, 1) == pytest.approx(0.1)
    assert (1 - split_failure(0.1, 7)) ** 7 == pytest.approx(0.9)


def test_quotients_are_rounded_up():
    assert divide_up(1, 0.1) == 10.0
    assert divide_up(3, 7.0) >= 3 / 7
    assert divide_up(1, 3.0) * 3 >= 1


def test_the_error_of_randomised_response_holds_for_every_share():
    coin = RandomizedResponse(0.75, R)
    assert coin.error(people=10_000, confidence=0.95) == pytest.approx(
        2 * math.sqrt(math.log(40) / 20_000), rel=1e-12
    )
    many = KaryResponse(("a", "b", "c"), 0.5, R)
    assert many.error(people=10_000, confidence=0.95) == pytest.approx(
        4 * math.sqrt(math.log(120) / 20_000), rel=1e-12
    )


def test_intervals_of_randomised_response():
    coin = RandomizedResponse(0.75, R)
    low, high = coin.interval([True] * 260 + [False] * 740, confidence=0.95)
    assert low <= 0.02 <= high
    assert coin.interval([True] * 50, confidence=0.95).upper == 1.0
    many = KaryResponse(("a", "b", "c"), 0.5, R)
    shares = many.interval(["a"] * 300 + ["b"] * 200 + ["c"] * 500, confidence=0.95)
    assert [low <= share <= high for (low, high), share in zip(shares, (0.2, 0.0, 1.0), strict=True)] == [
        True
    ] * 3
    assert many.estimate(["a"] * 300 + ["b"] * 200 + ["c"] * 500) == pytest.approx([0.2, -0.2, 1.0])
    assert many.variance(fractions=(1.0, 0.0, 0.0), people=100)[0] == pytest.approx(0.25 / 100 / 0.0625)


@pytest.mark.parametrize("adjacency", [R, ZeroOut()], ids=str)
@pytest.mark.parametrize("epsilon", [0.1, 1.0, math.log(3), 8.0])
def test_randomised_response_is_as_truthful_as_epsilon_allows(epsilon, adjacency):
    for found in (
        RandomizedResponse.calibrated(epsilon=epsilon, adjacency=adjacency),
        KaryResponse.calibrated(("a", "b", "c", "d"), epsilon=epsilon, adjacency=adjacency),
    ):
        cost = account(found.event, adjacency=adjacency).epsilon(delta=0.0)
        assert epsilon * (1 - 1e-9) <= cost <= epsilon * (1 + 1e-14)


@pytest.mark.parametrize("kind", [ExponentialMechanism, PermuteAndFlip, ReportNoisyMax])
def test_the_error_of_a_selection_holds(kind):
    """Two candidates a little further apart than the error: the worse one wins at most as often as announced."""
    mechanism = kind(TallyOf(("a", "b")), 1.0, R)
    gap = int(mechanism.error(confidence=0.9))
    wins = sum(mechanism.release(["a"] * gap, SeededNoise(seed)) == "b" for seed in range(600))
    assert wins <= 0.1 * 600 + 5 * math.sqrt(600 * 0.09)
    assert kind(TallyOf(("a",)), 1.0, R).error(confidence=0.9) == 0
    assert kind(TallyOf(("a",)), 1.0, R).release([]) == "a"


def test_the_textbook_never_costs_more_than_its_epsilon():
    score = SumOfScores((1, 2), lambda record, candidate: record * candidate, -0.37, 0.11)
    for kind in (ExponentialMechanism, PermuteAndFlip, ReportNoisyMax):
        for adjacency in (A, R, ZeroOut()):
            found = kind.classic(score, epsilon=0.3, adjacency=adjacency)
            assert found.epsilon <= 0.3
            assert found.weight == pytest.approx(0.3 / 2 / score.sensitivity(adjacency), rel=2e-3)
    utility = SumUtility(0.0, 1.0, lambda x, t: x * t, -0.37, 0.11)
    assert IntervalExponential.classic(utility, epsilon=0.3, adjacency=R).epsilon <= 0.3


def test_a_median_is_found():
    data = list(np.linspace(0, 40, 2001))
    median = IntervalExponential(QuantileRank(0.5, 0.0, 100.0), 1.0, A)
    assert abs(median.release(data, SeededNoise(1)) - 20) < 1
    chances = median.probabilities(data)
    assert chances[np.abs(median.points - 20) < 0.5].sum() > 0.9


def test_a_small_database_is_close_to_the_data():
    universe = tuple((a, b) for a in (0, 1) for b in (0, 1))
    queries = tuple(lambda record, place=place: record[place] for place in (0, 1))
    data = [universe[0]] * 100 + [universe[1]] * 200 + [universe[3]] * 700
    mechanism = SmallDatabase(universe, queries, 10, 1000, 1.0, R)
    released = mechanism.release(data, SeededNoise(2))
    off = max(abs(np.mean([q(row) for row in data]) - np.mean([q(row) for row in released])) for q in queries)
    assert off <= mechanism.error(confidence=0.99)
    assert off < 0.11


def test_a_session_refuses_what_could_move_too_far_and_spends_nothing_on_it():
    session = SparseVector(10.0, 1.0, A, positives=1).release([1] * 50, SeededNoise(1))
    with pytest.raises(InvalidArgument, match="larger distance"):
        session.ask(Sum(0.0, 2.0))
    with pytest.raises(InvalidArgument, match="one count or sum"):
        session.ask(BinaryAttributes(2))
    with pytest.raises((InvalidArgument, NotProved), match="CoordinateQuery|bound each coordinate"):
        session.ask(VectorSum(2, 0.5))
    assert session.left == 1
    assert session.ask(Sum(0.0, 1.0))
    with pytest.raises(BudgetExceeded, match="Open a new session"):
        session.ask(Sum(0.0, 1.0))


def test_the_noise_of_a_session_adds_up_to_epsilon():
    """ε₁ + ε₂ = distance/scale₁ + 2·positives·distance/scale₂, never above ε."""
    for epsilon in (0.1, 1 / 3, 1.0, 7.0):
        for positives in (1, 2, 30):
            mechanism = SparseVector(0.0, epsilon, A, positives=positives)
            once, often = mechanism.scales
            spent = mechanism.steps / once + 2 * positives * mechanism.steps / often
            assert epsilon * (1 - 1e-12) <= spent <= epsilon * (1 + 1e-15)


def test_the_error_of_a_session_is_below_the_textbooks():
    """Dwork & Roth 2014, Theorem 3.24: 8 (ln k + ln(2/β))/ε for one positive."""
    mechanism = SparseVector(0.0, 1.0, A)
    for queries in (1, 10, 1000):
        textbook = 8 * (math.log(queries) + math.log(2 / 0.05))
        assert mechanism.error(queries=queries, confidence=0.95) < textbook


_REFUSALS = [
    (lambda: Laplace(Count(), 1.0, "add-remove"), "Use AddRemove"),
    (lambda: Laplace(len, 1.0, A), "Use Count"),
    (lambda: Laplace(Count(), 0.0, A), "positive number"),
    (lambda: Laplace(Count(), math.nan, A), "ordinary number"),
    (lambda: Laplace(Count(), 1.0, A, granularity=0.3), "such as"),
    (lambda: Laplace(Count(), 1.0, A, granularity=2.0), "choose a finer one"),
    (lambda: Laplace.calibrated(Count(), epsilon=0.0, adjacency=A), "positive number"),
    (lambda: Laplace.calibrated(Count(), epsilon=1.0, adjacency=None), "such as AddRemove"),
    (lambda: Laplace(Count(), 1.0, A).error(confidence=1.0), "probability inside"),
    (lambda: DiscreteLaplace(Sum(0.0, 1.0), 1.0, A), "Use Laplace or Gaussian"),
    (
        lambda: DiscreteGaussian.calibrated(BoxSum(2, 0.0, 1.0), epsilon=1.0, delta=1e-6, adjacency=A),
        "on a grid",
    ),
    (lambda: Gaussian.analytic(Count(), epsilon=1.0, delta=0.0, adjacency=A), "probability inside"),
    (lambda: Gaussian.analytic(Count(), epsilon=-1.0, delta=1e-6, adjacency=A), "positive number"),
    (lambda: Gaussian("sum", 1.0, A), "Use Count"),
    (lambda: RandomizedResponse(0.5, R), "more often"),
    (lambda: RandomizedResponse(1.0, R), "probability inside"),
    (lambda: RandomizedResponse.biased(0.5, adjacency=R), "Use 0.25"),
    (lambda: RandomizedResponse.calibrated(epsilon=100.0, adjacency=R), "below 30"),
    (lambda: RandomizedResponse(0.75, R).estimate([]), "what release returned"),
    (lambda: RandomizedResponse(0.75, R).estimate(["yes"]), "Give a bool"),
    (lambda: RandomizedResponse(0.75, R).posterior("yes", prior=0.1), "Give a bool"),
    (lambda: RandomizedResponse(0.75, R).posterior(True, prior=0.0), "probability inside"),
    (lambda: RandomizedResponse(0.75, R).variance(yes=1.5, people=3), "at most 1"),
    (lambda: KaryResponse(("a", "b", "c"), 1 / 3, R), "more often"),
    (lambda: KaryResponse("ab", 0.9, R), "Write out every value"),
    (lambda: KaryResponse(("a",), 0.9, R), "from 2 upwards"),
    (lambda: KaryResponse(("a", "b"), 0.9, R).posterior("c", prior=(0.5, 0.5)), "what the person said"),
    (lambda: KaryResponse(("a", "b"), 0.9, R).posterior("a", prior=(0.5, 0.6)), "order of 'answers'"),
    (lambda: KaryResponse(("a", "b"), 0.9, R).estimate(["c"]), "what release returned"),
    (lambda: ExponentialMechanism(lambda data: data, 1.0, A), "TallyOf or SumOfScores"),
    (lambda: ExponentialMechanism.classic(None, epsilon=1.0, adjacency=A), "such as RightAnswers"),
    (lambda: ExponentialMechanism(_HAIR, 0.0, A), "positive number"),
    (lambda: IntervalExponential(_HAIR, 1.0, A), "Use BernoulliLikelihood"),
    (lambda: IntervalExponential(QuantileRank(0.5, 0.0, 1.0), 1.0, A, cells=1), "from 2 upwards"),
    (lambda: SparseVector(0.0, 1.0, A, positives=0), "from 1 upwards"),
    (lambda: SparseVector(math.nan, 1.0, A), "ordinary number"),
    (lambda: SmallDatabase((0, 1), [3], 2, 2, 1.0, R), "lambda record"),
    (lambda: SmallDatabase("01", (bool,), 2, 2, 1.0, R), "Write out every value"),
]


@pytest.mark.parametrize(("make", "fix"), _REFUSALS)
def test_bad_arguments_are_refused_with_a_fix(make, fix):
    with pytest.raises(InvalidArgument, match=fix):
        make()


@pytest.mark.parametrize(
    ("make", "fix"),
    [
        (lambda: RandomizedResponse(0.75, A), "ReplaceOne"),
        (lambda: KaryResponse(("a", "b"), 0.75, A), "ReplaceOne"),
        (lambda: Laplace(VectorSum(2, 1.0), 1.0, A), "BoxSum"),
        (lambda: Laplace(Count(), 1.0, R), "CountWhere"),
        (lambda: DiscreteLaplace.calibrated(Count(), epsilon=1.0, adjacency=R), "CountWhere"),
        (lambda: Gaussian.analytic(Count(), epsilon=1.0, delta=1e-6, adjacency=R), "CountWhere"),
        (lambda: SmallDatabase((0, 1), (bool,), 2, 2, 1.0, A), "ReplaceOne"),
        (lambda: BernoulliLikelihood(0.0, 0.5), "for example"),
    ],
)
def test_what_no_theorem_covers_is_refused(make, fix):
    with pytest.raises(NotProved, match=fix):
        make()


def test_what_is_out_of_reach_is_refused():
    with pytest.raises(OutOfReach, match="Use a smaller universe"):
        SmallDatabase(tuple(range(100)), (bool,), 20, 2, 1.0, R)
    with pytest.raises(OutOfReach, match="larger ε"):
        DiscreteGaussian.calibrated(Count(), epsilon=1e-6, delta=1e-9, adjacency=A)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Laplace(Count(), 1e300, A),
        lambda: DiscreteLaplace(Count(), 1e16, A),
        lambda: Gaussian(Count(), 1e19, A),
        lambda: DiscreteGaussian(Count(), 1e16, A),
        lambda: Gaussian(VectorSum(2, 1.0), 1e7, A),
        lambda: Gaussian(VectorSum(2, 1.0), 1e-12, A),
        lambda: Gaussian(VectorSum(2, 1.0), 1.0, A, granularity=0.5),
        lambda: Gaussian(VectorSum(2, 1.0), 1.0, A, granularity=2.0**-60),
        lambda: ExponentialMechanism(_HAIR, 1e-300, A),
        lambda: PermuteAndFlip(_HAIR, 1e-16, A),
        lambda: ReportNoisyMax(_HAIR, 1e-16, A),
        lambda: IntervalExponential(QuantileRank(0.5, 0.0, 1.0), 1e-16, A),
        lambda: SparseVector(0.0, 1e-16, A),
        lambda: SmallDatabase((0, 1), (bool,), 2, 2, 1e-16, R),
    ],
)
def test_noise_beyond_64_bits_is_refused_before_anything_is_charged(make):
    with pytest.raises(OutOfReach, match="Ask for a larger ε or a smaller scale|Add noise"):
        make()


def test_a_large_threshold_is_taken():
    session = SparseVector(1e9, 1.0, A).release([1] * 10)
    assert not session.ask(CountWhere(bool))


@pytest.mark.parametrize("ratio", [2e-6, 1e-3, 0.1, 1.0, 1e5])
def test_vectors_take_noise_of_many_sizes(ratio):
    mechanism = Gaussian(VectorSum(3, 8.0), 8.0 * ratio, A)
    answer = mechanism.release([(300.0, 400.0, 0.0)], SeededNoise(1))
    assert np.abs(answer - [4.8, 6.4, 0.0]).max() < 50 * ratio + 1e-5


_RECORDS = st.sampled_from(["dark", "fair", "red", 0, 1, True, 0.2, 0.9, None, math.nan, "x"])
_CHOOSERS = [
    ExponentialMechanism(_HAIR, 0.7, A),
    ExponentialMechanism.classic(_HAIR, epsilon=0.7, adjacency=R),
    ExponentialMechanism(SumOfScores((1, 2, 3), lambda x, c: x * c, -0.37, 0.11), 0.7, A),
    ExponentialMechanism(SumOfScores((1, 2, 3), lambda x, c: x - c, -0.37, 0.11), 0.7, R),
    IntervalExponential(BernoulliLikelihood(0.1, 0.9), 0.7, A, cells=64),
    IntervalExponential(BernoulliLikelihood(0.02, 0.6), 0.7, R, cells=64),
    IntervalExponential(QuantileRank(0.3, 0.0, 1.0), 0.7, A, cells=64),
    IntervalExponential(QuantileRank(0.3, 0.0, 1.0), 0.7, R, cells=64),
    SmallDatabase((0, 1, "fair"), (bool, lambda record: record == 1), 3, 6, 0.7, R),
]


@pytest.mark.parametrize("mechanism", _CHOOSERS, ids=lambda m: type(m).__name__)
@given(data=st.lists(_RECORDS, min_size=5, max_size=5), record=_RECORDS, other=_RECORDS)
def test_no_choice_is_more_than_exp_epsilon_times_as_likely(mechanism, data, record, other):
    """The exact chances under two neighbours; their logarithms lie in an interval of length ε."""
    second = [*data, other] if isinstance(mechanism.adjacency, ReplaceOne) else data
    losses = np.log(mechanism.probabilities([*data, record])) - np.log(mechanism.probabilities(second))
    epsilon = mechanism.event.epsilon
    assert np.abs(losses).max() <= epsilon + 1e-12
    assert np.ptp(losses) <= epsilon + 1e-12
