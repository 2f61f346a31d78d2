"""Records from what people have: arrays, tensors, pairs of them, torch datasets."""

from collections.abc import Mapping, Sequence
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


def records_of(name: str, data: object, classes: NDArray[Any] | None = None) -> Records:
    """Records, from ``Records``, an (inputs, labels) or (inputs, labels, groups) tuple, or a torch dataset.

    Where the model has names for its ``classes``, labels are names, and become places among them.

    >>> len(records_of("members", (np.zeros((5, 2)), np.zeros(5))))
    5
    """
    if isinstance(data, Records):
        return data
    if isinstance(data, _Columns):
        data = tuple(data.tensors)
    if isinstance(data, tuple) and len(data) == 2 and data[1] is None:
        data = data[:1]  # labels that are not known
    if isinstance(data, tuple | list) and 1 <= len(data) <= 3 and all(_is_table(part) for part in data):
        inputs, *rest = (_array(name, part) for part in data)
        labels = _placed(rest[0], classes) if rest else None
        return Records(inputs, labels, rest[1] if len(rest) > 1 else None)
    if _is_table(data):
        return Records(_array(name, data))
    if isinstance(data, _Examples) and not isinstance(data, Mapping | str | bytes):
        inputs, labels = _collected(name, data)
        return Records(inputs, _placed(labels, classes))
    raise InvalidArgument(
        f"'{name}' must be records, got a {type(data).__name__}. "
        f"Give (inputs, labels) as arrays or tensors, a torch dataset (of a loader: loader.dataset), or Records."
    )


@final
@dataclass(frozen=True, eq=False)
class Asked:
    """The challenge, where each of its records stood in the set that it was given in, and the records that are not judged."""

    challenge: Challenge
    places: NDArray[np.intp]
    rest: Records | None = None  # members that are not judged
    spare: Records | None = None  # non-members that are not judged

    @property
    def pool(self) -> Records:
        """What reference models are trained on: first the records that are judged, then the members that are not."""
        judged = self.challenge.records
        return judged if self.rest is None else judged.followed_by(self.rest)

    @property
    def members(self) -> int:
        """How many members were given."""
        return int(self.challenge.members.sum()) + (0 if self.rest is None else len(self.rest))


def challenge_of(members: Records, others: Records, *, seed: int) -> Asked:
    """Both sides in one list, as many of one as of the other, in an order that tells nothing.

    Bounds from one run are about fair coins: of the larger side as many are drawn, at random, as the smaller one has. What is not
    drawn is kept: members for the training of reference models, non-members as public records.
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
        Challenge(both.records.take(order), both.members[order]),
        np.concatenate([inside, outside])[order],
        _left(members, inside),
        _left(others, outside),
    )


def _drawn(size: int, count: int, generator: np.random.Generator) -> NDArray[np.intp]:
    return np.arange(size) if count == size else generator.choice(size, count, replace=False)


def _left(side: Records, drawn: NDArray[np.intp]) -> Records | None:
    left = np.setdiff1d(np.arange(len(side)), drawn)
    return side.take(left) if len(left) else None


def _is_table(part: object) -> bool:
    """An array or tensor, or a list of numbers."""
    if isinstance(part, list):
        return bool(part) and not isinstance(part[0], tuple)
    return isinstance(part, np.ndarray) or (isinstance(part, _Array) and not isinstance(part, type))


@runtime_checkable
class _Array(Protocol):
    """What numpy can read: tensors, frames, columns."""

    def __array__(self) -> NDArray[Any]: ...


def _array(name: str, part: object) -> NDArray[Any]:
    """On the processor and without a gradient, where it is a tensor."""
    if isinstance(part, _Tensor):
        tensor = part.detach().cpu()
        try:
            return np.asarray(tensor)
        except TypeError:
            return np.asarray(tensor.float())  # half precision that numpy does not have
    try:
        return np.asarray(part)
    except ValueError:
        raise InvalidArgument(
            f"'{name}' must give rows of one shape, got several. Pad or resize them as the model's training does."
        ) from None


def _placed(labels: NDArray[Any], classes: NDArray[Any] | None) -> NDArray[Any]:
    """Labels as places among the model's classes, where these have names; numbers beside words are places already."""
    if classes is None or (classes.dtype.kind not in "iuf" and labels.dtype.kind in "iub"):
        return labels
    places = {name: place for place, name in enumerate(classes.tolist())}
    found = [places.get(label, -1) for label in labels.ravel().tolist()]
    if min(found, default=0) < 0:
        raise InvalidArgument(
            "'labels' must be among the model's classes, got others. Give labels as in its training, and leave out "
            "records of classes that it does not know."
        )
    return np.array(found, dtype=np.int64).reshape(labels.shape)


@runtime_checkable
class _Tensor(Protocol):
    def detach(self) -> Any: ...  # noqa: ANN401
    def cpu(self) -> Any: ...  # noqa: ANN401


def _collected(name: str, data: _Examples) -> tuple[NDArray[Any], NDArray[Any]]:
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
        inputs = np.stack([_array(name, first) for first, _ in pairs])
    except ValueError:
        raise InvalidArgument(
            f"'{name}' must give inputs of one shape, got several. Pad or resize them as the model's training does."
        ) from None
    labels = [_array(name, second) for _, second in pairs]
    if any(label.size != 1 for label in labels):
        raise InvalidArgument(
            f"'{name}' must give one label for each example, got several. Give the number of its class."
        )
    return inputs, np.array([label.item() for label in labels])
