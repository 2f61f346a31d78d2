"""How loops are compiled: kept on disk where there is a folder for it, and in the widest registers that there are.

Only what has numba imports this; without it the callers take torch's own operations.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any

__all__ = ["compiled", "inlined", "wide"]

_numba: Any = import_module("numba")


def compiled(function: Callable[..., Any], fastmath: set[str]) -> Callable[..., Any]:
    """The function as machine code; ``fastmath`` is what of exact float arithmetic it gives up."""
    try:
        made = _numba.njit(cache=True, **_options(fastmath))(function)
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

    return _numba.types.none(), generate


# Called in a compiled function: the compiler takes 256 bits of 512 unless told, which costs a quarter.
wide: Any = import_module("numba.extending").intrinsic(_widely)
