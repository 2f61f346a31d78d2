"""What each model said, kept under the hash of everything that it depends on.

The address of an answer is made of the bytes of the data, the recipe followed down to its code, the model's seed and
members, the versions of Privet, Python, numpy and torch, and Privet's own code here. Whatever changes, the address changes: an
old answer is not found rather than found out. Engines are not part of it, because they differ in rounding alone. A file is
written beside its place and moved there, so it is whole or not there, whenever the run is killed.
"""

import hashlib
import io
import sys
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import final
from zipfile import BadZipFile

import numpy as np

from privet.attacks.shadows.engine import Job, Told
from privet.durable_files import replace_durably
from privet.errors import InvalidArgument
from privet.views import Rows

__all__ = ["Cache"]

_FORMAT = 1


@final
class Cache:
    """One folder, for any number of studies."""

    def __init__(self, folder: Path, job: Job) -> None:
        described = job.recipe.description()
        if described is None:
            raise InvalidArgument(
                "'cache' must be None for a recipe without a version, got a folder, and old answers could be taken for "
                "new ones. Give CallableRecipe(train, version=…), and change that word with the function."
            )
        self._folder, self._job = folder, job
        common = hashlib.sha256()
        for word in (_FORMAT, described, _versions(), _own_code(), job.keep_confidences):
            common.update(f"{word}\n".encode())
        for table in (job.inputs, job.labels, *job.shown):
            _absorb(common, table)
        self._common = common

    def get(self, model: int) -> Told | None:
        """What the model said, if it was asked before."""
        try:
            with self._place(model).open("rb") as file, np.load(file, allow_pickle=False) as kept:
                return Told(model, kept["signals"], kept.get("log_confidences"))
        except (
            OSError,
            EOFError,
            BadZipFile,
            KeyError,
            ValueError,
        ):  # missing, or not ours: it is trained again
            return None

    def put(self, told: Told) -> None:
        """Keep it; a run that is killed leaves it whole or not at all."""
        place = self._place(told.model)
        place.parent.mkdir(parents=True, exist_ok=True)
        arrays = {"signals": told.signals}
        if told.log_confidences is not None:
            arrays["log_confidences"] = told.log_confidences
        content = io.BytesIO()
        np.savez(content, allow_pickle=False, **arrays)
        replace_durably(place, content.getbuffer(), mode=0o600)

    def _place(self, model: int) -> Path:
        digest = self._common.copy()
        digest.update(f"{self._job.seeds[model]}\n".encode())
        _absorb(digest, np.packbits(self._job.members[model]))
        name = digest.hexdigest()
        return self._folder / name[:2] / f"{name}.npz"


def _absorb(digest: "hashlib._Hash", table: Rows) -> None:
    if table.dtype.hasobject:
        raise InvalidArgument(
            "'records' must be numbers or text of fixed length to be cached, got Python objects. "
            "Convert them, or leave the cache out."
        )
    digest.update(f"{table.dtype.str} {table.shape}\n".encode())
    digest.update(np.ascontiguousarray(table).reshape(-1).view(np.uint8).data)


def _versions() -> str:
    found = [sys.version]
    for package in ("privet", "numpy", "scipy", "torch"):
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            found.append(f"no {package}")
    return " ".join(found)


@cache
def _own_code() -> str:
    """Everything in this folder, and the two files that turn confidences into signals."""
    here = Path(__file__).parent
    sources = [*sorted(here.glob("*.py")), here.parents[1] / "views.py", here.parent / "model_views.py"]
    digest = hashlib.sha256()
    for source in sources:
        digest.update(source.read_bytes())
    return digest.hexdigest()
