"""Engines are chosen by processor time: what other programs do with the machine does not change the choice."""

import subprocess
import sys
import time

import numpy as np
import pytest
from torch import nn

from privet.attacks.model_views import Probabilities
from privet.attacks.shadows import CallableRecipe, Halves, Job, Sequential, Stacked, TorchRecipe, choose
from privet.attacks.shadows import cores as cores_module
from privet.attacks.shadows.cores import usable_cores
from privet.attacks.shadows.timing import measure_parallel_gain, processor_seconds, time_step


def work(seconds: float) -> None:
    """Processor time of this thread, whatever the clock says."""
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


def test_time_without_a_core_is_not_counted():
    """A thread that sleeps is as one that waits for a core."""

    def run(steps: int) -> None:
        for _ in range(steps):
            work(0.002)
            time.sleep(0.01)

    assert 0.0019 < time_step(run, 100) < 0.004


def test_helpers_that_the_caller_waits_for_are_counted():
    from concurrent.futures import ThreadPoolExecutor

    data = bytes(2**23)

    def hashed(_number: int) -> None:
        __import__("hashlib").sha256(data).digest()

    with ThreadPoolExecutor(1) as pool:
        alone = min(processor_seconds(lambda: hashed(0), 1) for _ in range(3))
        elsewhere = min(processor_seconds(lambda: list(pool.map(hashed, [0])), 1) for _ in range(3))
    assert elsewhere > 0.5 * alone


def a_job(recipe, inputs, models: int = 8) -> Job:
    labels = np.arange(len(inputs)) % 4
    members = Halves().members(models, len(inputs), seed=0)
    return Job(
        recipe=recipe,
        inputs=inputs,
        labels=labels,
        members=members,
        seeds=tuple(range(models)),
        query_inputs=(inputs,),
    )


def test_busy_neighbours_do_not_change_the_choice():
    """Twice as many busy programs as cores: the clock more than doubles, the estimate stays."""
    chain = TorchRecipe(
        model=lambda: nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 4)), epochs=40, batch_size=16
    )
    job = a_job(chain, np.random.default_rng(0).normal(size=(256, 64)).astype(np.float32))
    alone = choose(job, range(8))
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2 * usable_cores())]
    try:
        beside = choose(job, range(8))
    finally:
        for process in busy:
            process.kill()
            process.wait()
    assert alone.engine == beside.engine == Stacked()
    for before, after in zip(alone.estimates, beside.estimates, strict=True):
        assert before.seconds is not None
        assert after.seconds is not None
        assert 0.4 < after.seconds / before.seconds < 2.5


def test_a_first_model_that_waits_is_not_sent_to_other_processes():
    """A model that is trained elsewhere (by other processes, on a device) keeps this processor idle."""

    def train(inputs, labels, seed):
        time.sleep(0.3)
        return Probabilities(lambda rows: np.full((len(rows), 4), 0.25))

    choice = choose(a_job(CallableRecipe(train), np.zeros((8, 2)), models=64), range(64))
    assert choice.engine == Sequential()
    assert choice.first is not None


def test_the_gain_of_more_cores_is_between_one_and_their_number():
    assert measure_parallel_gain(1) == 1.0
    assert 1.0 <= measure_parallel_gain(2) <= 2.0


@pytest.mark.parametrize(
    ("text", "cores"),
    [("max 100000", 6), ("150000 100000", 2), ("900000 100000", 6), ("broken", 6), ("0 0", 6)],
)
def test_a_container_s_quota_counts(monkeypatch, tmp_path, text, cores):
    quota = tmp_path / "cpu.max"
    quota.write_text(text)
    monkeypatch.setattr(cores_module, "_QUOTA", quota)
    monkeypatch.delattr("os.sched_getaffinity", raising=False)
    monkeypatch.setattr("os.cpu_count", lambda: 6)
    assert usable_cores() == cores
