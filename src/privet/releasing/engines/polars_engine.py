"""Bounded aggregation of tables in memory: Polars reads, casts and hashes; one sort of words does the rest.

Every step is row by row, or unit by unit, and no step fails because of a value.
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
    Aggregation,
    CellCounts,
    Measure,
    Sums,
    Totals,
    check_rows,
    contributed,
    summed_by_row,
)
from privet.releasing.engines.columns import cell, row_value
from privet.releasing.engines.engine import Engine
from privet.releasing.engines.packing import Pairs, bounded_pairs
from privet.releasing.engines.rows import Keys, RowSource
from privet.releasing.tables.column_kind import ColumnKind
from privet.releasing.tables.sources import Table, pl, table_for, table_in

__all__ = ["PolarsEngine"]


@final
class PolarsEngine(Engine):
    """Over a table that fits into memory."""

    def __init__(self, table: Table) -> None:
        self._source = RowSource(table)

    @staticmethod
    def over(data: Any) -> "PolarsEngine":  # noqa: ANN401 - a frame of any library
        """A Polars or pandas frame, or an Arrow table."""
        return PolarsEngine(table_for(data))

    @staticmethod
    def of_path(path: Path) -> "PolarsEngine":
        """A Parquet or CSV file."""
        return PolarsEngine(table_in(path))

    @property
    def schema(self) -> Mapping[str, ColumnKind]:
        return self._source.schema

    def totals(self, request: Aggregation) -> Totals:
        summed = summed_by_row(request.measures)
        named = {f"value{place}": measure for place, measure in enumerate(summed)}
        values = [row_value(self._source.columns, measure).alias(name) for name, measure in named.items()]
        if request.unit is None:
            return self._of_rows(request, named, values)
        if request.grouping.single:
            return self._of_units(request, named, values)
        rows, keys = self._paired(request, values)
        sizes, most = rows.pairs.sizes, request.contribution.rows
        per_pair: Sums = {measure: rows.pairs.sums(rows.column(name)) for name, measure in named.items()}
        return Totals(
            keys,
            {
                measure: _added(rows.pairs.groups, contributed(measure, per_pair, sizes, most), len(keys))
                for measure in request.measures
            },
        )

    def cells(self, request: CellCounts) -> NDArray[np.int64]:
        place = cell(self._source.columns, request.cells).alias("cell")
        counts = np.zeros((len(request.grouping.keys or ()), request.cells.count), dtype=np.int64)
        if request.unit is None:
            frame, _ = self._source.rows(request, [place], ("cell",), in_memory=True)
            rows = frame.group_by("group", "cell").len().collect(engine="streaming")
            sizes = (
                rows["len"].cast(pl.Int64).to_numpy()
            )  # Polars counts in 32 bits, and a product would wrap
            check_rows(int(sizes.sum()))
            counts[rows["group"].to_numpy(), rows["cell"].to_numpy()] = sizes * WEIGHT
            return counts
        paired, _ = self._paired(request, [place], ("cell",))
        sizes, positions = paired.pairs.sizes, paired.pairs.rows
        weights = np.minimum(sizes, request.contribution.rows) * WEIGHT // np.maximum(sizes, 1)
        if positions is not None:
            where = (np.repeat(paired.pairs.groups, sizes), paired.column("cell")[positions])
            np.add.at(counts, where, np.repeat(weights, sizes))
        return counts

    def cancel(self) -> None:
        self._source.cancel()

    def _of_rows(self, request: Aggregation, named: Mapping[str, Measure], values: list[pl.Expr]) -> Totals:
        """Every row is a unit: there is nothing to bound."""
        frame, keys = self._source.rows(request, values, in_memory=False)
        found = frame.group_by("group").agg(*_sums(named)).collect(engine="streaming")
        groups, ones = found["group"].to_numpy().astype(np.int64), found["size"].to_numpy()
        check_rows(int(ones.sum()))
        sums: Sums = {measure: found[name].to_numpy() for name, measure in named.items()}
        return Totals(
            keys,
            {measure: _added(groups, sums.get(measure, ones), len(keys)) for measure in request.measures},
        )

    def _of_units(self, request: Aggregation, named: Mapping[str, Measure], values: list[pl.Expr]) -> Totals:
        """One group: grouping by the unit is all the bounding there is."""
        frame, keys = self._source.rows(request, values, in_memory=False)
        found = frame.group_by("unit").agg(*_sums(named)).drop("unit").collect(engine="streaming")
        sizes, most = found["size"].to_numpy(), request.contribution.rows
        check_rows(int(sizes.sum()))
        per_unit: Sums = {measure: found[name].to_numpy() for name, measure in named.items()}
        sums = {measure: contributed(measure, per_unit, sizes, most).sum() for measure in request.measures}
        return Totals(keys, {measure: np.array([total], dtype=np.int64) for measure, total in sums.items()})

    def _paired(
        self, request: Aggregation | CellCounts, values: list[pl.Expr], required: tuple[str, ...] = ()
    ) -> tuple["_Paired", Keys]:
        """The rows, sorted into pairs of a unit and a group, of which each unit keeps as many as may count."""
        frame, keys = self._source.rows(request, values, required, in_memory=True)
        rows = frame.collect(engine="streaming")
        check_rows(rows.height)
        pairs = bounded_pairs(
            _unit_numbers(rows["unit"]),
            rows["group"].to_numpy(),
            rows["order"].to_numpy() if "order" in rows.columns else None,
            most=request.contribution.groups,
            keep_rows=bool(values),
        )
        if request.grouping.keys is not None:
            return _Paired(rows, pairs), keys
        # A key of which every unit was left out is no key: it would be a place for noise that shows a unit.
        left = np.bincount(pairs.groups, minlength=len(keys)) > 0
        numbers = (np.cumsum(left) - 1)[pairs.groups] if left.size else pairs.groups
        return _Paired(rows, replace(pairs, groups=numbers)), tuple(compress(keys, left))


@final
@dataclass(frozen=True)
class _Paired:
    table: pl.DataFrame
    pairs: Pairs

    def column(self, name: str) -> NDArray[np.int64]:
        return self.table[name].to_numpy()


def _sums(named: Mapping[str, Measure]) -> list[pl.Expr]:
    size = pl.len().cast(pl.Int64).alias("size")
    return [size, pl.col(*named).sum()] if named else [size]


def _unit_numbers(units: pl.Series) -> NDArray[np.uint64]:
    """A different number for each unit, and the smaller the better."""
    if units.dtype == pl.Boolean:
        units = units.cast(pl.Int64)
    if units.dtype == pl.Int64:
        # Wrapped subtraction is right for every pair of 64-bit numbers.
        signed: NDArray[np.int64] = units.to_numpy()
        least = np.uint64(int(signed.min(initial=np.iinfo(np.int64).max)) % 2**64)
        return np.asarray(signed.view(np.uint64) - least, dtype=np.uint64)
    if units.dtype == pl.String:
        return units.cast(pl.Categorical).to_physical().to_numpy().astype(np.uint64)
    return np.unique(units.to_numpy(), return_inverse=True)[1].astype(np.uint64)


def _added(groups: NDArray[np.int64], contributions: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    totals = np.zeros(count, dtype=np.int64)
    np.add.at(totals, groups, contributions)
    return totals
