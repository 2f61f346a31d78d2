"""Where rows come from. A table knows the types of its columns before it reads a row.

A pandas column without a type of its own (``object``, categories) is *mixed*: it is read value by value
(``values``), as the parts that a request needs. Each part is a column with its own name.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from threading import Event
from typing import Any, final

from privet.errors import InvalidArgument, MissingPackage
from privet.releasing.tables.values import ValuePart, read_part

try:
    import polars as pl
    from polars.io.plugins import register_io_source
except ImportError as missing:
    raise MissingPackage(
        "Tables need the package 'polars', and it is not installed. Run: pip install 'privet[tables]'."
    ) from missing

from privet.releasing.tables.text_files import read_field_names, read_text_batches

__all__ = [
    "ArrowSource",
    "FrameSource",
    "PandasSource",
    "TableSource",
    "TextFileSource",
    "open_data",
    "open_file",
    "part_name",
    "part_type",
    "pl",
]

_PART_TYPES = {
    ValuePart.NUMBER: pl.Float64(),
    ValuePart.WHOLE: pl.Int64(),
    ValuePart.TEXT: pl.String(),
    ValuePart.WRITTEN: pl.String(),
    ValuePart.NAME: pl.String(),
}


def part_name(column: str, part: ValuePart) -> str:
    """The name of the column that holds a part of a mixed column."""
    return f"{column}\x00{part}"


def part_type(part: ValuePart) -> pl.DataType:
    """The type of that column."""
    return _PART_TYPES[part]


class TableSource(ABC):
    """A table whose columns are read when they are needed."""

    @property
    @abstractmethod
    def types(self) -> Mapping[str, pl.DataType]:
        """The schema. It is public, and no row is read for it."""

    @property
    def mixed(self) -> frozenset[str]:
        """Columns without a type of their own. Only their parts can be scanned."""
        return frozenset()

    @property
    def of_text(self) -> bool:
        """Whether it is a text file: an empty field is a missing value, and U+FFFD replaces what is no
        UTF-8."""
        return False

    @abstractmethod
    def scan(self, names: Iterable[str]) -> pl.LazyFrame:
        """These columns, or parts of mixed ones."""

    def row_marks(self) -> pl.LazyFrame:
        """A column ``row`` that is as long as the table, for requests that need no other column."""
        name = next(iter(self.types), None)
        # With a fixed name, because an engine may not accept every name of the table.
        return pl.LazyFrame() if name is None else self.scan([name]).select(pl.first().is_null().alias("row"))

    def cancel(self) -> None:  # noqa: B027 - a table in memory has nothing to stop
        """Let the scans that run now fail at their next batch of rows."""


@final
class FrameSource(TableSource):
    """A Polars frame, lazy or not; a Parquet file is one too."""

    def __init__(self, frame: pl.LazyFrame) -> None:
        self._frame = frame
        self._types = dict(frame.collect_schema())

    @property
    def types(self) -> Mapping[str, pl.DataType]:
        return self._types

    def scan(self, names: Iterable[str]) -> pl.LazyFrame:
        return self._frame.select(*names)


@final
class ArrowSource(TableSource):
    """An Arrow table. Its rows are converted when they are read, which is after they are paid for."""

    def __init__(self, table: Any) -> None:  # noqa: ANN401 - pyarrow is not imported here
        names = list(table.schema.names)
        _check_names(names)
        self._table = table
        self._types: dict[str, pl.DataType] = {}
        for name in names:
            try:
                self._types[name] = pl.DataFrame(table.slice(0, 0).select([name])).schema[name]
            except Exception:  # any error of Polars or Arrow about a type that only one of them has
                self._types[name] = pl.Object()

    @property
    def types(self) -> Mapping[str, pl.DataType]:
        return self._types

    def scan(self, names: Iterable[str]) -> pl.LazyFrame:
        return pl.DataFrame(self._table.select(list(names))).lazy()

    def row_marks(self) -> pl.LazyFrame:
        return _row_marks(self._table.num_rows)


@final
class TextFileSource(TableSource):
    """A CSV file. All columns are text, because guessing types would look at the rows."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._names = read_field_names(path)
        self._cancelled = Event()

    @property
    def types(self) -> Mapping[str, pl.DataType]:
        return {name: pl.String() for name in self._names if name}

    @property
    def of_text(self) -> bool:
        return True

    def scan(self, names: Iterable[str]) -> pl.LazyFrame:
        wanted, cancelled = list(names), self._cancelled

        def read_batches(
            columns: list[str] | None, predicate: pl.Expr | None, _rows: int | None, _size: int | None
        ) -> Iterator[pl.DataFrame]:
            for batch in read_text_batches(self._path, self._names, wanted if columns is None else columns):
                if cancelled.is_set():
                    raise RuntimeError("the scan was cancelled")
                yield batch if predicate is None else batch.filter(predicate)

        return register_io_source(read_batches, schema=dict.fromkeys(wanted, pl.String()))

    def cancel(self) -> None:
        self._cancelled.set()
        self._cancelled = Event()


@final
class PandasSource(TableSource):
    """A pandas frame."""

    def __init__(self, frame: Any) -> None:  # noqa: ANN401 - pandas is not imported here
        names = [name for name in frame.columns if isinstance(name, str)]
        _check_names(names)
        if any("\x00" in name for name in names):  # ``part_name`` needs this character
            raise InvalidArgument(
                "'data' must have columns whose names have no character of code 0, and one has. Rename it."
            )
        self._frame = frame
        self._mixed = frozenset(name for name in names if _is_mixed(frame[name].dtype))
        self._types = {name: self._type(name) for name in names}

    @property
    def types(self) -> Mapping[str, pl.DataType]:
        return self._types

    @property
    def mixed(self) -> frozenset[str]:
        return self._mixed

    def scan(self, names: Iterable[str]) -> pl.LazyFrame:
        plain, parts = [], []
        for name in names:
            column, _, part = name.rpartition("\x00")
            if column in self._mixed and name not in self._types:
                values = _read_parts(self._frame[column], ValuePart(part))
                parts.append(pl.Series(name, values, _PART_TYPES[ValuePart(part)]))
            else:
                plain.append(name)
        frame = self._convert(plain, None)
        if not parts:
            return frame.lazy()
        return (frame.with_columns(parts) if plain else pl.DataFrame(parts)).lazy()

    def row_marks(self) -> pl.LazyFrame:
        return _row_marks(len(self._frame))

    def _type(self, name: str) -> pl.DataType:
        """The type as which a column is read. It looks at no row, and is Object if Polars has no such
        type."""
        if name in self._mixed:
            return pl.String()
        try:
            return self._convert([name], 0).schema[name]
        except Exception:  # any error of pandas or Arrow about a type that they cannot convert
            return pl.Object()

    def _convert(self, names: list[str], rows: int | None) -> pl.DataFrame:
        if not names:
            return pl.DataFrame()
        frame = self._frame[names]
        converted: pl.DataFrame = pl.from_pandas(
            frame if rows is None else frame.iloc[:rows], include_index=False
        )
        return converted


def open_data(data: Any) -> TableSource:  # noqa: ANN401 - a frame of any library
    """The table that a Polars or pandas frame, or an Arrow table, is."""
    module, name = type(data).__module__.partition(".")[0], type(data).__name__
    if isinstance(data, (pl.DataFrame, pl.LazyFrame)):
        try:
            return FrameSource(data.lazy())
        except pl.exceptions.PolarsError:
            raise InvalidArgument(
                "'data' must be a frame whose columns are known, and Polars cannot resolve this plan. "
                "Collect it first."
            ) from None
    if module == "pandas" and name == "DataFrame":
        return PandasSource(data)
    if module == "pyarrow" and name in ("Table", "RecordBatch"):
        return ArrowSource(data)
    raise InvalidArgument(
        f"'data' must be a table, got a value of type {name}. Make it a frame with named columns."
    )


def open_file(path: Path) -> TableSource:
    """The table in a Parquet or CSV file."""
    try:
        if path.suffix.lower() == ".parquet":
            return FrameSource(pl.scan_parquet(path, glob=False))
        return TextFileSource(path)
    except InvalidArgument:
        raise  # it says what is wrong with the first line
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, ValueError):
        raise InvalidArgument(
            f"'data' must be a readable file in the format that its name says, and {str(path)!r} is not. "
            f"Check the file."
        ) from None


def _row_marks(rows: int) -> pl.LazyFrame:
    return pl.LazyFrame().select(pl.repeat(False, rows, dtype=pl.Boolean).alias("row"))


def _check_names(names: list[str]) -> None:
    if len(set(names)) < len(names):
        raise InvalidArgument(
            "'data' must have different names for all columns, and two columns have one name. Rename them."
        )


def _is_mixed(dtype: Any) -> bool:  # noqa: ANN401 - a type of pandas
    """Whether the column can have values of several types, or text that is no Unicode."""
    return str(dtype) in ("object", "category") or getattr(dtype, "storage", None) == "python"


def _read_parts(series: Any, part: ValuePart) -> list[Any]:  # noqa: ANN401 - a column of pandas
    if str(series.dtype) != "category":
        return [read_part(part, value) for value in series]
    parts = [read_part(part, value) for value in series.cat.categories]
    return [parts[code] if code >= 0 else None for code in series.cat.codes.tolist()]
