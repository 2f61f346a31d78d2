"""How loops are compiled: kept on disk where there is a folder for it, in the widest registers that there are, and on torch's threads.

Torch keeps a pool of threads that wait for work by turning on the spot, so a second pool would fight them for the
processor, and to wake a sleeping thread takes longer than a small layer. The pool is that of OpenMP, whose entry is a
plain function, ``GOMP_parallel``, in the GNU library and in LLVM's. Compiled code calls it as torch's own does: a microsecond,
and no Python. Where there is no such function, loops run on one thread.

A loop that is to be shared is a compiled function ``loop(part, parts, …)`` that does one of several parts of the work, and
``share(loop, threads, (…))`` in another compiled function does all of them.

Only what has numba imports this; without it the callers take torch's own operations.
"""

import ctypes
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any, TextIO

import torch  # noqa: F401 - its pool must be there before compiled code is loaded that calls it

__all__ = ["compiled", "inlined", "share", "wide"]

_numba: Any = import_module("numba")
_types: Any = _numba.types
_event: Any = import_module("numba.core.event")
_cgutils: Any = import_module("numba.core.cgutils")
_ir: Any = import_module("llvmlite.ir")
_intrinsic: Any = import_module("numba.extending").intrinsic

_NEEDED = ("GOMP_parallel", "omp_get_thread_num", "omp_get_num_threads")


def _has_pool() -> bool:
    try:
        everywhere = ctypes.CDLL(None)
    except (OSError, TypeError):  # not on this system
        return False
    return all(hasattr(everywhere, name) for name in _NEEDED)


POOL = _has_pool()


class Note(_event.Listener):  # type: ignore[misc]
    """Says on a terminal what takes seconds, the first time on a machine."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream, self._depth = stream, 0

    def on_start(self, event: Any) -> None:  # noqa: ANN401 - what numba gives
        self._say(event, 1, "compiling loops, once on this machine …")

    def on_end(self, event: Any) -> None:  # noqa: ANN401
        self._say(event, -1, "")

    def _say(self, event: Any, step: int, text: str) -> None:  # noqa: ANN401
        """For the outermost function alone: those that it calls are compiled within it."""
        if not str(event.data["dispatcher"].py_func.__module__).startswith("privet."):
            return
        stream = sys.stderr if self._stream is None else self._stream
        if max(self._depth, self._depth + step) == 1 and stream.isatty():
            stream.write(f"\r\033[K{text}")
            stream.flush()
        self._depth += step


_event.register("numba:compile", Note())


def compiled(function: Callable[..., Any], fastmath: set[str]) -> Callable[..., Any]:
    """The function as machine code; ``fastmath`` is what of exact float arithmetic it gives up."""
    try:
        # What was compiled for a pool must not be loaded where there is none.
        made = _numba.njit(cache=POOL, **_options(fastmath))(function)
    except RuntimeError:  # no folder for the cache can be written to
        made = _numba.njit(**_options(fastmath))(function)
    return made  # type: ignore[no-any-return]


def inlined(function: Callable[..., Any], fastmath: set[str]) -> Callable[..., Any]:
    """The same for a part of other compiled functions, into which it is written."""
    made = _numba.njit(inline="always", **_options(fastmath))(function)
    return made  # type: ignore[no-any-return]


def _options(fastmath: set[str]) -> dict[str, Any]:
    return {"nogil": True, "error_model": "numpy", "fastmath": fastmath}


def _widely(context: Any) -> Any:  # noqa: ANN401 - what numba asks for
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ANN401
        attributes = builder.function.attributes
        if isinstance(
            attributes, set
        ):  # past the check of names that llvmlite knows; where it is no set, the loop is only slower
            set.add(attributes, '"prefer-vector-width"="512"')
        return context.get_dummy_value()

    return _types.none(), generate


def _sharing(context: Any, loop: Any, threads: Any, arguments: Any) -> Any:  # noqa: ANN401 - what numba asks for
    signature = _types.void(_types.int64, _types.int64, *arguments.types)
    loop.dispatcher.compile(signature.args)

    def generate(context: Any, builder: Any, own: Any, values: Any) -> Any:  # noqa: ANN401
        made = loop.dispatcher.get_compile_result(signature)
        context.active_code_library.add_linking_library(made.library)
        word, long, nothing = _ir.IntType(32), _ir.IntType(64), _ir.VoidType()
        address = _ir.IntType(8).as_pointer()

        def outside(name: str, gives: Any, *takes: Any) -> Any:  # noqa: ANN401
            kind = _ir.FunctionType(gives, takes)
            return _cgutils.get_or_insert_function(builder.module, kind, name)

        def borrowed(where: Any, kind: Any, value: Any) -> Any:  # noqa: ANN401
            """An array without its owner: threads that count the same owner's references wait for each other."""
            if not isinstance(kind, _types.Array):
                return value
            array = context.make_array(kind)(context, where, value)
            array.meminfo = _ir.Constant(array.meminfo.type, None)
            return array._getvalue()

        def call(where: Any, part: Any, parts: Any, found: Any) -> None:  # noqa: ANN401
            each = [
                borrowed(where, kind, where.extract_value(found, place))
                for place, kind in enumerate(arguments.types)
            ]
            context.call_internal_no_propagate(where, made.fndesc, signature, [part, parts, *each])

        if not POOL:
            call(builder, _ir.Constant(long, 0), _ir.Constant(long, 1), values[2])
            return context.get_dummy_value()
        slot = _cgutils.alloca_once_value(builder, values[2])
        body = _ir.FunctionType(nothing, [address])
        name = builder.module.get_unique_name(f"{builder.function.name}.part")
        function = _ir.Function(builder.module, body, name=name)
        function.linkage = "internal"
        inner = _ir.IRBuilder(function.append_basic_block())
        part, parts = (inner.sext(inner.call(outside(each, word), []), long) for each in _NEEDED[1:])
        call(inner, part, parts, inner.load(inner.bitcast(function.args[0], slot.type)))
        inner.ret_void()
        fork = outside(_NEEDED[0], nothing, body.as_pointer(), address, word, word)
        zero, many = _ir.Constant(word, 0), builder.trunc(values[1], word)
        builder.call(fork, [function, builder.bitcast(slot, address), many, zero])
        return context.get_dummy_value()

    return _types.none(loop, _types.int64, arguments), generate


# Called in a compiled function: the compiler takes 256 bits of 512 unless told, which costs a quarter.
wide: Any = _intrinsic(_widely)
# Called in a compiled function: loop(part, parts, *arguments) for every part, on so many of torch's threads.
share: Any = _intrinsic(_sharing)
