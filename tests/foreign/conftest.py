"""What the tests of foreign models share: modules beside them, and the packages."""

import importlib.util
import sys
import warnings
from pathlib import Path

import pytest


def load(name):
    """A module of this folder."""
    full = f"privet_tests_{name}"
    if full not in sys.modules:
        spec = importlib.util.spec_from_file_location(full, Path(__file__).with_name(f"{name}.py"))
        sys.modules[full] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[full])
    return sys.modules[full]


@pytest.fixture
def packages():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield load("packages").Packages()
