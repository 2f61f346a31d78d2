"""Records of any kind as rows of numbers, without a model."""

import zlib

import numpy as np
from numpy.typing import NDArray

from privet.record_inputs import has_several_inputs, split_inputs
from privet.views import Rows

__all__ = ["project_randomly", "standardize", "summarize_records", "to_numbers"]

Features = NDArray[np.float32]

_WORDS = 1024  # cells that words are hashed into
_COMPONENTS = 24


def to_numbers(inputs: Rows) -> Features:
    """Each record as one row of numbers: arrays are flattened, words are counted in hashed cells.

    NaN and infinity become 0.
    """
    if has_several_inputs(inputs):
        return np.concatenate([to_numbers(part) for part in split_inputs(inputs).values()], axis=1)
    if inputs.dtype.kind in "biuf":
        flat = inputs.reshape(len(inputs), -1).astype(np.float32)  # a copy, which may be changed
        return np.nan_to_num(flat, copy=False, nan=0.0, posinf=0.0, neginf=0.0)
    table = np.zeros((len(inputs), _WORDS), dtype=np.float32)
    for row, record in zip(table, inputs.reshape(len(inputs), -1), strict=True):
        for value in record:
            for word in str(value).lower().split():
                row[zlib.crc32(word.encode(errors="surrogatepass")) % _WORDS] += 1
    return table


def standardize(table: Features) -> Features:
    """Every column with mean 0 and variance 1; constant columns are left out."""
    centred: Features = table - table.mean(axis=0)
    spread = np.sqrt(np.einsum("ij,ij->j", centred, centred) / len(table))
    varies = spread > 1e-6 * np.maximum(1e-30, np.abs(table).max(axis=0))  # above the rounding of float32
    centred /= np.where(varies, spread, 1.0)
    return centred if varies.all() else centred[:, varies]


def project_randomly(
    table: Features, generator: np.random.Generator, dimensions: int = _COMPONENTS
) -> Features:
    """A random projection to fewer columns, which keeps distances within about a seventh (Johnson &
    Lindenstrauss).
    """
    columns = table.shape[1]
    if columns <= dimensions:
        return table
    directions = generator.normal(size=(columns, dimensions)).astype(np.float32) / np.float32(dimensions**0.5)
    projection: Features = table @ directions
    return projection


def summarize_records(table: Features, generator: np.random.Generator) -> Features:
    """The directions of largest variance, and five numbers of each row as a whole: mean, deviation, extremes,
    share of zeros.

    Reference: Halko, Martinsson & Tropp 2011, Algorithm 4.4 with one power iteration, for the directions.
    """
    summary = np.stack(
        [table.mean(1), table.std(1), table.min(1), table.max(1), (table == 0).mean(1)],
        axis=1,
        dtype=np.float32,
    )
    columns = standardize(table)
    if columns.shape[1] <= 2 * _COMPONENTS:
        return np.concatenate([columns, summary], axis=1)
    sketch = columns @ generator.normal(size=(columns.shape[1], 2 * _COMPONENTS)).astype(np.float32)
    basis, _ = np.linalg.qr(columns @ (columns.T @ sketch))
    _, _, directions = np.linalg.svd(basis.T @ columns, full_matrices=False)
    return np.concatenate([columns @ directions[:_COMPONENTS].T, summary], axis=1)
