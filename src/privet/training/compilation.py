"""Compilation of loops: cached on disk where possible, in the widest registers, and on torch's threads.

Torch keeps a pool of threads that busy-wait for work. A second pool would compete with them for the
processor, and waking a sleeping thread takes longer than a small layer. Torch's pool is that of OpenMP. Its
entry is a plain function, ``GOMP_parallel``, in the GNU library and in LLVM's. Compiled code calls it as
torch does, in a microsecond and without Python. Where this function is missing, loops run on one thread.

A parallel loop is a compiled function ``loop(part, parts, …)`` that does one part of the work. Another
compiled function calls ``run_parts(loop, threads, (…))`` to run all parts.

Importing this module imports numba. Callers without numba use torch's operations.
"""

import ctypes
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any, TextIO

import torch  # noqa: F401 - loads OpenMP, which compiled code calls

__all__ = ["compile_inline", "compile_loop", "run_parts", "use_wide_registers"]

_numba: Any = import_module("numba")
_types: Any = _numba.types
_event: Any = import_module("numba.core.event")
_cgutils: Any = import_module("numba.core.cgutils")
_ir: Any = import_module("llvmlite.ir")
_intrinsic: Any = import_module("numba.extending").intrinsic

_OPENMP = ("GOMP_parallel", "omp_get_thread_num", "omp_get_num_threads")


def _has_pool() -> bool:
    try:
        process = ctypes.CDLL(None)
    except (OSError, TypeError):  # not on this system
        return False
    return all(hasattr(process, name) for name in _OPENMP)


POOL = _has_pool()


class CompilationNotice(_event.Listener):  # type: ignore[misc]
    """Tells a terminal that loops are being compiled, which takes seconds the first time on a machine."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream, self._depth = stream, 0

    def on_start(self, event: Any) -> None:  # noqa: ANN401 - what numba gives
        self._say(event, 1, "compiling loops, once on this machine …")

    def on_end(self, event: Any) -> None:  # noqa: ANN401
        self._say(event, -1, "")

    def _say(self, event: Any, step: int, text: str) -> None:  # noqa: ANN401
        """Only for the outermost function: the functions that it calls are compiled within it."""
        if not str(event.data["dispatcher"].py_func.__module__).startswith("privet."):
            return
        stream = sys.stderr if self._stream is None else self._stream
        if max(self._depth, self._depth + step) == 1 and stream.isatty():
            stream.write(f"\r\033[K{text}")
            stream.flush()
        self._depth += step


_event.register("numba:compile", CompilationNotice())


def compile_loop(function: Callable[..., Any], fastmath: set[str]) -> Callable[..., Any]:
    """Compile a function to machine code. It may break the rules of float arithmetic in ``fastmath``."""
    try:
        # Code that was compiled for a pool must not be loaded where there is none.
        loop = _numba.njit(cache=POOL, **_options(fastmath))(function)
    except RuntimeError:  # no cache folder is writable
        loop = _numba.njit(**_options(fastmath))(function)
    return loop  # type: ignore[no-any-return]


def compile_inline(function: Callable[..., Any], fastmath: set[str]) -> Callable[..., Any]:
    """Compile a function that is inlined into other compiled functions."""
    inline = _numba.njit(inline="always", **_options(fastmath))(function)
    return inline  # type: ignore[no-any-return]


def _options(fastmath: set[str]) -> dict[str, Any]:
    return {"nogil": True, "error_model": "numpy", "fastmath": fastmath}


def _type_wide_registers(context: Any) -> Any:  # noqa: ANN401 - what numba asks for
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ANN401
        attributes = builder.function.attributes
        if isinstance(attributes, set):
            # set.add bypasses llvmlite's check of names. If it is not a set, the loop is only slower.
            set.add(attributes, '"prefer-vector-width"="512"')
        return context.get_dummy_value()

    return _types.none(), generate


def _type_run_parts(context: Any, loop: Any, threads: Any, arguments: Any) -> Any:  # noqa: ANN401
    signature = _types.void(_types.int64, _types.int64, *arguments.types)
    loop.dispatcher.compile(signature.args)

    def generate(context: Any, builder: Any, own: Any, values: Any) -> Any:  # noqa: ANN401
        result = loop.dispatcher.get_compile_result(signature)
        context.active_code_library.add_linking_library(result.library)
        word, long, nothing = _ir.IntType(32), _ir.IntType(64), _ir.VoidType()
        address = _ir.IntType(8).as_pointer()

        def declare(name: str, returns: Any, *takes: Any) -> Any:  # noqa: ANN401
            kind = _ir.FunctionType(returns, takes)
            return _cgutils.get_or_insert_function(builder.module, kind, name)

        def drop_owner(where: Any, kind: Any, value: Any) -> Any:  # noqa: ANN401
            """An array without its owner: threads that count references to one owner block each other."""
            if not isinstance(kind, _types.Array):
                return value
            array = context.make_array(kind)(context, where, value)
            array.meminfo = _ir.Constant(array.meminfo.type, None)
            return array._getvalue()

        def call(where: Any, part: Any, parts: Any, packed: Any) -> None:  # noqa: ANN401
            unpacked = [
                drop_owner(where, kind, where.extract_value(packed, index))
                for index, kind in enumerate(arguments.types)
            ]
            context.call_internal_no_propagate(where, result.fndesc, signature, [part, parts, *unpacked])

        if not POOL:
            call(builder, _ir.Constant(long, 0), _ir.Constant(long, 1), values[2])
            return context.get_dummy_value()
        slot = _cgutils.alloca_once_value(builder, values[2])
        body = _ir.FunctionType(nothing, [address])
        unique_name = builder.module.get_unique_name(f"{builder.function.name}.part")
        function = _ir.Function(builder.module, body, name=unique_name)
        function.linkage = "internal"
        inner = _ir.IRBuilder(function.append_basic_block())
        part, parts = (inner.sext(inner.call(declare(name, word), []), long) for name in _OPENMP[1:])
        call(inner, part, parts, inner.load(inner.bitcast(function.args[0], slot.type)))
        inner.ret_void()
        fork = declare(_OPENMP[0], nothing, body.as_pointer(), address, word, word)
        zero, many = _ir.Constant(word, 0), builder.trunc(values[1], word)
        builder.call(fork, [function, builder.bitcast(slot, address), many, zero])
        return context.get_dummy_value()

    return _types.none(loop, _types.int64, arguments), generate


# Called in a compiled function: asks the compiler for registers of 512 bits. By default it uses 256, which is
# slower.
use_wide_registers: Any = _intrinsic(_type_wide_registers)
# run_parts(loop, threads, arguments), called in a compiled function: runs loop(part, parts, *arguments) for
# every part.
run_parts: Any = _intrinsic(_type_run_parts)
