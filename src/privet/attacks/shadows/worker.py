"""One worker process: model numbers come in on standard input, one on a line; each is answered when its file is written.

What the recipe prints goes to the log, not among the answers. A worker does not outlive the process that started it, also not in the
middle of a model, and removes the folder with the records where that process could not.
"""

import os
import pickle
import sys
import threading
import time
from pathlib import Path
from typing import NoReturn

import numpy as np

from privet.attacks.shadows.engine import Job, Sequential
from privet.private_folders import remove_folder

__all__ = ["main"]

ARRAYS = ("inputs", "labels", "members")
_LOOK = 0.2  # seconds between two looks whether the parent is alive


def main(folder: Path) -> None:
    """Work until the input ends, which it does when whoever asks is gone."""
    threading.Thread(target=_watch, args=(folder, os.getppid()), daemon=True).start()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(1)
    recipe, seeds, shown, keep = pickle.loads((folder / "job.pickle").read_bytes())
    tables = {name: np.load(folder / f"{name}.npy", mmap_mode="r") for name in ARRAYS}
    rows = [tables["inputs"] if at is None else np.load(folder / f"{at}.npy", mmap_mode="r") for at in shown]
    job = Job(recipe=recipe, seeds=seeds, shown=tuple(rows), keep_confidences=keep, **tables)
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)
    for line in sys.stdin:
        for told in Sequential().run(job, [int(line)], lambda _done: None):
            arrays = {"signals": told.signals}
            if told.log_confidences is not None:
                arrays["log_confidences"] = told.log_confidences
            np.savez(folder / f"told{told.model}.npz", allow_pickle=False, **arrays)
        answers.write(line)
        answers.flush()
    _leave(folder)


def _watch(folder: Path, parent: int) -> None:
    """A process whose parent ended gets another parent. The input may stay open then: a fork of the parent may hold it."""
    while os.getppid() == parent:
        time.sleep(_LOOK)
    _leave(folder)


def _leave(folder: Path) -> NoReturn:
    remove_folder(folder)
    os._exit(1)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
