"""The picture of the cost of privacy, small."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

from privet.randomness import SeededNoise

pytest.importorskip("matplotlib", reason="the examples draw with matplotlib")

_FOLDER = Path(__file__).parents[2] / "examples"


@pytest.fixture
def example(monkeypatch):
    """The example, loaded as when it is run: with its own folder first on the path."""
    monkeypatch.syspath_prepend(str(_FOLDER))
    spec = importlib.util.spec_from_file_location(
        "privet_example_cost_of_privacy", _FOLDER / "cost_of_privacy.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    sys.modules.pop("style", None)


def test_cost_of_privacy(example, monkeypatch, tmp_path, capsys):
    module = example
    monkeypatch.setattr(module, "ROWS", (500, 1000, 2000))
    monkeypatch.setattr(module, "EPSILONS", (0.5, 1.0, 2.0))
    monkeypatch.setattr(module, "FITS", 2)
    monkeypatch.setattr(module, "FIXED_ROWS", 1000)
    picture = module.main(tmp_path, SeededNoise(3))
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert picture.stat().st_size > 20_000
    said = capsys.readouterr().out
    assert all(name in said for name in module.LINES)
    assert "Theory: −1" in said


def test_worst_data_cost_what_the_theory_says(example, monkeypatch):
    """A slope of −1 in n, by 24 fits at each of two n that are 16 times apart: within 0.25 unless by bad luck."""
    module = example
    monkeypatch.setattr(module, "FITS", 24)
    means = [module._worst_excess(count, 1.0, SeededNoise(4))[0] for count in (1000, 16000)]
    slope = np.log(means[1] / means[0]) / np.log(16)
    assert slope == pytest.approx(-1.0, abs=0.25)
