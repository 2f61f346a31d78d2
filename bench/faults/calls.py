"""Every call of the system on the way to the disk, as a place where a process dies or a call fails.

Files that survive are written through ``os`` and ``fcntl`` alone (a law in the tests holds the package to it), so each call passes here.
"""

import fcntl
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

CALLS = ("open", "write", "fsync", "replace", "unlink", "close", "pread", "fchmod", "fstat", "mkdir")
Strike = Callable[[int, str, Callable[[], Any], tuple[Any, ...]], Any]


@contextmanager
def watched(strike: Strike) -> Iterator[list[int]]:
    """Let ``strike`` stand before every call, with its number from 1 on. The list holds how many there were."""
    seen = [0]
    places = [(os, name) for name in CALLS] + [(fcntl, "flock")]
    reals = [(place, name, getattr(place, name)) for place, name in places]

    def standing(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            seen[0] += 1
            return strike(seen[0], name, lambda: real(*arguments, **options), arguments)

        return call

    for place, name, real in reals:
        setattr(place, name, standing(name, real))
    try:
        yield seen
    finally:
        for place, name, real in reals:
            setattr(place, name, real)


def dying(at: int, *, after: bool) -> Strike:
    """The process ends at this call, before or after it, with nobody to clean up."""

    def strike(number: int, name: str, real: Callable[[], Any], arguments: tuple[Any, ...]) -> Any:
        del name, arguments
        if number == at and not after:
            os.kill(os.getpid(), signal.SIGKILL)
        found = real()
        if number == at:
            os.kill(os.getpid(), signal.SIGKILL)
        return found

    return strike


def failing(at: int, code: int, *, from_then_on: bool) -> Strike:
    """This call fails with an error of the system, and all later ones of its kind if the fault stays."""
    kinds: list[str] = []

    def strike(number: int, name: str, real: Callable[[], Any], arguments: tuple[Any, ...]) -> Any:
        del arguments
        if number == at:
            kinds.append(name)
        if number == at or (from_then_on and name in kinds):
            if name == "close":
                real()  # the descriptor is gone, whatever the system says
            raise OSError(code, os.strerror(code))
        return real()

    return strike


def shortened(most: int) -> Strike:
    """No write takes more than some bytes."""
    real_write = os.write

    def strike(number: int, name: str, real: Callable[[], Any], arguments: tuple[Any, ...]) -> Any:
        del number
        if name == "write":
            return real_write(arguments[0], bytes(arguments[1])[:most])
        return real()

    return strike
