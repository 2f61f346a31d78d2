"""A cache of the models' signals, each under the hash of everything that it depends on.

The key of a model covers the bytes of the data, the recipe down to its code, the model's seed and members,
the versions of Privet, Python, numpy and torch, and Privet's own code here. If any of these changes, the key
changes, so a stale entry is never found. Engines are not part of the key, because they differ in rounding
alone. A file is written under another name and renamed, so a killed run leaves a complete file or none. A
file that differs in form from what this model would have written (damaged, planted, compressed to be huge)
counts as missing, and the model is trained again; no more is read of it than such a file can hold. Only the
owner can read the folder, because signals say something about records.
"""

import datetime
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

from privet.arguments import format_value
from privet.attacks.shadows.engine import Job, ModelSignals
from privet.durable_files import replace_durably
from privet.errors import InvalidArgument
from privet.paths import path_from
from privet.scores import TEMPERATURES
from privet.views import Numbers, Rows

__all__ = ["Cache"]

_FORMAT = 2
_MOST_CLASSES = 2**16
_HEADER_BYTES = 2**16  # of names and headers
_CELLS = (bool, int, float, complex, str, bytes, np.generic, datetime.date, datetime.time, datetime.timedelta)
_CELL_PACKAGES = ("pandas.", "decimal")
_READ = (
    os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
)  # does not wait where somebody put a pipe


@final
class Cache:
    """One folder, shared by any number of studies."""

    def __init__(self, folder: Path, job: Job) -> None:
        description = job.recipe.description()
        if description is None:
            raise InvalidArgument(
                "'cache' must be None for a recipe without a version, got a folder. Old signals could be "
                "taken for new ones. Give CallableRecipe(train, version=…), and change that word with the "
                "function."
            )
        self._folder, self._job = path_from("cache", folder), job
        common = hashlib.sha256()
        words = (
            _FORMAT,
            description,
            _package_versions(),
            _hash_own_code(),
            job.keep_confidences,
            TEMPERATURES,
        )
        for word in words:
            common.update(f"{word}\n".encode(errors="surrogatepass"))
        for table in (job.inputs, job.labels, *job.query_inputs):
            _update(common, table)
        self._digest = common

    def get(self, model: int) -> ModelSignals | None:
        """The signals of a model; None where they are not in the cache."""
        records = len(self._job.labels)
        shape = (len(self._job.query_inputs), records)
        shapes: dict[str, tuple[int | None, ...]] = {
            "signals": shape,
            "softened": (len(TEMPERATURES), *shape),
        }
        if self._job.keep_confidences:
            shapes["log_confidences"] = (records, None)
        try:
            with os.fdopen(os.open(self._path(model), _READ), "rb") as file:
                arrays = _read_arrays(file, shapes)
        except (
            Exception
        ):  # a missing or damaged file, whatever a library raises for it: the model is trained again
            return None
        return ModelSignals.from_arrays(model, arrays)

    def put(self, answer: ModelSignals) -> None:
        """Store the signals of a model; a killed run stores all of them or nothing."""
        path = self._path(answer.model)
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.parent.mkdir(exist_ok=True)
        except OSError as failed:
            raise InvalidArgument(
                f"'cache' must be a folder that can be written, got {format_value(str(self._folder))} "
                f"({failed.strerror}). Make it one, or name another folder."
            ) from failed
        content = io.BytesIO()
        # Confidences of scikit-learn may lie column by column, and a file like that would not be read again.
        arrays = {name: np.ascontiguousarray(one, np.float64) for name, one in answer.to_arrays().items()}
        np.savez(content, allow_pickle=False, **arrays)
        replace_durably(path, content.getbuffer(), mode=0o600)

    def _path(self, model: int) -> Path:
        digest = self._digest.copy()
        digest.update(f"{self._job.seeds[model]}\n".encode())
        _update(digest, np.packbits(self._job.members[model]))
        name = digest.hexdigest()
        return self._folder / name[:2] / f"{name}.npz"


def _read_arrays(file: BinaryIO, shapes: dict[str, tuple[int | None, ...]]) -> dict[str, Numbers]:
    """The arrays of a file that ``put`` wrote: float64 of these shapes (None: any length), not compressed,
    nothing else.

    So an array is never larger than the file, and memory is allocated only after the header was checked.
    """
    status = os.fstat(file.fileno())
    longest = [[_MOST_CLASSES if length is None else length for length in shape] for shape in shapes.values()]
    most = _HEADER_BYTES + sum(8 * math.prod(shape) for shape in longest)
    if not stat.S_ISREG(status.st_mode) or status.st_size > most:
        raise ValueError("not a file of this cache")
    with ZipFile(file) as zipped:
        parts = zipped.infolist()
        if sorted(part.filename for part in parts) != sorted(f"{name}.npy" for name in shapes):
            raise ValueError("other parts")
        if any(part.compress_type != ZIP_STORED or part.file_size > status.st_size for part in parts):
            raise ValueError("compressed")
        arrays = {}
        for name, shape in shapes.items():
            with zipped.open(f"{name}.npy") as stream:
                arrays[name] = _read_array(stream, shape)
    return arrays


def _read_array(stream: IO[bytes], wanted: tuple[int | None, ...]) -> Numbers:
    if np.lib.format.read_magic(stream) != (1, 0):
        raise ValueError("another format")
    shape, fortran_order, dtype = np.lib.format.read_array_header_1_0(stream)
    expected = [length if known is None else known for length, known in zip(shape, wanted, strict=True)]
    if dtype != np.float64 or fortran_order or list(shape) != expected:
        raise ValueError("another array")
    return np.frombuffer(stream.read(), np.float64).reshape(shape)


def _update(digest: "hashlib._Hash", table: Rows) -> None:
    words = table.dtype.str if table.dtype.names is None else repr(table.dtype.descr)
    digest.update(f"{words} {table.shape}\n".encode(errors="surrogatepass"))
    if table.dtype.hasobject:  # columns of several types
        for cell in table.ravel().tolist():
            digest.update(_cell(cell))
        return
    digest.update(np.ascontiguousarray(table).reshape(-1).view(np.uint8).data)


def _cell(cell: object) -> bytes:
    """One value of a data frame, with its type; refused where its text may be that of another value."""
    if cell is None or isinstance(cell, _CELLS) or type(cell).__module__.startswith(_CELL_PACKAGES):
        text = f"{type(cell).__name__} {cell!r}".encode(errors="surrogatepass")
        return b"%d:" % len(text) + text
    raise InvalidArgument(
        f"'records' must hold numbers, text and dates to be cached, got a {type(cell).__name__}. "
        "Convert them, or leave the cache out."
    )


def _package_versions() -> str:
    versions = [sys.version]
    for package in ("privet", "numpy", "scipy", "torch"):
        try:
            versions.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            versions.append(f"no {package}")
    return " ".join(versions)


@cache
def _hash_own_code() -> str:
    """Everything in this folder, and the files beside it that turn a model's answers into signals."""
    here = Path(__file__).parent
    beside = [
        *(here.parents[1] / name for name in ("views.py", "frame_columns.py", "record_inputs.py")),
        *(here.parent / name for name in ("model_views.py", "outputs.py", "torch_inputs.py")),
    ]
    sources = [*sorted(here.glob("*.py")), *beside]
    digest = hashlib.sha256()
    for source in sources:
        digest.update(source.read_bytes())
    return digest.hexdigest()
