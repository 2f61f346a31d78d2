"""Discrete Laplace and discrete Gaussian noise."""

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from privet.arguments import positive, shown, whole
from privet.errors import InvalidArgument
from privet.mechanisms.sampling.decay import Decay
from privet.mechanisms.sampling.lattice import Blocks, Lattice, Single
from privet.mechanisms.sampling.sources import checked_source
from privet.mechanisms.sampling.table import table_of
from privet.randomness import NoiseSource

__all__ = ["discrete_gaussian", "discrete_laplace"]

_LARGEST_SCALE = 2.0**50
_KEPT = 64  # laws whose tables are kept

# The largest scale that one table, of at most 1,400 edges, serves; beyond, it is the scale of the blocks. In
# constant time each edge costs a comparison, so that a shorter table pays for the proposals that it wastes.
_LAPLACE, _LAPLACE_EVENLY = 32.0, 8.0
_GAUSSIAN, _GAUSSIAN_EVENLY = 128.0, 16.0


def discrete_laplace(
    scale: float, size: int, source: NoiseSource, *, constant_time: bool = False
) -> npt.NDArray[np.int64]:
    """Independent integers with P[x] = e^{−|x|/scale} tanh(1/(2 scale)), exactly.

    ``scale`` is in steps of the lattice, up to 2⁵⁰, and its float64 is taken as exact. With ``constant_time`` the
    numbers cannot be told from how long the drawing took, nor from which memory it read; docs/noise.md says what
    that covers and what it costs.

    Guarantee: a whole number that one unit moves by at most c, plus this noise, is (c/scale)-DP. The law is exact, so
    no δ is charged for the sampler.

    Leaks: without ``constant_time``, how long a draw took. Never which bits were drawn: no float is released, so the
    attack of Mironov (2012) on the last bits of floating-point noise has nothing to work on.

    Reference: Ghosh, Roughgarden & Sundararajan (2012); Canonne, Kamath & Steinke (2020), Algorithm 2.

    >>> from privet.randomness import SecureNoise
    >>> discrete_laplace(10.0, 3, SecureNoise()).dtype
    dtype('int64')
    """
    _checked(scale, size, source)
    return _laplace(scale, constant_time).draw(size, source)


def discrete_gaussian(
    scale: float, size: int, source: NoiseSource, *, constant_time: bool = False
) -> npt.NDArray[np.int64]:
    """Independent integers with P[x] ∝ e^{−x²/(2 scale²)}, exactly.

    Arguments, leaks and limits are those of ``discrete_laplace``.

    Guarantee: a whole number that one unit moves by at most c, plus this noise, is c²/(2 scale²)-concentrated DP
    (Canonne, Kamath & Steinke 2020, Theorem 4). The law is exact, so no δ is charged for the sampler.

    Reference: Canonne, Kamath & Steinke (2020), Algorithm 3.

    >>> from privet.randomness import SecureNoise
    >>> discrete_gaussian(1e-3, 3, SecureNoise())  # other than 0 with probability e^{−500000}
    array([0, 0, 0])
    """
    _checked(scale, size, source)
    return _gaussian(scale, constant_time).draw(size, source)


@lru_cache(maxsize=_KEPT)
def _laplace(scale: float, constant_time: bool) -> Lattice:
    places = _places(scale, _LAPLACE_EVENLY if constant_time else _LAPLACE)
    return _lattice(Decay.laplace(scale), Decay.laplace(scale / 2**places), places, constant_time)


@lru_cache(maxsize=_KEPT)
def _gaussian(scale: float, constant_time: bool) -> Lattice:
    places = _places(scale, _GAUSSIAN_EVENLY if constant_time else _GAUSSIAN)
    return _lattice(Decay.gaussian(scale), Decay.gaussian(scale / 2**places), places, constant_time)


def _lattice(decay: Decay, of_blocks: Decay, places: int, constant_time: bool) -> Lattice:
    if places == 0:
        return Single(table_of(decay, folded=True), constant_time)
    return Blocks(table_of(of_blocks, folded=False), decay, places, constant_time)


def _places(scale: float, most: float) -> int:
    """The smallest b with scale/2^b ≤ most. Dividing by a power of two is exact."""
    places = 0
    while scale / 2**places > most:
        places += 1
    return places


def _checked(scale: float, size: int, source: NoiseSource) -> None:
    if positive("scale", scale) > _LARGEST_SCALE:
        raise InvalidArgument(
            f"'scale' must be at most 2^50 steps of the lattice, got {shown(scale)}, because larger noise does not fit "
            f"into 64 bits. Take a coarser lattice; a step of 2^-20 of the noise's scale is fine enough."
        )
    whole("size", size, least=0)
    checked_source(source)
