"""Thousands of different events: the same numbers as one by one, certified, in a time that grows as their number does."""

import math

import mpmath
import numpy as np
import pytest

from privet.accounting import Renyi, account, cumulant, truncated
from privet.accounting.cumulant import Composition, derivatives, line
from privet.accounting.envelopes import EnvelopePair, largest
from privet.accounting.fading import log_fading
from privet.accounting.families import Exponentials, Family
from privet.accounting.mixtures import Mixtures
from privet.accounting.pairs import (
    DiscreteGaussianPair,
    DiscreteLaplacePair,
    FinitePair,
    GaussianPair,
    LaplacePair,
    randomized_response,
)
from privet.accounting.sampled import FixedSizePair, ReplacedGaussianPair, SampledPair, SampledSwapped
from privet.accounting.tilted import log1p, tilt_weights
from privet.adjacency import AddRemove, ReplaceOne, ZeroOut
from privet.events import (
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
)

pytestmark = pytest.mark.filterwarnings(
    "ignore::RuntimeWarning"
)  # overflow is looked for where it can happen

SPREAD = np.geomspace(1.0, 4.0, 40)
FAMILIES = {
    "laplace": [LaplacePair(0.1 * x) for x in SPREAD],
    "large laplace": [LaplacePair(2.0 * x) for x in SPREAD],
    "discrete laplace": [DiscreteLaplacePair(30.0 / x, 5) for x in SPREAD],
    "many steps": [DiscreteLaplacePair(3000.0 / x, 400) for x in SPREAD],
    "discrete gaussian": [DiscreteGaussianPair(3.0 * x, 1) for x in SPREAD],
    "narrow": [DiscreteGaussianPair(0.3 * x, 1) for x in SPREAD],
    "responses": [randomized_response(0.2 * x, 1e-9 * x) for x in SPREAD],
    "three losses": [FinitePair((0.2 * x, -0.1 * x, 0.0), (0.3, 0.2, 0.5)) for x in SPREAD],
    "sampled": [SampledPair(GaussianPair(0.5 * x), 0.01 * x) for x in SPREAD],
    "cut": [SampledPair(GaussianPair(0.5 * x), 0.01 * x).cap(1e-12, 0.15) for x in SPREAD],
    "added": [SampledSwapped(GaussianPair(0.5 * x), 0.01 * x) for x in SPREAD],
    "exchanged": [ReplacedGaussianPair(0.2 * x, 0.1) for x in SPREAD],
}
families = pytest.mark.parametrize("pairs", FAMILIES.values(), ids=FAMILIES)


def of(pairs, count=1):
    return Composition(tuple((pair, count) for pair in pairs))


def one_by_one(monkeypatch):
    """As if there were never many."""
    monkeypatch.setattr(cumulant, "_MANY", 10**9)


@families
@pytest.mark.parametrize("point", [0.3, 5.0, 25.0])
def test_cumulants_are_those_of_the_pairs_one_by_one(pairs, point):
    found = derivatives(of(pairs, 3), point)
    parts = [derivatives(of([pair], 3), point) for pair in pairs]
    if None in parts:
        assert found is None
        return
    assert found.value == pytest.approx(math.fsum(k.value for k in parts), rel=1e-11)
    assert found.slope == pytest.approx(math.fsum(k.slope for k in parts), rel=1e-4)
    assert found.curvature == pytest.approx(math.fsum(k.curvature for k in parts), rel=1e-4)


@families
@pytest.mark.parametrize("step", [0.01, 1.7])
def test_lines_are_those_of_the_pairs_one_by_one(pairs, step):
    """Each differs by less than the bounds of its round-off together, where these leave digits."""
    places = np.arange(24)
    found = line(of(pairs), 4.0, step, places)
    parts = [line(of([pair]), 4.0, step, places) for pair in pairs]
    apart = np.abs(np.exp(found.values - sum(part.values for part in parts)) - 1)
    bound = found.error + sum(part.error for part in parts)
    told = bound < 0.1
    assert told[0]
    assert np.all(apart[told] <= 2 * bound[told] + 1e-12)


@pytest.mark.parametrize("angle", [0.0, 0.7, 3.0])
@pytest.mark.parametrize("size", [1e-14, 1e-9, 1e-5, 0.3, 0.49, 0.51, 1.7])
def test_the_logarithm_of_a_small_factor_keeps_the_digits_that_the_factor_has(size, angle):
    """ln |1 + z| by way of |1 + z|² lost twice as many digits as 1 + z, which the bound of a line did not know."""
    z = np.array([size * np.exp(1j * angle) - 1])
    truth = mpmath.log(1 + mpmath.mpc(z[0]))
    assert abs(complex(mpmath.mpc(log1p(z)[0]) - truth)) < 4e-16 * (1 + abs(complex(truth)))


def lattice_truth(scales, shifts, delta):
    """ε of discrete Laplace noise whose losses are whole multiples of 1/60, by plain convolution: no term is negative."""
    law, start = np.ones(1), 0
    for size, shift in zip(scales, shifts, strict=True):  # size: losses in steps of 2·size/60
        pair = DiscreteLaplacePair(60 / size, shift)
        part = np.zeros(2 * size * shift + 1)
        part[:: 2 * size] = pair.law()[1]
        law, start = np.convolve(law, part), start - size * shift
    losses = (start + np.arange(law.size)) / 60

    def profile(epsilon):
        above = losses > epsilon
        return float(law[above] @ -np.expm1(epsilon - losses[above]))

    low, high = 0.0, float(losses[-1])
    for _ in range(100):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if profile(middle) > delta else (low, middle)
    return high


MANY_SIZES = [*range(1, 21)]


@pytest.mark.parametrize(("shift", "delta"), [(1, 1e-2), (1, 1e-6), (5, 1e-2), (5, 1e-6), (5, 1e-12)])
def test_many_losses_on_one_lattice_are_enclosed(shift, delta):
    """The hard case: the Fourier transform of the sum comes back again and again."""
    truth = lattice_truth(MANY_SIZES, [shift] * 20, delta)
    event = Compose(tuple(DiscreteLaplace(60 / size, shift) for size in MANY_SIZES))
    found = account(event, adjacency=AddRemove()).epsilon_bounds(delta=delta)
    assert found.lower <= truth * (1 + 1e-11)
    assert truth * (1 - 1e-11) <= found.upper
    assert found.relative_gap < 1e-4
    assert found.upper <= truth * (1 + 2e-5)


@pytest.mark.parametrize(
    ("part", "mutant"),
    [("moduli", lambda *given: 0.0 * given[5]), ("_SMOOTHING", 1e-3)],
)
def test_a_forgotten_far_end_is_caught(monkeypatch, part, mutant):
    """Without a bound of what is far, or without the Gaussian that ends the sum, the truth is outside."""
    monkeypatch.setattr(truncated, part, mutant)
    monkeypatch.setattr(truncated._Sum, "_beyond", lambda self, count: 0.0)
    event = Compose(tuple(DiscreteLaplace(60 / size) for size in MANY_SIZES))
    broken = 0
    for delta in np.geomspace(1e-6, 1e-2, 5):
        truth = lattice_truth(MANY_SIZES, [1] * 20, delta)
        bounds = account(event, adjacency=AddRemove()).epsilon_bounds(delta=float(delta))
        broken += not bounds.lower * (1 - 1e-9) <= truth <= bounds.upper * (1 + 1e-9)
    assert broken >= 1


@pytest.mark.parametrize("delta", [1e-3, 1e-5, 1e-9])
def test_weak_gaussian_noise_does_not_end_a_lattice(delta):
    """Its transform was taken to be over when it was small, and ε came out 0.2 % below that of the lattice alone."""
    lattice = Repeat(Opaque(epsilon=0.1), 100)
    alone = account(lattice, adjacency=AddRemove()).epsilon_bounds(delta=delta)
    both = account(Compose((Gaussian(1000.0), lattice)), adjacency=AddRemove()).epsilon_bounds(delta=delta)
    assert alone.lower <= both.upper
    assert both.lower <= alone.upper * (1 + 1e-6)  # μ = 1e-3 adds 1e-6 to a variance of 1


MIXED = Compose(
    tuple(
        event
        for x in SPREAD[::10]
        for event in (
            Laplace(20.0 * x),
            DiscreteLaplace(25.0 * x),
            DiscreteLaplace(200.0 * x, 7),
            DiscreteGaussian(15.0 * x),
            Opaque(epsilon=0.04 * x, delta=1e-10),
            ReportNoisyMax(epsilon=0.03 * x),
        )
    )
)


@pytest.mark.parametrize("adjacency", [AddRemove(), pytest.param(ZeroOut(), marks=pytest.mark.slow)], ids=str)
@pytest.mark.parametrize("delta", [pytest.param(1e-2, marks=pytest.mark.slow), 1e-6])
def test_mixed_events_agree_with_the_grid(monkeypatch, adjacency, delta):
    """Two ways that share no bound: the enclosures overlap, and the quick one is as narrow as it says."""
    quick = account(MIXED, adjacency=adjacency).curve.epsilon(delta)
    upper = account(MIXED, adjacency=adjacency).curve.upper
    one_by_one(monkeypatch)
    slow = account(MIXED, adjacency=adjacency).curve.epsilon(delta)
    assert max(quick.lower, slow.lower) <= min(quick.upper, slow.upper)
    assert quick.upper <= slow.upper * (1 + 1e-6)
    assert len(upper.parts) == 24


@pytest.mark.parametrize("adjacency", [AddRemove(), ReplaceOne()], ids=str)
@pytest.mark.parametrize("scale", [0.1, 10.0, 1e4])
@pytest.mark.parametrize("delta", [0.3, 1e-6, 1e-12])
def test_large_and_small_noise(adjacency, scale, delta):
    event = Compose(tuple(Laplace(scale * x) for x in SPREAD))
    found = account(event, adjacency=adjacency).epsilon_bounds(delta=delta)
    basic = adjacency.contribution_distance * sum(1 / (scale * x) for x in SPREAD)
    assert 0 <= found.lower <= found.upper <= basic * (1 + 1e-12)
    assert found.upper == 0 or found.relative_gap < 1e-3


@pytest.mark.parametrize("delta", [pytest.param(1e-2, marks=pytest.mark.slow), 1e-6])
def test_a_few_wide_losses_among_many_narrow_ones(delta):
    """No line is long enough for both; the few bound ε from below, and basic composition from above."""
    few = tuple(Opaque(epsilon=5.0 + 0.1 * k) for k in range(10))
    many = Compose((*few, *(Opaque(epsilon=1e-4 / x) for x in np.geomspace(1, 4, 250))))
    found = account(many, adjacency=AddRemove()).epsilon_bounds(delta=delta)
    alone = account(Compose(few), adjacency=AddRemove()).epsilon_bounds(delta=delta)
    assert alone.lower <= found.upper
    assert found.relative_gap < 1e-3


def test_moments_of_many_are_never_smaller():
    event = Compose(tuple(Laplace(30.0 * x) for x in np.geomspace(1, 4, 500)))
    exact = account(event, adjacency=AddRemove()).epsilon(delta=1e-6)
    assert exact <= account(event, adjacency=AddRemove(), accountant=Renyi()).epsilon(delta=1e-6)


@pytest.mark.slow
def test_randomised_responses_with_two_orders():
    """Under zero-out adjacency the two orders of neighbours differ, and the worse one counts."""
    event = Compose(tuple(RandomizedResponse(0.5 + 0.01 * k, 3) for k in range(1, 31)))
    found = account(event, adjacency=ZeroOut()).curve
    bounds = found.epsilon(1e-6)
    assert bounds.relative_gap < 1e-4
    assert all(order.lower <= 1e-6 * (1 + 1e-3) for order in found.orders(bounds.upper))


class Counted:
    """How many pairs × points families were asked for."""

    def __init__(self, monkeypatch):
        self.work = 0
        for kind in (Exponentials, Mixtures):
            monkeypatch.setattr(kind, "along", self.counting(kind.along))

    def counting(self, honest):
        def along(family, point, step, places, rows):
            self.work += len(places) * len(family.counts[rows])
            return honest(family, point, step, places, rows)

        return along


@pytest.mark.parametrize(
    "kind", [Laplace, lambda scale: Poisson(0.3 / scale, Gaussian(1.0))], ids=["laplace", "sampled"]
)
def test_work_grows_as_the_number_of_events(monkeypatch, kind):
    counted, work = Counted(monkeypatch), []
    for number in (400, 800):
        event = Compose(tuple(kind(scale) for scale in np.geomspace(20.0, 80.0, number)))
        counted.work = 0
        account(event, adjacency=AddRemove()).epsilon(delta=1e-6)
        work.append(counted.work)
    assert work[1] < 2.5 * work[0]


def test_different_parts_are_priced_and_merged_once(monkeypatch):
    """Adding up n parts touches each of them once, not once for each part before it."""
    touched = 0
    honest = LaplacePair.__hash__

    def counting(pair):
        nonlocal touched
        touched += 1
        return honest(pair)

    monkeypatch.setattr(LaplacePair, "__hash__", counting)
    account(Compose(tuple(Laplace(10.0 + k) for k in range(3000))), adjacency=AddRemove())
    assert touched < 10 * 3000


def test_trees_of_any_depth_and_shared_parts():
    deep = Gaussian(10.0)
    for number in range(10_000):
        deep = Compose((deep, Gaussian(1e4))) if number % 2 else Repeat(Compose((deep,)), 1)
    wide = Compose((Gaussian(10.0), *(Gaussian(1e4),) * 5000))
    found = [account(event, adjacency=AddRemove()).epsilon(delta=1e-6) for event in (deep, wide)]
    assert found[0] == pytest.approx(found[1], rel=1e-12)
    shared = Gaussian(2.0**39)
    for _ in range(60):
        shared = Compose((shared, shared))  # 2⁶⁰ uses of one object
    single = account(Repeat(Gaussian(2.0**39), 2**49), adjacency=AddRemove()).epsilon(delta=1e-6)
    assert account(shared, adjacency=AddRemove()).epsilon(delta=1e-6) > single
    beside = Gaussian(10.0)
    for _ in range(5000):
        beside = Parallel((beside, Gaussian(20.0)))
    assert (
        account(beside, adjacency=AddRemove()).curve == account(Gaussian(10.0), adjacency=AddRemove()).curve
    )


@pytest.mark.parametrize(
    "pairs",
    [
        [GaussianPair(x) for x in SPREAD],
        [LaplacePair(x) for x in SPREAD],
        [randomized_response(x, 1e-3 / x) for x in SPREAD],
        [SampledPair(GaussianPair(x), 0.1 / x) for x in SPREAD],
        [LaplacePair(0.5), GaussianPair(0.4), DiscreteLaplacePair(3.0, 2), randomized_response(0.6)],
    ],
    ids=["gaussian", "laplace", "claims", "sampled", "mixed"],
)
def test_the_largest_profile_dominates_all(pairs):
    top = largest(pairs)
    for epsilon in np.linspace(-3.0, 6.0, 500):
        at = np.array([epsilon])
        heights = [float(pair.delta(at)[0]) + pair.infinity for pair in pairs]
        assert float(top.delta(at)[0]) + top.infinity == pytest.approx(max(heights), rel=1e-12, abs=1e-15)
    if isinstance(top, EnvelopePair):
        assert len(top.pairs) <= len(pairs)


FADING = [
    GaussianPair(0.3),
    SampledPair(GaussianPair(0.9), 0.01),
    SampledPair(GaussianPair(2.5), 0.05).cap(1e-12, 0.15),
    SampledSwapped(GaussianPair(0.9), 0.05),
    ReplacedGaussianPair(0.5, 0.1),
    FixedSizePair(GaussianPair(0.9), 0.05),
]


@pytest.mark.parametrize("pair", FADING, ids=lambda pair: type(pair).__name__)
@pytest.mark.parametrize("point", [0.5, 4.0])
def test_what_has_faded_does_not_come_back(pair, point):
    """The bound at one frequency holds at all higher ones."""
    frequencies = np.geomspace(1.0, 300.0, 60)
    rule = pair.nodes(point, 300.0, 46.0)
    weight, excess = tilt_weights(rule, point)
    moduli = [abs(np.sum(weight * np.exp(1j * t * rule.losses))) / (1 + excess) for t in frequencies]
    for place in range(0, 60, 10):
        bound = math.exp(log_fading(pair, point, float(frequencies[place])))
        assert max(moduli[place:]) <= bound * (1 + 1e-9) + 1e-13
    assert log_fading(pair, point, 300.0) < -0.05


def test_groups_fade_as_their_pairs_do():
    pairs = [SampledPair(GaussianPair(0.5 * x), 0.01 * x) for x in SPREAD]
    group = Mixtures([(pair, 2) for pair in pairs], swapped=False)
    for frequency in (5.0, 50.0):
        exact = line(of(pairs, 2), 3.0, frequency, np.array([0, 1])).values.real
        assert exact[1] - exact[0] <= group.log_fading(3.0, frequency) < 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind",
    [
        Gaussian,
        Laplace,
        DiscreteLaplace,
        DiscreteGaussian,
        lambda scale: DiscreteLaplace(scale, 3),
        lambda scale: Opaque(epsilon=1 / scale, delta=1e-14),
        lambda scale: ExponentialMechanism(epsilon=1 / scale),
        lambda scale: Poisson(1 / scale, Gaussian(1.0)),
        lambda scale: FixedSize(100, int(100 * scale), Gaussian(1.0)),
    ],
)
def test_ten_thousand_different_events(kind):
    event = Compose(tuple(kind(scale) for scale in np.geomspace(100.0, 450.0, 10_000)))
    bounds = account(event, adjacency=AddRemove()).curve.epsilon(1e-6)
    assert bounds.lower < bounds.upper < 20
    if kind is not ExponentialMechanism:
        assert bounds.relative_gap < 0.1


def test_every_family_says_what_it_needs():
    assert all(isinstance(family, Family) for family in of(FAMILIES["laplace"]).sorted_out[1])
    assert not of(FAMILIES["laplace"]).sorted_out[2]
    assert len(of(FAMILIES["exchanged"]).sorted_out[2]) == 40
