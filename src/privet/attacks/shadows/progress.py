"""A progress bar for the training of shadow models."""

import sys
import threading
import time
from typing import TextIO, final

__all__ = ["ShadowProgress"]


@final
class ShadowProgress:
    """A bar on a terminal, after two seconds; silent elsewhere. Several threads may call ``tick``."""

    def __init__(self, models: int, note: str, *, shown: bool, stream: TextIO | None = None) -> None:
        self._models, self._note = models, note
        self._stream = sys.stderr if stream is None else stream
        self._on = shown and bool(getattr(self._stream, "isatty", bool)())
        self._began, self._drawn, self._done = time.monotonic(), 0.0, 0.0
        self._lock = threading.Lock()

    def __enter__(self) -> "ShadowProgress":
        return self

    def __exit__(self, *_: object) -> None:
        if self._drawn:
            self._stream.write("\n")
            self._stream.flush()

    def tick(self, models: float) -> None:
        """Add progress, in models; redraws at most five times a second."""
        with self._lock:
            self._done += models
            now = time.monotonic()
            last = self._done > self._models - 1e-6
            if not self._on or now - self._began < 2 or (now - self._drawn < 0.2 and not last):
                return
            self._drawn = now
            share = min(1.0, self._done / self._models)
            left = (now - self._began) * (1 / share - 1) if share else 0.0
            filled = round(30 * share)
            bar = "█" * filled + "·" * (30 - filled)
            text = (
                f"shadow models {bar} {int(self._done + 1e-6)}/{self._models}  {self._note}  {left:.0f} s "
                f"left"
            )
            self._stream.write(f"\r\033[K{text}")
            self._stream.flush()
