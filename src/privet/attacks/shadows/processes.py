"""One model after the other in each of several processes: the way to use all cores for models that cannot be stacked.

The recipe is pickled: by cloudpickle where it is installed, which takes lambdas and what is defined in the script, and by
pickle elsewhere, which takes what can be imported. The script is never run again in a worker. Records go through files that
all workers map, in a private folder that is removed on every way out (``private_folders``). Workers end when this process does,
however it ends, and remove the folder where this process could not.
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
from privet.attacks.shadows.engine import Engine, Job, Tick, Told, check_models
from privet.attacks.shadows.worker import ARRAYS
from privet.errors import PrivetError
from privet.private_folders import private_folder

__all__ = ["Processes", "WorkerFailed", "pickled"]


@final
class WorkerFailed(PrivetError):
    """A worker ended before its models were done."""


@final
@dataclass(frozen=True)
class Processes(Engine):
    """``workers`` processes, by default one for each core."""

    workers: int | None = None

    def __post_init__(self) -> None:
        if self.workers is not None:
            whole("workers", self.workers)

    @property
    def count(self) -> int:
        """How many processes there are."""
        return self.workers or usable_cores()

    @property
    def name(self) -> str:
        return f"{self.count} processes"

    def refusal(self, job: Job) -> str | None:
        return _unsendable(job)

    def run(self, job: Job, models: Sequence[int], tick: Tick) -> Iterator[Told]:
        check_models(job, models)
        with private_folder() as folder:
            _write(job, folder)
            wanted: queue.SimpleQueue[int] = queue.SimpleQueue()
            for model in models:
                wanted.put(model)
            found: queue.SimpleQueue[Told | Exception] = queue.SimpleQueue()
            workers = [_Worker(folder, number) for number in range(min(self.count, len(models)))]
            try:
                for worker in workers:
                    threading.Thread(target=worker.serve, args=(wanted, found), daemon=True).start()
                for _ in models:
                    answer = found.get()
                    if isinstance(answer, Exception):
                        raise answer
                    yield answer
                    tick(1.0)
            finally:
                for worker in workers:
                    worker.end()


@final
class _Worker:
    def __init__(self, folder: Path, number: int) -> None:
        self._folder, self._log = folder, folder / f"worker{number}.log"
        paths = [str(Path(place or ".").resolve()) for place in sys.path]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"}
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "privet.attacks.shadows.worker", str(folder)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=environment,
                text=True,
                start_new_session=True,  # Ctrl-C is for whoever asked
            )

    def serve(self, wanted: "queue.SimpleQueue[int]", found: "queue.SimpleQueue[Told | Exception]") -> None:
        """Hand over one model at a time, so that a slow worker does not keep others waiting."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        while True:
            try:
                model = wanted.get_nowait()
            except queue.Empty:
                return
            try:
                self._process.stdin.write(f"{model}\n")
                self._process.stdin.flush()
                if self._process.stdout.readline().strip() != str(model):
                    raise WorkerFailed(self._failure(model))
                place = self._folder / f"told{model}.npz"
                with np.load(place, allow_pickle=False) as kept:
                    answer = Told(model, kept["signals"], kept.get("log_confidences"))
                place.unlink()
                found.put(answer)
            except (OSError, ValueError, WorkerFailed) as error:
                found.put(error if isinstance(error, WorkerFailed) else WorkerFailed(self._failure(model)))
                return

    def _failure(self, model: int) -> str:
        lines = self._log.read_text(errors="replace").strip().splitlines() if self._log.exists() else []
        said = f", saying {lines[-1][:200]!r}" if lines else ""
        return (
            f"'recipe' must run in a worker process, and the one that trained model {model} ended{said}. "
            f"Try engine=Sequential() to see the whole error."
        )

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):  # what was not sent any more
                    stream.close()


def pickled(thing: object) -> tuple[bytes, bool]:
    """The bytes, and whether they stand by themselves, without names to be looked up in the script."""
    try:
        dumps = importlib.import_module("cloudpickle").dumps
    except ImportError:
        return pickle.dumps(thing), False
    return bytes(dumps(thing)), True


def _unsendable(job: Job) -> str | None:
    try:
        data, whole_script = pickled(job.recipe)
    except Exception as error:  # pickling runs the code of whoever wrote the recipe
        return f"the recipe cannot be pickled ({type(error).__name__})"
    if not whole_script and b"__main__" in data:
        return "the recipe is defined in the script itself, and cloudpickle is not installed"
    return None


def _write(job: Job, folder: Path) -> None:
    for name, table in zip(ARRAYS, (job.inputs, job.labels, job.members), strict=True):
        np.save(folder / f"{name}.npy", table)
    shown: list[str | None] = []
    for number, rows in enumerate(job.shown):
        shown.append(None if rows is job.inputs else f"shown{number}")
        if shown[-1] is not None:
            np.save(folder / f"{shown[-1]}.npy", rows)
    data, _ = pickled((job.recipe, job.seeds, shown, job.keep_confidences))
    (folder / "job.pickle").write_bytes(data)
