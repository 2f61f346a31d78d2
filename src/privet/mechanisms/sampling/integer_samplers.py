"""Noise on all integers with weights e^{−(α|x| + βx²)}: from one table, or in blocks for a large scale."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple, final

import numpy as np
import numpy.typing as npt

from privet.mechanisms.sampling.cumulative_table import CumulativeTable, SignedDraws
from privet.mechanisms.sampling.decay import Decay
from privet.mechanisms.sampling.exponentials import (
    RELATIVE_ERROR,
    SMALL,
    exponential_bounds,
    small_exponentials,
)
from privet.randomness import NoiseSource

__all__ = ["BlockSampler", "IntegerSampler", "TableSampler"]

_CHUNK = 1 << 13  # numbers at a time, so that intermediate arrays stay in the processor's cache
_WORD = 64
_EXACT = 53  # bits that float64 holds
_LARGEST = 1 << 61  # twice this number still fits into 64 bits

Integers = npt.NDArray[np.int64]


class IntegerSampler(ABC):
    """A distribution on all integers, sampled exactly."""

    @abstractmethod
    def draw_some(self, count: int, source: NoiseSource) -> Integers:
        """Independent numbers: ``count`` of them, or somewhat fewer."""

    def draw(self, size: int, source: NoiseSource) -> Integers:
        """Exactly ``size`` independent numbers, drawn in chunks so that memory stays bounded."""
        numbers = np.empty(size, dtype=np.int64)
        done = 0
        while done < size:
            draws = self.draw_some(min(size - done, _CHUNK), source)
            numbers[done : done + draws.size] = draws
            done += draws.size
        return numbers


@final
@dataclass(frozen=True, eq=False)
class TableSampler(IntegerSampler):
    """One table of |x|, in which 0 has half its weight, and a fair sign."""

    table: CumulativeTable
    constant_time: bool

    def draw_some(self, count: int, source: NoiseSource) -> Integers:
        sizes, signs = _draw_signed(self.table, count, source, self.constant_time)
        return _apply_signs(sizes, signs)


class _Uniform(NamedTuple):
    """The first bits of uniform numbers between 0 and 1, as whole numbers."""

    first: Integers
    bits: int


@final
@dataclass(frozen=True, eq=False)
class BlockSampler(IntegerSampler):
    """Blocks of m = 2^places integers: a table picks the block, bits pick the place, a coin accepts.

    A proposal is a block j ≥ 0 with weight e^{−(αmj + β(mj)²)}, a uniform place r in [0, m) and a fair sign s
    in {0, 1}. It stands for the number of size k = mj + r + s and sign s, and is accepted with probability
    e^{−γ}, where γ ≥ 0 is the fall of the exponent from mj to k. So x is accepted with weight e^{−(α|x| +
    βx²)} up to a constant. As the negative side begins at −1, 0 is proposed once and not twice. As m is small
    relative to the scale, so is γ, and nearly all proposals are accepted.

    U < e^{−γ} is decided in float64 with an error bound, and with exact integers where that is not enough.
    Numbers are cut off at 2⁶¹ to fit into 64 bits; scales up to 2⁵⁰ reach that with a probability below
    e^{−2000}.

    Reference: rejection as in Canonne, Kamath & Steinke, *The discrete Gaussian for differential privacy*
    (2020), Algorithms 2 and 3, with a table instead of a geometric loop, and one coin e^{−γ} (their Algorithm
    1).
    """

    table: CumulativeTable
    decay: Decay
    places: int
    constant_time: bool

    def draw_some(self, count: int, source: NoiseSource) -> Integers:
        blocks, signs = _draw_signed(self.table, count, source, self.constant_time)
        starts = np.minimum(blocks, _LARGEST >> self.places) << self.places
        inside, uniform = self._bits(count, source)
        steps = inside + signs
        return _apply_signs(starts + steps, signs)[self._accept(starts, steps, uniform, source)]

    def _bits(self, count: int, source: NoiseSource) -> tuple[Integers, _Uniform]:
        """Places in a block, and the first bits of as many uniform numbers, from one word or half a word.

        In constant time bits are not saved: with fewer bits, a coin is undecided more often.
        """
        if self.constant_time:
            return self._inside(source.bits(count)), _uniform(source.bits(count), _WORD, spent=0)
        if self.places > 16:
            words = source.bits(count)
            return self._inside(words), _uniform(words, _WORD, self.places)
        halves = source.bits(-(-count // 2)).view(np.uint32)[:count].astype(np.uint64)
        return self._inside(halves), _uniform(halves, _WORD // 2, self.places)

    def _inside(self, words: npt.NDArray[np.uint64]) -> Integers:
        return (words & np.uint64((1 << self.places) - 1)).view(np.int64)

    def _accept(
        self, starts: Integers, steps: Integers, uniform: _Uniform, source: NoiseSource
    ) -> npt.NDArray[np.bool_]:
        """Whether U < e^{−γ}, for each proposal.

        1 − γ ≤ e^{−γ} decides most. In constant time this short cut is not used, as γ depends on the number.
        """
        falls = steps * (float(self.decay.linear) + float(self.decay.quadratic) * (2 * starts + steps))
        unit = 2.0**-uniform.bits
        margin = unit + RELATIVE_ERROR
        values = uniform.first * unit
        accepted = values < (1 - margin) - falls
        rest = np.arange(accepted.size) if self.constant_time else np.flatnonzero(~accepted)
        values, falls = values[rest], falls[rest]
        chances = small_exponentials(falls)
        accepted[rest] = values < chances
        undecided = (np.abs(values - chances) <= margin) | (falls > SMALL)
        for index in rest[undecided]:
            fall = self.decay.exponent(int(starts[index]), int(steps[index]))
            accepted[index] = _below_exponential(fall, int(uniform.first[index]), uniform.bits, source)
        return accepted


def _draw_signed(table: CumulativeTable, count: int, source: NoiseSource, constant_time: bool) -> SignedDraws:
    return table.draw_constant_time(count, source) if constant_time else table.draw(count, source)


def _apply_signs(sizes: Integers, signs: Integers) -> Integers:
    """Minus the size where the sign is 1, without a branch."""
    return (sizes ^ -signs) + signs


def _uniform(words: npt.NDArray[np.uint64], width: int, spent: int) -> _Uniform:
    """The bits of words without the lowest, which were used; at most as many as float64 holds."""
    shift = max(spent, width - _EXACT)
    return _Uniform((words >> np.uint64(shift)).view(np.int64), width - shift)


def _below_exponential(x: Fraction, first: int, bits: int, source: NoiseSource) -> bool:
    """Whether U < e^{−x}, for a uniform U with these first bits. More bits are drawn until it is decided."""
    while True:
        lower, upper = exponential_bounds(x, bits)
        if first + 1 <= lower:
            return True
        if first >= upper:
            return False
        first = first << _WORD | int(source.bits(1)[0])
        bits += _WORD
