"""Which records of a text file follow RFC 4180 to the letter: found for a whole block at once, by positions
of bytes.

Outside of quotes, such records have no quote, and a carriage return only before a line feed. A quoted field
begins right after a comma or a line feed, and ends right before a comma or the end of the record; a quote in
it is doubled.

*Why parity suffices.* Count the quotes from the start of a record: those with an even number open a field, or
are the second of a doubled pair; those with an odd number close a field, or are the first of a pair. Reading
a pair as "close and open again" leaves the same bytes inside and outside of quotes. So the records are as
above exactly when each even quote stands after a comma, a line feed or a quote, and each odd quote before a
comma, a quote or the end of the record.
"""

from typing import final

import numpy as np
from numpy.typing import NDArray

__all__ = ["TextStructure", "remove_empty_lines"]

_QUOTE, _COMMA, _LINE_FEED, _RETURN = b'",\n\r'
_BEFORE_FIELD, _AFTER_FIELD = np.zeros((2, 256), dtype=bool)
_BEFORE_FIELD[[_COMMA, _LINE_FEED, _QUOTE]] = True
_AFTER_FIELD[[_COMMA, _LINE_FEED, _QUOTE, _RETURN]] = True
_NONE: NDArray[np.int64] = np.zeros(0, dtype=np.int64)


@final
class TextStructure:
    """Positions in a block of bytes. A block without quotes and carriage returns has none, and costs two
    searches."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        codes = np.frombuffer(data, dtype=np.uint8)
        self._quotes = np.flatnonzero(codes == _QUOTE) if b'"' in data else _NONE
        self._misplaced = _misplaced_quotes(codes, self._quotes)
        self._returns = self._lone_returns(codes) if b"\r" in data else (_NONE, _NONE)

    def clear_end(self, start: int, *, quotes: bool, last: bool) -> int:
        """Up to where records that begin at ``start`` follow RFC 4180. Without ``quotes``, records with
        quotes do not.

        The last record of a file needs no line feed if it has no quotes.
        """
        first = int(np.searchsorted(self._quotes, start))
        parity = first % 2
        limits = (self._returns[parity], self._misplaced[parity] if quotes else self._quotes)
        end = min(_first_from(positions, start, len(self._data)) for positions in limits)
        if last and end == len(self._data) and first == self._quotes.size:
            return end
        while (line_feed := self._data.rfind(b"\n", start, end)) >= 0:
            before = int(np.searchsorted(self._quotes, line_feed))
            if before % 2 == parity:
                return line_feed + 1
            end = int(self._quotes[before - 1])  # it is inside of quotes: go back to where they open
        return start

    def _lone_returns(self, codes: NDArray[np.uint8]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Carriage returns not before a line feed: those after an even number of quotes, and those after an
        odd one."""
        returns = np.flatnonzero(codes == _RETURN)
        lone = returns[_following(codes, returns) != _LINE_FEED]
        odd = np.searchsorted(self._quotes, lone) % 2 == 1
        return lone[~odd], lone[odd]


def remove_empty_lines(lines: bytes) -> bytes:
    """Lines that follow RFC 4180, without the empty ones between records; those inside of quotes stay."""
    has_returns = b"\r" in lines
    first = lines.startswith((b"\n", b"\r\n"))
    if not first and not _has_pair(lines, b"\n\n") and not (has_returns and _has_pair(lines, b"\n\r")):
        return lines
    codes = np.frombuffer(lines, dtype=np.uint8)
    ends = np.flatnonzero(codes == _LINE_FEED)
    starts = np.concatenate([[0], ends[:-1] + 1])
    quotes = np.flatnonzero(codes == _QUOTE)
    empty = (ends == starts) | ((ends == starts + 1) & (codes[starts] == _RETURN))
    empty &= np.searchsorted(quotes, ends) % 2 == 0
    keep = np.ones(codes.size, dtype=bool)
    keep[starts[empty]] = False
    keep[ends[empty]] = False
    return codes[keep].tobytes()


def _misplaced_quotes(
    codes: NDArray[np.uint8], quotes: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Quotes that stand where RFC 4180 has none, if even ones open a field, and if odd ones do.

    A quote before a carriage return may close a field: whether the return belongs to the end of a line is
    looked at apart.
    """
    if not quotes.size:
        return _NONE, _NONE
    no_opening, no_closing = ~_BEFORE_FIELD[codes[quotes - 1]], ~_AFTER_FIELD[_following(codes, quotes)]
    no_opening[0] &= quotes[0] > 0
    if_even, if_odd = no_closing.copy(), no_opening.copy()
    if_even[::2], if_odd[::2] = no_opening[::2], no_closing[::2]
    return quotes[if_even], quotes[if_odd]


def _following(codes: NDArray[np.uint8], positions: NDArray[np.int64]) -> NDArray[np.uint8]:
    """The byte after each position; 0 after the last byte."""
    if positions.size == 0 or positions[-1] + 1 < codes.size:
        return codes[positions + 1]
    return np.append(codes[positions[:-1] + 1], np.uint8(0))


def _first_from(positions: NDArray[np.int64], start: int, end: int) -> int:
    """The first position that is not before ``start``, or ``end``."""
    first = int(np.searchsorted(positions, start))
    return int(positions[first]) if first < positions.size else end


def _has_pair(data: bytes, pair: bytes) -> bool:
    """Whether two bytes are in the data, one after the other. In numpy because of line feeds, on which
    Python's search is slow."""
    word = np.frombuffer(pair, dtype=np.uint16)[0]
    codes = np.frombuffer(data, dtype=np.uint8)
    words = (codes[offset : offset + (codes.size - offset) // 2 * 2].view(np.uint16) for offset in (0, 1))
    return any(bool((part == word).any()) for part in words if part.size)
