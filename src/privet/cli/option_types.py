"""Types of command-line options: text from the shell to a number, or an error that says what is needed."""

import argparse
import math
from fractions import Fraction

__all__ = ["parse_count", "parse_number", "parse_seed"]

_LARGEST_COUNT = 10**15


def parse_number(text: str) -> float:
    """A number; ``256/60000`` is one."""
    try:
        return float(Fraction(text)) if "/" in text else float(text)
    except (ValueError, ZeroDivisionError, OverflowError):
        raise argparse.ArgumentTypeError(f"must be a number, got {text!r}") from None


def parse_count(text: str) -> int:
    """A whole number from 1."""
    return _parse_whole(text, least=1)


def parse_seed(text: str) -> int:
    """A whole number from 0."""
    return _parse_whole(text, least=0)


def _parse_whole(text: str, least: int) -> int:
    value = parse_number(text)
    if not math.isfinite(value) or value != math.floor(value):
        raise argparse.ArgumentTypeError(f"must be a whole number, got {text!r}")
    if not least <= value <= _LARGEST_COUNT:
        raise argparse.ArgumentTypeError(f"must be from {least} to {_LARGEST_COUNT:.0e}, got {text!r}")
    return int(value)
