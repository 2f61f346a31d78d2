"""Noise on a flat float32 buffer, added in place: normal, or Student's t.

*What float noise leaks.* A proof is about real numbers. A float32 sum plus float32 noise is different: the
noise has few possible values, so the last bits of an output may show which sum it came from (Mironov 2012),
and numbers that are drawn in pairs lie on circles that can be told apart. Three measures reduce this. None of
them is a proof, so guarantees with normal noise keep the caveat ``IDEALISED_REALS``.

1. *A dither.* Every coordinate gets an independent uniform shift of at most 2¹⁵ cells of a grid, in both
   directions. A cell g is 2⁻²¹ to 2⁻²⁰ of σ. Further noise that is independent of the data is
   post-processing, so it harms nothing. It spreads every value that the float computation can reach over
   65,536 neighbouring cells, independently in every coordinate. So there is no cell that one sum reaches and
   its neighbour does not.
2. *A grid.* The result is rounded to multiples of g. Float addition and rounding are functions of the exact
   sum of buffer and noise, so they are post-processing, and they remove the last bits of the buffer.
3. *Long tails.* Rare large numbers are computed from 84 bits, so the tail ends at 10.8 σ, and not at 6.6 σ or
   earlier.

The dither makes the variance larger than requested, never smaller, by a factor of 1 + 8·10⁻⁵ to 1 + 3.3·10⁻⁴.
The mean is off by half a cell, below 5·10⁻⁷ σ, for all data. Two things remain: float32 arithmetic gives
densities with a relative error of about 10⁻⁷, and the rounding of the sums in the buffer depends on their
order.

*Speed.* With ``numba``, on a processor with AES instructions, a number takes 0.6 ns on two cores and 1.05 ns
on one. Torch's ``normal_`` takes 3.5 ns on two cores, without secure bits, grid or long tails. Without AES
instructions a number takes 1.5 ns with ``cryptography`` and 16 ns without; without numba 3.8 to 4.8 ns.
``bench/training/noise.py`` measures this.

*Reference*: Box & Muller 1958; Bailey 1994 for Student's t; Holohan & Braghin 2021, who also add further
noise against float attacks.
"""

import math

import torch
from torch import Tensor

from privet.arguments import at_least, format_value, positive
from privet.errors import InvalidArgument
from privet.randomness import NoiseSource
from privet.training.noise import compiled_normals
from privet.training.noise.normals import add_normal, add_rounded, split_blocks
from privet.training.noise.secure_stream import expand_source, require_source

__all__ = ["add_gaussian_", "add_student_", "grid_spacing"]

_GRID_BITS = 21
_SMALLEST, _LARGEST = 1e-25, 1e25  # the grid, and numbers in units of the grid, stay within float32
_WORTH_COMPILING = 1 << 9  # for smaller buffers, loading numba costs more than it saves


def add_gaussian_(
    buffer: Tensor, standard_deviation: float, source: NoiseSource, *, divisor: float = 1.0
) -> Tensor:
    """Add independent N(0, standard_deviation²) to every number, in place, and round to ``grid_spacing``.

    The result is then divided by ``divisor``, in the same pass. A standard deviation of 0 adds nothing. A
    buffer on another device is copied to the CPU and back, so that its sum is rounded as well. A seed gives
    the same noise again if the same packages are installed.

    >>> from privet.randomness import SeededNoise
    >>> first = add_gaussian_(torch.zeros(3), 2.0, SeededNoise(1))
    >>> bool((first == add_gaussian_(torch.zeros(3), 2.0, SeededNoise(1))).all())
    True
    """
    deviation = _check_request("standard_deviation", buffer, standard_deviation, source)
    scale = float(positive("divisor", divisor))
    if buffer.numel() == 0:
        return buffer
    flat = buffer.detach().view(-1)
    if deviation == 0:
        flat.div_(scale)
    elif not _is_on_host(buffer):
        flat.copy_(add_gaussian_(flat.cpu(), deviation, source, divisor=scale))
    elif flat.numel() >= _WORTH_COMPILING and compiled_normals.is_ready(source):
        compiled_normals.add_normal(flat.numpy(), deviation, grid_spacing(deviation), source, scale)
    else:
        add_normal(flat, deviation, grid_spacing(deviation), expand_source(source))
        flat.div_(scale)
    return buffer


def add_student_(buffer: Tensor, scale: float, degrees: float, source: NoiseSource) -> Tensor:
    """Add ``scale`` times independent Student's t numbers, in place, and round to ``grid_spacing``.

    √(ν(U^(−2/ν) − 1)) cos θ has that distribution. The two numbers of a pair depend on each other, so only
    one is used. The tails end at U = 2⁻⁸⁵. ``distributions`` says what such noise protects.

    >>> from privet.randomness import SeededNoise
    >>> add_student_(torch.zeros(2), 1.0, 3.0, SeededNoise(1)).shape
    torch.Size([2])
    """
    width = _check_request("scale", buffer, scale, source)
    freedom = positive("degrees", degrees)
    if width == 0 or buffer.numel() == 0:
        return buffer
    if not _is_on_host(buffer):
        return buffer.copy_(add_student_(buffer.detach().cpu(), width, freedom, source))
    cell, bits = grid_spacing(width), expand_source(source)
    for piece, block in split_blocks(buffer.detach().view(-1), per_pair=1):
        block.draw(bits)
        radii = block.logarithms(bits).mul_(-2 / freedom).expm1_().mul_(freedom * (width / cell) ** 2).sqrt_()
        numbers, _ = block.make_pairs(radii)
        add_rounded(piece, numbers[: piece.numel()], block.dither()[0][: piece.numel()], cell)
    return buffer


def grid_spacing(standard_deviation: float) -> float:
    """The spacing of the grid of results: a power of two, 2⁻²¹ to 2⁻²⁰ of the standard deviation.

    >>> grid_spacing(1.5) == 2.0**-20
    True
    """
    return math.ldexp(1.0, math.frexp(standard_deviation)[1] - _GRID_BITS)


def _is_on_host(buffer: Tensor) -> bool:
    """Whether the loops of the CPU reach the buffer."""
    return buffer.device.type == "cpu"


def _check_request(name: str, buffer: Tensor, deviation: float, source: NoiseSource) -> float:
    if not isinstance(buffer, Tensor) or buffer.dtype != torch.float32 or not buffer.is_contiguous():
        got = str(buffer.dtype) if isinstance(buffer, Tensor) else type(buffer).__name__
        raise InvalidArgument(
            f"'buffer' must be a contiguous float32 tensor, got {got}. Gather the sums into one flat buffer."
        )
    value = float(at_least(name, deviation, 0))
    if value != 0 and not _SMALLEST <= value <= _LARGEST:
        raise InvalidArgument(
            f"'{name}' must be 0 or lie between {_SMALLEST:g} and {_LARGEST:g}, got "
            f"{format_value(deviation)}, because float32 holds no finer grid. Scale the sums."
        )
    require_source(source)
    return value
