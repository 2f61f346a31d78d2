"""What each mechanism releases has the law that it claims.

Every test is a χ² test over the cells of the exact law, written down here a second time. Each has a false-alarm rate
of 1e-9; the deviation that it finds, with a probability above 0.99, stands in its docstring. Seeds are not tuned.
"""

import importlib.util
import math
import sys
from itertools import combinations_with_replacement, permutations
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from scipy.special import ndtr

from privet.adjacency import AddRemove, ReplaceOne
from privet.mechanisms import (
    BernoulliLikelihood,
    BinaryAttributes,
    CountWhere,
    DiscreteGaussian,
    DiscreteLaplace,
    ExponentialMechanism,
    Gaussian,
    IntervalExponential,
    KaryResponse,
    Laplace,
    PermuteAndFlip,
    RandomizedResponse,
    ReportNoisyMax,
    SmallDatabase,
    SparseVector,
    TallyOf,
    VectorSum,
    rounded,
)
from privet.mechanisms.rounded import rounded_gaussian
from privet.randomness import SeededNoise

_FALSE_ALARM = 1e-9
A, R = AddRemove(), ReplaceOne()

_PATH = Path(__file__).with_name("lower_bound.py")
_SPEC = importlib.util.spec_from_file_location("privet_tests_lower_bound", _PATH)
_MODULE = importlib.util.module_from_spec(_SPEC)
sys.modules[_SPEC.name] = _MODULE
_SPEC.loader.exec_module(_MODULE)


def distance(counts, expected):
    """χ² over cells of at least 10 expected outcomes, the others together; and the limit that it may reach."""
    counts, expected = np.asarray(counts, dtype=float), np.asarray(expected, dtype=float)
    common = expected >= 10
    counts = np.append(counts[common], counts[~common].sum())
    expected = np.append(expected[common], max(expected[~common].sum(), 1e-9))
    if expected[-1] < 10 and expected.size > 2:  # too rare for a cell of its own
        counts[0], expected[0] = counts[0] + counts[-1], expected[0] + expected[-1]
        counts, expected = counts[:-1], expected[:-1]
    found = ((counts - expected) ** 2 / expected).sum()
    return found, stats.chi2.isf(_FALSE_ALARM, df=expected.size - 1)


def fits(counts, chances):
    found, limit = distance(counts, np.asarray(chances) * np.sum(counts))
    return found <= limit


def binned(values, reach):
    """How many values are −reach … reach; what is outside is counted at the ends."""
    return np.bincount(np.clip(values, -reach, reach).astype(int) + reach, minlength=2 * reach + 1)


def folded(masses, reach):
    """The masses of −m … m, with those outside of ±reach added at the ends."""
    half = (len(masses) - 1) // 2
    inner = masses[half - reach : half + reach + 1].copy()
    inner[0] += masses[: half - reach].sum()
    inner[-1] += masses[half + reach + 1 :].sum()
    return inner


def laplace_masses(scale, reach):
    x = np.arange(-40 * math.ceil(scale), 40 * math.ceil(scale) + 1)
    heights = np.exp(-np.abs(x) / scale)
    return folded(heights / heights.sum(), reach)


def gaussian_masses(scale, reach):
    x = np.arange(-40 * math.ceil(scale), 40 * math.ceil(scale) + 1)
    heights = np.exp(-0.5 * (x / scale) ** 2)
    return folded(heights / heights.sum(), reach)


_MANY = 100_000


@pytest.mark.parametrize(
    ("kind", "masses"), [(DiscreteLaplace, laplace_masses), (DiscreteGaussian, gaussian_masses)]
)
@pytest.mark.parametrize("scale", [0.7, 5.0])
def test_whole_number_noise(kind, masses, scale):
    """100,000 numbers find a scale that is 4 % off."""
    drawn = kind(BinaryAttributes(_MANY), scale, A).release([], SeededNoise(1))
    assert fits(binned(drawn, 20), masses(scale, 20))
    assert not fits(binned(drawn, 20), masses(1.04 * scale, 20))


@pytest.mark.parametrize("kind", [Laplace, Gaussian])
def test_noise_on_a_grid(kind):
    """The same in steps of the grid, in bins of 256: finds a scale that is 4 % off."""
    mechanism = kind(BinaryAttributes(_MANY), 1.5, A)
    steps = mechanism.release([], SeededNoise(2)) / mechanism.grid.granularity
    assert (steps == np.round(steps)).all()
    x = np.arange(-60_000, 60_001)

    def cells(values):
        return np.clip(np.floor_divide(values, 256), -20, 20).astype(int) + 20

    def masses(scale):
        heights = np.exp(-np.abs(x) / scale) if kind is Laplace else np.exp(-0.5 * (x / scale) ** 2)
        return np.bincount(cells(x), heights / heights.sum())

    counts, scale = np.bincount(cells(steps), minlength=41), 1.5 / mechanism.grid.granularity
    assert fits(counts, masses(scale))
    assert not fits(counts, masses(1.04 * scale))


@pytest.mark.parametrize("scale", [0.3, 1.0, 6.0])
@pytest.mark.parametrize("unsure", [1e-11, 0.2], ids=["float64", "with more bits"])
def test_a_real_gaussian_that_is_rounded(scale, unsure, monkeypatch):
    """100,000 numbers find a scale that is 4 % off; 3,000, each fifth decided in whole numbers, one 20 % off."""
    monkeypatch.setattr(rounded, "_UNSURE", unsure)
    size = _MANY if unsure < 0.1 else 3000
    drawn = rounded_gaussian(scale, size, SeededNoise(3))
    x = np.arange(-200, 201)

    def masses(width):
        return folded(ndtr((x + 0.5) / width) - ndtr((x - 0.5) / width), 20)

    assert fits(binned(drawn, 20), masses(scale))
    assert not fits(binned(drawn, 20), masses(scale * (1.04 if unsure < 0.1 else 1.2)))


def test_a_vector_keeps_its_direction_and_gets_independent_noise():
    """Means within 6 standard errors; correlations of 20,000 coordinates in 5 releases below 6/√n."""
    size = 20_000
    vector = np.zeros(size)
    vector[0], vector[1] = 3.0, 4.0
    mechanism = Gaussian(VectorSum(size, 1.0), 2.0, A)
    noise = SeededNoise(4)
    drawn = np.array([mechanism.release([vector], noise) for _ in range(5)])
    assert abs(drawn[:, 0].mean() - 0.6) < 6 * 2.0 / math.sqrt(5)
    others = drawn[:, 2:] / 2.0
    assert abs(others.mean()) < 6 / math.sqrt(others.size)
    assert abs(others.var() - 1) < 6 * math.sqrt(2 / others.size)
    assert np.abs(np.corrcoef(others) - np.eye(5)).max() < 6 / math.sqrt(size)


@pytest.mark.parametrize("truth", [0.75, 0.6])
def test_randomised_response(truth):
    """100,000 answers find a truth that is told 1.2 percentage points too often."""
    mechanism = RandomizedResponse(truth, R)
    said = mechanism.release([True] * _MANY, SeededNoise(5))
    counts = [(~said).sum(), said.sum()]
    assert fits(counts, [1 - truth, truth])
    assert not fits(counts, [1 - truth - 0.012, truth + 0.012])
    unknown = mechanism.release(["?"] * _MANY, SeededNoise(6))
    assert fits([(~unknown).sum(), unknown.sum()], [0.5, 0.5])


def test_k_ary_response():
    """100,000 answers find a truth that is told 1.2 percentage points too often, or an unequal lie."""
    mechanism = KaryResponse(("a", "b", "c", "d"), 0.4, R)
    said = mechanism.release(["b"] * _MANY, SeededNoise(7))
    counts = [said.count(answer) for answer in "abcd"]
    assert fits(counts, [0.2, 0.4, 0.2, 0.2])
    assert not fits(counts, [0.196, 0.412, 0.196, 0.196])


def test_estimates_are_unbiased_and_intervals_cover():
    """200 polls of 2,000: the mean estimate within 5 standard errors; at least 95 % − 5σ of intervals cover."""
    coin, noise = RandomizedResponse(0.75, R), SeededNoise(8)
    truth = np.arange(2000) < 300
    polls = [coin.release(truth, noise) for _ in range(200)]
    estimates = np.array([coin.estimate(poll) for poll in polls])
    assert abs(estimates.mean() - 0.15) < 5 * math.sqrt(coin.variance(yes=0.15, people=2000) / 200)
    assert estimates.var() < 1.8 * coin.variance(yes=0.15, people=2000)
    covered = [low <= 0.15 <= high for low, high in (coin.interval(poll, confidence=0.95) for poll in polls)]
    assert np.mean(covered) > 0.95 - 5 * math.sqrt(0.95 * 0.05 / 200)


_CANDIDATES = ("a", "b", "c", "d")
_BALLOTS = ["a"] * 6 + ["b"] * 5 + ["c"] * 3
_TALLIES = np.array([6, 5, 3, 0])
_TIMES = 4000


def outcomes(mechanism):
    noise = SeededNoise(9)
    drawn = [mechanism.release(_BALLOTS, noise) for _ in range(_TIMES)]
    return [drawn.count(candidate) for candidate in _CANDIDATES]


def softmax(exponents):
    weights = np.exp(exponents - np.max(exponents))
    return weights / weights.sum()


def test_the_exponential_mechanism():
    """4,000 choices find an ε that is twice as large or half as large."""
    counts = outcomes(ExponentialMechanism(TallyOf(_CANDIDATES), 1.0, R))
    assert fits(counts, softmax(0.5 * _TALLIES))
    assert not fits(counts, softmax(1.0 * _TALLIES))
    assert not fits(counts, softmax(0.25 * _TALLIES))


def permute_and_flip(weight):
    """McKenna & Sheldon 2020, Algorithm 1, over all orders of the candidates."""
    heads = np.exp(weight * (_TALLIES - _TALLIES.max()))
    chances = np.zeros(4)
    orders = list(permutations(range(4)))
    for order in orders:
        left = 1.0
        for place in order:
            chances[place] += left * heads[place] / len(orders)
            left *= 1 - heads[place]
    return chances


def test_permute_and_flip():
    """4,000 choices find an ε that is twice as large or half as large, and the exponential mechanism."""
    counts = outcomes(PermuteAndFlip(TallyOf(_CANDIDATES), 1.0, R))
    assert fits(counts, permute_and_flip(0.5))
    assert not fits(counts, permute_and_flip(1.0))
    assert not fits(counts, permute_and_flip(0.25))
    assert not fits(counts, softmax(0.5 * _TALLIES))


def noisy_max(scale):
    """Σ over the winner's noise of the chance that all others stay below, with ties to the first."""
    x = np.arange(-400, 401)
    heights = np.exp(-np.abs(x) / scale)
    masses = heights / heights.sum()
    cumulative = np.cumsum(masses)

    def at_most(values):
        return np.where(values < -400, 0.0, cumulative[np.clip(values, -400, 400) + 400])

    chances = []
    for place in range(4):
        below = np.ones_like(masses)
        for other in range(4):
            if other != place:
                lead = _TALLIES[place] + x - _TALLIES[other]
                below = below * at_most(lead - (other < place))
        chances.append((masses * below).sum())
    return np.array(chances)


def test_report_noisy_max():
    """4,000 choices find a noise that is half as large or twice as large."""
    counts = outcomes(ReportNoisyMax(TallyOf(_CANDIDATES), 1.0, R))
    assert fits(counts, noisy_max(2.0))
    assert not fits(counts, noisy_max(1.0))
    assert not fits(counts, noisy_max(4.0))


def test_an_interval():
    """2,500 draws against the truncated Beta: Kolmogorov's limit; finds an ε that is twice as large."""
    mechanism = IntervalExponential.classic(
        BernoulliLikelihood(0.1, 0.9), epsilon=1.0, adjacency=A, cells=1024
    )
    tosses, noise = [True] * 70 + [False] * 30, SeededNoise(10)
    drawn = np.sort([mechanism.release(tosses, noise) for _ in range(2500)])
    limit = math.sqrt(-0.5 * math.log(_FALSE_ALARM / 2) / 2500) + 2 / 1024  # Massart 1990, and a cell

    def off(weight):
        law = stats.beta(1 + 70 * weight, 1 + 30 * weight)
        cut = (law.cdf(drawn) - law.cdf(0.1)) / (law.cdf(0.9) - law.cdf(0.1))
        return np.abs(cut - (np.arange(2500) + 0.5) / 2500).max()

    assert off(mechanism.weight) <= limit
    assert off(2 * mechanism.weight) > limit


def test_a_small_database():
    """2,000 databases find a dropped factor 2."""
    universe, queries = (0, 1, 2), (lambda record: record >= 1, lambda record: record == 2)
    data, noise = [0] * 3 + [1] * 5 + [2] * 2, SeededNoise(11)
    databases = list(combinations_with_replacement(universe, 3))
    mechanism = SmallDatabase(universe, queries, 3, 10, 1.0, R)
    drawn = [mechanism.release(data, noise) for _ in range(2000)]
    counts = [drawn.count(database) for database in databases]
    scores = np.array(
        [-max(abs(sum(map(q, data)) / 10 - sum(map(q, y)) / 3) for q in queries) for y in databases]
    )
    assert fits(counts, softmax(0.5 * 10 * scores))
    assert not fits(counts, softmax(1.0 * 10 * scores))


def test_sparse_vector():
    """2,000 sessions of three queries find noise that is half as large, of the threshold or of the queries."""
    mechanism, noise = SparseVector(1.0, 2.0, R, positives=1), SeededNoise(12)
    queries = [CountWhere(lambda record, ask=ask: record == ask) for ask in ("b", "a", "b")]
    values = [1, 2, 1]

    def first(session):
        return next((place for place, query in enumerate(queries) if session.ask(query)), 3)

    drawn = [first(mechanism.release(["a", "a", "b"], noise)) for _ in range(2000)]
    counts = np.bincount(drawn, minlength=4)

    def chances(once, often):
        """Given the threshold's noise the comparisons are independent; sums over every eighth step of a wide grid."""
        x = np.arange(-30_000, 30_001, 8)
        weights = np.exp(-np.abs(x) / once)
        weights /= weights.sum()
        tops = [1024 + x - 1024 * value for value in values]
        above = [
            np.where(t > 0, 0.5 * np.exp(-np.abs(t) / often), 1 - 0.5 * np.exp(-np.abs(t) / often))
            for t in tops
        ]
        left, found = np.ones_like(weights), []
        for chance in above:
            found.append((weights * left * chance).sum())
            left = left * (1 - chance)
        return np.array([*found, (weights * left).sum()])

    once, often = mechanism.scales
    assert fits(counts, chances(once, often))
    assert not fits(counts, chances(once, 0.5 * often))
    assert not fits(counts, chances(0.25 * once, 0.6 * often))


@pytest.mark.parametrize("claimed", [0.5, 1.0, 3.0])
def test_the_measured_epsilon_holds_on_mechanisms_of_known_epsilon(claimed):
    """200 measurements of true randomised response at failure 0.05: more than 24 above ε are a false alarm of 1e-4."""
    truth = 1 / (1 + math.exp(-claimed))
    rng = np.random.default_rng(20)
    above = sum(
        _MODULE.epsilon_lower_bound(rng.random(400) < truth, rng.random(400) < 1 - truth, failure=0.05)
        > claimed
        for _ in range(200)
    )
    assert above <= stats.binom.isf(1e-4, 200, 0.05)


def test_the_measured_epsilon_is_close_where_there_are_many_samples():
    """40,000 samples of Laplace noise at ε = 1 show more than 0.85."""
    rng = np.random.default_rng(21)
    first, second = rng.laplace(size=40_000), 1 + rng.laplace(size=40_000)
    assert 0.85 < _MODULE.epsilon_lower_bound(first, second, failure=1e-6) <= 1.0
