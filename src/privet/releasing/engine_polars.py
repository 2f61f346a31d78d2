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

from privet.errors import InvalidArgument
from privet.releasing.aggregates import (
    WEIGHT,
    Aggregation,
    CellCounts,
    Grouping,
    Measure,
    Sums,
    Totals,
    check_rows,
    contributed,
    summed_by_row,
)
from privet.releasing.columns_polars import (
    Columns,
    FrameTable,
    PandasTable,
    Table,
    cell,
    kind_of,
    pl,
    row_value,
)
from privet.releasing.engine import ColumnKind, Engine
from privet.releasing.packing import Pairs, bounded_pairs
from privet.releasing.statistics import Category

__all__ = ["PolarsEngine"]

_Keys = tuple[tuple[Category, ...], ...]


@final
class PolarsEngine(Engine):
    """Over a frame, lazy or not. ``empty_is_missing``: text without letters is no value, as in a CSV file."""

    def __init__(self, table: Table, *, empty_is_missing: bool = False) -> None:
        self._table = table
        self._columns = Columns(table.types, empty_is_missing=empty_is_missing)

    @staticmethod
    def over(data: Any) -> "PolarsEngine":  # noqa: ANN401 - a frame of any library
        """A Polars or pandas frame, or an Arrow table."""
        module, name = type(data).__module__.partition(".")[0], type(data).__name__
        if isinstance(data, (pl.DataFrame, pl.LazyFrame)):
            return PolarsEngine(FrameTable(data.lazy()))
        if module == "pandas" and name == "DataFrame":
            return PolarsEngine(PandasTable(data))
        if module == "pyarrow" and name in ("Table", "RecordBatch"):
            try:
                return PolarsEngine(FrameTable(pl.DataFrame(data).lazy()))
            except pl.exceptions.PolarsError:
                name = "Table with two columns of one name, or of a type that Polars does not know"
        raise InvalidArgument(
            f"'data' must be a table, got a value of type {name}. Make it a frame with named columns."
        )

    @staticmethod
    def of_path(path: Path) -> "PolarsEngine":
        """A Parquet file, or a CSV file, which is read as text because guessing types would look at the rows."""
        try:
            if path.suffix.lower() == ".parquet":
                return PolarsEngine(FrameTable(pl.scan_parquet(path)))
            frame = pl.scan_csv(
                path,
                infer_schema=False,
                encoding="utf8-lossy",
                ignore_errors=True,
                truncate_ragged_lines=True,
            )
            return PolarsEngine(FrameTable(frame), empty_is_missing=True)
        except (pl.exceptions.PolarsError, OSError):
            raise InvalidArgument(
                f"'data' must be a readable file in the format that its name says, and {str(path)!r} is not. "
                f"Check the file."
            ) from None

    @property
    def schema(self) -> Mapping[str, ColumnKind]:
        return {name: kind_of(kind) for name, kind in self._table.types.items()}

    def totals(self, request: Aggregation) -> Totals:
        summed = summed_by_row(request.measures)
        named = {f"value{place}": measure for place, measure in enumerate(summed)}
        values = [row_value(self._columns, measure).alias(name) for name, measure in named.items()]
        used = [measure.column for measure in summed]
        if request.unit is None:
            return self._of_rows(request, named, values, used)
        if request.grouping.single:
            return self._of_units(request, named, values, used)
        rows, keys = self._paired(request, values, used)
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
        keys = request.grouping.keys or ()
        place = cell(self._columns, request.cells).alias("cell")
        counts = np.zeros((len(keys), request.cells.count), dtype=np.int64)
        most, used = request.contribution.rows, [request.cells.column]
        if request.unit is None:
            frame = self._selected(None, request.grouping, [place], used, required=("cell",))
            found = _numbered(frame, self._listed(request.grouping)).group_by("group", "cell").len()
            rows = found.collect(engine="streaming")
            sizes = (
                rows["len"].cast(pl.Int64).to_numpy()
            )  # Polars counts in 32 bits, and a product would wrap
            check_rows(int(sizes.sum()))
            counts[rows["group"].to_numpy(), rows["cell"].to_numpy()] = sizes * WEIGHT
            return counts
        paired, _ = self._paired(request, [place], used, required=("cell",))
        sizes, positions = paired.pairs.sizes, paired.pairs.rows
        weights = np.minimum(sizes, most) * WEIGHT // np.maximum(sizes, 1)
        if positions is not None:
            where = (np.repeat(paired.pairs.groups, sizes), paired.column("cell")[positions])
            np.add.at(counts, where, np.repeat(weights, sizes))
        return counts

    def _of_rows(
        self, request: Aggregation, named: Mapping[str, Measure], values: list[pl.Expr], used: list[str]
    ) -> Totals:
        """Every row is a unit: there is nothing to bound."""
        frame = self._selected(None, request.grouping, values, used)
        listed = self._listed(request.grouping)
        if listed is None:
            listed = _found(frame, len(request.grouping.columns))
        found = (
            _numbered(frame, listed)
            .group_by("group")
            .agg(
                pl.len().cast(pl.Int64).alias("size"), pl.col(*named).sum() if named else pl.len().alias("_")
            )
            .collect(engine="streaming")
        )
        groups, ones = found["group"].to_numpy().astype(np.int64), found["size"].to_numpy()
        check_rows(int(ones.sum()))
        sums: Sums = {measure: found[name].to_numpy() for name, measure in named.items()}
        keys = request.grouping.keys or _keys(listed)
        return Totals(
            keys,
            {measure: _added(groups, sums.get(measure, ones), len(keys)) for measure in request.measures},
        )

    def _of_units(
        self, request: Aggregation, named: Mapping[str, Measure], values: list[pl.Expr], used: list[str]
    ) -> Totals:
        """One group: grouping by the unit is all the bounding there is."""
        found = (
            self._selected(request.unit, request.grouping, values, used)
            .group_by("unit")
            .agg(
                pl.len().cast(pl.Int64).alias("size"), pl.col(*named).sum() if named else pl.len().alias("_")
            )
            .drop("unit")
            .collect(engine="streaming")
        )
        sizes, most = found["size"].to_numpy(), request.contribution.rows
        check_rows(int(sizes.sum()))
        per_unit: Sums = {measure: found[name].to_numpy() for name, measure in named.items()}
        sums = {measure: contributed(measure, per_unit, sizes, most).sum() for measure in request.measures}
        return Totals(((),), {measure: np.array([total], dtype=np.int64) for measure, total in sums.items()})

    def _paired(
        self,
        request: Aggregation | CellCounts,
        values: list[pl.Expr],
        used: list[str],
        required: tuple[str, ...] = (),
    ) -> tuple["_Paired", _Keys]:
        """The rows, sorted into pairs of a unit and a group, of which each unit keeps as many as may count."""
        grouping = request.grouping
        bounding = grouping.bounding(request.contribution)
        frame = self._selected(request.unit, grouping, values, used, required)
        if bounding:
            frame = frame.with_columns(
                pl.struct("unit", *_names(grouping)).hash(seed=request.salt).alias("order")
            )
        listed = self._listed(grouping)
        if listed is None:
            frame = frame.collect(engine="streaming").lazy()
            listed = _found(frame, len(grouping.columns))
        rows = _numbered(frame, listed).drop(_names(grouping)).collect(engine="streaming")
        check_rows(rows.height)
        pairs = bounded_pairs(
            _unit_numbers(rows["unit"]),
            rows["group"].to_numpy(),
            rows["order"].to_numpy() if bounding else None,
            most=request.contribution.groups,
            keep_rows=bool(values),
        )
        if grouping.keys is not None:
            return _Paired(rows, pairs), grouping.keys
        # A key of which every unit was left out is no key: it would be a place for noise that shows a unit.
        names = _keys(listed)
        left = np.bincount(pairs.groups, minlength=len(names)) > 0
        numbers = (np.cumsum(left) - 1)[pairs.groups] if left.size else pairs.groups
        return _Paired(rows, replace(pairs, groups=numbers)), tuple(compress(names, left))

    def _selected(
        self,
        unit: str | None,
        grouping: Grouping,
        values: list[pl.Expr],
        used: list[str],
        required: tuple[str, ...] = (),
    ) -> pl.LazyFrame:
        """Unit, keys and values of the rows that have a unit, all keys, and what else is required."""
        asked = [column.column for column in grouping.columns] + used + ([unit] if unit is not None else [])
        frame = self._table.scan(dict.fromkeys(asked) or list(self._table.types)[:1])
        kept = [
            self._columns.key(column).alias(name)
            for name, column in zip(_names(grouping), grouping.columns, strict=True)
        ]
        if unit is not None:
            kept.append(self._columns.unit(unit).alias("unit"))
        needed = [*_names(grouping), *(["unit"] if unit is not None else []), *required]
        chosen = [*kept, *values] or [pl.all()]
        frame = frame.select(*chosen)
        return frame.filter(pl.all_horizontal(pl.col(*needed).is_not_null())) if needed else frame

    def _listed(self, grouping: Grouping) -> pl.LazyFrame | None:
        """The public keys as a table; the place of a key in the list is its number."""
        if grouping.keys is None:
            return None
        columns = [
            pl.Series(name, [key[place] for key in grouping.keys], self._columns.key_type(column))
            for place, (name, column) in enumerate(zip(_names(grouping), grouping.columns, strict=True))
        ]
        return _with_numbers(pl.DataFrame(columns).lazy())


@final
@dataclass(frozen=True)
class _Paired:
    table: pl.DataFrame
    pairs: Pairs

    def column(self, name: str) -> NDArray[np.int64]:
        return self.table[name].to_numpy()


def _names(grouping: Grouping) -> list[str]:
    return [f"key{place}" for place in range(len(grouping.columns))]


def _with_numbers(keys: pl.LazyFrame) -> pl.LazyFrame:
    return keys.with_row_index("group")


def _found(frame: pl.LazyFrame, width: int) -> pl.LazyFrame:
    """The keys of the table, sorted, so that their numbers keep an order that no row can change."""
    names = [f"key{place}" for place in range(width)]
    keys = frame.select(*names).unique().collect(engine="streaming").sort(names)
    return _with_numbers(keys.lazy())


def _numbered(frame: pl.LazyFrame, keys: pl.LazyFrame | None) -> pl.LazyFrame:
    """The rows of the listed groups, with the group's number."""
    names = [] if keys is None else [name for name in keys.collect_schema().names() if name != "group"]
    if keys is None or not names:
        return frame.with_columns(pl.lit(0, dtype=pl.UInt32).alias("group"))
    return frame.join(keys, on=names, how="inner")


def _keys(listed: pl.LazyFrame) -> _Keys:
    return tuple(listed.drop("group").collect().rows())


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
