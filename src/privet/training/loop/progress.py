"""What people see while a run goes on, and how they end it.

The bar shows steps and ε, and no loss: a training loss is computed from the data without noise, so nothing covers it.
"""

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TextIO, final

__all__ = ["Bar", "Interruption", "interruptible"]


@final
class Bar:
    """A bar on a terminal for what takes over two seconds; silent elsewhere.

    ``spent(step)`` is ε so far. It takes a while to compute, so it is asked for in a twentieth of the time at most.
    """

    def __init__(self, steps: int, spent: Callable[[int], float], stream: TextIO | None = None) -> None:
        self._steps, self._spent = steps, spent
        self._stream = sys.stderr if stream is None else stream
        self._began, self._shown, self._first = time.monotonic(), 0.0, 0
        self._epsilon, self._asked, self._took = "", 0.0, 0.0

    def __enter__(self) -> "Bar":
        return self

    def __exit__(self, *_: object) -> None:
        if self._shown:
            self._stream.write("\n")
            self._stream.flush()

    def begin(self, step: int) -> None:
        """Steps that were taken before this run."""
        self._began, self._first = time.monotonic(), step

    def show(self, step: int) -> None:
        """Draw the bar anew, at most five times a second."""
        now = time.monotonic()
        last = step == self._steps
        if now - self._began < 2 or (now - self._shown < 0.2 and not last) or not self._stream.isatty():
            return
        self._shown = now
        if last or now - self._asked > 20 * self._took:
            self._epsilon = f"ε {self._spent(step):.3f}"
            self._asked = time.monotonic()
            self._took = self._asked - now
        filled = round(30 * step / self._steps)
        rate = (step - self._first) / (now - self._began)
        left = (self._steps - step) / rate if rate else 0.0
        bar = "█" * filled + "·" * (30 - filled)
        text = f"private training {bar} {step}/{self._steps}  {self._epsilon}  {rate:.1f} steps/s  {left:.0f} s left"
        self._stream.write(f"\r\033[K{text}")
        self._stream.flush()


@final
class Interruption:
    """Whether someone has asked for the end."""

    def __init__(self) -> None:
        self.asked = False


@contextmanager
def interruptible() -> Iterator[Interruption]:
    """The first Ctrl-C is noted, so that a step is done whole or not at all; the second one interrupts as usual.

    In other threads than the first, and where someone else handles the signal, nothing is changed.
    """
    found = Interruption()
    mine = (
        threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    )
    if not mine:
        yield found
        return

    def note(number: int, frame: FrameType | None) -> None:
        if found.asked:
            signal.default_int_handler(number, frame)
        found.asked = True

    signal.signal(signal.SIGINT, note)
    try:
        yield found
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
