"""Records from arrays, tensors, pairs of them, and torch datasets."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast, final, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from privet.errors import InvalidArgument
from privet.scores import Challenge, Records

__all__ = ["ShuffledChallenge", "draw_challenge", "read_records"]


@runtime_checkable
class _Columns(Protocol):
    """A ``TensorDataset``, which has whole columns."""

    tensors: Sequence[Any]


@runtime_checkable
class _Examples(Protocol):
    """A dataset of (input, label) pairs that are read one by one."""

    def __getitem__(self, index: int) -> Any: ...  # noqa: ANN401
    def __len__(self) -> int: ...


def read_records(name: str, data: object, classes: NDArray[Any] | None = None) -> Records:
    """Records, from ``Records``, a pair (inputs, labels), a triple (inputs, labels, groups), or a torch
    dataset.

    Where the model has names for its ``classes``, labels are names, and become their numbers.

    >>> len(read_records("members", (np.zeros((5, 2)), np.zeros(5))))
    5
    """
    if isinstance(data, Records):
        return data
    if isinstance(data, _Columns):
        data = tuple(data.tensors)
    if isinstance(data, tuple | list) and len(data) == 2 and data[1] is None:
        data = data[:1]  # labels that are not known
    if isinstance(data, tuple | list) and 1 <= len(data) <= 3 and all(_is_table(part) for part in data):
        inputs, *rest = (_to_array(name, part) for part in data)
        labels = _number_labels(rest[0], classes) if rest else None
        return Records(inputs, labels, rest[1] if len(rest) > 1 else None)
    if _is_table(data):
        return Records(_to_array(name, data))
    if isinstance(data, _Examples) and not isinstance(data, Mapping | str | bytes):
        inputs, labels = _collect_examples(name, data)
        return Records(inputs, _number_labels(labels, classes))
    raise InvalidArgument(
        f"'{name}' must be records, got a {type(data).__name__}. Give (inputs, labels) as arrays or tensors, "
        f"a torch dataset (of a loader: loader.dataset), or Records."
    )


@final
@dataclass(frozen=True, eq=False)
class ShuffledChallenge:
    """The challenge in random order, the position of each record in its own set, and the records that are not
    judged.
    """

    challenge: Challenge
    positions: NDArray[np.intp]
    other_members: Records | None = None  # members that are not judged
    other_nonmembers: Records | None = None  # non-members that are not judged

    @property
    def pool(self) -> Records:
        """The records to train reference models on: first the judged ones, then the other members."""
        judged = self.challenge.records
        return judged if self.other_members is None else judged.followed_by(self.other_members)

    @property
    def member_count(self) -> int:
        """How many members were given."""
        return int(self.challenge.members.sum()) + (
            0 if self.other_members is None else len(self.other_members)
        )


def draw_challenge(members: Records, others: Records, *, seed: int) -> ShuffledChallenge:
    """Equally many records of both sides, in random order.

    Bounds from one run assume fair coins, so records of the larger side are drawn at random until both sides
    are equal. The rest is kept: members for the training of reference models, non-members as public records.
    """
    if members.inputs.shape[1:] != others.inputs.shape[1:]:
        raise InvalidArgument(
            f"'members' and 'nonmembers' must have rows of one shape, got {members.inputs.shape[1:]} and "
            f"{others.inputs.shape[1:]}. Prepare both in the same way."
        )
    generator = np.random.default_rng(seed)
    count = min(len(members), len(others))
    drawn_members, drawn_others = (_draw(len(side), count, generator) for side in (members, others))
    both = Challenge.of(members.take(drawn_members), others.take(drawn_others))
    order = generator.permutation(2 * count)
    return ShuffledChallenge(
        Challenge(both.records.take(order), both.members[order]),
        np.concatenate([drawn_members, drawn_others])[order],
        _not_drawn(members, drawn_members),
        _not_drawn(others, drawn_others),
    )


def _draw(size: int, count: int, generator: np.random.Generator) -> NDArray[np.intp]:
    return np.arange(size) if count == size else generator.choice(size, count, replace=False)


def _not_drawn(side: Records, drawn: NDArray[np.intp]) -> Records | None:
    rest = np.setdiff1d(np.arange(len(side)), drawn)
    return side.take(rest) if len(rest) else None


def _is_table(part: object) -> bool:
    """An array or tensor, or a list of numbers."""
    if isinstance(part, list):
        return bool(part) and not isinstance(part[0], tuple)
    return isinstance(part, np.ndarray) or (isinstance(part, _Array) and not isinstance(part, type))


@runtime_checkable
class _Array(Protocol):
    """Anything that numpy can read: tensors, frames, columns."""

    def __array__(self) -> NDArray[Any]: ...


def _to_array(name: str, part: object) -> NDArray[Any]:
    """As an array; a tensor is copied to the CPU without its gradient."""
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
            f"'{name}' must give rows of one shape, got several. Pad or resize them as the model's training "
            f"does."
        ) from None


def _number_labels(labels: NDArray[Any], classes: NDArray[Any] | None) -> NDArray[Any]:
    """Labels as numbers of the model's classes, where classes have names.

    Whole numbers are class numbers already.
    """
    if classes is None or (classes.dtype.kind not in "iuf" and labels.dtype.kind in "iub"):
        return labels
    number_of = {name: number for number, name in enumerate(classes.tolist())}
    numbers = [number_of.get(label, -1) for label in labels.ravel().tolist()]
    if min(numbers, default=0) < 0:
        raise InvalidArgument(
            "'labels' must be among the model's classes, got others. Give labels as in its training, and "
            "leave out records of classes that it does not know."
        )
    return np.array(numbers, dtype=np.int64).reshape(labels.shape)


@runtime_checkable
class _Tensor(Protocol):
    def detach(self) -> Any: ...  # noqa: ANN401
    def cpu(self) -> Any: ...  # noqa: ANN401


def _collect_examples(name: str, data: _Examples) -> tuple[NDArray[Any], NDArray[Any]]:
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
        inputs = np.stack([_to_array(name, first) for first, _ in pairs])
    except ValueError:
        raise InvalidArgument(
            f"'{name}' must give inputs of one shape, got several. Pad or resize them as the model's "
            f"training does."
        ) from None
    labels = [_to_array(name, second) for _, second in pairs]
    if any(label.size != 1 for label in labels):
        raise InvalidArgument(
            f"'{name}' must give one label for each example, got several. Give the number of its class."
        )
    return inputs, np.array([label.item() for label in labels])
