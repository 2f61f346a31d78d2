"""Text files (CSV) as records, in one way for all engines: no types, no guesses, and no record that is an error.

The rules are those of RFC 4180, with an answer for everything that it leaves open:

- A record ends at a line feed, or with the file. A carriage return right before belongs to the end; elsewhere it is a
  character.
- Fields are separated by commas. A field whose first character is a quote ends at the next single quote; two quotes in
  it are one. What stands between that quote and the comma is appended. Any other quote is a character.
- A quote that is not closed within 2²⁶ bytes is a character, so that it cannot swallow a whole file.
- An empty line is no record. Fields that a short record lacks are missing; those beyond the last name are dropped.
- Bytes that are no UTF-8 become U+FFFD. A byte-order mark at the beginning is dropped.

Records that are written by the letter of RFC 4180 are split by Polars, which then has nothing to interpret; others here.
Tests compare the two.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import polars as pl

from privet.errors import InvalidArgument

__all__ = ["field_names", "text_batches"]

_BLOCK = 1 << 24  # bytes that are read at once
_HEADER_BLOCK = (
    1 << 14
)  # no more than a header needs: opening a table must not take longer where it has more rows
_LONGEST_QUOTED = 1 << 26
_FEW = 64  # records after one that is not by the letter, before the others are tried again
_MARK = b"\xef\xbb\xbf"
_EMPTY_LINES = re.compile(rb"^\r?\n", re.MULTILINE)
# Records by the letter of RFC 4180; nothing is tried twice, so that the time is linear.
_FIELD = rb'(?:"[^"]*+(?:""[^"]*+)*+"|[^",\r\n]*+)'
_BY_THE_LETTER = re.compile(rb"(?:" + _FIELD + rb"(?:," + _FIELD + rb")*+\r?\n)*+")
_PLAIN = re.compile(rb"[^,\n]*")

_Record = list[bytes]


def field_names(path: Path) -> list[str]:
    """The first record, which names the columns and is public; one without a name cannot be asked for."""
    with path.open("rb") as file:
        first = _first_record(_pieces(file, _HEADER_BLOCK))
    names = [field.decode("utf-8", "replace") for field in first]
    known = [name for name in names if name]
    if not known or len(set(known)) < len(known) or any("\r" in name for name in names):
        raise InvalidArgument(
            "'data' must be a file whose first line names its columns, each differently, and whose lines end with a line "
            "feed, and is not. Add a header, or write the file again."
        )
    return names


def text_batches(
    path: Path, names: list[str], wanted: list[str], *, block: int = _BLOCK
) -> Iterator[pl.DataFrame]:
    """The wanted columns of all records after the first, as text, block by block."""
    places = {name: names.index(name) for name in wanted}
    with path.open("rb") as file:
        for piece in _without_header(_pieces(file, block)):
            if isinstance(piece, bytes) and _is_clear(piece):
                frame = _split(piece, len(names))
                yield frame.select(pl.col(f"c{place}").alias(name) for name, place in places.items())
                continue
            records = _tokens(piece, 0, last=True)[0] if isinstance(piece, bytes) else piece
            columns = {name: [_field(record, place) for record in records] for name, place in places.items()}
            yield pl.DataFrame(columns, schema=dict.fromkeys(wanted, pl.String()))


def _field(record: _Record, place: int) -> str | None:
    return record[place].decode("utf-8", "replace") if place < len(record) else None


def _is_clear(piece: bytes) -> bool:
    """Whether lines leave nothing to interpret. Those with quotes are by the letter, and may still have empty lines."""
    if b'"' in piece:
        return not _has_empty_lines(piece)
    return piece.count(b"\r") == piece.count(b"\r\n")


def _has_empty_lines(lines: bytes) -> bool:
    return lines.startswith((b"\n", b"\r\n")) or b"\n\n" in lines or b"\n\r\n" in lines


def _split(lines: bytes, width: int) -> pl.DataFrame:
    """Clear lines. A header of our own says how many columns there are, whatever the first line has."""
    header = ",".join(f"c{place}" for place in range(width)).encode()
    quoted = b'"' in lines
    if not quoted:
        lines = (lines if lines.endswith(b"\n") else lines + b"\n").replace(b"\r\n", b"\n")
        lines = _EMPTY_LINES.sub(b"", lines) if _has_empty_lines(lines) else lines
    return pl.read_csv(
        header + b"\n" + lines,
        quote_char='"' if quoted else None,
        infer_schema=False,
        encoding="utf8-lossy",
        truncate_ragged_lines=True,
    )


def _first_record(pieces: Iterator[bytes | list[_Record]]) -> _Record:
    for piece in pieces:
        records = piece if isinstance(piece, list) else _tokens(piece, 0, last=True, most=1)[0]
        if records:
            return records[0]
    return []


def _without_header(pieces: Iterator[bytes | list[_Record]]) -> Iterator[bytes | list[_Record]]:
    for piece in pieces:
        if isinstance(piece, list):
            yield piece[1:]
            break
        lines = _EMPTY_LINES.sub(b"", piece)
        if lines.strip(b"\r"):
            yield lines.partition(b"\n")[2]
            break
    yield from pieces


def _pieces(file: IO[bytes], block: int) -> Iterator[bytes | list[_Record]]:
    """Whole records as they stand, where they have no quotes or are by the letter; others one by one."""
    rest, taken = b"", file.read(max(block, len(_MARK) + 1)).removeprefix(_MARK)
    while True:
        data, last = rest + taken, not taken
        at = 0
        while at < len(data):
            end = _clear_end(data, at, last=last)
            if end > at:
                yield data[at:end]
                at = end
                continue
            records, end = _tokens(data, at, last=last, most=_FEW)
            if end == at:
                break
            yield records
            at = end
        if last:
            return
        rest = data[at:]
        # As much again as is left: a long field is not searched from its beginning again and again.
        taken = file.read(max(block, len(rest)))


def _clear_end(data: bytes, at: int, *, last: bool) -> int:
    """Up to where records can be split without interpreting them."""
    quote = data.find(b'"', at)
    if quote < 0:
        return len(data) if last else data.rfind(b"\n", at) + 1
    before = data.rfind(b"\n", at, quote) + 1
    if before > at or len(data) - at > _LONGEST_QUOTED:  # a quoted field might be longer than is allowed
        return before
    match = _BY_THE_LETTER.match(data, at)
    return at if match is None else match.end()


def _tokens(data: bytes, start: int, *, last: bool, most: int | None = None) -> tuple[list[_Record], int]:
    """The records from there on that are complete, at most so many, and where the next one begins."""
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
        found = _quoted(data, at, last=last)
        if found is None:
            break
        record, at = found
        records.append(record)
    return records, min(at, len(data))


def _quoted(data: bytes, at: int, *, last: bool) -> tuple[_Record, int] | None:
    """One record, field by field, and where it ends; None where it may go on beyond the data."""
    fields = []
    while True:
        inside = b""
        if data[at : at + 1] == b'"':
            end = _closing(data, at + 1)
            if end is None and not last and len(data) - at <= _LONGEST_QUOTED:
                return None
            if end is not None:
                inside, at = data[at + 1 : end].replace(b'""', b'"'), end + 1
        match = _PLAIN.match(data, at)
        end = at if match is None else match.end()
        if end >= len(data) and not last:
            return None
        after, goes_on = data[at:end], data[end : end + 1] == b","
        fields.append(inside + (after if goes_on else after.removesuffix(b"\r")))
        at = end + 1
        if not goes_on:
            return fields, at


def _closing(data: bytes, start: int) -> int | None:
    """Where the quote is that ends a field."""
    at, furthest = start, start + _LONGEST_QUOTED
    while (place := data.find(b'"', at, furthest)) >= 0:
        if data[place + 1 : place + 2] != b'"':
            return place
        at = place + 2
    return None
