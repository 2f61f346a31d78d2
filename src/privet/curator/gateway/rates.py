"""How often somebody may come: a bucket of tokens for each of them, which fills at a steady rate."""

import time
from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import final

__all__ = ["RateLimit"]

_MOST = 20_000  # callers that are remembered


@final
class RateLimit:
    """At most ``per_minute`` in a minute, and as many at once.

    >>> seconds = iter([0.0, 0.0, 0.0, 30.0])
    >>> limit = RateLimit(2, clock=lambda: next(seconds))
    >>> [limit.take("ann") for _ in range(4)]
    [True, True, False, True]
    """

    def __init__(self, per_minute: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._size, self._clock = float(per_minute), clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._lock = Lock()

    def take(self, caller: str) -> bool:
        """Whether this caller may go on now."""
        now = self._clock()
        with self._lock:
            tokens, since = self._buckets.pop(caller, (self._size, now))
            tokens = min(self._size, tokens + (now - since) * self._size / 60)
            self._buckets[caller] = (tokens - 1 if tokens >= 1 else tokens, now)
            if len(self._buckets) > _MOST:
                self._buckets.popitem(last=False)
            return tokens >= 1
