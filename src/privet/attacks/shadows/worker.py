"""One worker process: model numbers come in on standard input, one on a line; each is answered when its file is written.

What the recipe prints goes to the log, not among the answers.
"""

import os
import pickle
import sys
from pathlib import Path

import numpy as np

from privet.attacks.shadows.engine import Job, Sequential

__all__ = ["main"]

ARRAYS = ("inputs", "labels", "members")


def main(folder: Path) -> None:
    """Work until the input ends, which it does when whoever asks is gone."""
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


if __name__ == "__main__":
    main(Path(sys.argv[1]))
