"""One worker process.

It reads model numbers from standard input, one on a line, and answers when a model's file is written.

What the recipe prints goes to the log and not among the answers. A worker ends with the process that started
it, also in the middle of a model, and removes the folder with the records where that process could not.
"""

import os
import pickle
import sys
import threading
import time
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from privet.attacks.shadows.engine import Job, Sequential
from privet.private_folders import remove_folder

__all__ = ["main"]

ARRAYS = ("inputs", "labels", "members")
_POLL = 0.2  # seconds between two checks whether the parent is alive


def main(folder: Path) -> None:
    """Train models until the input ends, which it does when the main process ends."""
    threading.Thread(target=_watch, args=(folder, os.getppid()), daemon=True).start()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(1)
    recipe, seeds, query_names, keep, objects = pickle.loads((folder / "job.pickle").read_bytes())

    def read(name: str) -> Any:  # noqa: ANN401 - an array of any type
        return objects[name] if name in objects else np.load(folder / f"{name}.npy", mmap_mode="r")

    tables = {name: read(name) for name in ARRAYS}
    rows = [tables["inputs"] if name is None else read(name) for name in query_names]
    job = Job(recipe=recipe, seeds=seeds, query_inputs=tuple(rows), keep_confidences=keep, **tables)
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)
    for line in sys.stdin:
        for answer in Sequential().run(job, [int(line)], lambda _done: None):
            np.savez(folder / f"signals{answer.model}.npz", allow_pickle=False, **answer.to_arrays())
        answers.write(line)
        answers.flush()
    _clean_up_and_exit(folder)


def _watch(folder: Path, parent: int) -> None:
    """End with the parent: a process whose parent ended gets another parent.

    A fork of the parent may still hold the input.
    """
    while os.getppid() == parent:
        time.sleep(_POLL)
    _clean_up_and_exit(folder)


def _clean_up_and_exit(folder: Path) -> NoReturn:
    remove_folder(folder)
    os._exit(1)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
