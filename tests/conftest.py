"""What all tests share: hypothesis profiles without luck, and the independent oracle.

``PRIVET_HYPOTHESIS=thorough`` draws more examples and shrinks what fails.
"""

import importlib.util
import os
import signal
import sys
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import HealthCheck, Phase, settings

# Programs that other tests start in a process of their own: importing one of them here would register its device.
collect_ignore = ["laws/second_device.py", "laws/device_laws.py", "laws/laws_on_second_device.py"]

# One thread in each test process: threads of two processes on two cores wait for each other by spinning, and take ten times
# as long. Set before torch or scikit-learn is loaded.
if "PYTEST_XDIST_WORKER" in os.environ:
    for _name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(_name, "1")

# Loops are compiled before they are used, so that a test always takes the same path.
os.environ.setdefault("PRIVET_WAIT_FOR_LOOPS", "1")

# A shell that runs a program in the background makes it ignore Ctrl-C, nohup makes it ignore a lost terminal, and its children inherit
# that. Tests of these signals need the usual handlers, here and in what they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

_QUIET = [HealthCheck.too_slow, HealthCheck.filter_too_much]
settings.register_profile(
    "default",
    derandomize=True,
    deadline=None,
    database=None,
    max_examples=12,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=_QUIET,
)
settings.register_profile(
    "thorough", derandomize=True, deadline=None, max_examples=200, suppress_health_check=_QUIET
)
settings.load_profile(os.environ.get("PRIVET_HYPOTHESIS", "default"))

_HERE = Path(__file__).parent


def pytest_runtest_setup() -> None:
    """A Spark session leaves its own handler of Ctrl-C behind; the next test starts with the usual one."""
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.default_int_handler)


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
