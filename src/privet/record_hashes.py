"""Hashes that identify records by their content, wherever they stand.

Numbers are hashed by their value and not by their type: 1, 1.0 and True are one number, and so are 0.0 and
−0.0. A value rounded to float32 is another value. Different records have equal hashes with probability 2⁻¹²⁸
per pair.
"""

import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Hashes", "combine_hashes", "hash_records"]

Hashes = NDArray[np.bytes_]  # 32 hexadecimal digits for each record
_BYTES = 16
_AT_ONCE = 2**22  # numbers that are converted at a time
_EXACT = 2**53  # whole numbers up to here are float64 exactly


def hash_records(inputs: NDArray[Any], labels: NDArray[Any] | None = None) -> Hashes:
    """One hash for each record, of its inputs and of its label where there is one.

    >>> hashes = hash_records(np.array([[1.0, 2.0], [3.0, 4.0], [1.0, 2.0]]), np.array([0, 1, 1]))
    >>> len(set(hashes.tolist())), hashes.dtype.str
    (3, '|S32')
    """
    table = np.asarray(inputs)
    marks = [b"none"] * len(table) if labels is None else [b"%d" % int(label) for label in labels]
    step = max(1, _AT_ONCE // max(1, table[:1].size))
    shape = repr(table.shape[1:]).encode()
    hashes: list[bytes] = []
    for start in range(0, len(table), step):
        rows = _rows(table[start : start + step])
        for row, mark in zip(rows, marks[start : start + step], strict=True):
            digest = hashlib.blake2b(b"%s|%s|" % (shape, mark), digest_size=_BYTES)
            digest.update(row)
            hashes.append(digest.hexdigest().encode())
    return np.array(hashes, dtype=f"S{2 * _BYTES}")


def combine_hashes(hashes: Hashes) -> str:
    """One hash for a whole set of records in any order; a record that occurs twice counts twice.

    >>> hashes = hash_records(np.arange(6.0).reshape(3, 2))
    >>> combine_hashes(hashes) == combine_hashes(hashes[::-1])
    True
    """
    digest = hashlib.sha256(f"{len(hashes)} records\n".encode())
    for record_hash in np.sort(hashes).tolist():
        digest.update(record_hash)
    return digest.hexdigest()


def _rows(table: NDArray[Any]) -> list[bytes]:
    """The content of each row as bytes. A row's bytes depend on no other row."""
    if table.dtype.names is not None:  # several inputs: name, shape and content of each
        fields = [
            [
                f"{name}{table[name].shape[1:]}:".encode(errors="surrogatepass") + row
                for row in _rows(table[name])
            ]
            for name in table.dtype.names
        ]
        return [b"|".join(parts) for parts in zip(*fields, strict=True)]
    flat = np.ascontiguousarray(table).reshape(len(table), -1)
    kind, size = flat.dtype.kind, flat.dtype.itemsize
    if kind == "b" or (kind == "f" and size <= 8) or (kind in "iu" and size <= 4):
        return [row.tobytes() for row in _numbers(flat)]
    if kind in "cfmM":
        return [flat.dtype.str.encode() + row.tobytes() for row in flat]
    return [_content(row) for row in flat.tolist()]  # large whole numbers, text, mixed columns


def _content(row: list[object]) -> bytes:
    """As a row of float64 where that holds every value exactly, else as text."""
    row = [value.item() if isinstance(value, np.generic) else value for value in row]
    if all(isinstance(value, float) or (isinstance(value, int) and abs(value) <= _EXACT) for value in row):
        return _numbers(np.array(row, dtype=np.float64)).tobytes()
    return repr(row).encode()


def _numbers(values: NDArray[Any]) -> NDArray[np.float64]:
    """As float64 with one bit pattern for each value: −0.0 is 0.0, and NaN is NaN."""
    numbers: NDArray[np.float64] = values.astype(np.float64) + 0.0
    numbers[np.isnan(numbers)] = np.nan
    return numbers
