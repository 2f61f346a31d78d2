"""The refusal of a value that is not of its type, in words that do not tell the value."""

from collections.abc import Callable
from typing import TypeAlias, cast

__all__ = ["Mismatch", "Reader", "is_a", "mismatch"]

Reader: TypeAlias = Callable[[object], object]


class Mismatch(Exception):
    """What is needed, what was got, and the fix; without the value."""

    def __init__(self, needed: str, got: str, fix: str) -> None:
        super().__init__(needed, got, fix)
        self.needed, self.got, self.fix = needed, got, fix


def mismatch(needed: str, value: object, fix: str) -> Mismatch:
    """The refusal of a value: it names the type of it, or the class that it is."""
    if is_a(value, type):
        return Mismatch(needed, f"the class {cast('type', value).__name__}", fix)
    return Mismatch(needed, f"a value of type {type(value).__name__}", fix)


def is_a(value: object, kinds: type | tuple[type, ...]) -> bool:
    """``isinstance``, also for objects that raise when they are asked for their class."""
    try:
        return isinstance(value, kinds)
    except Exception:
        return False
