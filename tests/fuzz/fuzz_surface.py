"""The public surface of Privet, found and not listed: every function, class and method of every public module."""

import importlib
import inspect
import pkgutil
import types
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

import privet

# What has ``__all__`` for other modules of Privet, and no user calls. ``cli`` is fuzzed as commands.
INTERNAL = ("privet.cli", "privet.datasets", "privet.mechanisms.sampling", "privet.type_hints")
INSIDE_OF = ("privet.curator", "privet.training")  # their sub-packages; a curator is fuzzed over HTTP


@dataclass(frozen=True)
class Target:
    """One thing to call. ``owner`` is the class whose object a method needs."""

    name: str
    function: Callable[..., object]
    owner: type | None = None

    def parameters(self) -> list[inspect.Parameter]:
        found = list(inspect.signature(self.function).parameters.values())
        return found[1:] if self.owner is not None else found


def is_internal(name: str) -> bool:
    return any(name == known or name.startswith(f"{known}.") for known in INTERNAL) or any(
        name.startswith(f"{known}.") for known in INSIDE_OF
    )


def public_packages() -> list[str]:
    """Packages with ``__all__``, but for those that are known to be internal."""
    found = [info.name for info in pkgutil.walk_packages(privet.__path__, "privet.") if info.ispkg]
    return [
        "privet",
        *(name for name in found if not is_internal(name) and hasattr(_loaded(name), "__all__")),
    ]


def public_modules() -> list[str]:
    """The public packages, and the modules that check their calls."""
    from privet.public_calls import checked_modules

    packages = public_packages()
    return list(dict.fromkeys([*packages, *checked_modules()]))


def _loaded(name: str) -> types.ModuleType:
    return importlib.import_module(name)


def targets() -> list[Target]:
    """All that a user can call, sorted by name."""
    found: dict[str, Target] = {}
    seen: set[object] = set()
    for module_name in public_modules():
        module = _loaded(module_name)
        for name in module.__all__:
            thing = getattr(module, name)
            if (
                isinstance(thing, types.ModuleType)
                or not callable(thing)
                or isinstance(thing, types.GenericAlias)
            ):
                continue
            if thing in seen:
                continue
            seen.add(thing)
            if isinstance(thing, type):
                if str(thing.__module__).startswith("privet"):
                    found.update(_of_class(f"{module_name}.{name}", thing))
            elif not hasattr(thing, "__origin__"):
                found[f"{module_name}.{name}"] = Target(f"{module_name}.{name}", thing)
    return [found[name] for name in sorted(found)]


def _of_class(name: str, kind: type) -> dict[str, Target]:
    found = {}
    if (
        not inspect.isabstract(kind)
        and not getattr(kind, "_is_protocol", False)
        and not issubclass(kind, Enum)
    ):
        try:
            inspect.signature(kind)
            found[name] = Target(name, kind)
        except ValueError:  # an exception without a constructor of its own
            pass
    for above in kind.__mro__:
        if not str(above.__module__).startswith("privet"):
            continue
        for method, thing in vars(above).items():
            if method.startswith("_") or f"{name}.{method}" in found:
                continue
            if isinstance(thing, (classmethod, staticmethod)):
                found[f"{name}.{method}"] = Target(f"{name}.{method}", getattr(kind, method))
            elif isinstance(thing, types.FunctionType) and not getattr(thing, "__isabstractmethod__", False):
                found[f"{name}.{method}"] = Target(f"{name}.{method}", getattr(kind, method), kind)
    return found
