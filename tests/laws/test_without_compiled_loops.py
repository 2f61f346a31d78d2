"""Every law of gradients and noise without numba: the paths that other devices and machines take.

The tests of those laws run again in a process in which numba cannot be found.
"""

import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent.parent
LAWS = (
    "laws/test_clip_is_a_clip.py",
    "laws/test_gradient_bilinear.py",
    "laws/test_registered_layers.py",
    "laws/test_autocast.py",
    "unit/test_training_noise.py",
)
MORE = (
    "laws/test_gradient_exactness.py",
    "laws/test_training_equals_sgd.py",
    "unit/test_training_step.py",
    "unit/test_training_train.py",
)
BLOCK = """
import importlib.util, sys
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name.split(".")[0] == "numba" else find(name, *rest)
sys.modules["numba"] = None
import pytest
sys.exit(pytest.main(sys.argv[1:]))
"""


def run(files, *more):
    command = [
        sys.executable,
        "-c",
        BLOCK,
        "-q",
        "-x",
        "-p",
        "no:cacheprovider",
        *more,
        *[str(TESTS / f) for f in files],
    ]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=TESTS.parent, timeout=1500, check=False
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]


def test_laws_hold_without_compiled_loops():
    run(LAWS[2:4], "-k", "not train_runs")


@pytest.mark.slow
def test_more_laws_hold_without_compiled_loops():
    run(LAWS + MORE)
