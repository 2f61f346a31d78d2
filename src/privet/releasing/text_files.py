"""Text files (CSV) as records, in one way for all engines: no types, no guesses, and no record that is an error.

The rules are those of RFC 4180, with an answer for everything that it leaves open:

- A record ends at a line feed, or with the file. A carriage return right before belongs to the end; elsewhere it is a
  character.
- Fields are separated by commas. A field whose first character is a quote ends at the next single quote; two quotes in
  it are one. What stands between that quote and the comma is appended. Any other quote is a character.
- A quote that is not closed within 2²⁶ bytes is a character, so that it cannot swallow a whole file.
- An empty line is no record. Fields that a short record lacks are missing; those beyond the last name are dropped.
- Bytes that are no UTF-8 become U+FFFD. A byte-order mark at the beginning is dropped.

Lines without quotes and lone carriage returns are split by Polars, which then has nothing to interpret; others here.
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
_LONGEST_QUOTED = 1 << 26
_MARK = b"\xef\xbb\xbf"
_EMPTY_LINES = re.compile(rb"^\r?\n", re.MULTILINE)
_PLAIN = re.compile(rb"[^,\n]*")

_Record = list[bytes]


def field_names(path: Path) -> list[str]:
    """The first record, which names the columns and is public; one without a name cannot be asked for."""
    with path.open("rb") as file:
        first = next(_records(file, _BLOCK), [])
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
            if isinstance(piece, bytes) and piece.count(b"\r") == piece.count(b"\r\n"):
                frame = _split(piece, len(names))
                yield frame.select(pl.col(f"c{place}").alias(name) for name, place in places.items())
                continue
            records = _tokens(piece, 0, last=True)[0] if isinstance(piece, bytes) else piece
            columns = {name: [_field(record, place) for record in records] for name, place in places.items()}
            yield pl.DataFrame(columns, schema=dict.fromkeys(wanted, pl.String()))


def _field(record: _Record, place: int) -> str | None:
    return record[place].decode("utf-8", "replace") if place < len(record) else None


def _split(lines: bytes, width: int) -> pl.DataFrame:
    """Lines without quotes and lone carriage returns.

    A header of our own says how many columns there are, whatever the first line has.
    """
    header = ",".join(f"c{place}" for place in range(width)).encode()
    whole = lines if lines.endswith(b"\n") else lines + b"\n"
    return pl.read_csv(
        header + b"\n" + _EMPTY_LINES.sub(b"", whole.replace(b"\r\n", b"\n")),
        quote_char=None,
        infer_schema=False,
        encoding="utf8-lossy",
        truncate_ragged_lines=True,
    )


def _records(file: IO[bytes], block: int) -> Iterator[_Record]:
    for piece in _pieces(file, block):
        yield from piece if isinstance(piece, list) else _tokens(piece, 0, last=True)[0]


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
    """Whole lines without quotes as they are, and whatever has quotes as records."""
    rest, taken = b"", file.read(max(block, len(_MARK) + 1)).removeprefix(_MARK)
    while True:
        data, last = rest + taken, not taken
        quote = data.find(b'"')
        if quote < 0:
            used = len(data) if last else data.rfind(b"\n") + 1
            records: list[_Record] = []
            plain = used
        else:
            plain = data.rfind(b"\n", 0, quote) + 1
            records, used = _tokens(data, plain, last=last)
        if plain:
            yield data[:plain]
        if records:
            yield records
        if last:
            return
        rest = data[used:]
        # As much again as is left: a long field is not searched from its beginning again and again.
        taken = file.read(max(block, len(rest)))


def _tokens(data: bytes, start: int, *, last: bool) -> tuple[list[_Record], int]:
    """The records from there on that are complete, and where the next one begins."""
    records, at = [], start
    while at < len(data):
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
