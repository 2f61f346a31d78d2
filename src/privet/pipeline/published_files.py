"""Tables for an audit of a release: frames as they are, files by their ending; what identifies a table."""

import hashlib
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from privet.arguments import format_value
from privet.errors import InvalidArgument, MissingPackage
from privet.fingerprints import Fingerprint, FingerprintKey, take_fingerprint
from privet.paths import is_file, path_from
from privet.published_tables import PublishedColumn, PublishedTable, ValueKind

__all__ = ["read_published", "table_fingerprint"]

_ENDINGS = (".csv", ".parquet")
_OTHER_SEPARATORS = (";", "\t", "|")


def read_published(name: str, data: object, wanted: Sequence[str] | None = None) -> PublishedTable:
    """The table of a frame, or of a .csv or .parquet file.

    Of a file, only the ``wanted`` columns are read; those that it does not have are refused by their user. In
    text, an empty field is a missing value, and columns that hold numbers or dates only become such.
    """
    if not isinstance(data, str | Path):
        return PublishedTable.of(data)
    path = path_from(name, data)
    if not is_file(path):
        raise InvalidArgument(
            f"'{name}' must be a table or a file that exists, got {format_value(str(data))}. Check the name."
        )
    if path.suffix.lower() not in _ENDINGS:
        raise InvalidArgument(
            f"'{name}' must be a .csv or .parquet file, got {format_value(path.name)}. Save it as one of "
            f"these, and name it by its format."
        )
    if path.stat().st_size == 0:
        raise InvalidArgument(
            f"'{name}' must be a file with a header and rows, and {format_value(path.name)} is empty. Give "
            f"the table that is to be published."
        )
    if find_spec("polars") is None:
        raise MissingPackage(
            "A table in a file needs the package 'polars', which is not installed. Run pip install "
            "'privet[tables]'."
        )
    return _read_file(name, path, wanted)


def table_fingerprint(table: PublishedTable, key: FingerprintKey | None) -> Fingerprint:
    """The fingerprint of the columns and rows of a table, in any order of its rows."""
    content = hashlib.sha256()
    order = np.lexsort([column.codes for column in table.columns])
    for column in table.columns:
        # A table that was cut out of a larger one has categories that no row has.
        used, codes = np.unique(np.append(0, column.codes), return_inverse=True)
        values = column.exact_categories[used[1:] - 1].tolist()
        content.update(f"{column.name}|{column.kind}|{len(values)}\n".encode(errors="surrogatepass"))
        content.update("\n".join(map(str, values)).encode(errors="surrogatepass"))
        content.update(codes[1:][order].astype("<i8").tobytes())
    return take_fingerprint("table", content.digest(), key)


def _read_file(name: str, path: Path, wanted: Sequence[str] | None) -> PublishedTable:
    # Polars is optional: a table in memory does without it.
    import polars as pl

    from privet.releasing.tables.sources import open_file

    source = open_file(path)
    if source.of_text:
        _check_header(name, path, list(source.types), wanted or ())
    names = [each for each in source.types if wanted is None or each in set(wanted)]
    if any(each not in source.types for each in wanted or ()):
        # Whoever asked names the column that is missing, beside those that are there.
        return PublishedTable.of({each: [] for each in source.types})
    try:
        frame = source.scan(names).collect()
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError):
        raise InvalidArgument(
            f"'{name}' must be a readable file in the format that its name says, and {str(path)!r} is not. "
            f"Check the file."
        ) from None
    if source.of_text:
        frame = frame.select(
            pl.when(pl.col(each) != "").then(pl.col(each)).otherwise(None).alias(each) for each in names
        )
    table = PublishedTable.of(frame).recognize()
    if source.of_text and any(_has_replaced(column) for column in table.columns):
        _check_utf8(name, path)
    return table


def _check_header(name: str, path: Path, names: list[str], wanted: Sequence[str]) -> None:
    """Refuse a file whose first line was not written as it was read."""
    if any("\ufffd" in each for each in names):
        _check_utf8(name, path)
    if len(names) > 1 or names[0] in wanted:
        return
    for separator in _OTHER_SEPARATORS:
        if separator in names[0]:
            raise InvalidArgument(
                f"'{name}' must be a file with commas between its columns, and {format_value(path.name)} "
                f"seems to have {format_value(separator)}. Save it with commas."
            )


def _check_utf8(name: str, path: Path) -> None:
    if not _is_utf8(path):
        raise InvalidArgument(
            f"'{name}' must be a text file in UTF-8, and {format_value(path.name)} has other bytes, so that "
            f"different values look the same. Save it as UTF-8."
        )


def _has_replaced(column: PublishedColumn) -> bool:
    """Whether a text has the sign that the reader writes for bytes it does not know."""
    return column.kind is ValueKind.TEXT and any("\ufffd" in text for text in column.categories)


def _is_utf8(path: Path) -> bool:
    try:
        with path.open(encoding="utf-8") as lines:
            while lines.read(1 << 20):
                pass
    except UnicodeDecodeError:
        return False
    return True
