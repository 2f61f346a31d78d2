"""``import privet.training`` loads little beside torch, and every public name is in the module that is listed."""

import inspect
import subprocess
import sys
from importlib import import_module

import pytest

import privet.training

LATE = (
    "numba",
    "cryptography",
    "scipy",
    "privet.accounting",
    "privet.training.loop.run",
    "torch.distributed.rpc",
)


def loaded(code):
    found = subprocess.run(
        [sys.executable, "-c", f"import sys, torch; before = set(sys.modules); {code}; "
         "print(*sorted(set(sys.modules) - before))"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return found.stdout.split()


def test_the_import_is_light():
    found = loaded("import privet.training")
    assert "privet.training" in found
    assert not set(LATE) & set(found)
    assert len(found) < 15


@pytest.mark.slow
def test_what_is_not_asked_for_is_not_loaded():
    found = loaded("from privet.training import train")
    assert "privet.training.loop.run" in found
    assert not {"numba", "cryptography"} & set(found)


def test_every_name_is_where_it_is_said_to_be():
    assert set(privet.training.__all__) == set(privet.training._MODULES) == set(dir(privet.training))
    for name, path in privet.training._MODULES.items():
        module = import_module(f"privet.training.{path}")
        # A public function checks its arguments first.
        assert inspect.unwrap(getattr(privet.training, name)) is getattr(module, name)
        assert name in module.__all__


def test_other_names_are_refused():
    with pytest.raises(AttributeError, match="no attribute 'trian'"):
        privet.training.trian  # noqa: B018
