"""Lazy loading for packages: a public name is imported when somebody first uses it.

A package lists each public name with the module that defines it. ``load_lazily`` gives the package its
``__getattr__`` and ``__dir__`` (PEP 562). So ``import privet`` stays quick, and torch is imported only when a
name needs it.
"""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec

from privet.errors import MissingPackage

__all__ = ["load_lazily"]

# The extra that installs each optional package.
_EXTRAS = {
    "cryptography": "federated",
    "flwr": "federated",
    "plotly": "report",
    "polars": "tables",
    "sklearn": "learn",
    "tenseal": "encrypted",
    "torch": "torch",
    "httpx": "curator",
}


def load_lazily(
    package: str, modules: Mapping[str, str], *, needs: Mapping[str, str] | None = None
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """The ``__getattr__`` and the ``__dir__`` of ``package``.

    ``modules`` maps a public name to the module below the package that defines it; "" means that the name is
    itself a module. ``needs`` maps a name to the optional package that it imports. If that package is not
    installed, ``dir`` does not list the name, so that ``help`` works.
    """
    needed = {} if needs is None else needs

    def load(name: str) -> object:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = modules[name]
        try:
            value = (
                import_module(f"{package}.{name}")
                if module == ""
                else getattr(import_module(f"{package}.{module}"), name)
            )
        except ModuleNotFoundError as missing:
            if missing.name not in _EXTRAS:
                raise
            raise MissingPackage(
                f"{name} needs the package {missing.name!r}, which is not installed. "
                f"Run pip install 'privet[{_EXTRAS[missing.name]}]'."
            ) from None
        setattr(sys.modules[package], name, value)
        return value

    def list_names() -> list[str]:
        return sorted(name for name in modules if name not in needed or find_spec(needed[name]) is not None)

    return load, list_names
