"""Bounded aggregation of tables in memory: Polars reads, casts and hashes; one sort of words does the rest.

Every step looks at one row, or at one unit, and no value makes a step fail.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import compress
from pathlib import Path
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from privet.releasing.engines.aggregates import (
    WEIGHT,
    Aggregate,
    AggregateRequest,
    CellCountRequest,
    Sums,
    Totals,
    bound_contributions,
    check_rows,
    list_row_aggregates,
)
from privet.releasing.engines.columns import cell, row_value
from privet.releasing.engines.engine import TableEngine
from privet.releasing.engines.packing import UnitGroupPairs, bound_pairs
from privet.releasing.engines.rows import Keys, RowSource
from privet.releasing.tables.column_kind import ColumnKind
from privet.releasing.tables.sources import TableSource, open_data, open_file, pl

__all__ = ["PolarsEngine"]


@final
class PolarsEngine(TableEngine):
    """Over a table that fits into memory."""

    def __init__(self, table: TableSource) -> None:
        self._source = RowSource(table)

    @staticmethod
    def over(data: Any) -> "PolarsEngine":  # noqa: ANN401 - a frame of any library
        """A Polars or pandas frame, or an Arrow table."""
        return PolarsEngine(open_data(data))

    @staticmethod
    def of_path(path: Path) -> "PolarsEngine":
        """A Parquet or CSV file."""
        return PolarsEngine(open_file(path))

    @property
    def schema(self) -> Mapping[str, ColumnKind]:
        return self._source.schema

    def totals(self, request: AggregateRequest) -> Totals:
        summed = list_row_aggregates(request.aggregates)
        named = {f"value{number}": aggregate for number, aggregate in enumerate(summed)}
        values = [row_value(self._source.columns, aggregate).alias(name) for name, aggregate in named.items()]
        if request.unit is None:
            return self._of_rows(request, named, values)
        if request.grouping.single:
            return self._of_units(request, named, values)
        rows, keys = self._pair_rows(request, values)
        sizes, most = rows.pairs.sizes, request.contribution.rows
        per_pair: Sums = {aggregate: rows.pairs.sums(rows.column(name)) for name, aggregate in named.items()}
        return Totals(
            keys,
            {
                aggregate: _sum_by_group(
                    rows.pairs.groups, bound_contributions(aggregate, per_pair, sizes, most), len(keys)
                )
                for aggregate in request.aggregates
            },
        )

    def cells(self, request: CellCountRequest) -> NDArray[np.int64]:
        cell_number = cell(self._source.columns, request.cells).alias("cell")
        counts = np.zeros((len(request.grouping.keys or ()), request.cells.count), dtype=np.int64)
        if request.unit is None:
            frame, _ = self._source.rows(request, [cell_number], ("cell",), in_memory=True)
            rows = frame.group_by("group", "cell").len().collect(engine="streaming")
            # Polars counts in 32 bits, and a product would wrap around.
            sizes = rows["len"].cast(pl.Int64).to_numpy()
            check_rows(int(sizes.sum()))
            counts[rows["group"].to_numpy(), rows["cell"].to_numpy()] = sizes * WEIGHT
            return counts
        paired, _ = self._pair_rows(request, [cell_number], ("cell",))
        sizes, positions = paired.pairs.sizes, paired.pairs.rows
        weights = np.minimum(sizes, request.contribution.rows) * WEIGHT // np.maximum(sizes, 1)
        if positions is not None:
            where = (np.repeat(paired.pairs.groups, sizes), paired.column("cell")[positions])
            np.add.at(counts, where, np.repeat(weights, sizes))
        return counts

    def cancel(self) -> None:
        self._source.cancel()

    def _of_rows(
        self, request: AggregateRequest, named: Mapping[str, Aggregate], values: list[pl.Expr]
    ) -> Totals:
        """Totals if every row is a unit, so that there is nothing to bound."""
        frame, keys = self._source.rows(request, values, in_memory=False)
        table = frame.group_by("group").agg(*_size_and_sums(named)).collect(engine="streaming")
        groups, sizes = table["group"].to_numpy().astype(np.int64), table["size"].to_numpy()
        check_rows(int(sizes.sum()))
        sums: Sums = {aggregate: table[name].to_numpy() for name, aggregate in named.items()}
        return Totals(
            keys,
            {
                aggregate: _sum_by_group(groups, sums.get(aggregate, sizes), len(keys))
                for aggregate in request.aggregates
            },
        )

    def _of_units(
        self, request: AggregateRequest, named: Mapping[str, Aggregate], values: list[pl.Expr]
    ) -> Totals:
        """Totals of one group: to group by the unit is enough to bound it."""
        frame, keys = self._source.rows(request, values, in_memory=False)
        table = frame.group_by("unit").agg(*_size_and_sums(named)).drop("unit").collect(engine="streaming")
        sizes, most = table["size"].to_numpy(), request.contribution.rows
        check_rows(int(sizes.sum()))
        per_unit: Sums = {aggregate: table[name].to_numpy() for name, aggregate in named.items()}
        sums = {
            aggregate: bound_contributions(aggregate, per_unit, sizes, most).sum()
            for aggregate in request.aggregates
        }
        return Totals(
            keys, {aggregate: np.array([total], dtype=np.int64) for aggregate, total in sums.items()}
        )

    def _pair_rows(
        self,
        request: AggregateRequest | CellCountRequest,
        values: list[pl.Expr],
        required: tuple[str, ...] = (),
    ) -> tuple["_PairedRows", Keys]:
        """The rows, sorted into the pairs of a unit and a group that count."""
        frame, keys = self._source.rows(request, values, required, in_memory=True)
        rows = frame.collect(engine="streaming")
        check_rows(rows.height)
        pairs = bound_pairs(
            _unit_numbers(rows["unit"]),
            rows["group"].to_numpy(),
            rows["order"].to_numpy() if "order" in rows.columns else None,
            most=request.contribution.groups,
            keep_rows=bool(values),
        )
        if request.grouping.keys is not None:
            return _PairedRows(rows, pairs), keys
        # A key that no unit counts in is left out: with noise alone it would show that a unit has it.
        counts = np.bincount(pairs.groups, minlength=len(keys)) > 0
        numbers = (np.cumsum(counts) - 1)[pairs.groups] if counts.size else pairs.groups
        return _PairedRows(rows, replace(pairs, groups=numbers)), tuple(compress(keys, counts))


@final
@dataclass(frozen=True)
class _PairedRows:
    table: pl.DataFrame
    pairs: UnitGroupPairs

    def column(self, name: str) -> NDArray[np.int64]:
        return self.table[name].to_numpy()


def _size_and_sums(named: Mapping[str, Aggregate]) -> list[pl.Expr]:
    size = pl.len().cast(pl.Int64).alias("size")
    return [size, pl.col(*named).sum()] if named else [size]


def _unit_numbers(units: pl.Series) -> NDArray[np.uint64]:
    """A different number for each unit. Small numbers leave more bits for groups."""
    if units.dtype == pl.Boolean:
        units = units.cast(pl.Int64)
    if units.dtype == pl.Int64:
        # A subtraction that wraps around is right for every pair of 64-bit numbers.
        signed: NDArray[np.int64] = units.to_numpy()
        least = np.uint64(int(signed.min(initial=np.iinfo(np.int64).max)) % 2**64)
        return np.asarray(signed.view(np.uint64) - least, dtype=np.uint64)
    if units.dtype == pl.String:
        return units.cast(pl.Categorical).to_physical().to_numpy().astype(np.uint64)
    return np.unique(units.to_numpy(), return_inverse=True)[1].astype(np.uint64)


def _sum_by_group(
    groups: NDArray[np.int64], contributions: NDArray[np.int64], count: int
) -> NDArray[np.int64]:
    totals = np.zeros(count, dtype=np.int64)
    np.add.at(totals, groups, contributions)
    return totals
