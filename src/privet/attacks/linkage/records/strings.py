"""How alike two strings are: Jaro–Winkler similarity and edit distance, for many pairs at once.

Both are computed from the same thing: for each character of one string, the bits of the places where the
other string has it. So a step of the loop over the characters of a string serves all pairs in a few
operations on whole numbers.

*Reference*: Jaro 1989 and Winkler 1990 (the similarity; common prefixes of up to four characters count 0.1 of
the rest each, where the similarity is above 0.7). Hyyrö 2003, "A bit-vector algorithm for computing
Levenshtein and Damerau edit distances" (the distance in which an exchange of two neighbours is one edit; a
substring is edited once at most).

*Deviation*: strings are cut after 64 characters.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privet.views import Numbers

__all__ = ["Spellings", "compare_edits", "compare_jaro_winkler"]

_WIDTHS: dict[int, type[np.unsignedinteger]] = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}
_LONGEST = 64
_CHUNK = 1 << 15  # pairs at a time: what a step touches stays in the cache
_PREFIX, _PREFIX_WEIGHT, _BOOST_ABOVE = 4, 0.1, 0.7

_Codes = NDArray[np.unsignedinteger]
_Places = NDArray[np.intp]


class Spellings:
    """Strings as rows of character numbers, so that many of them are compared at once.

    >>> spellings = Spellings(np.array(["martha", "marhta"]))
    >>> spellings.lengths.tolist()
    [6, 6]
    """

    def __init__(self, values: NDArray[np.str_]) -> None:
        texts = np.asarray(values, dtype=np.str_)
        longest = max(1, min(_LONGEST, texts.dtype.itemsize // 4))
        texts = np.ascontiguousarray(texts.astype(f"<U{longest}"))
        points = texts.view(np.uint32).reshape(len(texts), longest)
        alphabet, numbers = np.unique(points, return_inverse=True)
        # 0 is the padding behind a string; NUL is the only character that is mistaken for it.
        shifted = numbers.reshape(points.shape) + int(len(alphabet) > 0 and alphabet[0] != 0)
        self.characters: _Codes = shifted.astype(np.uint8 if len(alphabet) < 255 else np.uint32)
        self.lengths = np.char.str_len(texts).astype(np.int64)


def compare_jaro_winkler(spellings: Spellings, first: _Places, second: _Places) -> Numbers:
    """The similarity of each pair of strings, from 0 to 1.

    >>> spellings = Spellings(np.array(["martha", "marhta", "dixon", "dicksonx"]))
    >>> compare_jaro_winkler(spellings, np.array([0, 2]), np.array([1, 3])).round(3).tolist()
    [0.961, 0.813]
    """
    answer = np.zeros(len(first))
    for part, width in _parts(spellings, first, second):
        answer[part] = _jaro_winkler(spellings, first[part], second[part], width)
    return answer


def compare_edits(spellings: Spellings, first: _Places, second: _Places) -> NDArray[np.int64]:
    """How many edits lead from one string to the other: insert, delete, replace, exchange two neighbours.

    >>> spellings = Spellings(np.array(["martha", "marhta", "mart"]))
    >>> compare_edits(spellings, np.array([0, 0, 1]), np.array([1, 2, 2])).tolist()
    [1, 2, 2]
    """
    answer = np.zeros(len(first), dtype=np.int64)
    for part, width in _parts(spellings, first, second):
        answer[part] = _edits(spellings, first[part], second[part], width)
    return answer


def _parts(spellings: Spellings, first: _Places, second: _Places) -> Iterator[tuple[_Places, int]]:
    """Pairs of similar length together, so that short names do not pay for long addresses."""
    longest = np.maximum(spellings.lengths[first], spellings.lengths[second])
    widths = 8 * 2 ** np.searchsorted([8, 16, 32], longest, side="left")
    for width in np.unique(widths).tolist():
        places = np.flatnonzero(widths == width)
        for start in range(0, len(places), _CHUNK):
            yield places[start : start + _CHUNK], width


def _take(spellings: Spellings, which: _Places, width: int) -> _Codes:
    rows: _Codes = np.zeros((len(which), width), dtype=spellings.characters.dtype)
    kept = min(width, spellings.characters.shape[1])
    rows[:, :kept] = spellings.characters[which, :kept]
    return rows


def _places_of(rows: _Codes, character: _Codes, width: int) -> _Codes:
    """Bit j of row r: whether place j of the row is the row's ``character``."""
    packed = np.packbits(rows == character[:, None], axis=1, bitorder="little")
    bits: Any = packed.view(_WIDTHS[width])
    places: _Codes = bits[:, 0]
    return places


def _jaro_winkler(spellings: Spellings, first: _Places, second: _Places, width: int) -> Numbers:
    a, b = _take(spellings, first, width), _take(spellings, second, width)
    longs, shorts = spellings.lengths[first], spellings.lengths[second]
    kind = _WIDTHS[width]
    window = np.maximum(np.maximum(longs, shorts) // 2 - 1, 0)
    one, zero = kind(1), kind(0)
    taken = np.zeros(len(a), dtype=kind)
    matched = np.zeros(a.shape, dtype=np.bool_)
    top = int(longs.max(initial=0))
    for place in range(top):
        # Places from place − window to place + window, and inside of both strings.
        low = np.maximum(place - window, 0).astype(kind)
        high = np.minimum(place + window + 1, shorts)
        reach = _bits_below(high, width) & ~_bits_below(low.astype(np.int64), width)
        free = _places_of(b, a[:, place], width) & reach & ~taken
        free[longs <= place] = zero
        lowest = free & (~free + one)
        taken |= lowest
        matched[:, place] = lowest != zero
    common = matched.sum(axis=1)
    moved = _count_out_of_order(a, b, matched, taken, width)
    with np.errstate(divide="ignore", invalid="ignore"):
        jaro = (common / longs + common / shorts + (common - moved // 2) / common) / 3
    jaro = np.where(common > 0, jaro, np.where((longs == 0) & (shorts == 0), 1.0, 0.0))
    same = np.cumprod(a[:, :_PREFIX] == b[:, :_PREFIX], axis=1).sum(axis=1)
    prefix = np.minimum(same, np.minimum(longs, shorts))
    boosted = jaro + np.where(jaro > _BOOST_ABOVE, prefix * _PREFIX_WEIGHT, 0.0) * (1 - jaro)
    answer: Numbers = boosted
    return answer


def _count_out_of_order(
    a: _Codes, b: _Codes, matched: NDArray[np.bool_], taken: _Codes, width: int
) -> Numbers:
    """How many matched characters stand elsewhere in the other string's order of matched characters."""
    other = np.unpackbits(taken.view(np.uint8).reshape(len(taken), -1), axis=1, bitorder="little").astype(
        np.bool_
    )[:, :width]
    moved = np.zeros(len(a))
    rows, places = np.nonzero(matched)
    other_places = np.nonzero(other)[1]  # as many in each row, and in the order of rows
    differs = a[rows, places] != b[rows, other_places]
    moved += np.bincount(rows, weights=differs, minlength=len(a))
    return moved


def _bits_below(count: NDArray[np.int64], width: int) -> _Codes:
    """The lowest ``count`` bits, for counts from 0 to ``width``."""
    return _MASKS[width][np.minimum(count, width)]


_MASKS = {
    width: np.array([(1 << count) - 1 for count in range(width + 1)], dtype=kind)
    for width, kind in _WIDTHS.items()
}


def _edits(spellings: Spellings, first: _Places, second: _Places, width: int) -> NDArray[np.int64]:
    a, b = _take(spellings, first, width), _take(spellings, second, width)
    longs, shorts = spellings.lengths[first], spellings.lengths[second]
    kind = _WIDTHS[width]
    one = kind(1)
    last = np.where(longs > 0, _MASKS[width][np.maximum(longs - 1, 0)] + one, kind(0)).astype(kind)
    rising = np.full(len(a), ~kind(0), dtype=kind)
    falling, diagonal, before = (np.zeros(len(a), dtype=kind) for _ in range(3))
    answer = longs.copy()
    for place in range(int(shorts.max(initial=0))):
        here = _places_of(a, b[:, place], width)
        exchanged = ((~diagonal & here) << one) & before
        diagonal = (((here & rising) + rising) ^ rising) | here | falling | exchanged
        up = falling | ~(diagonal | rising)
        down = diagonal & rising
        active = shorts > place
        answer += ((up & last) != 0) & active
        answer -= ((down & last) != 0) & active
        up = (up << one) | one
        rising = (down << one) | ~(diagonal | up)
        falling = up & diagonal
        before = here
    return np.where(longs == 0, shorts, answer)
