"""The progress bar of a run, and how Ctrl-C ends it.

The bar shows steps and ε, but no loss: a training loss comes from the data without noise, so no guarantee
covers it.
"""

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TextIO, final

__all__ = ["Interruption", "TrainingProgress", "catch_interrupt"]


@final
class TrainingProgress:
    """A progress bar on a terminal, for runs of over two seconds. Elsewhere it is silent.

    ``epsilon_after(step)`` is ε so far; None if nothing is proved. It is slow to compute, so the bar spends
    at most one twentieth of the time on it. ``title`` and ``unit`` say what runs, and what a step of it is.
    """

    def __init__(
        self,
        steps: int,
        epsilon_after: Callable[[int], float] | None,
        stream: TextIO | None = None,
        *,
        title: str = "private training",
        unit: str = "steps",
    ) -> None:
        self._steps, self._epsilon_after = steps, epsilon_after
        self._title, self._unit = title, unit
        self._stream = sys.stderr if stream is None else stream
        self._start, self._last_shown, self._first_step = time.monotonic(), 0.0, 0
        self._epsilon, self._computed_at, self._seconds = "", 0.0, 0.0

    def __enter__(self) -> "TrainingProgress":
        return self

    def __exit__(self, *_: object) -> None:
        if self._last_shown:
            self._stream.write("\n")
            self._stream.flush()

    def begin(self, step: int) -> None:
        """Set the number of steps that an earlier part of the run took."""
        self._start, self._first_step = time.monotonic(), step

    def show(self, step: int) -> None:
        """Redraw the bar, at most five times a second."""
        now = time.monotonic()
        is_last = step == self._steps
        too_soon = now - self._start < 2 or (now - self._last_shown < 0.2 and not is_last)
        if too_soon or not self._stream.isatty():
            return
        self._last_shown = now
        if self._epsilon_after is not None and (is_last or now - self._computed_at > 20 * self._seconds):
            self._epsilon = f"ε {self._epsilon_after(step):.3f}"
            self._computed_at = time.monotonic()
            self._seconds = self._computed_at - now
        filled = round(30 * step / self._steps)
        rate = (step - self._first_step) / (now - self._start)
        left = (self._steps - step) / rate if rate else 0.0
        bar = "█" * filled + "·" * (30 - filled)
        figures = f"{step}/{self._steps}  {self._epsilon}  {rate:.1f} {self._unit}/s  {left:.0f} s left"
        self._stream.write(f"\r\033[K{self._title} {bar} {figures}")
        self._stream.flush()


@final
class Interruption:
    """Whether the user has asked to end the run."""

    def __init__(self) -> None:
        self.requested = False


@contextmanager
def catch_interrupt() -> Iterator[Interruption]:
    """Record the first Ctrl-C, so that a step is done completely or not at all. The second works as before.

    The handler that was installed before gets the second one, and it is installed again when the run ends. It
    may be that of a Spark session, which raises KeyboardInterrupt in the middle of a step, as Python's does.
    Outside of the main thread, and where no Python function handles the signal, this changes nothing.
    """
    interruption = Interruption()
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield interruption
        return

    def record(number: int, frame: FrameType | None) -> None:
        if interruption.requested:
            handler(number, frame)
        interruption.requested = True

    signal.signal(signal.SIGINT, record)
    try:
        yield interruption
    finally:
        signal.signal(signal.SIGINT, handler)
