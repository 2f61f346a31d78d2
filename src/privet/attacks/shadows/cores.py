"""How many processor cores this process may use."""

import math
import os
from pathlib import Path

__all__ = ["usable_cores"]

_QUOTA = Path("/sys/fs/cgroup/cpu.max")  # of a container: "quota period" in microseconds, or "max period"


def usable_cores() -> int:
    """The cores that this process may run on, within the quota of its container; all cores where the system
    does not tell (macOS, Windows).
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(cores, _quota(cores)))


def _quota(otherwise: int) -> int:
    """The cores that a container's quota of processor time is worth, rounded up."""
    try:
        quota, period = _QUOTA.read_text().split()
        return otherwise if quota == "max" else math.ceil(int(quota) / int(period))
    except (OSError, ValueError, ZeroDivisionError):  # no such file, or another form
        return otherwise
