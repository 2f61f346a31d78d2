"""Noise on a flat float32 buffer, added in place: normal, or Student's t.

*What float noise leaks.* A proof speaks of real numbers. A float32 sum plus float32 noise is something else: the noise
has few possible values, so the last bits of an output may tell which sum it came from (Mironov 2012), and numbers that
are drawn in pairs lie on circles that can be told apart. Three things are done about it. None of them is a proof, and
guarantees with normal noise keep the caveat ``IDEALISED_REALS``.

1. *A dither.* Every coordinate gets an independent uniform shift of up to 2¹⁵ cells of a grid, either way; a cell g is
   2⁻²¹ to 2⁻²⁰ of σ. More noise that is independent of the data is post-processing, and harms nothing. Every value that
   the float computation can reach is spread over 65,536 neighbouring cells, independently in every coordinate, so no
   cell is left that one sum reaches and its neighbour does not.
2. *A grid.* The result is rounded to multiples of g. Float addition and rounding are functions of the exact sum of buffer
   and noise, so they are post-processing of it, and the last bits of the buffer are gone.
3. *Whole tails.* Rare large numbers are computed from 84 bits, so the tail ends at 10.8 σ and not at 6.6 or earlier.

The dither makes the variance larger than asked, never smaller, by a factor of 1 + 8·10⁻⁵ to 1 + 3.3·10⁻⁴; the mean is
off by half a cell, below 5·10⁻⁷ σ, whatever the data. What stays are densities that float32 arithmetic gets right to a
relative error of about 10⁻⁷, and sums in the buffer whose own rounding depends on their order.

*Speed.* With ``numba``, on a processor with AES instructions, a number takes 0.6 ns on two cores and 1.05 on one; torch's
``normal_`` takes 3.5 on two, and has neither secure bits, nor a grid, nor whole tails. Without such instructions it is
1.5 ns by way of ``cryptography``, or 16 without that; without numba 3.8 to 4.8 ns.
``bench/training/noise.py`` measures it.

*Reference*: Box & Muller 1958; Bailey 1994 for Student's t; Holohan & Braghin 2021, who also add further noise
against float attacks.
"""

import math

import torch
from torch import Tensor

from privet.arguments import at_least, positive, shown
from privet.errors import InvalidArgument
from privet.randomness import NoiseSource
from privet.training.noise import compiled_normals
from privet.training.noise.normals import add_normal, add_rounded, blocks
from privet.training.noise.secure_stream import checked_source, expanded

__all__ = ["gaussian_", "grid", "student_"]

_GRID_BITS = 21
_SMALLEST, _LARGEST = 1e-25, 1e25  # so that neither the grid nor what is counted in it leaves float32
_WORTH_COMPILING = 1 << 9  # below, loading numba would cost more than it gives


def gaussian_(
    buffer: Tensor, standard_deviation: float, source: NoiseSource, *, divisor: float = 1.0
) -> Tensor:
    """Add independent N(0, standard_deviation²) to every number of the buffer, in place, and round to ``grid``.

    All is then divided by ``divisor``, which costs nothing in the same pass. A standard deviation of 0 adds nothing. A buffer that is not in the processor's memory gets noise that
    was drawn there, and is then not rounded. A seed gives the same noise again where the same packages are installed.

    >>> from privet.randomness import SeededNoise
    >>> first = gaussian_(torch.zeros(3), 2.0, SeededNoise(1))
    >>> bool((first == gaussian_(torch.zeros(3), 2.0, SeededNoise(1))).all())
    True
    """
    deviation = _checked("standard_deviation", buffer, standard_deviation, source)
    scale = float(positive("divisor", divisor))
    if buffer.numel() == 0:
        return buffer
    flat = buffer.detach().view(-1)
    if deviation == 0:
        flat.div_(scale)
    elif buffer.device.type != "cpu":
        drawn = gaussian_(torch.zeros(flat.shape), deviation, source)
        flat.add_(drawn.to(buffer.device)).div_(scale)
    elif flat.numel() >= _WORTH_COMPILING and compiled_normals.is_available():
        compiled_normals.add_normal(flat.numpy(), deviation, grid(deviation), source, scale)
    else:
        add_normal(flat, deviation, grid(deviation), expanded(source))
        flat.div_(scale)
    return buffer


def student_(buffer: Tensor, scale: float, degrees: float, source: NoiseSource) -> Tensor:
    """Add ``scale`` times independent Student's t with ``degrees`` of freedom, in place, and round to ``grid``.

    √(ν(U^(−2/ν) − 1)) cos θ has that law. The two numbers of a pair would depend on each other, so one is used.
    Tails end where U = 2⁻⁸⁵. No theorem here says what such noise protects.

    >>> from privet.randomness import SeededNoise
    >>> student_(torch.zeros(2), 1.0, 3.0, SeededNoise(1)).shape
    torch.Size([2])
    """
    width = _checked("scale", buffer, scale, source)
    freedom = positive("degrees", degrees)
    if width == 0 or buffer.numel() == 0:
        return buffer
    if buffer.device.type != "cpu":
        return buffer.add_(student_(torch.zeros(buffer.shape), width, freedom, source).to(buffer.device))
    cell, bits = grid(width), expanded(source)
    for piece, block in blocks(buffer.detach().view(-1), per_pair=1):
        block.draw(bits)
        radii = block.logarithms(bits).mul_(-2 / freedom).expm1_().mul_(freedom * (width / cell) ** 2).sqrt_()
        numbers, _ = block.pairs_of(radii)
        add_rounded(piece, numbers[: piece.numel()], block.dither()[0][: piece.numel()], cell)
    return buffer


def grid(standard_deviation: float) -> float:
    """The power of two that results are multiples of: 2⁻²¹ to 2⁻²⁰ of the standard deviation.

    >>> grid(1.5) == 2.0**-20
    True
    """
    return math.ldexp(1.0, math.frexp(standard_deviation)[1] - _GRID_BITS)


def _checked(name: str, buffer: Tensor, deviation: float, source: NoiseSource) -> float:
    if not isinstance(buffer, Tensor) or buffer.dtype != torch.float32 or not buffer.is_contiguous():
        got = str(buffer.dtype) if isinstance(buffer, Tensor) else type(buffer).__name__
        raise InvalidArgument(
            f"'buffer' must be a contiguous float32 tensor, got {got}. Gather the sums into one flat buffer."
        )
    value = float(at_least(name, deviation, 0))
    if value != 0 and not _SMALLEST <= value <= _LARGEST:
        raise InvalidArgument(
            f"'{name}' must be 0 or lie between {_SMALLEST:g} and {_LARGEST:g}, got {shown(deviation)}, "
            f"because float32 holds no finer grid. Scale the sums."
        )
    checked_source(source)
    return value
