"""How many processor cores this process may use."""

import os

__all__ = ["usable_cores"]


def usable_cores() -> int:
    """The cores that the system lets this process run on; all cores where the system does not say (macOS, Windows)."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
