"""Opacus' accountants without Opacus: the package imports torch, its accountants only numpy and scipy."""

import sys
from importlib import import_module, metadata
from pathlib import Path
from types import ModuleType


def load() -> ModuleType:
    """``opacus.accountants``, under empty stand-ins for the package around it and for its optimisers."""
    if "opacus" not in sys.modules:
        package = ModuleType("opacus")
        package.__path__ = [str(_home())]
        optimizers = ModuleType("opacus.optimizers")
        optimizers.DPOptimizer = type("DPOptimizer", (), {})  # named in an annotation only
        sys.modules.update({"opacus": package, "opacus.optimizers": optimizers})
    return import_module("opacus.accountants")


def _home() -> Path:
    files = metadata.files("opacus") or []  # raises PackageNotFoundError where it is not installed
    for file in files:
        if str(file) == "opacus/__init__.py":
            return Path(str(file.locate())).parent
    raise ImportError("opacus is installed, but its files are not where they should be")
