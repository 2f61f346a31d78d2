"""Records from files: .npz with inputs and labels, or tables with a column of labels."""

import csv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privet.errors import MissingPackage, PrivetError, Unreadable
from privet.paths import is_file
from privet.scores import Records

__all__ = ["columns_of", "readable", "records_from"]

_INPUTS = ("inputs", "x", "X", "features", "images")
_LABELS = ("labels", "y", "label", "targets")


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Turn a library's error about a broken file into one sentence."""
    try:
        yield
    except (PrivetError, MemoryError):
        raise
    except Exception as failed:
        raise Unreadable(
            f"{path.name!r} must be a file as its ending says, and cannot be read "
            f"({type(failed).__name__}). Write it again."
        ) from failed


def records_from(path: Path, label: str) -> Records:
    """Records of a file. In an .npz: arrays x and y (or inputs and labels); in a table: ``label`` is the
    class, all else are inputs.
    """
    if not is_file(path):
        raise Unreadable(f"{str(path)!r} must be a file with records, and there is none. Check the name.")
    if path.suffix == ".npz":
        with readable(path), np.load(path, allow_pickle=False) as arrays:
            inputs = next((arrays[name] for name in _INPUTS if name in arrays), None)
            labels = next((arrays[name] for name in (label, *_LABELS) if name in arrays), None)
        if inputs is None:
            raise Unreadable(
                f"{path.name!r} must hold an array called {' or '.join(_INPUTS)}, and does not. Rename the "
                "array."
            )
        return Records(inputs, labels)
    columns = columns_of(path)
    labels = columns.pop(label, None)
    if labels is None:
        raise Unreadable(
            f"{path.name!r} must have a column {label!r} with the class, and does not. Set 'label' to its "
            "name."
        )
    try:
        inputs = np.stack([np.asarray(column, dtype=np.float32) for column in columns.values()], axis=1)
        return Records(inputs, np.asarray(labels, dtype=np.float64))
    except (TypeError, ValueError):
        raise Unreadable(
            f"{path.name!r} must hold numbers as the model takes them, and holds something else. "
            f"Encode words first, or give a .npz file."
        ) from None


def columns_of(path: Path) -> dict[str, NDArray[Any] | list[str]]:
    """The columns of a .csv or .parquet file. A .csv of one column may have no header."""
    if path.suffix == ".parquet":
        try:
            import pyarrow.parquet  # type: ignore[import-untyped]
        except ImportError:
            raise MissingPackage(
                "A .parquet file needs the package 'pyarrow', which is not installed. Run pip install "
                "'privet[tables]'."
            ) from None
        with readable(path):
            found = pyarrow.parquet.read_table(path)
            return {name: found[name].to_numpy() for name in found.column_names}
    if path.suffix != ".csv":
        raise Unreadable(
            f"{path.name!r} must be .npz, .csv or .parquet, and is not. Save it as one of these."
        )
    with readable(path), path.open(newline="", encoding="utf-8-sig") as lines:
        rows = [row for row in csv.reader(lines) if row]
    if not rows or len({len(row) for row in rows}) > 1:
        raise Unreadable(
            f"{path.name!r} must be a table with as many fields in each line, and is not. Check the file."
        )
    if len(rows[0]) == 1 and _number(rows[0][0]):
        return {"score": [row[0] for row in rows]}
    return {name.strip(): [row[place] for row in rows[1:]] for place, name in enumerate(rows[0])}


def _number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
