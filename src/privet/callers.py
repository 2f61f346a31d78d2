"""Who called Privet: the line that a warning is about."""

import sys
from types import FrameType

__all__ = ["level_of_caller"]

_PACKAGE = __name__.partition(".")[0]


def level_of_caller() -> int:
    """The ``stacklevel`` of the first line outside of Privet, for a warning by whoever asks.

    How many of Privet's own calls lie between is nobody's to count: public calls are checked on their way in.
    """
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and _is_own(frame):
        level, frame = level + 1, frame.f_back
    return level


def _is_own(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0] == _PACKAGE
