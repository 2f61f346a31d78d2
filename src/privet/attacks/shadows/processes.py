"""One model after the other in each of several processes.

It uses all cores for models that cannot be stacked.

The recipe is pickled: by cloudpickle where it is installed, which also takes lambdas and definitions of the
script, and otherwise by pickle, which takes what can be imported. A worker never runs the script again.
Records go through files that all workers map into memory, in a private folder that is removed however this
process ends (``private_folders``). Workers end when this process ends, and remove the folder where this
process could not.
"""

import contextlib
import importlib
import os
import pickle
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np

from privet.arguments import whole
from privet.attacks.shadows.cores import usable_cores
from privet.attacks.shadows.engine import Job, ModelSignals, ShadowEngine, Tick, check_models
from privet.attacks.shadows.worker import ARRAYS
from privet.errors import PrivetError
from privet.private_folders import private_folder
from privet.views import Rows

__all__ = ["Processes", "WorkerFailed", "pickle_recipe"]


@final
class WorkerFailed(PrivetError):
    """A worker ended before its models were done."""


@final
@dataclass(frozen=True)
class Processes(ShadowEngine):
    """``workers`` processes, by default one for each core."""

    workers: int | None = None

    def __post_init__(self) -> None:
        if self.workers is not None:
            whole("workers", self.workers)

    @property
    def count(self) -> int:
        """How many processes are started."""
        return self.workers or usable_cores()

    @property
    def name(self) -> str:
        return f"{self.count} processes"

    def refusal(self, job: Job) -> str | None:
        return _pickling_refusal(job)

    def run(self, job: Job, models: Sequence[int], tick: Tick) -> Iterator[ModelSignals]:
        check_models(job, models)
        with private_folder() as folder:
            _write_job(job, folder)
            tasks: queue.SimpleQueue[int] = queue.SimpleQueue()
            for model in models:
                tasks.put(model)
            results: queue.SimpleQueue[ModelSignals | Exception] = queue.SimpleQueue()
            workers = [_Worker(folder, number) for number in range(min(self.count, len(models)))]
            try:
                for worker in workers:
                    threading.Thread(target=worker.serve, args=(tasks, results), daemon=True).start()
                for _ in models:
                    answer = results.get()
                    if isinstance(answer, Exception):
                        raise answer
                    yield answer
                    tick(1.0)
            finally:
                for worker in workers:
                    worker.end()


@final
class _Worker:
    """One process, and the thread of this process that talks to it."""

    def __init__(self, folder: Path, number: int) -> None:
        self._folder, self._log = folder, folder / f"worker{number}.log"
        paths = [str(Path(folder or ".").resolve()) for folder in sys.path]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"}
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "privet.attacks.shadows.worker", str(folder)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=environment,
                text=True,
                start_new_session=True,  # Ctrl-C goes to the main process alone
            )

    def serve(
        self, tasks: "queue.SimpleQueue[int]", results: "queue.SimpleQueue[ModelSignals | Exception]"
    ) -> None:
        """Send one model at a time, so that a slow worker does not hold up the others."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        while True:
            try:
                model = tasks.get_nowait()
            except queue.Empty:
                return
            try:
                self._process.stdin.write(f"{model}\n")
                self._process.stdin.flush()
                if self._process.stdout.readline().strip() != str(model):
                    raise WorkerFailed(self._failure(model))
                path = self._folder / f"signals{model}.npz"
                with np.load(path, allow_pickle=False) as arrays:
                    answer = ModelSignals.from_arrays(model, arrays)
                path.unlink()
                results.put(answer)
            except (OSError, ValueError, WorkerFailed) as error:
                results.put(error if isinstance(error, WorkerFailed) else WorkerFailed(self._failure(model)))
                return

    def _failure(self, model: int) -> str:
        lines = self._log.read_text(errors="replace").strip().splitlines() if self._log.exists() else []
        message = f", saying {lines[-1][:200]!r}" if lines else ""
        return (
            f"'recipe' must run in a worker process, and the worker of model {model} ended{message}. "
            f"Try engine=Sequential() to see the whole error."
        )

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):  # unsent input of a worker that has ended
                    stream.close()


def pickle_recipe(thing: object) -> tuple[bytes, bool]:
    """The bytes, and whether they hold definitions of the script themselves (cloudpickle) or only their names
    (pickle).
    """
    try:
        dumps = importlib.import_module("cloudpickle").dumps
    except ImportError:
        return pickle.dumps(thing), False
    return bytes(dumps(thing)), True


def _pickling_refusal(job: Job) -> str | None:
    try:
        data, self_contained = pickle_recipe(job.recipe)
    except Exception as error:  # pickling runs code of the recipe, which may raise anything
        return f"the recipe cannot be pickled ({type(error).__name__})"
    if not self_contained and b"__main__" in data:
        return "the recipe is defined in the script itself, and cloudpickle is not installed"
    return None


def _write_job(job: Job, folder: Path) -> None:
    """The job as files: arrays for all workers to map, and the rest pickled, with tables of objects."""
    objects: dict[str, Rows] = {}

    def write(name: str, table: Rows) -> None:
        if table.dtype.hasobject:
            objects[name] = table
        else:
            np.save(folder / f"{name}.npy", table)

    for name, table in zip(ARRAYS, (job.inputs, job.labels, job.members), strict=True):
        write(name, table)
    names: list[str | None] = []
    for number, rows in enumerate(job.query_inputs):
        names.append(None if rows is job.inputs else f"query{number}")
        if names[-1] is not None:
            write(f"query{number}", rows)
    data, _ = pickle_recipe((job.recipe, job.seeds, names, job.keep_confidences, objects))
    (folder / "job.pickle").write_bytes(data)
