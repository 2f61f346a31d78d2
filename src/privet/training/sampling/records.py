"""The columns of a record or a batch: positional or named, with the target last."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor

from privet.arguments import format_value
from privet.errors import InvalidArgument
from privet.training.sampling.labels import encode_labels

__all__ = ["ColumnRule", "ColumnSelection", "name_values"]

TARGETS = ("labels", "label", "label_ids", "targets", "target", "y")
"""Names of a target column, the first that is there."""

SPANS = ("start_positions", "end_positions")
"""Two target columns of models for question answering, which become one of two numbers."""

Values = list[Any]


def name_values(record: Any) -> tuple[tuple[str, ...] | None, Values]:  # noqa: ANN401 - anything
    """The names and values of a record or a batch. The names are None if it is a tuple.

    A pair of a dictionary and a target is a dictionary with one more name. A pair of a tuple and a target is
    a longer tuple.

    >>> name_values(({"a": 1, "b": 2}, 3)), name_values(((1, 2), 3))
    ((('a', 'b', 'labels'), [1, 2, 3]), (None, [1, 2, 3]))
    """
    if isinstance(record, Mapping):
        return tuple(map(str, record.keys())), list(record.values())
    if not isinstance(record, tuple | list):
        return None, [record]
    if len(record) == 2 and isinstance(record[0], Mapping):
        names, values = name_values(record[0])
        return (*(names or ()), TARGETS[0]), [*values, record[1]]
    if len(record) == 2 and isinstance(record[0], tuple):
        return None, [*record[0], record[1]]
    return None, list(record)


@final
@dataclass(frozen=True)
class ColumnSelection:
    """Which columns are the inputs, in order, and which are the target. One number means one column."""

    inputs: tuple[int, ...]
    targets: tuple[int, ...]
    input_names: tuple[str, ...] | None
    dropped: tuple[str, ...] = ()

    def pick(self, values: Values) -> tuple[Values, Values]:
        """The inputs and the target columns among all values."""
        return [values[i] for i in self.inputs], [values[i] for i in self.targets]


@final
@dataclass(frozen=True)
class ColumnRule:
    """What a model takes. Without one, all columns are taken, and types do not change.

    ``parameters`` are the names of the arguments of the model, and ``takes_any`` says that it takes others
    too. Floating-point columns get ``float_type``. ``classes`` are the declared labels, and ``padding`` is
    the number that fills sequences of tokens.
    """

    parameters: tuple[str, ...] | None = None
    takes_any: bool = True
    float_type: torch.dtype | None = None
    classes: tuple[Any, ...] | None = None
    padding: int = 0

    def select(self, names: tuple[str, ...] | None, count: int) -> ColumnSelection:
        """Choose the columns, by their names only."""
        if names is None:
            order = tuple(range(count))
            return ColumnSelection(order[:-1] or order, order[-1:], None)
        targets = _find_targets(names)
        inputs = [i for i in range(count) if i not in targets]
        if not inputs:
            raise InvalidArgument(
                f"'data' must have a column beside its target, got {format_value(names)}. Add the inputs."
            )
        wanted = self.parameters or ()
        known = [i for i in inputs if names[i] in wanted]
        if not known and len(inputs) == 1 and self.parameters is not None:
            return ColumnSelection(tuple(inputs), targets, None)  # there is only one way to call the model
        if self.takes_any:
            known = inputs
        if not known:
            raise InvalidArgument(
                f"'data' must have columns with the names of the model's arguments {format_value(wanted)}, "
                f"got {format_value([names[i] for i in inputs])}. Rename them, or give a tuple in the order "
                "of the arguments."
            )
        dropped = tuple(names[i] for i in inputs if i not in known)
        return ColumnSelection(tuple(known), targets, tuple(names[i] for i in known), dropped)

    def convert(self, values: Tensor) -> Tensor:
        """A column of inputs in the type that the model takes."""
        if values.is_floating_point() and {values.dtype, self.float_type} == {torch.float32, torch.float64}:
            return values.to(self.float_type)
        return values

    def convert_targets(self, columns: Values, read: Callable[[Any], Any]) -> Any:  # noqa: ANN401 - as read
        """The target column. ``read`` makes a tensor of a column, or a ragged column."""
        if len(columns) > 1:
            return torch.stack([read(column).reshape(-1).long() for column in columns], 1)
        column = encode_labels(columns[0], self.classes)
        column = read(column)
        if not isinstance(column, Tensor):
            return column
        small = (torch.uint8, torch.int8, torch.int16, torch.int32)
        return column.long() if column.dtype in small else self.convert(column)


def _find_targets(names: tuple[str, ...]) -> tuple[int, ...]:
    for name in TARGETS:
        if name in names:
            return (names.index(name),)
    if all(name in names for name in SPANS):
        return tuple(names.index(name) for name in SPANS)
    raise InvalidArgument(
        f"'data' must have a target column with one of the names {', '.join(TARGETS)}, got "
        f"{format_value(names)}. Rename the target to 'labels'; for a language model give the tokens again "
        "as 'labels'."
    )
