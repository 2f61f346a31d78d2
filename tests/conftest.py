"""What all tests share: one hypothesis profile without luck, and the independent oracle."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "privet",
    derandomize=True,
    deadline=None,
    database=None,
    max_examples=12,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
settings.load_profile("privet")

_HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def oracle() -> ModuleType:
    """The 30-digit oracle of Poisson-sampled Gaussians, which shares no code with Privet."""
    path = _HERE / "oracle" / "poisson_gaussian.py"
    spec = importlib.util.spec_from_file_location("poisson_gaussian_oracle", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
