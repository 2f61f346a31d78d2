"""Text files (CSV) as records, in one way for all engines: no types, no guesses, and no record that is an
error.

The rules are those of RFC 4180, with an answer for everything that it leaves open:

- A record ends at a line feed, or with the file. A carriage return right before belongs to the end; elsewhere
  it is a character.
- Fields are separated by commas. A field whose first character is a quote ends at the next single quote; two
  quotes in it are one. What stands between that quote and the comma is appended. Any other quote is a
  character.
- A quote that is not closed within 2²⁶ bytes is a character, so that it cannot swallow a whole file.
- An empty line is no record. Fields that a short record lacks are missing; fields beyond the last name are
  dropped.
- Bytes that are no UTF-8 become U+FFFD. A byte-order mark at the beginning is dropped.

Polars splits records that follow RFC 4180 to the letter (``text_structure`` finds them), because it has
nothing to interpret there. The code here splits all other records. Tests compare the two.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import polars as pl

from privet.errors import InvalidArgument
from privet.releasing.tables.text_structure import TextStructure, remove_empty_lines

__all__ = ["read_field_names", "read_text_batches"]

_BLOCK = 1 << 23  # bytes that are read at once, few enough for a cache
_FIRST_BLOCK = 1 << 14  # enough for a header: opening a table must not take longer where it has more rows
_LAST_LINE = 1 << 16  # bytes at the end of a block in which its last line feed is sought
_LONGEST_QUOTED = 1 << 26
_INTERPRETED = 64  # records that are split here after an odd one, before Polars is tried again
_MARK = b"\xef\xbb\xbf"
_UNQUOTED = re.compile(rb"[^,\n]*")

_Record = list[bytes]
_Piece = bytes | list[_Record]


def read_field_names(path: Path) -> list[str]:
    """The first record, which names the columns and is public; a column without a name cannot be asked
    for."""
    with path.open("rb") as file:
        first = _first_record(_pieces(file, _BLOCK))
    names = [field.decode("utf-8", "replace") for field in first]
    known = [name for name in names if name]
    if not known or len(set(known)) < len(known) or any("\r" in name for name in names):
        raise InvalidArgument(
            "'data' must be a file whose first line names its columns, each differently, and whose lines "
            "end with a line feed, and is not. Add a header, or write the file again."
        )
    return names


def read_text_batches(
    path: Path, names: list[str], wanted: list[str], *, block: int = _BLOCK
) -> Iterator[pl.DataFrame]:
    """The wanted columns of all records after the first, as text, block by block."""
    positions = {name: names.index(name) for name in wanted}
    with path.open("rb") as file:
        for piece in _without_header(_pieces(file, block)):
            if isinstance(piece, bytes):
                yield _split_by_polars(piece, len(names), positions)
                continue
            columns = {
                name: [_field(record, position) for record in piece] for name, position in positions.items()
            }
            yield pl.DataFrame(columns, schema=dict.fromkeys(wanted, pl.String()))


def _field(record: _Record, position: int) -> str | None:
    return record[position].decode("utf-8", "replace") if position < len(record) else None


def _split_by_polars(lines: bytes, width: int, positions: dict[str, int]) -> pl.DataFrame:
    """Columns of lines that follow RFC 4180."""
    lines = remove_empty_lines(lines)
    if not lines:
        return pl.DataFrame(schema=dict.fromkeys(positions, pl.String()))
    names = [f"column_{position + 1}" for position in range(width)]
    # Polars takes the number of columns from the first line: one that has another number gets a header before
    # it.
    first = lines[: lines.find(b"\n") % len(lines) + 1]
    regular = b'"' not in first and first.count(b",") == width - 1
    frame = pl.read_csv(
        lines if regular else ",".join(names).encode() + b"\n" + lines,
        has_header=not regular,
        schema=dict.fromkeys(names, pl.String()),
        columns=sorted(set(positions.values())),  # the others are not even copied
        quote_char='"' if b'"' in lines else None,
        encoding="utf8" if lines.isascii() else "utf8-lossy",
        truncate_ragged_lines=True,
    )
    return frame.select(pl.col(names[position]).alias(name) for name, position in positions.items())


def _first_record(pieces: Iterator[_Piece]) -> _Record:
    for piece in pieces:
        records = piece if isinstance(piece, list) else _split(piece, 0, last=True, most=1)[0]
        if records:
            return records[0]
    return []


def _without_header(pieces: Iterator[_Piece]) -> Iterator[_Piece]:
    for piece in pieces:
        if isinstance(piece, list):
            yield piece[1:]
            break
        records, end = _split(piece, 0, last=True, most=1)
        if records:
            yield piece[end:]
            break
    yield from pieces


def _pieces(file: IO[bytes], block: int) -> Iterator[_Piece]:
    """Whole records: as bytes where they follow RFC 4180 to the letter, and split where they do not."""
    rest, taken = b"", file.read(max(min(block, _FIRST_BLOCK), len(_MARK) + 1)).removeprefix(_MARK)
    while True:
        data, last = rest + taken, not taken
        structure = TextStructure(data)
        start = 0
        while start < len(data):
            # A quoted field that is longer than allowed is possible only in more data than that.
            quotes = len(data) - start <= _LONGEST_QUOTED
            end = structure.clear_end(start, quotes=quotes, last=last)
            if end > start:
                yield data[start:end]
                start = end
                continue
            records, end = _split(data, start, last=last, most=_INTERPRETED)
            if end == start:
                break
            yield records
            start = end
        if last:
            return
        rest = data[start:]
        # At least as much again as is left, so that a long field is searched from its beginning only a few
        # times.
        taken = _read_lines(file, max(block, len(rest)))


def _read_lines(file: IO[bytes], size: int) -> bytes:
    """At most ``size`` bytes, up to a line feed near their end where there is one, so that no line is copied
    to the next block."""
    start = file.tell()
    file.seek(start + max(size - _LAST_LINE, 0))
    end = file.read(min(size, _LAST_LINE)).rfind(b"\n")
    file.seek(start)
    return file.read(size if end < 0 else max(size - _LAST_LINE, 0) + end + 1)


def _split(data: bytes, start: int, *, last: bool, most: int | None = None) -> tuple[list[_Record], int]:
    """At most ``most`` complete records from ``start`` on, and where the next one begins."""
    records: list[_Record] = []
    at = start
    while at < len(data) and (most is None or len(records) < most):
        end = data.find(b"\n", at)
        if end < 0:
            if not last:
                break
            end = len(data)
        line = data[at:end]
        if b'"' not in line:
            plain = line.removesuffix(b"\r")
            if plain:
                records.append(plain.split(b","))
            at = end + 1
            continue
        split = _split_quoted(data, at, last=last)
        if split is None:
            break
        record, at = split
        records.append(record)
    return records, min(at, len(data))


def _split_quoted(data: bytes, at: int, *, last: bool) -> tuple[_Record, int] | None:
    """One record, field by field, and where the next one begins. None: it may go on beyond the data."""
    fields = []
    while True:
        inside = b""
        if data[at : at + 1] == b'"':
            end = _closing_quote(data, at + 1)
            if end is None and not last and len(data) - at <= _LONGEST_QUOTED:
                return None
            if end is not None:
                inside, at = data[at + 1 : end].replace(b'""', b'"'), end + 1
        match = _UNQUOTED.match(data, at)
        end = at if match is None else match.end()
        if end >= len(data) and not last:
            return None
        after, more_fields = data[at:end], data[end : end + 1] == b","
        fields.append(inside + (after if more_fields else after.removesuffix(b"\r")))
        at = end + 1
        if not more_fields:
            return fields, at


def _closing_quote(data: bytes, start: int) -> int | None:
    """The position of the quote that ends a field."""
    at, furthest = start, start + _LONGEST_QUOTED
    while (quote := data.find(b'"', at, furthest)) >= 0:
        if data[quote + 1 : quote + 2] != b'"':
            return quote
        at = quote + 2
    return None
