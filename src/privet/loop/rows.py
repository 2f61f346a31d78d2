"""Records from what people have: arrays, tensors, pairs of them, torch datasets."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast, final, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from privet.errors import InvalidArgument
from privet.scores import Challenge, Records

__all__ = ["Asked", "challenge_of", "records_of"]


@runtime_checkable
class _Columns(Protocol):
    """A ``TensorDataset``: its columns are there at once."""

    tensors: Sequence[Any]


@runtime_checkable
class _Examples(Protocol):
    """A dataset of (input, label) pairs that are asked for one by one."""

    def __getitem__(self, index: int) -> Any: ...  # noqa: ANN401
    def __len__(self) -> int: ...


def records_of(name: str, data: object) -> Records:
    """Records, from ``Records``, an (inputs, labels) or (inputs, labels, groups) tuple, or a torch dataset.

    >>> len(records_of("members", (np.zeros((5, 2)), np.zeros(5))))
    5
    """
    if isinstance(data, Records):
        return data
    if isinstance(data, _Columns):
        data = tuple(data.tensors)
    if isinstance(data, tuple | list) and 1 <= len(data) <= 3 and all(_is_table(part) for part in data):
        inputs, *rest = (_array(part) for part in data)
        return Records(inputs, rest[0] if rest else None, rest[1] if len(rest) > 1 else None)
    if _is_table(data):
        return Records(_array(data))
    if isinstance(data, _Examples):
        return _collected(name, data)
    raise InvalidArgument(
        f"'{name}' must be records, got a {type(data).__name__}. "
        f"Give (inputs, labels) as arrays or tensors, a torch dataset, or Records."
    )


@final
@dataclass(frozen=True, eq=False)
class Asked:
    """The challenge, and where each of its records stood in the set that it was given in."""

    challenge: Challenge
    places: NDArray[np.intp]


def challenge_of(members: Records, others: Records, *, seed: int) -> Asked:
    """Both sides in one list, as many of one as of the other, in an order that tells nothing.

    Bounds from one run are about fair coins: of the larger side as many are drawn, at random, as the smaller one has.
    """
    if members.inputs.shape[1:] != others.inputs.shape[1:]:
        raise InvalidArgument(
            f"'members' and 'nonmembers' must be alike, got rows of shape {members.inputs.shape[1:]} and "
            f"{others.inputs.shape[1:]}. Prepare both in the same way."
        )
    generator = np.random.default_rng(seed)
    count = min(len(members), len(others))
    inside, outside = (_drawn(len(side), count, generator) for side in (members, others))
    both = Challenge.of(members.take(inside), others.take(outside))
    order = generator.permutation(2 * count)
    return Asked(
        Challenge(both.records.take(order), both.members[order]), np.concatenate([inside, outside])[order]
    )


def _drawn(size: int, count: int, generator: np.random.Generator) -> NDArray[np.intp]:
    return np.arange(size) if count == size else generator.choice(size, count, replace=False)


def _is_table(part: object) -> bool:
    """An array or tensor, or a list of numbers."""
    if isinstance(part, list):
        return bool(part) and not isinstance(part[0], tuple)
    return isinstance(part, np.ndarray) or (isinstance(part, _Array) and not isinstance(part, type))


@runtime_checkable
class _Array(Protocol):
    """What numpy can read: tensors, frames, columns."""

    def __array__(self) -> NDArray[Any]: ...


def _array(part: object) -> NDArray[Any]:
    """On the processor and without a gradient, where it is a tensor."""
    if isinstance(part, _Tensor):
        part = part.detach().cpu()
    return np.asarray(part)


@runtime_checkable
class _Tensor(Protocol):
    def detach(self) -> Any: ...  # noqa: ANN401
    def cpu(self) -> Any: ...  # noqa: ANN401


def _collected(name: str, data: _Examples) -> Records:
    if len(data) == 0:
        raise InvalidArgument(
            f"'{name}' must hold at least one record, got none. Give one row for each record."
        )
    examples = [data[index] for index in range(len(data))]
    if not all(isinstance(example, tuple | list) and len(example) == 2 for example in examples):
        raise InvalidArgument(
            f"'{name}' must give (input, label) for each example, got something else. "
            f"Give (inputs, labels) as two arrays instead."
        )
    pairs = cast(list[tuple[object, object]], examples)
    try:
        inputs = np.stack([_array(first) for first, _ in pairs])
    except ValueError:
        raise InvalidArgument(
            f"'{name}' must give inputs of one shape, got several. Pad or resize them as the model's training does."
        ) from None
    return Records(inputs, np.array([int(cast(Any, second)) for _, second in pairs]))
