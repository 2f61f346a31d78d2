"""Discrete Laplace and discrete Gaussian noise."""

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from privet.arguments import format_value, positive, whole
from privet.errors import InvalidArgument
from privet.mechanisms.sampling.cumulative_table import make_table
from privet.mechanisms.sampling.decay import Decay
from privet.mechanisms.sampling.integer_samplers import BlockSampler, IntegerSampler, TableSampler
from privet.mechanisms.sampling.sources import check_source
from privet.randomness import NoiseSource

__all__ = ["discrete_gaussian", "discrete_laplace"]

_LARGEST_SCALE = 2.0**50
_CACHED = 64  # samplers

# The largest scale for one table, of at most 1,400 edges; above it, this is the scale of the blocks. In
# constant time each edge costs a comparison, so a shorter table is faster although it wastes proposals.
_LAPLACE, _LAPLACE_CONSTANT_TIME = 32.0, 8.0
_GAUSSIAN, _GAUSSIAN_CONSTANT_TIME = 128.0, 16.0


def discrete_laplace(
    scale: float, size: int, source: NoiseSource, *, constant_time: bool = False
) -> npt.NDArray[np.int64]:
    """Independent integers with P[x] = e^{−|x|/scale} tanh(1/(2 scale)), exactly.

    ``scale`` is in steps of the grid, up to 2⁵⁰, and its float64 is taken as exact. With ``constant_time``
    the running time and the memory that is read do not depend on the numbers; docs/noise.md says what that
    covers and what it costs.

    Guarantee: a whole number that one unit moves by at most c, plus this noise, is (c/scale)-DP. The
    distribution is exact, so no δ is charged for the sampler.

    Leaks: without ``constant_time``, how long a draw took. No float is released, so the attack of Mironov
    (2012) on the last bits of floating-point noise does not apply.

    Reference: Ghosh, Roughgarden & Sundararajan (2012); Canonne, Kamath & Steinke (2020), Algorithm 2.

    >>> from privet.randomness import SecureNoise
    >>> discrete_laplace(10.0, 3, SecureNoise()).dtype
    dtype('int64')
    """
    _check_arguments(scale, size, source)
    return _laplace_sampler(scale, constant_time).draw(size, source)


def discrete_gaussian(
    scale: float, size: int, source: NoiseSource, *, constant_time: bool = False
) -> npt.NDArray[np.int64]:
    """Independent integers with P[x] ∝ e^{−x²/(2 scale²)}, exactly.

    Arguments, leaks and limits are those of ``discrete_laplace``.

    Guarantee: a whole number that one unit moves by at most c, plus this noise, is c²/(2 scale²)-concentrated
    DP (Canonne, Kamath & Steinke 2020, Theorem 4). The distribution is exact, so no δ is charged for the
    sampler.

    Reference: Canonne, Kamath & Steinke (2020), Algorithm 3.

    >>> from privet.randomness import SecureNoise
    >>> discrete_gaussian(1e-3, 3, SecureNoise())  # not 0 with probability e^{−500000}
    array([0, 0, 0])
    """
    _check_arguments(scale, size, source)
    return _gaussian_sampler(scale, constant_time).draw(size, source)


@lru_cache(maxsize=_CACHED)
def _laplace_sampler(scale: float, constant_time: bool) -> IntegerSampler:
    places = _places(scale, _LAPLACE_CONSTANT_TIME if constant_time else _LAPLACE)
    return _make_sampler(Decay.laplace(scale), Decay.laplace(scale / 2**places), places, constant_time)


@lru_cache(maxsize=_CACHED)
def _gaussian_sampler(scale: float, constant_time: bool) -> IntegerSampler:
    places = _places(scale, _GAUSSIAN_CONSTANT_TIME if constant_time else _GAUSSIAN)
    return _make_sampler(Decay.gaussian(scale), Decay.gaussian(scale / 2**places), places, constant_time)


def _make_sampler(decay: Decay, of_blocks: Decay, places: int, constant_time: bool) -> IntegerSampler:
    if places == 0:
        return TableSampler(make_table(decay, folded=True), constant_time)
    return BlockSampler(make_table(of_blocks, folded=False), decay, places, constant_time)


def _places(scale: float, most: float) -> int:
    """The smallest b with scale/2^b ≤ most. Dividing by a power of two is exact."""
    places = 0
    while scale / 2**places > most:
        places += 1
    return places


def _check_arguments(scale: float, size: int, source: NoiseSource) -> None:
    if positive("scale", scale) > _LARGEST_SCALE:
        raise InvalidArgument(
            f"'scale' must be at most 2^50 steps of the grid, got {format_value(scale)}, because larger "
            "noise does not fit into 64 bits. Take a coarser grid; a step of 2^-20 of the noise's scale "
            f"is fine enough."
        )
    whole("size", size, least=0)
    check_source(source)
