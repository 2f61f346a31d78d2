"""What is public of a dataset: the steward wrote it, and no number in it comes from the data.

The quality of every answer depends on it, and so does its meaning: the unit says who is protected, bounds and
keys say which values count, and the contribution says how much of one person does.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from math import prod
from pathlib import Path
from typing import Any, final

from privet.adjacency import AddRemove, Adjacency, ReplaceOne, Unit
from privet.arguments import format_value
from privet.curator.refresh import RefreshPolicy
from privet.errors import InvalidArgument
from privet.releasing import Contribution, PostgresTable
from privet.releasing.keys import Category

__all__ = [
    "KINDS",
    "ColumnMetadata",
    "ColumnType",
    "DatasetMetadata",
    "JoinedTable",
    "QuestionLimits",
    "SparkTable",
    "StewardFile",
]

KINDS = (
    *("count", "sum", "mean", "variance", "covariance", "quantile", "histogram", "marginal", "top_k"),
    *("synthetic", "model"),
)
"""What can be asked for. A dataset may allow fewer."""


@final
class ColumnType(StrEnum):
    """As what the values of a column are read."""

    NUMBER = "number"
    WHOLE = "whole"
    TEXT = "text"
    TRUTH = "truth"
    DATE = "date"

    @property
    def numeric(self) -> bool:
        """Whether sums of it make sense."""
        return self in (ColumnType.NUMBER, ColumnType.WHOLE)

    @property
    def ordered(self) -> bool:
        """Whether one value can be above another."""
        return self.numeric or self is ColumnType.DATE


@final
@dataclass(frozen=True, kw_only=True)
class ColumnMetadata:
    """A public column. ``lower`` and ``upper`` clamp its numbers; ``keys`` are the groups that it has.

    With ``discover`` its keys may also be found in the data, at a δ. Without ``filter`` it is not for WHERE.
    """

    name: str
    type: ColumnType
    lower: float | None = None
    upper: float | None = None
    keys: tuple[Category, ...] | None = None
    discover: bool = False
    filter: bool = True
    description: str = ""

    def to_plain(self) -> dict[str, Any]:
        """As JSON shows it to an analyst."""
        return {
            "name": self.name,
            "type": str(self.type),
            "lower": self.lower,
            "upper": self.upper,
            "keys": None if self.keys is None else list(self.keys),
            "discover": self.discover,
            "filter": self.filter,
            "description": self.description,
        }


@final
@dataclass(frozen=True)
class SparkTable:
    """A table of the Spark session that the steward gives to the worker."""

    name: str


TableAddress = Path | PostgresTable | SparkTable


@final
@dataclass(frozen=True, kw_only=True)
class JoinedTable:
    """A second table with at most one row for each unit, which can be joined on the unit.

    A unit with several rows in it counts as one without a row: that depends on this unit alone.
    """

    name: str
    address: Path
    unit: str
    columns: tuple[ColumnMetadata, ...]


@final
@dataclass(frozen=True, kw_only=True)
class QuestionLimits:
    """The most that one question may cost, and how much it may ask for."""

    epsilon: float = 1.0
    delta: float = 1e-6
    statistics: int = 20
    keys: int = 10_000
    seconds: float = 60.0
    synthetic_rows: int = 10_000


@final
@dataclass(frozen=True, kw_only=True)
class DatasetMetadata:
    """A dataset as its steward describes it."""

    name: str
    description: str
    address: TableAddress
    unit: str | None
    columns: tuple[ColumnMetadata, ...]
    contribution: Contribution = Contribution()  # noqa: RUF009 - frozen
    exchange: bool = False
    tables: tuple[JoinedTable, ...] = ()
    kinds: tuple[str, ...] = KINDS
    limits: QuestionLimits = QuestionLimits()
    answer_after: float | None = None
    refresh: RefreshPolicy = RefreshPolicy.FROZEN
    budget_epsilon: float
    budget_delta: float

    @property
    def adjacency(self) -> Adjacency:
        """Who is protected: one user, or one row; added or removed, or exchanged."""
        unit = Unit.RECORD if self.unit is None else Unit.USER
        return ReplaceOne(unit) if self.exchange else AddRemove(unit)

    @property
    def in_files(self) -> bool:
        """Whether all of it is in files, so that single rows can be read."""
        return isinstance(self.address, Path)

    def find_table(self, name: str) -> JoinedTable:
        """A table that can be joined."""
        for table in self.tables:
            if table.name == name:
                return table
        known = ", ".join(repr(table.name) for table in self.tables) or "none"
        raise InvalidArgument(
            f"The dataset {self.name!r} can be joined with {known}, got {format_value(name)}. Leave the join "
            f"out, or name one of these."
        )

    def find_column(self, name: object, joins: tuple[str, ...]) -> ColumnMetadata:
        """A public column of the dataset, or of a table that is joined."""
        joined = [column for join in joins for column in self.find_table(join).columns]
        for column in (*self.columns, *joined):
            if column.name == name:
                return column
        known = ", ".join(repr(column.name) for column in (*self.columns, *joined))
        raise InvalidArgument(
            f"The dataset {self.name!r} has the public columns {known}, got {format_value(name)}. Choose "
            f"one of "
            f"these."
        )

    def list_keys(self, columns: tuple[ColumnMetadata, ...]) -> int:
        """How many combinations of declared keys there are."""
        return prod(len(column.keys or ()) for column in columns)

    def to_plain(self) -> dict[str, Any]:
        """The public metadata, as JSON shows it to an analyst. Where the data are is not in it."""
        return {
            "name": self.name,
            "description": self.description,
            "unit": self.unit,
            "adjacency": str(self.adjacency),
            "columns": [column.to_plain() for column in self.columns],
            "tables": [
                {"name": table.name, "columns": [column.to_plain() for column in table.columns]}
                for table in self.tables
            ],
            "contribution": {"rows": self.contribution.rows, "groups": self.contribution.groups},
            "kinds": list(self.kinds),
            "limits": {
                "epsilon": self.limits.epsilon,
                "delta": self.limits.delta,
                "statistics": self.limits.statistics,
                "keys": self.limits.keys,
            },
            "answer_after": self.answer_after,
            "refresh": str(self.refresh),
        }


@final
@dataclass(frozen=True)
class StewardFile:
    """All datasets of a curator, by name."""

    datasets: Mapping[str, DatasetMetadata]

    def find(self, name: object) -> DatasetMetadata:
        """A dataset by its name."""
        found = self.datasets.get(name) if isinstance(name, str) else None
        if found is None:
            raise InvalidArgument(f"There is no dataset {format_value(name)}. Choose one that you may ask.")
        return found
