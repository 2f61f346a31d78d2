"""Hostile inputs to everything that is public: an answer, or an error of Privet's own. No traceback, no hang, no flood of memory.

The short form makes a call or two of everything; ``-m slow`` makes 20,000. Both run in a process of their own, with 4 GB of memory beyond
what is loaded. The surface is found (``fuzz_surface``), so that a new public function is fuzzed on the day it is added.
"""

import contextlib
import json
import math
import os
import subprocess
import sys
from pathlib import Path

import fuzz_surface
import numpy as np
import pytest
import torch
from fuzz_values import MODELS, OwnError

import privet
from privet import attacks, training
from privet.errors import PrivetError

HERE = Path(__file__).parent
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(privet.__file__).parents[1]), "OMP_NUM_THREADS": "1"}


def fuzzed(what, number, seed):
    words = [sys.executable, str(HERE / "fuzz_run.py"), what, str(number), str(seed)]
    ended = subprocess.run(words, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr[-2000:]
    return json.loads(ended.stdout.strip().splitlines()[-1])


def told(faults):
    return "\n".join(map(str, faults[:20]))


class TestCalls:
    def test_a_call_or_two_of_everything(self):
        found = fuzzed("calls", 1, 0)
        assert not found["faults"], told(found["faults"])
        assert found["targets"] > 800
        assert found["calls"] >= 0.95 * found["targets"]

    @pytest.mark.slow
    @pytest.mark.parametrize("seed", range(1, 5))
    def test_five_thousand(self, seed):
        found = fuzzed("calls", 5_000, seed)
        assert not found["faults"], told(found["faults"])
        assert found["calls"] >= 5_000
        assert found["peak"] < 4 * 2**30
        assert not found["unmade"], "no object of these could be made, so they are never called"


class TestCommands:
    def test_some_of_each(self):
        found = fuzzed("commands", 48, 0)
        assert not found["faults"], told(found["faults"])
        assert set(found["commands"]) >= {"account", "release", "audit"}

    @pytest.mark.slow
    @pytest.mark.parametrize("seed", range(1, 4))
    def test_a_thousand(self, seed):
        found = fuzzed("commands", 1_000, seed)
        assert not found["faults"], told(found["faults"])
        assert set(found["codes"]) >= {"0", "2"}

    @pytest.mark.parametrize(
        "words",
        [
            [b"account", b"\xff"],
            [b"audit", b"/dev/null"],
            [b"release", b"\x1b[2J", b"--count", b"--epsilon", b"1"],
        ],
    )
    def test_in_a_process(self, words):
        command = [os.fsencode(sys.executable), b"-m", b"privet", *words]
        ended = subprocess.run(command, env=ENVIRONMENT, capture_output=True, check=False, timeout=60)
        assert ended.returncode == 2
        assert b"Traceback" not in ended.stderr
        assert b"\x1b" not in ended.stderr


class TestSurface:
    def test_it_is_all_there(self):
        names = {target.name for target in fuzz_surface.targets()}
        assert {"privet.account", "privet.release", "privet.audit", "privet.training.train"} <= names
        assert len(names) > 800

    def test_every_public_package_checks_its_calls(self):
        from privet.public_calls import checked_modules

        assert set(fuzz_surface.public_packages()) - {"privet"} <= set(checked_modules())


ROWS = torch.randn(40, 3, generator=torch.Generator().manual_seed(0))
LABELS = (ROWS[:, 0] > 0).long()


class TestModels:
    """Models that fail, answer nothing, or answer something else."""

    def allowed(self, call):
        with contextlib.suppress(PrivetError, OwnError):
            call()

    @pytest.mark.parametrize("name", MODELS)
    @pytest.mark.filterwarnings("ignore")
    def test_in_training_and_in_audits(self, name):
        make = MODELS[name]
        self.allowed(
            lambda: training.train(make(), (ROWS, LABELS), epsilon=5.0, delta=1e-3, epochs=1, lot_size=20)
        )
        half = (ROWS[:20].numpy(), LABELS[:20].numpy()), (ROWS[20:].numpy(), LABELS[20:].numpy())
        self.allowed(lambda: privet.audit(make(), *half, progress=False))
        self.allowed(lambda: attacks.see(make()).labels(ROWS.numpy()))

    @pytest.mark.parametrize(
        "answer",
        [lambda rows: None, lambda rows: "yes", lambda rows: [[math.nan, 1.0]] * len(rows), lambda rows: np.ones((1, 1)), lambda rows: 1 / 0,
         lambda rows: [[1.0], [1.0, 2.0]], lambda rows: np.full((len(rows), 2), object()), lambda rows: np.full((len(rows), 0), 1.0)],
    )  # fmt: skip
    def test_functions_as_models(self, answer):
        for view in (attacks.Probabilities(answer), attacks.Logits(answer), attacks.Predictions(answer)):
            with pytest.raises(PrivetError):
                view.labels(ROWS.numpy())
