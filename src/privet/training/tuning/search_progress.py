"""Progress of a search on a terminal, for its owner only: the number of runs and their time are secret."""

import sys
import time
from contextlib import suppress
from typing import TextIO, final

__all__ = ["SearchProgress"]


@final
class SearchProgress:
    """A line for each run, silent where there is no terminal. The bar of its training follows below it."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._on = bool(getattr(self._stream, "isatty", bool)())
        self._began, self._first = 0.0, 0

    def plan(self) -> None:
        """The budget is being computed."""
        self._write("private choice: how much noise each run needs …")

    def begin(self, done: int) -> None:
        """The runs begin; an earlier part of the search did some."""
        self._began, self._first = time.monotonic(), done
        self._write(
            "private choice: how many runs there are, what is shown here and how long it takes is secret. "
            "Publish the result only."
        )

    def show(self, done: int, runs: int, recipe: str) -> None:
        """A run begins after ``done`` others."""
        filled = round(20 * done / runs)
        bar = "█" * filled + "·" * (20 - filled)
        self._write(f"private choice {bar} run {done + 1} of {runs}  {recipe}  {self._time_left(done, runs)}")

    def _time_left(self, done: int, runs: int) -> str:
        if done == self._first:
            return "time left: known after the first run"
        left = (time.monotonic() - self._began) / (done - self._first) * (runs - done)
        return f"about {left:.0f} s left" if left < 120 else f"about {left / 60:.0f} min left"

    def _write(self, line: str) -> None:
        if self._on:
            with suppress(OSError, ValueError):
                print(line, file=self._stream, flush=True)
