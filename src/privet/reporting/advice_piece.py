"""One piece of advice."""

from typing import NamedTuple

__all__ = ["Advice"]


class Advice(NamedTuple):
    """What to do, and the figures that are the reason."""

    what: str
    why: str
