"""How many processor cores this process may use."""

import os

__all__ = ["usable_cores"]


def usable_cores() -> int:
    """The cores that this process may run on; all cores where the system does not tell (macOS, Windows)."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
