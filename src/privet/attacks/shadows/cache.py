"""What each model said, kept under the hash of everything that it depends on.

The address of an answer is made of the bytes of the data, the recipe followed down to its code, the model's seed and
members, the versions of Privet, Python, numpy and torch, and Privet's own code here. Whatever changes, the address changes: an
old answer is not found rather than found out. Engines are not part of it, because they differ in rounding alone. A file is
written beside its place and moved there, so it is whole or not there, whenever the run is killed. A file that is not exactly what
this model would have written (damaged, planted, compressed to be huge) counts as missing, and the model is trained again; no more is
read of it than such a file can hold. The folder is for its owner alone: signals tell of records.
"""

import hashlib
import io
import math
import os
import stat
import sys
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import IO, BinaryIO, final
from zipfile import ZIP_STORED, ZipFile

import numpy as np

from privet.arguments import shown
from privet.attacks.shadows.engine import Job, Told
from privet.durable_files import replace_durably
from privet.errors import InvalidArgument
from privet.paths import path_from
from privet.views import Numbers, Rows

__all__ = ["Cache"]

_FORMAT = 1
_MOST_CLASSES, _AROUND = 2**16, 2**16  # of confidences; bytes of names and headers
_READ = (
    os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
)  # a pipe in its place is not waited for


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
        self._folder, self._job = path_from("cache", folder), job
        common = hashlib.sha256()
        for word in (_FORMAT, described, _versions(), _own_code(), job.keep_confidences):
            common.update(f"{word}\n".encode())
        for table in (job.inputs, job.labels, *job.shown):
            _absorb(common, table)
        self._common = common

    def get(self, model: int) -> Told | None:
        """What the model said, if it was asked before."""
        records = len(self._job.labels)
        shapes: dict[str, tuple[int | None, ...]] = {"signals": (len(self._job.shown), records)}
        if self._job.keep_confidences:
            shapes["log_confidences"] = (records, None)
        try:
            with os.fdopen(os.open(self._place(model), _READ), "rb") as file:
                found = _arrays(file, shapes)
        except Exception:  # whatever a library says of a file that is missing or damaged: it is trained again
            return None
        return Told(model, found["signals"], found.get("log_confidences"))

    def put(self, told: Told) -> None:
        """Keep it; a run that is killed leaves it whole or not at all."""
        place = self._place(told.model)
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            place.parent.mkdir(exist_ok=True)
        except OSError as failed:
            raise InvalidArgument(
                f"'cache' must be a folder that can be written, got {shown(str(self._folder))} ({failed.strerror}). "
                f"Make it one, or name another folder."
            ) from failed
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


def _arrays(file: BinaryIO, shapes: dict[str, tuple[int | None, ...]]) -> dict[str, Numbers]:
    """The arrays of a file as ``put`` writes it: float64 of these shapes (None: any length), not compressed, and nothing else.

    So an array is never larger than the file, and is allocated after its header was found to be right.
    """
    about = os.fstat(file.fileno())
    longest = [[_MOST_CLASSES if length is None else length for length in shape] for shape in shapes.values()]
    most = _AROUND + sum(8 * math.prod(shape) for shape in longest)
    if not stat.S_ISREG(about.st_mode) or about.st_size > most:
        raise ValueError("no file of ours")
    with ZipFile(file) as zipped:
        parts = zipped.infolist()
        if sorted(part.filename for part in parts) != sorted(f"{name}.npy" for name in shapes):
            raise ValueError("other parts")
        if any(part.compress_type != ZIP_STORED or part.file_size > about.st_size for part in parts):
            raise ValueError("compressed")
        found = {}
        for name, shape in shapes.items():
            with zipped.open(f"{name}.npy") as stream:
                found[name] = _array(stream, shape)
    return found


def _array(stream: IO[bytes], wanted: tuple[int | None, ...]) -> Numbers:
    if np.lib.format.read_magic(stream) != (1, 0):
        raise ValueError("another format")
    shape, by_columns, kind = np.lib.format.read_array_header_1_0(stream)
    right = [length if known is None else known for length, known in zip(shape, wanted, strict=True)]
    if kind != np.float64 or by_columns or list(shape) != right:
        raise ValueError("another array")
    return np.frombuffer(stream.read(), np.float64).reshape(shape)


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
