"""Near-copies among pictures: distances, tiles, and cliques of samples that are nearly the same.

A generator that writes nearly the same picture again and again has probably memorised it: other pictures are
spread out. So an adversary who has no training data looks for *cliques*, sets of samples of which every two
are near each other, and takes the largest ones first.

*Reference*: Carlini, Hayes, Nasr, Jagielski, Sehwag, Tramèr, Balle, Ippolito & Wallace 2023, "Extracting
training data from diffusion models", section 4 (distance by tiles, cliques). Deviation: cliques are found
greedily, from the sample with most neighbours on, which may find smaller ones than there are.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from privet.arguments import at_least, whole
from privet.errors import InvalidArgument
from privet.views import Numbers, Rows

__all__ = ["find_cliques", "measure_distances", "pick_medoids"]

_BLOCK = 2**22  # numbers that are held at a time


def measure_distances(pictures: Rows, others: Rows, *, tile: int | None = None) -> Numbers:
    """The root mean square difference of each picture to each other one, pictures × others.

    With ``tile`` it is the largest over tiles of so many pixels on each side: two pictures that share only
    their background are far apart. Pictures are rows × height × width, or rows × channels × height × width.

    >>> measure_distances(np.zeros((1, 2, 2)), np.ones((1, 2, 2))).tolist()
    [[1.0]]
    """
    one, two = _read("pictures", pictures), _read("others", others)
    if one.shape[1:] != two.shape[1:]:
        raise InvalidArgument(
            f"'others' must be pictures of shape {one.shape[1:]}, got {two.shape[1:]}. Give them in one size."
        )
    if tile is None:
        return _root_mean_square(one.reshape(len(one), -1), two.reshape(len(two), -1))
    largest: Numbers = np.zeros((len(one), len(two)))
    for rows, columns in _tiles(one.shape, whole("tile", tile)):
        parts = [part[..., rows, columns] for part in (one, two)]
        distances = _root_mean_square(*(part.reshape(len(part), -1) for part in parts))
        largest = np.maximum(largest, distances)
    return largest


def find_cliques(distances: Numbers, *, within: float, least: int = 2) -> list[NDArray[np.intp]]:
    """Sets of at least ``least`` samples of which every two are ``within`` each other, the largest first.

    ``distances`` is samples × samples. Each sample is in one set at most.

    >>> gaps = np.abs(np.array([0.0, 0.1, 0.2, 5.0, 5.1])[:, None] - np.array([0.0, 0.1, 0.2, 5.0, 5.1]))
    >>> [clique.tolist() for clique in find_cliques(gaps, within=0.25)]
    [[0, 1, 2], [3, 4]]
    """
    gaps = np.asarray(distances, dtype=np.float64)
    if gaps.ndim != 2 or gaps.shape[0] != gaps.shape[1]:
        raise InvalidArgument(
            f"'distances' must be samples × samples, got an array of shape {gaps.shape}. Measure the samples "
            f"against themselves."
        )
    near = gaps <= at_least("within", within, 0)
    np.fill_diagonal(near, val=False)
    free = np.ones(len(near), dtype=np.bool_)
    cliques = []
    while free.any():
        degrees = np.where(free, (near & free).sum(axis=1), -1)
        start = int(degrees.argmax())
        members, common = [start], near[start] & free
        while common.any():
            # The candidate that keeps most of the others.
            kept = np.where(common, (near & common).sum(axis=1), -1)
            chosen = int(kept.argmax())
            members.append(chosen)
            common = common & near[chosen]
        free[members] = False
        if len(members) >= whole("least", least, least=1):
            cliques.append(np.array(sorted(members), dtype=np.intp))
        elif degrees[start] <= 0:
            break  # nobody who is left has a neighbour
    return sorted(cliques, key=lambda clique: (-len(clique), int(clique[0])))


def pick_medoids(distances: Numbers, cliques: list[NDArray[np.intp]]) -> NDArray[np.intp]:
    """The sample in the middle of each clique: that with the smallest total distance to the others."""
    chosen = [clique[distances[np.ix_(clique, clique)].sum(axis=1).argmin()] for clique in cliques]
    return np.array(chosen, dtype=np.intp)


def _root_mean_square(one: Numbers, two: Numbers) -> Numbers:
    lengths = np.square(two).sum(axis=1)
    answer: Numbers = np.empty((len(one), len(two)))
    step = max(1, _BLOCK // max(len(two), 1))
    for start in range(0, len(one), step):
        part = one[start : start + step]
        squares = np.square(part).sum(axis=1)[:, None] + lengths - 2.0 * part @ two.T
        answer[start : start + step] = np.sqrt(np.maximum(squares, 0.0) / one.shape[1])
    return answer


def _tiles(shape: tuple[int, ...], tile: int) -> Iterator[tuple[slice, slice]]:
    height, width = shape[-2:]
    if tile > min(height, width):
        raise InvalidArgument(
            f"'tile' must not exceed the {height} × {width} pixels of a picture, got {tile}. Give a smaller "
            f"one."
        )
    for row in range(0, height, tile):
        for column in range(0, width, tile):
            # The last tile of a row or a column ends with the picture.
            top, left = min(row, height - tile), min(column, width - tile)
            yield slice(top, top + tile), slice(left, left + tile)


def _read(name: str, pictures: Rows) -> Numbers:
    values = np.asarray(pictures, dtype=np.float64)
    if values.ndim not in (3, 4) or not len(values) or not np.isfinite(values).all():
        raise InvalidArgument(
            f"'{name}' must be finite numbers, rows × height × width or rows × channels × height × width, "
            f"got an array of shape {values.shape}. Reshape them, and look for NaN in the generator's output."
        )
    return values
