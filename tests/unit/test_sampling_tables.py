"""Tables of cumulative_edges sums, against 60 digits and by exhausting every word of a small one."""

import itertools
from fractions import Fraction
from functools import lru_cache

import mpmath
import numpy as np
import pytest

from privet.mechanisms.sampling.cumulative_table import BITS, CumulativeTable, make_table
from privet.mechanisms.sampling.decay import Decay, cumulative_edges
from privet.mechanisms.sampling.exponentials import (
    RELATIVE_ERROR,
    SMALL,
    exponential_bounds,
    exponentials,
    small_exponentials,
)
from privet.randomness import NoiseSource

LAWS = [
    *(
        pytest.param(Decay.laplace(scale), id=f"laplace-{scale}")
        for scale in (0.05, 0.7, 1.0, 3.1, 17.3, 32.0)
    ),
    *(pytest.param(Decay.gaussian(scale), id=f"gaussian-{scale}") for scale in (0.05, 0.7, 1.0, 9.9, 128.0)),
]
FOLDED = pytest.mark.parametrize("folded", [True, False], ids=["folded", "plain"])


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


@lru_cache
def exact(decay, folded, digits=70):
    """F(0), F(1), … up to all of 10^−digits, by mpmath."""
    with mpmath.workdps(digits + 20):
        linear = mpmath.mpf(decay.linear.numerator) / decay.linear.denominator
        quadratic = mpmath.mpf(decay.quadratic.numerator) / decay.quadratic.denominator
        weights = [mpmath.mpf(0.5 if folded else 1)]
        while weights[-1] > mpmath.mpf(10) ** -digits * sum(weights[:1]):
            k = len(weights)
            weights.append(mpmath.exp(-(linear * k + quadratic * k * k)))
        total = mpmath.fsum(weights)
        if quadratic == 0:
            ratio = mpmath.exp(-linear)
            total += weights[-1] * ratio / (1 - ratio)
        return [part / total for part in itertools.accumulate(weights)]


def small_table(decay, folded, bits, step, lowered=False):
    """A table in which draws are left open all the time; ``lowered`` by 1 its edges are still what they promise."""

    def finer(more):
        *edges, last = cumulative_edges(decay, more, folded=folded)
        return [max(edge - lowered, 0) for edge in edges] + [last]

    return CumulativeTable(np.array(finer(bits), dtype=np.uint64), bits, finer, step)


# --- exponentials --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bits", [1, 8, 63, 200, 1000])
def test_whole_bounds_enclose_the_exponential(bits):
    rationals = [Fraction(1, 3), Fraction(0.1), Fraction(5e-324), Fraction(2**70 + 1, 2**70), Fraction(50.7)]
    rationals += [Fraction(bits) - Fraction(1, 7), Fraction(bits), Fraction(10**30), Fraction(1, 10**40)]
    for x in rationals:
        lower, upper = exponential_bounds(x, bits)
        assert 0 <= lower <= upper <= 2**bits
        assert upper - lower <= 2
        with mpmath.workdps(700):
            value = mpmath.exp(-mpmath.mpf(x.numerator) / x.denominator) * mpmath.mpf(2) ** bits
            assert lower <= value <= upper
    assert exponential_bounds(Fraction(0), bits) == (2**bits, 2**bits)


def test_float_exponentials_keep_their_error_bound():
    """The proved bound is 2⁻⁴⁶; what is seen is below 2⁻⁵⁰."""
    generator = np.random.default_rng(3)
    for points, function, bound in (
        (np.append(generator.random(2000) * SMALL, [0.0, SMALL, 1e-300]), small_exponentials, 2.0**-49),
        (np.append(generator.random(2000) * 44, [0.0, 0.34657359, 44.3, 1e-17]), exponentials, 2.0**-50),
    ):
        found = function(points)
        for x, value in zip(points.tolist(), found.tolist(), strict=True):
            with mpmath.workdps(40):
                assert abs(value / mpmath.exp(-mpmath.mpf(x)) - 1) < bound < RELATIVE_ERROR
    assert (exponentials(np.array([44.5, 1e300, np.inf])) == 0).all()


# --- edges -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("decay", LAWS)
@FOLDED
@pytest.mark.parametrize("bits", [1, 8, BITS, 127])
def test_every_edge_encloses_the_exact_sum(decay, folded, bits):
    edges = cumulative_edges(decay, bits, folded=folded)
    truth = exact(decay, folded)
    assert edges == sorted(edges)
    assert edges[-1] == 2**bits - 1
    assert edges.count(edges[-1]) == 1
    with mpmath.workdps(80):
        for edge, value in zip(edges, truth, strict=False):
            assert edge <= value * mpmath.mpf(2) ** bits < edge + 2


@pytest.mark.parametrize("scale", [1e-3, 1e-100, 5e-324])
@pytest.mark.parametrize("law", [Decay.laplace, Decay.gaussian])
def test_tiny_scales_have_a_table_of_one_edge(law, scale):
    assert cumulative_edges(law(scale), BITS, folded=True) == [2**BITS - 1]


def test_tiny_scales_reach_beyond_zero_when_the_bits_say_so():
    """P[|x| > 0] is 2e^{−1000} or 2^−1441.7; with 1,407 ones a uniform number may be on either side."""
    table = make_table(Decay.laplace(1e-3), folded=True)
    ones = [2**64 - 1] * 22
    with pytest.raises(NeedsMore):
        table.draw(1, Scripted(*ones))
    assert table.draw(1, Scripted(*ones, 2**64 - 2**44)).sizes.tolist() == [0]
    assert table.draw(1, Scripted(*ones, 2**64 - 2**24)).sizes.tolist() == [1]


# --- draws -----------------------------------------------------------------------------------------------------------


def every_outcome(draw, bits, step, depth):
    """The mass of each outcome over all beginnings of a uniform number, and of those that are still open."""
    masses, open_ = {}, 0

    def follow(words, used):
        nonlocal open_
        try:
            size = int(draw(Scripted(*words)).sizes[0])
        except NeedsMore:
            if len(words) > depth:
                open_ += Fraction(1, 2**used)
                return
            for more in range(2**step):
                follow([*words, more << (64 - step)], used + step)
        else:
            masses[size] = masses.get(size, 0) + Fraction(1, 2**used)

    for cell in range(2**bits):
        follow([cell << (64 - bits)], bits)
    return masses, open_


@pytest.mark.parametrize("decay", LAWS[1:4] + LAWS[7:9])
@FOLDED
@pytest.mark.parametrize(
    ("evenly", "lowered"),
    [(False, False), (False, True), (True, False), (True, True)],
    ids=["search", "search-lowered", "scan", "scan-lowered"],
)
def test_the_law_is_exact(decay, folded, evenly, lowered):
    """All beginnings of 6 + 3·4 bits are followed: each outcome has its mass, up to what is still open."""
    table = small_table(decay, folded, bits=6, step=4, lowered=lowered)
    draw = table.draw_constant_time if evenly else table.draw
    masses, open_ = every_outcome(lambda source: draw(1, source), bits=6, step=4, depth=3)
    assert sum(masses.values()) + open_ == 1
    assert open_ < Fraction(4 * len(cumulative_edges(decay, 18, folded=folded)), 2**18)
    truth = exact(decay, folded)
    for size, upper in enumerate(truth[: max(masses) + 1]):
        with mpmath.workdps(40):
            chance = upper - (truth[size - 1] if size else 0)
            mass = masses.get(size, Fraction(0))
            found = mpmath.mpf(mass.numerator) / mass.denominator
            assert found <= chance <= found + mpmath.mpf(open_.numerator) / open_.denominator


@pytest.mark.parametrize("decay", LAWS)
def test_the_guide_settles_only_what_is_certain(decay):
    """Every 16 bits that a draw may start with: where no further bit is used, the whole cell lies in one step."""
    table = make_table(decay, folded=True)
    every = np.arange(2**16, dtype=np.uint16)
    rest = np.flatnonzero(table._guide.take(every >> 1) < 0)
    script = Scripted(*every.view(np.uint64), *[2**63 + 5] * rest.size)
    sizes, signs = table.draw(2**16, script)
    assert script.words.size == 0
    assert (signs == every % 2).all()
    assert rest.size < 0.1 * 2**16
    truth = [0, *exact(decay, True)]
    lower = np.array([int(mpmath.ceil(value * 2**40)) for value in truth])
    upper = np.array([int(mpmath.floor(value * 2**40)) for value in truth])
    settled = np.setdiff1d(np.arange(2**16), rest)
    cells = settled // 2
    assert (lower[sizes[settled]] <= cells << 25).all()
    assert (upper[sizes[settled] + 1] >= (cells + 1) << 25).all()
    # The others go on with the fresh bits, and do as the full search does with the same uniform number.
    whole = (rest // 2).astype(np.uint64) << np.uint64(48) | np.uint64((2**63 + 5) >> 16)
    assert (sizes[rest] == table._search(whole, Scripted())).all()


@pytest.mark.parametrize("decay", LAWS)
@pytest.mark.parametrize("evenly", [False, True], ids=["search", "scan"])
def test_words_on_an_edge_are_settled_by_the_next_words(decay, evenly):
    """U just below and just above F(k), and one that only a third word settles."""
    table = make_table(decay, folded=True)
    draw = table.draw_constant_time if evenly else table.draw
    truth = exact(decay, True)
    for k in {0, 1, len(table.edges) // 2, len(table.edges) - 2} & set(range(len(table.edges) - 1)):
        with mpmath.workdps(90):
            digits = int(mpmath.floor(truth[k] * mpmath.mpf(2) ** (63 + 128)))
        cell, second, third = digits >> 128, digits >> 64 & (2**64 - 1), digits & (2**64 - 1)
        assert 2 < second < 2**64 - 2  # otherwise below and above would be in other cells

        def drawn(*words):
            return draw(1, Scripted(*words)).sizes.tolist()

        word = cell << 1
        assert drawn(word, second - 1) == [k]
        assert drawn(word, second + 2) == [k + 1]
        with pytest.raises(NeedsMore):
            drawn(word)
        with pytest.raises(NeedsMore):
            drawn(word, second)
        assert drawn(word, second, third - 1) == [k]
        assert drawn(word, second, third + 2) == [k + 1]


@pytest.mark.parametrize("decay", LAWS)
def test_search_and_scan_agree_around_every_edge(decay):
    table = make_table(decay, folded=False)
    around = np.concatenate([table.edges[:-1] - np.uint64(1), table.edges[:-1] + np.uint64(2)])
    settled = around[~np.isin(around, table.edges) & ~np.isin(around, table.edges + np.uint64(1))]
    found = table._search(settled, Scripted())
    assert (found == table._scan(settled, Scripted())).all()
    assert (table.edges[found] > settled).all()
    assert (table.edges[np.maximum(found - 1, 0)][found > 0] < settled[found > 0]).all()


def test_tables_are_kept_and_shared():
    assert make_table(Decay.laplace(7.5), folded=True) is make_table(Decay.laplace(7.5), folded=True)


def test_the_guide_leaves_both_cells_of_an_edge_open():
    """An edge in the last cell of a beginning, whose second cell is the first of the next."""
    table = CumulativeTable(np.array([2**48 - 1, 2**63 - 1], dtype=np.uint64), 63, lambda bits: [])
    assert table._guide[:3].tolist() == [-1, -1, 1]
    assert table._guide[-2:].tolist() == [1, -1]
