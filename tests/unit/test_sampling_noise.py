"""BlockSampler, coins, arguments and refusals of the samplers; what is random about them is in tests/statistical."""

import itertools
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from privet.errors import InvalidArgument
from privet.mechanisms.sampling import bernoulli, discrete_gaussian, discrete_laplace, uniform_integers
from privet.mechanisms.sampling.cumulative_table import make_table
from privet.mechanisms.sampling.decay import Decay
from privet.mechanisms.sampling.integer_samplers import BlockSampler, _Uniform
from privet.mechanisms.sampling.noise import _gaussian_sampler, _laplace_sampler
from privet.randomness import NoiseSource, SecureNoise, SeededNoise, experiment

NOISES = pytest.mark.parametrize("noise", [discrete_laplace, discrete_gaussian])
EVENLY = pytest.mark.parametrize("constant_time", [False, True], ids=["fast", "constant-time"])


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


# --- blocks ----------------------------------------------------------------------------------------------------------


def blocks(decay_of, coarse, places, constant_time=False):
    return BlockSampler(
        make_table(decay_of(coarse), folded=False), decay_of(coarse * 2**places), places, constant_time
    )


@pytest.mark.parametrize("decay_of", [Decay.laplace, Decay.gaussian])
@pytest.mark.parametrize("places", [1, 3, 17])
@EVENLY
def test_every_integer_is_proposed_once(decay_of, places, constant_time):
    """Each block, sign and place, with a coin that always takes: each integer comes once, with its exponent."""
    law = blocks(decay_of, 4.0, places, constant_time)
    length = 2**places
    edges = [0, *law.table.edges[:3].tolist()]
    inside = range(length) if places < 10 else [0, 1, length // 2, length - 1]
    seen = []
    for block in range(3):
        middle = (edges[block] + edges[block + 1]) // 2
        for sign in (0, 1):
            for place in inside:
                more = [0] if constant_time else []
                [number] = law.draw_some(1, Scripted(middle << 1 | sign, place, *more)).tolist()
                assert number == (-(block * length + place + 1) if sign else block * length + place)
                seen.append(number)
                start = block * length
                fall = law.decay.exponent(start, abs(number) - start)
                assert fall == weight(law.decay, abs(number)) - weight(law.decay, start)
                assert fall >= 0
    assert len(set(seen)) == len(seen)
    if places < 10:
        assert sorted(seen) == list(range(-3 * length, 3 * length))


def weight(decay, size):
    return decay.linear * size + decay.quadratic * size * size


@pytest.mark.parametrize(
    "law",
    [
        *(_laplace_sampler(scale, even) for scale in (40.0, 1e4, 2.0**50) for even in (False, True)),
        *(_gaussian_sampler(scale, even) for scale in (140.0, 1e4, 2.0**50) for even in (False, True)),
    ],
    ids=lambda law: f"{float(law.decay.linear or law.decay.quadratic):.1e}-{law.constant_time}",
)
@pytest.mark.parametrize("bits", [14, 32, 53])
def test_coins_are_decided_as_whole_numbers_decide(law, bits):
    """First bits on, below and above e^{−γ}, for blocks near and far; a further word settles what they leave open."""
    generator = np.random.default_rng(bits)
    blocks_tried = [0, 1, 5, 40, 130, int(generator.integers(200))]
    steps_tried = [0, 1, 2**law.places, int(generator.integers(2**law.places))]
    for start, step in itertools.product((block << law.places for block in blocks_tried), steps_tried):
        fall = weight(law.decay, start + step) - weight(law.decay, start)
        with mpmath.workdps(120):
            chance = mpmath.exp(-mpmath.mpf(fall.numerator) / fall.denominator)
            digits = int(mpmath.floor(chance * mpmath.mpf(2) ** (bits + 192)))
        first, second = digits >> 192, digits >> 128 & (2**64 - 1)
        beginnings = [
            (0, 0),
            (2**bits - 1, 2**64 - 1),
            (first, max(second - 2, 0)),
            (first, min(second + 2, 2**64 - 1)),
        ]
        beginnings += [(first + shift, 5) for shift in (-2, -1, 1, 2)]
        for drawn, after in beginnings:
            if 0 <= drawn < 2**bits:
                uniform = _Uniform(np.array([drawn]), bits)
                script = Scripted(after, 7, 7)
                found = law._accept(np.array([start]), np.array([step]), uniform, script)
                assert found.tolist() == [(drawn << 192 | after << 128 | 7 << 64 | 7) < digits]


def test_a_far_step_is_left_to_whole_numbers():
    """γ beyond the polynomial's range is never decided by it."""
    law = blocks(Decay.gaussian, 4.0, 2)
    starts, steps = np.array([400]), np.array([4])
    assert law.decay.exponent(400, 4) > 5
    assert law._accept(starts, steps, _Uniform(np.array([0]), 53), Scripted(0, 0)).tolist() == [True]
    assert law._accept(starts, steps, _Uniform(np.array([2**52]), 53), Scripted()).tolist() == [False]


# --- arguments -------------------------------------------------------------------------------------------------------


@NOISES
@EVENLY
@pytest.mark.parametrize("scale", [5e-324, 1e-3, 0.5, 1, 31.99, 33.0, 128.5, 1000, 1e12, 2.0**50])
def test_scales_from_the_smallest_float_to_2_to_the_50(noise, constant_time, scale):
    numbers = noise(scale, 300, SeededNoise(1), constant_time=constant_time)
    assert numbers.dtype == np.int64
    assert numbers.shape == (300,)
    assert np.abs(numbers).max() <= 50 * scale
    if scale >= 1:
        assert np.abs(numbers).max() >= scale  # fails with probability below 0.7^300


@NOISES
@EVENLY
def test_sizes(noise, constant_time):
    for size in (0, 1, 2, 2047, 2048, 2049, 8191, 8192, 8193, 20_001):
        for scale in (2.0, 200.0):
            assert noise(scale, size, SeededNoise(2), constant_time=constant_time).shape == (size,)


@NOISES
def test_memory_is_bounded_by_the_answer(noise):
    noise(1e4, 10_000, SeededNoise(1))
    tracemalloc.start()
    noise(1e4, 1_000_000, SeededNoise(1))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * 1_000_000 + 2_000_000


@NOISES
@pytest.mark.parametrize(
    "scale", [0, -1.0, float("nan"), float("inf"), True, "1", None, 2.0**50 * 1.001, 10**400]
)
def test_impossible_scales_are_refused(noise, scale):
    with pytest.raises(InvalidArgument, match=r"'scale' .*\. (Give|Take) "):
        noise(scale, 1, SecureNoise())


def call(noise):
    return {
        bernoulli: lambda size, source: bernoulli(0.5, size, source),
        uniform_integers: lambda size, source: uniform_integers(6, size, source),
    }.get(noise, lambda size, source: noise(2.0, size, source))


EVERY = pytest.mark.parametrize("noise", [discrete_laplace, discrete_gaussian, bernoulli, uniform_integers])


@EVERY
@pytest.mark.parametrize("size", [-1, 1.5, True, None, "3"])
def test_impossible_sizes_are_refused(noise, size):
    with pytest.raises(InvalidArgument, match=r"'size' .*\. Give "):
        call(noise)(size, SecureNoise())


@EVERY
@pytest.mark.parametrize("source", [None, 7, SecureNoise, np.random.default_rng(1), experiment(1)])
def test_only_sources_of_privacy_noise_are_taken(noise, source):
    with pytest.raises(InvalidArgument, match=r"'source' .*\. Give SecureNoise"):
        call(noise)(1, source)


@NOISES
def test_nothing_is_drawn_for_a_refused_or_empty_request(noise):
    source = Scripted()
    assert noise(2.0, 0, source).size == 0
    with pytest.raises(InvalidArgument):
        noise(-2.0, 5, source)
    with pytest.raises(NeedsMore):
        noise(2.0, 1, source)


@NOISES
def test_seeds_repeat_and_threads_do_not_disturb(noise):
    scales = [0.3 + 7 * k for k in range(12)]

    def draw(scale):
        return noise(scale, 5000, SeededNoise(11))

    alone = [draw(scale) for scale in scales]
    _laplace_sampler.cache_clear()
    _gaussian_sampler.cache_clear()
    make_table.cache_clear()
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(draw, scales * 4))
    for found, expected in zip(together, alone * 4, strict=True):
        assert (found == expected).all()


# --- coins and uniform integers --------------------------------------------------------------------------------------


def test_uniform_integers_refuse_what_is_too_large():
    """Of 3 bits the values 0 to 5 are kept: the words 6 and 7 are passed over."""
    words = [value << 61 for value in (6, 5, 7, 0, 3, 4)]
    assert uniform_integers(6, 4, Scripted(*words)).tolist() == [5, 0, 3, 4]


@pytest.mark.parametrize("bound", [1, 2, 3, 5, 8, 2**31, 2**62 + 1, 2**63 - 1])
def test_uniform_integers_stay_below_their_bound(bound):
    numbers = uniform_integers(bound, 5000, SeededNoise(4))
    assert numbers.dtype == np.int64
    assert numbers.min() >= 0
    assert numbers.max() < bound
    assert numbers.max() >= bound - 1 - bound // 100


@pytest.mark.parametrize("bound", [0, -3, 2**63, 1.5, True, None])
def test_impossible_bounds_are_refused(bound):
    with pytest.raises(InvalidArgument, match=r"'bound' .*\. (Give|Draw) "):
        uniform_integers(bound, 1, SecureNoise())


@pytest.mark.parametrize(
    "probability", [0.1, 0.5, 0.75, 2.0**-11, 1 - 2.0**-53, 1e-5, 2.0**-64, 3e-20, 1e-300, 5e-324]
)
def test_a_coin_is_true_below_the_float_itself(probability):
    """U = p exactly, and one unit of the last word below and above."""
    exact = Fraction(probability)
    words = -(-exact.denominator.bit_length() // 64)
    value = exact.numerator * 2 ** (64 * words) // exact.denominator
    assert Fraction(value, 2 ** (64 * words)) == exact

    def coin(uniform):
        digits = [uniform >> 64 * place & (2**64 - 1) for place in reversed(range(words))]
        return bernoulli(probability, 1, Scripted(*digits)).tolist()

    assert coin(value) == [False]
    assert coin(value + 1) == [False]
    assert coin(value - 1) == [True]


def test_certain_coins_and_impossible_ones():
    assert bernoulli(1, 3, Scripted()).all()
    assert not bernoulli(0.0, 3, Scripted(0, 1, 2**64 - 1)).any()
    for wrong in (-0.1, 1.1, float("nan"), True, None):
        with pytest.raises(InvalidArgument, match=r"'probability' .*\. Give "):
            bernoulli(wrong, 1, SecureNoise())
