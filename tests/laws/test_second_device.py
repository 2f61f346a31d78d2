"""Private training on a device that is not the CPU and has no float64.

The device cannot be removed from a process, so its laws run in processes of their own.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch.utils.backend_registration", reason="torch is not installed")

HERE = Path(__file__).parent
OWN_CPU_TENSORS = "sorted sequences or patches or by position"  # models of tests that make tensors on the CPU
OWN_FLOAT64 = "LowNorms or WrongSums or check_passes"  # rules of tests that compute in float64 on the device


def run(*arguments):
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-x",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        *arguments,
    ]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        cwd=HERE.parent.parent,
        timeout=1500,
        check=False,
        env=environment,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]


def test_private_training_on_a_second_device():
    run(str(HERE / "device_laws.py"))


@pytest.mark.slow
def test_the_laws_of_gradients_on_a_second_device():
    files = [f"test_gradient_{name}.py" for name in ("bilinear", "exactness", "experts", "packed")]
    files += ["test_registered_layers.py", "test_clip_is_a_clip.py"]
    run("-m", "slow", str(HERE / "device_laws.py"))
    skipped = f"not ({OWN_CPU_TENSORS} or {OWN_FLOAT64})"
    run("-p", "laws_on_second_device", "-k", skipped, *[str(HERE / name) for name in files])
