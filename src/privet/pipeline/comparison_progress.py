"""Progress of a comparison on a terminal: which defence, of how many, and the time left."""

import sys
import time
from contextlib import suppress
from typing import TextIO, final

__all__ = ["ComparisonProgress"]


@final
class ComparisonProgress:
    """A line for each defence, silent where there is no terminal. The bar of its models follows below it."""

    def __init__(self, defences: int, *, shown: bool, stream: TextIO | None = None) -> None:
        self._defences, self._number = defences, 0
        self._stream = sys.stderr if stream is None else stream
        self._on = shown and bool(getattr(self._stream, "isatty", bool)())
        self._took: list[float] = []
        self._began: float | None = None

    def begin(self, name: str, *, reused: bool) -> None:
        """A defence begins; one that is reused takes no time."""
        self._number += 1
        self._began = None if reused else time.monotonic()
        if self._on:
            note = "from the cache" if reused else self._time_left()
            plain = "".join(sign if sign.isprintable() else "?" for sign in name)
            with suppress(OSError, ValueError):
                print(f"[{self._number}/{self._defences}] {plain}  {note}", file=self._stream, flush=True)

    def end(self) -> None:
        """The defence is done."""
        if self._began is not None:
            self._took.append(time.monotonic() - self._began)

    def _time_left(self) -> str:
        if not self._took:
            return "time left: known after the first defence"
        mean = sum(self._took) / len(self._took)
        left = mean * (self._defences - self._number + 1)
        return f"about {left:.0f} s left" if left < 120 else f"about {left / 60:.0f} min left"
