"""Parts of one data set for the clients of an experiment: alike, or with unusual shares of the labels.

Real clients have their own data. These parts are for simulations, so their randomness is that of an
experiment, and never privacy noise.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privet.arguments import positive, whole
from privet.errors import InvalidArgument

__all__ = ["partition", "partition_by_label"]


def partition(
    *columns: ArrayLike, clients: int, generator: np.random.Generator
) -> list[tuple[NDArray[np.generic], ...]]:
    """Split columns into equal random parts, one for each client.

    >>> parts = partition(np.arange(10), clients=3, generator=np.random.default_rng(0))
    >>> [len(column) for (column,) in parts]
    [4, 3, 3]
    """
    arrays = _read_columns(columns, clients)
    order = generator.permutation(len(arrays[0]))
    return _take_parts(arrays, np.array_split(order, clients))


def partition_by_label(
    *columns: ArrayLike, clients: int, concentration: float, generator: np.random.Generator
) -> list[tuple[NDArray[np.generic], ...]]:
    """Split columns so that each client has its own shares of the labels, which are the last column.

    The shares of each label over the clients are drawn from a Dirichlet distribution. A small
    ``concentration``, such as 0.1, gives most clients few labels; a large one gives equal parts. A client
    that gets nothing takes one row from the largest part.

    Reference: Hsu, Qi & Brown 2019.

    >>> parts = partition_by_label(
    ...     np.arange(60), np.arange(60) % 3, clients=5, concentration=0.3, generator=np.random.default_rng(0)
    ... )
    >>> sum(len(labels) for _, labels in parts)
    60
    """
    arrays = _read_columns(columns, clients)
    positive("concentration", concentration)
    labels = arrays[-1].reshape(len(arrays[-1]), -1)[:, 0]
    parts: list[list[int]] = [[] for _ in range(clients)]
    for label in np.unique(labels):
        rows = generator.permutation(np.flatnonzero(labels == label))
        shares = generator.dirichlet(np.full(clients, concentration))
        cuts = np.round(np.cumsum(shares)[:-1] * len(rows)).astype(int)
        for part, piece in zip(parts, np.split(rows, cuts), strict=True):
            part.extend(piece.tolist())
    for part in parts:
        if not part:
            part.append(max(parts, key=len).pop())
    return _take_parts(arrays, [np.sort(np.array(part, dtype=np.int64)) for part in parts])


def _read_columns(columns: Sequence[ArrayLike], clients: int) -> list[NDArray[np.generic]]:
    arrays = [np.asarray(column) for column in columns]
    if not arrays or any(array.ndim == 0 for array in arrays) or len({len(array) for array in arrays}) != 1:
        raise InvalidArgument(
            "'columns' must be arrays of one length, got other lengths. Give inputs and labels: partition(x, "
            "y, clients=10, generator=…)."
        )
    if whole("clients", clients) > len(arrays[0]):
        raise InvalidArgument(
            f"'clients' must not exceed the {len(arrays[0])} rows, got {clients}. Each client needs a row."
        )
    return arrays


def _take_parts(
    arrays: Sequence[NDArray[np.generic]], parts: Sequence[NDArray[np.int64]]
) -> list[tuple[NDArray[np.generic], ...]]:
    return [tuple(array[rows] for array in arrays) for rows in parts]
