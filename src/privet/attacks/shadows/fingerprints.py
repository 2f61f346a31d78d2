"""One hash of a recipe, down to its code and its numbers.

Two things with the same fingerprint do the same. The hash of a function covers its byte code, constants,
defaults, closure, and the names that it reads from its module; that of a class its methods and bases; that of
an object its class and fields. Code of an installed package is covered by the package's name and version.
Anything that cannot be hashed in this way is refused, because a guess could return a stale result from the
cache.
"""

import dis
import enum
import functools
import hashlib
import importlib.metadata
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import final

import numpy as np

from privet.errors import InvalidArgument

__all__ = ["fingerprint"]

_PLAIN = (int, float, complex, str, bytes, bool, type(None), type(...), range)
_OWN_STATE = frozenset(
    {"__dict__", "__weakref__", "__module__", "__doc__", "__firstlineno__", "__static_attributes__"}
)


def fingerprint(thing: object) -> str:
    """64 hexadecimal digits.

    >>> fingerprint(lambda x: x + 1) == fingerprint(lambda x: x + 1)
    True
    >>> fingerprint(lambda x: x + 1) == fingerprint(lambda x: x + 2)
    False
    """
    walker = _Walker()
    walker.follow(thing)
    return walker.digest.hexdigest()


@final
class _Walker:
    """Walks through an object and everything that it refers to, and hashes it on the way."""

    def __init__(self) -> None:
        self.digest = hashlib.sha256()
        self._seen: dict[int, int] = {}
        self._alive: list[object] = []  # keeps objects alive, so that no id is used twice

    def update(self, *words: object) -> None:
        for word in words:
            data = word if isinstance(word, bytes) else str(word).encode(errors="surrogatepass")
            self.digest.update(b"%d:" % len(data) + data)

    def follow(self, thing: object) -> None:
        if isinstance(thing, _PLAIN) and not isinstance(thing, enum.Enum):
            self.update(type(thing).__name__, repr(thing))
            return
        if id(thing) in self._seen:
            self.update("again", self._seen[id(thing)])
            return
        self._seen[id(thing)] = len(self._seen)
        self._alive.append(thing)
        match thing:
            case types.FunctionType():
                self._function(thing)
            case type():
                self._class(thing)
            case types.ModuleType():
                self.update("module", thing.__name__, _package_version(thing.__name__))
            case types.MethodType():
                self.update("method")
                self.follow(thing.__func__)
                self.follow(thing.__self__)
            case types.BuiltinFunctionType() | types.WrapperDescriptorType() | types.MethodDescriptorType():
                self.update(
                    "builtin", thing.__qualname__, _package_version(str(getattr(thing, "__module__", "")))
                )
            case types.CodeType():
                self._code(thing)
            case staticmethod() | classmethod():
                self.update(type(thing).__name__)
                self.follow(thing.__func__)
            case property():
                self.update("property")
                for part in (thing.fget, thing.fset, thing.fdel):
                    self.follow(part)
            case functools.partial():
                self.update("partial")
                self.follow((thing.func, thing.args, thing.keywords))
            case enum.Enum():
                self.update("enum", type(thing).__qualname__, thing.name)
                self.follow(thing.value)
            case list() | tuple():
                self.update(type(thing).__qualname__, len(thing))
                for part in thing:
                    self.follow(part)
            case dict():
                self.update("dict", len(thing))
                for key, value in thing.items():
                    self.follow(key)
                    self.follow(value)
            case set() | frozenset():
                self.update("set", *sorted(fingerprint(part) for part in thing))
            case np.ndarray() | np.generic():
                self._array(np.asarray(thing))
            case Path():
                self.update("path", str(thing))
            case _:
                self._object(thing)

    def _array(self, array: np.ndarray) -> None:
        if array.dtype.hasobject:
            self.update("objects", array.shape)
            for part in array.ravel():
                self.follow(part)
            return
        self.update("array", array.dtype.str, array.shape)
        self.digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)

    def _function(self, function: types.FunctionType) -> None:
        self.update("function")
        self._code(function.__code__)
        self.follow(function.__defaults__)
        self.follow(function.__kwdefaults__)
        for cell in function.__closure__ or ():
            self.follow(_cell_content(cell))
        if _is_installed(function.__module__):  # the version of its package covers what it calls
            self.update(function.__module__, function.__qualname__, _package_version(function.__module__))
            return
        for name in sorted(set(_global_names(function.__code__))):
            if name in function.__globals__:
                self.update("global", name)
                self.follow(function.__globals__[name])

    def _code(self, code: types.CodeType) -> None:
        self.update("code", code.co_code, code.co_names, code.co_varnames, code.co_argcount, code.co_flags)
        for constant in code.co_consts:
            self.follow(constant)

    def _class(self, kind: type) -> None:
        self.update("class", kind.__module__, kind.__qualname__)
        if _is_installed(kind.__module__):
            self.update(_package_version(kind.__module__))
            return
        for base in kind.__bases__:
            self.follow(base)
        for name, value in vars(kind).items():
            if name not in _OWN_STATE and not isinstance(
                value, types.GetSetDescriptorType | types.MemberDescriptorType
            ):
                self.update(name)
                self.follow(value)

    def _object(self, thing: object) -> None:
        torch = sys.modules.get("torch")
        if torch is not None and isinstance(thing, torch.Tensor):
            self.update("tensor", thing.requires_grad)
            self._array(thing.detach().cpu().numpy())
            return
        if torch is not None and isinstance(thing, torch.dtype | torch.device):
            self.update(repr(thing))
            return
        fields = getattr(thing, "__dict__", None)
        if not isinstance(fields, dict):
            self.update("reduced", type(thing).__qualname__)
            self.follow(_reduce(thing))
            return
        self.update("object")
        self.follow(type(thing))
        for name in sorted(fields):
            self.update(name)
            self.follow(fields[name])


def _reduce(thing: object) -> object:
    """The parts from which pickle would rebuild the object."""
    try:
        parts = thing.__reduce_ex__(4)
    except TypeError:
        parts = ""
    if isinstance(parts, str):
        raise InvalidArgument(
            f"'recipe' must consist of things that can be hashed, got a {type(thing).__name__} in it. "
            f"Take it out, or give a CallableRecipe with a version of your own."
        )
    return tuple(list(part) if isinstance(part, Iterator) else part for part in parts)


def _cell_content(cell: types.CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # a name that is not bound yet
        return None


def _global_names(code: types.CodeType) -> Iterator[str]:
    """Names that the code, and functions inside of it, read from the module."""
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            yield str(instruction.argval)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _global_names(constant)


@functools.cache
def _is_installed(module: str) -> bool:
    """Whether a module belongs to an installed package or to Python itself, so that a version covers its
    code.
    """
    root = module.partition(".")[0]
    if root == "privet" or root in sys.stdlib_module_names:
        return root != "__main__"
    path = getattr(sys.modules.get(module), "__file__", None)
    return root in ("torch", "numpy", "sklearn", "scipy") or (path is not None and "site-packages" in path)


@functools.cache
def _package_version(module: str) -> str:
    root = module.partition(".")[0]
    if root in sys.stdlib_module_names:
        return sys.version
    try:
        return importlib.metadata.version({"sklearn": "scikit-learn"}.get(root, root))
    except importlib.metadata.PackageNotFoundError:
        return "unknown"
