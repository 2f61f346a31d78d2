"""``choose``: the exact law by its decision boundaries, and what it refuses."""

from fractions import Fraction

import mpmath
import numpy as np
import pytest

from privet.errors import InvalidArgument
from privet.mechanisms.sampling import choice, choose
from privet.randomness import NoiseSource, SecureNoise, SeededNoise

NEVER = float("-inf")
LISTS = [
    [0.0],
    [5.0, 5.0],
    [1.0, 2.0, 3.0, 2.5],
    [0.1, 0.2, 0.30000000000000004, -40.0, NEVER, 0.0],
    [NEVER, -3.0, NEVER, -3.5, NEVER],
    [1e300, -1e300, 1e300],
    [700.0, 0.0, 655.0, 656.0],
    [1e16, 1e16 - 2, 1e16 + 2],
    [-1e-300, 1e-300, 0.0],
]


class NeedsMore(Exception):
    """A script came to its end."""


class Scripted(NoiseSource):
    """A source that hands out the words that it was given, and says so when there are no more."""

    def __init__(self, *words):
        self.words = np.array(words, dtype=np.uint64)

    @property
    def caveats(self):
        return frozenset()

    def bits(self, words):
        if words > self.words.size:
            raise NeedsMore
        given, self.words = self.words[:words], self.words[words:]
        return given


def sums(weights):
    """F(0), F(1), … by 400 digits; rational differences are taken before the exponential."""
    highest = Fraction(max(weights))
    with mpmath.workdps(400):
        parts = [
            mpmath.mpf(0)
            if weight == NEVER
            else mpmath.exp(
                -mpmath.mpf((highest - Fraction(weight)).numerator) / (highest - Fraction(weight)).denominator
            )
            for weight in weights
        ]
        total = mpmath.fsum(parts)
        return [mpmath.fsum(parts[: k + 1]) / total for k in range(len(parts))]


@pytest.mark.parametrize("weights", LISTS, ids=str)
def test_the_candidate_changes_exactly_at_the_cumulative_sums(weights):
    """U on either side of every F(k), by 2 units of its second word, or 2 of its first where F(k) is dyadic."""
    truth = sums(weights)
    with mpmath.workdps(400):
        uniforms = {0, 2**128 - 3, 2**127 - 2, 2**127 + 2}
        for value in truth[:-1]:
            place = int(mpmath.floor(value * mpmath.mpf(2) ** 128))
            uniforms |= {
                u for u in (place - 2, place + 2, place - 2**64, place + 2**64) if 0 <= u < 2**128 - 2
            }
        for uniform in uniforms:
            expected = next(k for k, value in enumerate(truth) if uniform < value * mpmath.mpf(2) ** 128)
            assert choose(weights, Scripted(uniform >> 64, uniform & (2**64 - 1))) == expected


def test_float_and_exact_arithmetic_agree():
    generator = np.random.default_rng(5)
    for count in (2, 10, 300):
        weights = -generator.exponential(4.0, count)
        weights[generator.integers(count - 1)] = NEVER
        for word in SeededNoise(count).bits(50).tolist():
            assert choose(weights, Scripted(word)) == choice._choose_exactly(weights, word, Scripted())


def test_the_float_enclosure_holds():
    """Cumulative sums of 10⁵ weights are within a tenth of what the decision allows for."""
    weights = -np.random.default_rng(6).exponential(8.0, 100_000)
    found = np.cumsum(choice.exponentials(weights.max() - weights))
    with mpmath.workdps(40):
        highest, value = mpmath.mpf(float(weights.max())), mpmath.mpf(0)
        for k, weight in enumerate(weights[:5000].tolist()):
            value += mpmath.exp(mpmath.mpf(weight) - highest)
            assert abs(found[k] - value) < 0.1 * choice._error_bound(weights.size) * found[-1]


def test_what_is_impossible_is_never_chosen_even_on_its_edge():
    """Three candidates, the middle one impossible, and U on ½ from below and above."""
    weights = [0.0, NEVER, 0.0]
    half = 2**63
    assert choose(weights, Scripted(half, 0, 1)) == 2
    assert choose(weights, Scripted(half - 1, 2**64 - 1, 2**64 - 2)) == 0
    assert choose([NEVER, 0.0], Scripted(0)) == 1


def test_a_uniform_number_on_an_edge_draws_on():
    """1/(1 + e^{−1}) in one word, in two, and with a third that settles it."""
    with mpmath.workdps(80):
        digits = int(mpmath.floor(mpmath.mpf(2) ** 192 / (1 + mpmath.exp(-1))))
    first, second, third = digits >> 128, digits >> 64 & (2**64 - 1), digits & (2**64 - 1)
    for known in ([first], [first, second]):
        with pytest.raises(NeedsMore):
            choose([0.0, -1.0], Scripted(*known))
    assert choose([0.0, -1.0], Scripted(first, second, third - 1)) == 0
    assert choose([0.0, -1.0], Scripted(first, second, third + 2)) == 1


def test_ten_thousand_equal_candidates_are_all_reached():
    """Candidate i for U in [i, i + 1)/10⁴."""
    weights = np.zeros(10_000)
    for i in (0, 1, 4999, 5000, 9999):
        assert choose(weights, Scripted((2 * i + 1) * 2**64 // 20_000)) == i


def test_weights_are_not_changed_and_lists_will_do():
    weights = np.array([1.0, 2.0])
    weights.setflags(write=False)
    assert choose(weights, SecureNoise()) in (0, 1)
    assert choose((3, 4), SecureNoise()) in (0, 1)
    assert type(choose([1.0], SecureNoise())) is int


@pytest.mark.parametrize(
    "weights",
    [
        [],
        [[1.0, 2.0]],
        3.0,
        None,
        "ab",
        ["a"],
        [1.0, float("nan")],
        [float("inf")],
        [NEVER],
        [NEVER, NEVER],
        [1.0, 2j],
        [10**400],
    ],
    ids=str,
)
def test_bad_weights_are_refused_without_a_draw(weights):
    with pytest.raises(InvalidArgument, match=r"'log_weights' .*\. (Give|Take) "):
        choose(weights, Scripted())


def test_only_sources_of_privacy_noise_are_taken():
    with pytest.raises(InvalidArgument, match=r"'source'"):
        choose([1.0], np.random.default_rng(1))
