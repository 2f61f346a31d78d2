"""A synthetic table as a question: which columns, at which budget.

The domain is made of the declared keys, and of equal bins between the declared bounds. One row of each unit
counts, its first. The answer is a table of a public number of rows: whoever needs fewer takes the first
ones.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import numpy as np

from privet.arguments import whole
from privet.curator.questions.conditions import normalize_condition, read_condition
from privet.curator.questions.fields import Fields
from privet.curator.questions.metadata import ColumnMetadata, DatasetMetadata
from privet.curator.questions.model_question import check_row_access
from privet.curator.questions.question import check_header, read_price, write_frame
from privet.errors import InvalidArgument
from privet.events import Event
from privet.releasing import RowCondition
from privet.releasing.synthetic.domain import Bins, Categories, Column, Domain
from privet.releasing.synthetic.mst import MST

__all__ = ["SyntheticQuestion", "read_synthetic_question"]

_BINS, _MOST_COLUMNS = 16, 30
UNIT = "\x00unit"
"""The column that says whose row it is; no column of a file has this name here."""


@final
@dataclass(frozen=True, kw_only=True)
class SyntheticQuestion:
    """A synthetic table of some columns, by MST."""

    dataset: DatasetMetadata
    columns: tuple[ColumnMetadata, ...]
    bins: int
    where: RowCondition | None
    joins: tuple[str, ...]
    epsilon: float
    delta: float

    @property
    def label(self) -> str:
        """What is released."""
        return f"synthetic {', '.join(column.name for column in self.columns)}"

    @cached_property
    def mechanism(self) -> MST:
        """What makes the table."""
        return MST(
            domain=Domain(tuple(map(self._column, self.columns))),
            epsilon=self.epsilon,
            delta=self.delta,
            adjacency=self.dataset.adjacency,
            unit=None if self.dataset.unit is None else UNIT,
        )

    @property
    def event(self) -> Event:
        """What it spends."""
        return self.mechanism.event

    def to_plain(self) -> dict[str, Any]:
        """As JSON, readable as a question again."""
        return {
            **write_frame(self.dataset, self.where, self.joins),
            "synthetic": {"columns": [column.name for column in self.columns], "bins": self.bins},
            "epsilon": self.epsilon,
            "delta": self.delta,
        }

    def _column(self, column: ColumnMetadata) -> Column:
        if column.keys is not None:
            return Categories(column.name, column.keys)
        assert column.lower is not None
        assert column.upper is not None
        edges = np.linspace(column.lower, column.upper, self.bins + 1)
        return Bins(column.name, tuple(float(edge) for edge in edges))


def read_synthetic_question(question: object, dataset: DatasetMetadata) -> SyntheticQuestion:
    """The synthetic table that JSON asks for, in its canonical form."""
    given = Fields(question, "The question")
    check_header(given, dataset)
    check_row_access(dataset, "synthetic")
    joins = tuple(sorted(given.texts("join"))) if "join" in given else ()
    asked = given.inner("synthetic")
    columns = tuple(dataset.find_column(name, joins) for name in sorted(asked.texts("columns")))
    if len(columns) > _MOST_COLUMNS:
        raise InvalidArgument(
            f"{asked.place} must have at most {_MOST_COLUMNS} columns, got {len(columns)}. Leave some out."
        )
    for column in columns:
        if column.keys is None and column.lower is None:
            raise InvalidArgument(
                f"{asked.place}: the column {column.name!r} must have declared bounds or keys, and has "
                f"neither. "
                f"Leave it out."
            )
    bins = whole("bins", asked.whole("bins", _BINS, least=2, most=256))
    asked.close()
    epsilon, delta = read_price(given, dataset, accuracy=False)
    if delta == 0 or epsilon is None:
        raise InvalidArgument(
            "Synthetic data must have a 'delta' above 0, and has none. Give one far below 1/n."
        )
    where = read_condition(given.inner("where"), dataset, joins) if "where" in given else None
    given.close()
    return SyntheticQuestion(
        dataset=dataset,
        columns=columns,
        bins=bins,
        where=normalize_condition(where),
        joins=joins,
        epsilon=epsilon,
        delta=delta,
    )
