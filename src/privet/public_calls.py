"""Public calls are checked once, at the door: arguments of the wrong type get the library's own error.

``check_public_calls(__name__)`` at the end of a public module wraps the functions and classes of its
``__all__``. A new public name is checked on the day it is added. The checks follow the type hints
(``type_hints``), which are resolved at the first call.

What is *not* checked: properties, private methods, named tuples, exceptions, and the constructors of
scikit-learn estimators, which must take everything and refuse in ``fit``. Calls inside of Privet that import
a function from its own module do not pass the door.

*Leaks*: a message names the argument and the type of what was got, and never its value.
"""

import collections.abc
import dataclasses
import enum
import functools
import inspect
import os
import sys
import traceback
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from privet.errors import InvalidArgument, NotEnoughMemory, PrivetError
from privet.type_hints import Mismatch, Reader, reader_for

__all__ = ["check_public_calls", "checked_modules"]

_PACKAGE = __name__.partition(".")[0]
_checked_modules: dict[str, None] = {}
_wrappers: dict[
    Callable[..., Any], Callable[..., Any]
] = {}  # one for each function: pickle compares by identity
_checked_classes: set[type] = set()


def check_public_calls(module_name: str) -> None:
    """Wrap what a module lists in ``__all__``: now what is loaded, and the rest when its ``__getattr__``
    loads it.
    """
    module = sys.modules[module_name]
    _checked_modules[module_name] = None
    public: list[str] = module.__all__
    space = vars(module)
    for name in public:
        if name in space:
            space[name] = _check_call(space[name], module_name, name)
    load = space.get("__getattr__")
    if load is not None:

        def __getattr__(name: str) -> object:  # noqa: N807
            # ``load`` may have stored the name in the module: the checked one takes its place.
            space[name] = _check_call(load(name), module_name, name)
            return space[name]

        space["__getattr__"] = functools.wraps(load)(__getattr__)


def checked_modules() -> tuple[str, ...]:
    """The names of the modules whose public calls are checked, as far as they are loaded."""
    return tuple(_checked_modules)


def _check_call(thing: object, module: str, name: str) -> object:
    if isinstance(thing, type):
        _check_class(thing)
        return thing
    if not isinstance(thing, types.FunctionType) or not thing.__module__.startswith(_PACKAGE):
        return thing
    if thing.__code__ in _CODES:  # checked already, by the package that it comes from
        return thing
    wrapper = _wrappers.get(thing)
    if wrapper is None:
        wrapper = _wrappers[thing] = _wrap_function(thing, skipped=0)
        wrapper.__module__, wrapper.__qualname__ = module, name  # where pickle finds it
    return wrapper


def _check_class(kind: type) -> None:
    """Wrap the methods of a class and of those of Privet's classes that it extends."""
    for above in kind.__mro__:
        if above in _checked_classes or not above.__module__.startswith(_PACKAGE):
            continue
        _checked_classes.add(above)
        if not _is_closed(above):
            for name, method in _methods(above):
                setattr(above, name, method)


def _is_closed(kind: type) -> bool:
    return (
        issubclass(kind, (BaseException, enum.Enum))
        or bool(getattr(kind, "_is_protocol", False))
        or (issubclass(kind, tuple) and hasattr(kind, "_fields"))
    )


def _methods(kind: type) -> Iterator[tuple[str, object]]:
    module = getattr(getattr(sys.modules.get("torch"), "nn", None), "Module", ())
    estimator = hasattr(kind, "get_params") and hasattr(kind, "set_params")
    for name, found in list(vars(kind).items()):
        if name == "__init__":
            if isinstance(found, types.FunctionType) and not estimator:
                yield name, _wrap_function(found, skipped=1, constructs=True)
        elif name.startswith("_") or issubclass(kind, module):
            continue  # torch traces what a module does
        elif isinstance(found, types.FunctionType):
            if not getattr(found, "__isabstractmethod__", False):
                yield name, _wrap_function(found, skipped=1)
        elif isinstance(found, (classmethod, staticmethod)):
            function = found.__func__
            if isinstance(function, types.FunctionType):
                skipped = int(isinstance(found, classmethod))
                yield name, type(found)(_wrap_function(function, skipped=skipped))


class _Readers:
    """The readers of a function's parameters, resolved when it is first called."""

    __slots__ = ("arrays", "named", "names", "positional", "rest", "rest_named")

    def __init__(self, function: types.FunctionType, skipped: int, *, keeps_arrays: bool = False) -> None:
        hints = _hints(function)
        self.arrays = [
            name for name, hint in hints.items() if name != "return" and _holds_arrays(hint, deep=skipped > 0)
        ]
        self.positional: list[Reader | None] = [None] * skipped
        self.names = ["self"] * skipped
        self.named: dict[str, Reader] = {}
        self.rest: Reader | None = None
        self.rest_named: Reader | None = None
        for parameter in list(inspect.signature(function).parameters.values())[skipped:]:
            reader = (reader_for(hints[parameter.name]) or _read_any) if parameter.name in hints else None
            if reader is not None and keeps_arrays:
                reader = _without_arrays(reader)
            if parameter.default is None and reader is not None:
                reader = _or_none(reader)
            if parameter.kind is parameter.VAR_POSITIONAL:
                self.rest = reader
            elif parameter.kind is parameter.VAR_KEYWORD:
                self.rest_named = reader
            else:
                if parameter.kind is not parameter.KEYWORD_ONLY:
                    self.positional.append(reader)
                    self.names.append(parameter.name)
                if reader is not None and parameter.kind is not parameter.POSITIONAL_ONLY:
                    self.named[parameter.name] = reader

    def read(self, args: tuple[Any, ...], named: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments, converted where that is sensible."""
        name = ""
        try:
            for place, (value, reader) in enumerate(zip(args, self.positional, strict=False)):
                if reader is not None:
                    name = self.names[place]
                    if (found := reader(value)) is not value:
                        args = (*args[:place], found, *args[place + 1 :])
            if self.rest is not None and len(args) > len(self.positional):
                name, given = "*", len(self.positional)
                args = (*args[:given], *map(self.rest, args[given:]))
            for name, value in named.items():
                reader = self.named.get(name, self.rest_named)
                if reader is not None and (found := reader(value)) is not value:
                    named = {**named, name: found}
        except Mismatch as refused:
            _refuse(name, refused)
        return args, named


def _refuse(name: str, refused: Mismatch) -> NoReturn:
    raise InvalidArgument(f"'{name}' must be {refused.needed}, got {refused.got}. {refused.fix}") from None


def _holds_arrays(hint: object, *, deep: bool) -> bool:
    """Whether a value of this type is an array, or holds some; ``deep`` looks into the fields of an object,
    too.
    """
    kind = typing.get_origin(hint) or hint
    inner = typing.get_args(hint) if kind is not collections.abc.Callable else ()
    if deep and isinstance(kind, type) and dataclasses.is_dataclass(kind):
        try:
            inner = tuple(typing.get_type_hints(kind).values())
        except Exception:  # a hint for the type checker alone
            inner = ()
        return any(_holds_arrays(one, deep=False) for one in inner)
    return getattr(kind, "__name__", "") in ("ndarray", "Tensor") or any(
        _holds_arrays(one, deep=deep) for one in inner
    )


def _explain(error: Exception, function: types.FunctionType, *, takes_arrays: bool) -> PrivetError | None:
    """What to say where arrays of the right type do not fit (their shapes, their numbers or each other), or
    where memory is too small. None: it is not that.

    Only for a caller outside of Privet, and where no function of the caller has failed. The error itself may
    show numbers, so it is the cause of this one and no part of its message.
    """
    lacks_memory = isinstance(error, MemoryError) or (
        type(error) is RuntimeError and "DefaultCPUAllocator" in str(error)  # torch's, on a processor
    )
    if isinstance(error, PrivetError) or not (lacks_memory or (takes_arrays and isinstance(error, _MISFITS))):
        return None
    if error.__traceback__ is None or error.__traceback__.tb_next is None:
        return None  # the function was not entered: an argument is missing, or has no such name
    caller = sys._getframe(2).f_globals.get("__name__", "")
    if _is_own(type(error).__module__) or _is_own(caller):
        return None
    inside = [
        frame.f_globals.get("__name__", "")
        for frame, _ in traceback.walk_tb(error.__traceback__)
        if not _is_installed(frame.f_code.co_filename) or _is_own(frame.f_globals.get("__name__", ""))
    ]
    if not inside or not _is_own(inside[-1]):
        return None
    name = function.__qualname__.removesuffix(".__init__")
    if lacks_memory:
        return NotEnoughMemory(
            f"What {name} was asked for must fit into memory, and does not. Ask for less at once."
        )
    return InvalidArgument(
        f"The arrays given to {name} must have the shapes and numbers that it asks for, "
        f"and do not fit ({type(error).__name__}). Check the number of rows, columns and classes of each."
    )


_MISFITS = (
    ValueError,
    TypeError,
    IndexError,
    KeyError,
    OverflowError,
    RuntimeError,
    AttributeError,
    AssertionError,
)


def _is_own(module: str) -> bool:
    return module == _PACKAGE or module.startswith(f"{_PACKAGE}.")


def _is_installed(filename: str) -> bool:
    return (
        filename.startswith("<")
        or filename.endswith((".pyx", ".pxd", ".pxi"))  # compiled by Cython, without the folder
        or f"{os.sep}site-packages{os.sep}" in filename
        or filename.startswith(_PYTHON)
    )


_PYTHON = str(Path(os.__file__).parent)


def _read_any(value: object) -> object:
    """Any value that can be asked for its class, as ``isinstance`` does. A proxy of something gone fails."""
    try:
        value.__class__  # noqa: B018
    except Exception:
        got = f"a {type(value).__name__} that fails when it is asked for its class"
        raise Mismatch("a value", got, "Give the value itself.") from None
    return value


def _or_none(reader: Reader) -> Reader:
    return lambda value: None if value is None else reader(value)


def _without_arrays(reader: Reader) -> Reader:
    """Classes read what is an array for them by their own rules, so they are given it as it is."""

    def read(value: object) -> object:
        found = reader(value)
        return value if type(found) is np.ndarray else found

    return read


def _as_tuple(value: object) -> object:
    return tuple(value) if type(value) is list else value


def _hints(function: types.FunctionType) -> Mapping[str, object]:
    """Type hints one by one: one that cannot be resolved (an import for the type checker alone) leaves the
    others.
    """
    try:
        return typing.get_type_hints(function)
    except Exception:
        found = {}
        for name, hint in function.__annotations__.items():
            if isinstance(hint, str):
                try:
                    hint = eval(hint, function.__globals__)  # the source's own annotation  # noqa: PLW2901
                except Exception:
                    continue
            found[name] = hint
        return found


def _wrap_function(function: types.FunctionType, *, skipped: int, constructs: bool = False) -> Any:  # noqa: ANN401
    """A function that reads its arguments first.

    A constructor that gets a wrong type asks the class first: its own sentence says more, and making an
    object has no effect elsewhere.
    """
    hints = [hint for name, hint in function.__annotations__.items() if name != "return"]
    if not hints:
        return function
    readers: _Readers | None = None
    make, listed, explain = _Readers, _as_tuple, _explain
    refused_by_type, refused_by_class = InvalidArgument, PrivetError

    def call(*args: Any, **named: Any) -> Any:  # noqa: ANN401
        nonlocal readers
        if readers is None:
            readers = make(function, skipped)
        read_args, read_named = readers.read(args, named)
        try:
            return function(*read_args, **read_named)
        except Exception as error:
            refused = explain(error, function, takes_arrays=bool(readers.arrays))
            if refused is None:
                raise
            raise refused from error

    def construct(*args: Any, **named: Any) -> Any:  # noqa: ANN401
        nonlocal readers
        if readers is None:
            readers = make(function, skipped, keeps_arrays=True)
        try:
            read_args, read_named = readers.read(args, named)
        except refused_by_type as refused:
            wrong_type = refused
        else:
            try:
                return function(*read_args, **read_named)
            except Exception as error:
                misfit = explain(error, function, takes_arrays=bool(readers.arrays))
                if misfit is None:
                    raise
                raise misfit from error
        try:
            function(*map(listed, args), **{name: listed(value) for name, value in named.items()})
        except refused_by_class:
            raise
        except Exception:
            pass
        raise wrong_type

    wrapper = construct if constructs else call
    # The globals of the function itself, as doctest goes by them to find whose tests a method holds.
    wrapper = types.FunctionType(
        wrapper.__code__, function.__globals__, function.__name__, None, wrapper.__closure__
    )
    _CODES.add(wrapper.__code__)
    return functools.wraps(function)(wrapper)


_CODES: set[types.CodeType] = set()
