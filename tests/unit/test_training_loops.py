"""Compiled loops arrive in the background, and nobody waits for long."""

import sys
import threading
from types import SimpleNamespace

import pytest

pytest.importorskip("numba", reason="numba is not installed")
pytest.importorskip("torch")

import torch
from torch import nn

from privet.randomness import SecureNoise, SeededNoise
from privet.training import loops
from privet.training.noise import compiled_normals
from privet.training.per_example import ClippedSums, per_example_loss
from privet.training.per_example.forms import gradient_form

NAME = "privet_loops_of_a_test"


@pytest.fixture
def slow(monkeypatch):
    """A module whose loops are compiled until the event is set, and a process that waits for a moment only."""
    event = threading.Event()
    monkeypatch.setitem(sys.modules, NAME, SimpleNamespace(warm_up=lambda: event.wait(60)))
    monkeypatch.setattr(loops, "_progress", loops._Progress())
    monkeypatch.setattr(loops, "_ready", {})
    loops._progress.patience = 0.05
    yield event
    event.set()


def arrive():
    while NAME in loops._progress.pending:
        pass


def test_slow_loops_are_missing_at_first_and_counted_when_they_arrive(slow):
    assert loops.load_loops(NAME) is None
    assert loops.load_loops(NAME) is None
    assert loops.count_late() == 0
    slow.set()
    arrive()
    assert loops.load_loops(NAME) is sys.modules[NAME]
    assert loops.count_late() == 1


def test_fast_loops_are_there_at_once_and_not_late(slow):
    slow.set()
    loops._progress.patience = 60.0
    assert loops.load_loops(NAME) is sys.modules[NAME]
    assert loops.count_late() == 0


def test_whoever_has_a_seed_waits(slow):
    threading.Timer(0.2, slow.set).start()
    loops.wait_for_loops()
    assert loops.load_loops(NAME) is sys.modules[NAME]
    assert loops.count_late() == 0


def test_loops_that_do_not_compile_are_done_without(slow, monkeypatch):
    monkeypatch.setitem(sys.modules, NAME, SimpleNamespace(warm_up=lambda: 1 / 0))
    loops._progress.patience = 60.0
    assert loops.load_loops(NAME) is None


def test_noise_from_a_seed_waits_and_secure_noise_does_not(slow, monkeypatch):
    monkeypatch.setattr(compiled_normals, "_LOOPS", NAME)
    assert not compiled_normals.is_ready(SecureNoise())
    threading.Timer(0.2, slow.set).start()
    assert compiled_normals.is_ready(SeededNoise(1))


class Flat:
    ceiling = 0.5

    def factors(self, squared_norms):
        return (0.5 / squared_norms.sqrt()).clamp(max=1.0)


@pytest.mark.parametrize("kind", ["mlp", "images"])
def test_sums_are_the_same_before_and_after_loops_arrive(kind, monkeypatch):
    torch.manual_seed(1)
    images = nn.Sequential(
        nn.Conv2d(3, 16, 3), nn.GroupNorm(4, 16), nn.ReLU(), nn.Flatten(), nn.Linear(256, 3)
    )
    model = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3)) if kind == "mlp" else images
    x = torch.randn(7, 6) if kind == "mlp" else torch.randn(7, 3, 6, 6)
    labels = torch.arange(7) % 3
    late = loops.count_late()
    monkeypatch.setattr(gradient_form, "load_loops", lambda name: None)
    sums = ClippedSums(model, per_example_loss(nn.CrossEntropyLoss()), Flat())
    found = []
    for step in range(4):
        if step == 2:
            monkeypatch.undo()
            monkeypatch.setattr(loops._progress, "late", late + 1)
        out = sums.layout.zeros()
        norms = sums.add((x,), labels, out)
        found.append((out, norms))
    for out, norms in found[1:]:
        assert torch.allclose(out, found[0][0], rtol=1e-5, atol=1e-6)
        assert torch.allclose(norms, found[0][1], rtol=1e-5)
    assert (sums._mlp is not None) == (kind == "mlp")
