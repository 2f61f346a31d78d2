"""Records from arrays, tensors, data frames, pairs and dictionaries of them, and torch datasets."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast, final, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from privet.attacks.quantities import quantity_records
from privet.errors import InvalidArgument
from privet.frame_columns import FrameColumns
from privet.record_inputs import TensorLike, gather_inputs
from privet.scores import Challenge, Records

__all__ = ["ShuffledChallenge", "draw_challenge", "read_records"]

_LABEL_NAMES = ("labels", "label", "label_ids", "targets", "target", "y")


@runtime_checkable
class _Columns(Protocol):
    """A ``TensorDataset``, which has whole columns."""

    tensors: Sequence[Any]


@runtime_checkable
class _Examples(Protocol):
    """A dataset of (input, label) pairs that are read one by one."""

    def __getitem__(self, index: int) -> Any: ...  # noqa: ANN401
    def __len__(self) -> int: ...


def read_records(
    name: str, data: object, classes: NDArray[Any] | None = None, *, quantities: bool = False
) -> Records:
    """Records, from ``Records``, a pair (inputs, labels), a triple (inputs, labels, groups), a dictionary of
    columns, or a torch dataset.

    Inputs are an array, a tensor, a data frame, or several inputs of the model as a dictionary or a tuple.
    Where the model has names for its ``classes``, labels are names, and become their numbers. For a
    regression model labels are ``quantities``.

    >>> len(read_records("members", (np.zeros((5, 2)), np.zeros(5))))
    5
    """
    if isinstance(data, Records):
        return data
    if isinstance(data, _Columns):
        data = _pair(tuple(data.tensors))
    if isinstance(data, Mapping):
        data = _take_labels(name, data)
    if isinstance(data, tuple | list) and len(data) == 2 and data[1] is None:
        data = data[:1]  # labels that are not known
    if isinstance(data, tuple | list) and 1 <= len(data) <= 3 and _are_inputs(data[0], data):
        if all(_is_table(part) for part in data[1:]):
            labels, groups = (_to_array(name, data[place]) if len(data) > place else None for place in (1, 2))
            return _make_records(_read_inputs(name, data[0]), labels, groups, classes, quantities)
    elif _is_table(data):
        return _make_records(_read_inputs(name, data), None, None, classes, quantities)
    elif isinstance(data, _Examples) and not isinstance(data, str | bytes):
        read, labels = _collect_examples(name, data)
        return _make_records(_read_inputs(name, read), labels, None, classes, quantities)
    raise InvalidArgument(
        f"'{name}' must be records, got a {type(data).__name__}. Give (inputs, labels) as arrays or tensors, "
        f"a torch dataset (of a loader: loader.dataset), or Records."
    )


def _make_records(
    inputs: tuple[NDArray[Any], FrameColumns | None],
    labels: NDArray[Any] | None,
    groups: NDArray[Any] | None,
    classes: NDArray[Any] | None,
    quantities: bool,
) -> Records:
    rows, columns = inputs
    if quantities and labels is not None:
        return quantity_records(rows, labels, groups, columns)
    return Records(rows, None if labels is None else _number_labels(labels, classes), groups, columns)


def _pair(columns: tuple[Any, ...]) -> tuple[Any, ...]:
    """(inputs, labels) from the columns of a dataset, of which the last is the label; other things as they
    are.
    """
    arrays = all(isinstance(part, np.ndarray | TensorLike) for part in columns[:-1])
    return (columns[:-1], columns[-1]) if len(columns) > 2 and arrays else columns


def _take_labels(name: str, columns: Mapping[Any, Any]) -> tuple[Any, ...]:
    """(inputs, labels) from a dictionary of columns, by the usual names of labels."""
    found = [key for key in _LABEL_NAMES if key in columns]
    if len(found) > 1:
        raise InvalidArgument(
            f"'{name}' must have one column of labels, got {', '.join(found)}. Leave out the others."
        )
    inputs = {key: part for key, part in columns.items() if key not in found}
    return (inputs, columns[found[0]]) if found else (inputs,)


def _are_inputs(part: object, data: object) -> bool:
    """One table, or several inputs of the model; a list that begins with a tuple is a list of examples."""
    if isinstance(part, tuple):
        return isinstance(data, tuple) and len(part) > 1 and all(_is_table(one) for one in part)
    return isinstance(part, Mapping) or _is_table(part)


def _read_inputs(name: str, part: object) -> tuple[NDArray[Any], FrameColumns | None]:
    if isinstance(part, Mapping | tuple):
        return gather_inputs(part, name), None
    return _to_array(name, part), FrameColumns.of(part)


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
    if members.inputs.dtype.names != others.inputs.dtype.names:
        raise InvalidArgument(
            "'members' and 'nonmembers' must have the same inputs, got others. Prepare both in the same way."
        )
    if _shapes(members.inputs) != _shapes(others.inputs):
        raise InvalidArgument(
            f"'members' and 'nonmembers' must have rows of one shape, got "
            f"{', '.join(map(str, _shapes(members.inputs)))} and "
            f"{', '.join(map(str, _shapes(others.inputs)))}. Prepare both in the same way."
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


def _shapes(rows: NDArray[Any]) -> list[tuple[int, ...]]:
    """The shape of one row of each input."""
    return [rows[name].shape[1:] for name in rows.dtype.names] if rows.dtype.names else [rows.shape[1:]]


def _draw(size: int, count: int, generator: np.random.Generator) -> NDArray[np.intp]:
    return np.arange(size) if count == size else generator.choice(size, count, replace=False)


def _not_drawn(side: Records, drawn: NDArray[np.intp]) -> Records | None:
    rest = np.setdiff1d(np.arange(len(side)), drawn)
    return side.take(rest) if len(rest) else None


def _is_table(part: object) -> bool:
    """An array or tensor, or a list of numbers."""
    if isinstance(part, list):
        return bool(part) and not isinstance(part[0], tuple | Mapping)
    return isinstance(part, np.ndarray) or (isinstance(part, _Array) and not isinstance(part, type))


@runtime_checkable
class _Array(Protocol):
    """Anything that numpy can read: tensors, frames, columns."""

    def __array__(self) -> NDArray[Any]: ...


def _to_array(name: str, part: object) -> NDArray[Any]:
    """As an array; a tensor is copied to the CPU without its gradient."""
    try:
        if not isinstance(part, TensorLike):
            return np.asarray(part)
        tensor = part.detach().cpu()
        try:
            return np.asarray(tensor)
        except TypeError:
            return np.asarray(tensor.float())  # half precision that numpy does not have
    except ValueError:
        raise InvalidArgument(
            f"'{name}' must give rows of one shape, got several. Pad or resize them as the model's training "
            f"does."
        ) from None
    except Exception:  # sparse tensors, tensors without data, and whatever an array of one's own may raise
        raise InvalidArgument(
            f"'{name}' must hold arrays that numpy can read, got something else. Give dense arrays or "
            f"tensors."
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


def _collect_examples(name: str, data: _Examples) -> tuple[Any, NDArray[Any]]:
    if len(data) == 0:
        raise InvalidArgument(
            f"'{name}' must hold at least one record, got none. Give one row for each record."
        )
    examples = [data[index] for index in range(len(data))]
    if all(isinstance(example, Mapping) for example in examples):
        examples = [_take_labels(name, example) for example in examples]
    examples = [_pair(tuple(one)) if isinstance(one, tuple | list) else one for one in examples]
    if not all(isinstance(example, tuple) and len(example) == 2 for example in examples):
        raise InvalidArgument(
            f"'{name}' must give (input, label) for each example, got something else. "
            f"Give (inputs, labels) as two arrays instead."
        )
    pairs = cast(list[tuple[object, object]], examples)
    labels = [_to_array(name, second) for _, second in pairs]
    if any(label.size != 1 for label in labels):
        raise InvalidArgument(
            f"'{name}' must give one label for each example, got several. Give the number of its class."
        )
    return _stack_inputs(name, [first for first, _ in pairs]), np.array([label.item() for label in labels])


def _stack_inputs(name: str, inputs: list[object]) -> Any:  # noqa: ANN401 - an array, a dictionary or a tuple
    """The inputs of all examples, one row for each."""
    first = inputs[0]
    if isinstance(first, Mapping):
        examples = cast(list[Mapping[Any, object]], inputs)
        if any(example.keys() != first.keys() for example in examples):
            raise InvalidArgument(
                f"'{name}' must give the same inputs for each example, got others. Give the same names."
            )
        return {key: _stack(name, [example[key] for example in examples]) for key in first}
    if isinstance(first, tuple):
        columns = zip(*cast(list[tuple[object, ...]], inputs), strict=True)
        return tuple(_stack(name, list(column)) for column in columns)
    return _stack(name, inputs)


def _stack(name: str, rows: list[object]) -> NDArray[Any]:
    try:
        return np.stack([_to_array(name, row) for row in rows])
    except ValueError:
        raise InvalidArgument(
            f"'{name}' must give inputs of one shape, got several. Pad or resize them as the model's "
            f"training does."
        ) from None
