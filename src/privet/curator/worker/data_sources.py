"""Where the rows of a dataset are: files, a PostgreSQL server, or a Spark session, behind one engine each.

A table that is joined has at most one row for each unit. A unit with several rows there counts as one without
a row. So what one unit adds to the joined table depends on its own rows alone, and the join changes no other
unit's.
"""

import hashlib
import hmac
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, final

from privet.curator.questions.metadata import ColumnType, DatasetMetadata, JoinedTable, SparkTable
from privet.errors import InvalidArgument
from privet.releasing import PostgresTable, TableEngine, choose_engine
from privet.releasing.engines.columns import ColumnExpressions
from privet.releasing.engines.polars_engine import PolarsEngine
from privet.releasing.tables.column_kind import ColumnKind
from privet.releasing.tables.sources import TableSource, open_file, pl

__all__ = ["DataSources", "JoinedSource"]

_BLOCK = 1 << 20
_UNIT = "\x00unit"


@final
class JoinedSource(TableSource):
    """The rows of a table with the columns of others, for units that have a row in each of these."""

    def __init__(
        self, main: TableSource, unit: str, others: tuple[tuple[JoinedTable, TableSource], ...]
    ) -> None:
        self._main, self._unit, self._others = main, unit, others
        self._types = dict(main.types)
        for table, source in others:
            described = {column.name for column in table.columns}
            self._types |= {name: kind for name, kind in source.types.items() if name in described}

    @property
    def types(self) -> Mapping[str, pl.DataType]:
        return self._types

    @property
    def of_text(self) -> bool:
        return self._main.of_text

    def scan(self, names: Iterable[str]) -> pl.LazyFrame:
        wanted = list(names)
        frame = _with_unit(self._main, self._unit, [n for n in wanted if n in self._main.types])
        for table, source in self._others:
            columns = [n for n in wanted if n not in self._main.types and n in source.types]
            rows = _with_unit(source, table.unit, columns)
            once = rows.unique(subset=[_UNIT], keep="none")
            frame = frame.join(once, on=_UNIT, how="inner")
        return frame.select(*wanted)

    def row_marks(self) -> pl.LazyFrame:
        return self.scan([self._unit]).select(pl.first().is_null().alias("row"))

    def cancel(self) -> None:
        for source in (self._main, *(source for _, source in self._others)):
            source.cancel()


def _with_unit(source: TableSource, unit: str, columns: list[str]) -> pl.LazyFrame:
    name = ColumnExpressions(source).unit(unit).alias(_UNIT)
    frame = source.scan(dict.fromkeys([unit, *columns]))
    return frame.select(*columns, name).filter(pl.col(_UNIT).is_not_null())


@final
class DataSources:
    """Opens tables for reading. ``spark`` maps the names of Spark tables to frames of the steward's
    session."""

    def __init__(self, salt: bytes, spark: Mapping[str, Any] | None = None) -> None:
        self._salt, self._spark = salt, dict(spark or {})
        self._fingerprints: dict[tuple[object, ...], str] = {}

    def open(self, dataset: DatasetMetadata, joins: tuple[str, ...]) -> TableEngine:
        """The engine of a question."""
        return (
            PolarsEngine(self.open_table(dataset, joins)) if joins else choose_engine(self._address(dataset))
        )

    def open_table(self, dataset: DatasetMetadata, joins: tuple[str, ...]) -> TableSource:
        """The rows of a question about files."""
        if not isinstance(dataset.address, Path):
            raise InvalidArgument("Only files can be read row by row. Export the table.")
        main = open_file(dataset.address)
        if not joins or dataset.unit is None:
            return main
        others = tuple((table, open_file(table.address)) for table in map(dataset.find_table, joins))
        return JoinedSource(main, dataset.unit, others)

    def check(self, dataset: DatasetMetadata) -> None:
        """Refuse a table that does not have the columns of the metadata. The schema is read, and no row."""
        schema = choose_engine(self._address(dataset)).schema
        _check_schema(dataset, dataset.name, dataset.unit, {c.name: c.type for c in dataset.columns}, schema)
        main = None if dataset.unit is None else schema.get(dataset.unit)
        for table in dataset.tables:
            kinds = choose_engine(table.address).schema
            named = {column.name: column.type for column in table.columns}
            _check_schema(dataset, table.name, table.unit, named, kinds)
            for column in named:
                if column in schema:  # the join would read the other one, which may not be public
                    raise InvalidArgument(
                        f"The column {column!r} of {table.name!r} is in the file of {dataset.name!r}, too. "
                        f"Rename one of them in its file."
                    )
            if kinds[table.unit] is not main:
                raise InvalidArgument(
                    f"The units of {dataset.name!r} and {table.name!r} must be of one type to be joined, "
                    f"and are "
                    f"not. Convert one of the files."
                )

    def fingerprint(self, dataset: DatasetMetadata) -> str:
        """What identifies the content: a keyed hash, so that nobody without the worker's key can compare a
        guess of the data with it.

        The content of a server's table is not read: only its name counts.
        """
        digest = hmac.new(self._salt, digestmod=hashlib.sha256)
        for address in (dataset.address, *(table.address for table in dataset.tables)):
            match address:
                case Path():
                    digest.update(self._hash_file(address).encode())
                case PostgresTable():
                    digest.update(f"postgres {address.name}".encode())
                case SparkTable():
                    digest.update(f"spark {address.name}".encode())
        return digest.hexdigest()

    def _address(self, dataset: DatasetMetadata) -> object:
        if not isinstance(dataset.address, SparkTable):
            return dataset.address
        frame = self._spark.get(dataset.address.name)
        if frame is None:
            raise InvalidArgument(
                f"The dataset {dataset.name!r} needs the Spark table {dataset.address.name!r}, and the "
                f"worker was "
                f"given none of this name. Start the worker in a program that has the session."
            )
        return frame

    def _hash_file(self, path: Path) -> str:
        found = path.stat()
        known = (path, found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
        if known not in self._fingerprints:
            digest = hashlib.sha256()
            with path.open("rb") as file:
                while block := file.read(_BLOCK):
                    digest.update(block)
            self._fingerprints[known] = digest.hexdigest()
        return self._fingerprints[known]


def _check_schema(
    dataset: DatasetMetadata,
    table: str,
    unit: str | None,
    columns: Mapping[str, ColumnType],
    schema: Mapping[str, ColumnKind],
) -> None:
    for name in ([] if unit is None else [unit], *([name] for name in columns)):
        for column in name:
            if column not in schema or schema[column] is ColumnKind.NESTED:
                raise InvalidArgument(
                    f"The metadata of {dataset.name!r} name the column {column!r} of {table!r}, and the "
                    f"table has "
                    f"no such column of plain values. Correct the name, or convert the column."
                )
    for column, kind in columns.items():
        if kind.numeric and schema[column] is ColumnKind.OTHER:
            raise InvalidArgument(
                f"The metadata of {dataset.name!r} say that {column!r} holds numbers, and it holds dates or "
                f"times. "
                f"Correct its type."
            )
