"""The output of a command: sentences and tables for people, or one JSON object for programs.

Shown numbers are rounded in the safe direction: upper bounds up, lower bounds down.
"""

import json
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import final

from privet.caveats import Caveat
from privet.cli.printable import one_line, printable, printable_json
from privet.cli.streams import write_output
from privet.errors import OutOfReach, PrivetError

__all__ = [
    "CliAnswer",
    "caveat_rows",
    "caveat_text",
    "facts",
    "fixed_down",
    "fixed_up",
    "paragraph",
    "percent",
    "percent_down",
    "percent_up",
    "rounded_down",
    "rounded_up",
    "table",
    "write_answer",
    "write_error",
    "write_progress",
]

_WIDTH = 92


@final
@dataclass(frozen=True)
class CliAnswer:
    """The answer of a command: blocks of text, the document for ``--json``, and the exit code.

    ``if_lost`` says what to do if the answer was paid for and cannot be printed.
    """

    blocks: Sequence[str]
    document: Mapping[str, object]
    code: int = 0
    if_lost: str = ""


def write_answer(answer: CliAnswer, *, as_json: bool) -> None:
    """Print an answer to standard output."""
    text = _as_json(answer.document) if as_json else printable("\n\n".join(answer.blocks))
    write_output(text, answer.if_lost)


def write_error(error: PrivetError, *, as_json: bool) -> None:
    """Print an error to standard error, and as JSON to standard output for a program that reads only that."""
    with suppress(OSError, ValueError):  # standard error may be full or closed; the exit code still says it
        print(f"privet: {printable(str(error))}", file=sys.stderr, flush=True)
    if as_json:
        write_output(_as_json({"error": {"type": type(error).__name__, "message": str(error)}}))


def write_progress(sentence: str) -> None:
    """Show the current step on a terminal. The next sentence replaces it; an empty one clears the line."""
    if sys.stderr.isatty():
        with suppress(OSError):
            print(f"\r\033[K{one_line(sentence)}", end="", file=sys.stderr, flush=True)


def rounded_up(value: float, digits: int = 6) -> str:
    """The value rounded up to this many digits.

    >>> rounded_up(2.3817105), rounded_up(3.0), rounded_up(1.2e-9)
    ('2.38172', '3', '1.2e-09')
    """
    return _round_to_digits(value, digits, ROUND_CEILING)


def rounded_down(value: float, digits: int = 6) -> str:
    """The value rounded down to this many digits.

    >>> rounded_down(2.3817105)
    '2.38171'
    """
    return _round_to_digits(value, digits, ROUND_FLOOR)


def fixed_up(value: float, places: int = 5) -> str:
    """The value rounded up to this many decimal places, for columns.

    >>> fixed_up(2.38159692)
    '2.38160'
    """
    return f"{Decimal(value).quantize(Decimal(1).scaleb(-places), ROUND_CEILING):f}"


def fixed_down(value: float, places: int = 5) -> str:
    """The value rounded down to this many decimal places."""
    return f"{Decimal(value).quantize(Decimal(1).scaleb(-places), ROUND_FLOOR):f}"


def percent(value: float) -> str:
    """A probability in per cent, not rounded.

    >>> percent(0.001)
    '0.1 %'
    """
    return f"{100 * value:g} %"


def percent_up(value: float) -> str:
    """A probability in per cent, rounded up to three digits, and to more digits near 100 %.

    >>> percent_up(0.02009553), percent_up(0.0474258), percent_up(0.99966465)
    ('2.01 %', '4.75 %', '99.9665 %')
    """
    return _percent(value, ROUND_CEILING)


def percent_down(value: float) -> str:
    """A probability in per cent, rounded down.

    >>> percent_down(0.0474258)
    '4.74 %'
    """
    return _percent(value, ROUND_FLOOR)


def facts(pairs: Sequence[tuple[str, str]]) -> str:
    """Names and values in two aligned columns."""
    width = max(len(name) for name, _ in pairs)
    return "\n".join(f"  {name:<{width}}   {one_line(value)}" for name, value in pairs)


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table with a rule under its header; the first column is words and the others are numbers."""
    rows = [[one_line(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    lines = [_line(header, widths), "  " + "─" * (sum(widths) + 3 * (len(widths) - 1))]
    return "\n".join([*lines, *(_line(row, widths) for row in rows)])


def paragraph(text: str, *, bullet: str = "") -> str:
    """Text wrapped at the width of a page, with a hanging bullet."""
    indent = " " * len(bullet)
    return textwrap.fill(
        text, _WIDTH, initial_indent=bullet, subsequent_indent=indent, break_on_hyphens=False
    )


def caveat_rows(caveats: Iterable[Caveat]) -> list[dict[str, str]]:
    """Caveats for a document, in a stable order."""
    return [{"code": caveat.code, "sentence": caveat.sentence} for caveat in _sort_caveats(caveats)]


def caveat_text(caveats: Iterable[Caveat]) -> list[str]:
    """Caveats as one block of sentences, or no block when there are none."""
    lines = [paragraph(caveat.sentence, bullet="  · ") for caveat in _sort_caveats(caveats)]
    return ["\n".join(["What this rests on", *lines])] if lines else []


def _sort_caveats(caveats: Iterable[Caveat]) -> list[Caveat]:
    return sorted(caveats, key=list(Caveat).index)


def _as_json(document: Mapping[str, object]) -> str:
    try:
        return printable_json(json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False))
    except ValueError as infinite:
        raise OutOfReach(
            "The answer has no finite value in float64. Add noise, or ask at a larger δ."
        ) from infinite


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    first, *others = zip(cells, widths, strict=True)
    return "   ".join([f"  {first[0]:<{first[1]}}", *(f"{cell:>{width}}" for cell, width in others)]).rstrip()


def _round_to_digits(value: float, digits: int, rounding: str) -> str:
    return f"{float(Context(digits, rounding).create_decimal_from_float(value)):.{digits}g}"


def _percent(value: float, rounding: str) -> str:
    share = Decimal(value) * 100
    if 99 < share < 100:
        return f"{share.quantize(Decimal('0.0001'), rounding):f} %"
    return f"{Context(3, rounding).create_decimal(share):g} %"
