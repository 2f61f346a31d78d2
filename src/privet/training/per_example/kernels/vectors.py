"""Two parts of compiled loops in vector instructions: sums of outer products, transposition. Imports numba.

They need a processor with 32 registers of 16 numbers. The caller has checked ``has_wide_registers``.
"""

from functools import lru_cache
from importlib import import_module
from typing import Any

__all__ = ["LANES", "has_wide_registers", "make_outer_sum", "transpose_tile"]

LANES = 16
"""Numbers in a register."""

_binding: Any = import_module("llvmlite.binding")
_ir: Any = import_module("llvmlite.ir")
_cgutils: Any = import_module("numba.core.cgutils")
_intrinsic: Any = import_module("numba.extending").intrinsic
_types: Any = import_module("numba").types

_NUMBER, _WORD, _LONG = _ir.FloatType(), _ir.IntType(32), _ir.IntType(64)
_VECTOR = _ir.VectorType(_NUMBER, LANES)
_UNDEFINED = _ir.Constant(_VECTOR, _ir.Undefined)


@lru_cache(maxsize=1)
def has_wide_registers() -> bool:
    """Whether the processor has AVX-512. Cached, because the question takes a third of a millisecond."""
    features: dict[str, bool] = _binding.get_host_cpu_features()
    return features.get("avx512f", False)


def _shuffle_order(lanes: list[int]) -> Any:  # noqa: ANN401 - llvmlite has no types
    return _ir.Constant(_ir.VectorType(_WORD, LANES), lanes)


def _memory(context: Any, builder: Any, kinds: Any, values: Any) -> Any:  # noqa: ANN401
    """The addresses of the numbers of arrays."""
    pairs = zip(kinds, values, strict=True)
    return [context.make_array(kind)(context, builder, value).data for kind, value in pairs]


def _advance(builder: Any, first: Any, *moves: tuple[Any, Any]) -> Any:  # noqa: ANN401
    for index, step in moves:
        first = builder.add(first, builder.mul(index, step))
    return first


def _at(builder: Any, memory: Any, where: Any) -> Any:  # noqa: ANN401
    return builder.bitcast(builder.gep(memory, [where]), _VECTOR.as_pointer())


def make_outer_sum(numbers: int, registers: int) -> Any:  # noqa: ANN401 - what numba asks for
    """f(scalars, vectors, out, positions): a sum over rows and columns of scalars times vector registers.

    ``positions`` are (start, row stride and column stride of the scalars; the same of the vectors; rows,
    columns; start and stride of the result).
    """

    def type_call(context: Any, scalars: Any, vectors: Any, out: Any, positions: Any) -> Any:  # noqa: ANN401
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:  # noqa: ANN401
            of_scalars, of_vectors, of_out = _memory(context, builder, signature.args[:3], values[:3])
            at = [builder.extract_value(values[3], i) for i in range(10)]
            multiply_add = _cgutils.get_or_insert_function(
                builder.module, _ir.FunctionType(_VECTOR, [_VECTOR] * 3), f"llvm.fmuladd.v{LANES}f32"
            )
            sums = [
                [_cgutils.alloca_once(builder, _VECTOR) for _ in range(registers)] for _ in range(numbers)
            ]
            for slot in (slot for row in sums for slot in row):
                builder.store(_ir.Constant(_VECTOR, [0.0] * LANES), slot)
            with (
                _cgutils.for_range(builder, at[6]) as down,
                _cgutils.for_range(builder, at[7]) as across,
            ):
                moves = (down.index, across.index)
                here = _advance(builder, at[0], *zip(moves, at[1:3], strict=True))
                there = _advance(builder, at[3], *zip(moves, at[4:6], strict=True))
                loaded = []
                for r in range(registers):
                    where = builder.add(there, _ir.Constant(_LONG, LANES * r))
                    loaded.append(builder.load(_at(builder, of_vectors, where), align=4))
                for n in range(numbers):
                    number = builder.load(
                        builder.gep(of_scalars, [builder.add(here, _ir.Constant(_LONG, n))])
                    )
                    first = builder.insert_element(_UNDEFINED, number, _ir.Constant(_WORD, 0))
                    repeated = builder.shuffle_vector(first, first, _shuffle_order([0] * LANES))
                    for r in range(registers):
                        total = builder.call(multiply_add, [repeated, loaded[r], builder.load(sums[n][r])])
                        builder.store(total, sums[n][r])
            for n in range(numbers):
                start = _advance(builder, at[8], (_ir.Constant(_LONG, n), at[9]))
                for r in range(registers):
                    where = builder.add(start, _ir.Constant(_LONG, LANES * r))
                    builder.store(builder.load(sums[n][r]), _at(builder, of_out, where), align=4)
            return context.get_dummy_value()

        return _types.none(scalars, vectors, out, _types.UniTuple(_types.int64, 10)), generate

    return _intrinsic(type_call)


def _type_transpose(
    context: Any,  # noqa: ANN401
    source: Any,  # noqa: ANN401
    at: Any,  # noqa: ANN401
    step: Any,  # noqa: ANN401
    out: Any,  # noqa: ANN401
    to: Any,  # noqa: ANN401
    by: Any,  # noqa: ANN401
) -> Any:  # noqa: ANN401
    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:  # noqa: ANN401
        """Swap blocks of one number across the diagonal, then blocks of two, of four, and of eight."""
        kinds = signature.args[0], signature.args[3]
        source, target = _memory(context, builder, kinds, (values[0], values[3]))

        def row(memory: Any, first: Any, gap: Any, i: int) -> Any:  # noqa: ANN401
            return _at(builder, memory, _advance(builder, first, (_ir.Constant(_LONG, i), gap)))

        rows = [builder.load(row(source, values[1], values[2], i), align=4) for i in range(LANES)]
        for block in (1, 2, 4, 8):
            upper = _shuffle_order([lane + LANES - block if lane & block else lane for lane in range(LANES)])
            lower = _shuffle_order([lane + LANES if lane & block else lane + block for lane in range(LANES)])
            for i in range(LANES):
                if not i & block:
                    a, b = rows[i], rows[i + block]
                    rows[i] = builder.shuffle_vector(a, b, upper)
                    rows[i + block] = builder.shuffle_vector(a, b, lower)
        for i in range(LANES):
            builder.store(rows[i], row(target, values[4], values[5], i), align=4)
        return context.get_dummy_value()

    whole = _types.int64
    return _types.none(source, whole, whole, out, whole, whole), generate


# transpose_tile(source, at, step, out, to, by): out[to + by·j + i] = source[at + step·i + j], for i and j
# below LANES.
transpose_tile: Any = _intrinsic(_type_transpose)
