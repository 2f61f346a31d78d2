"""The exception of a failed check, and the comparisons that raise it."""

import math

from privet.bounds import Interval
from privet.errors import NotProved
from privet.guarantees import Guarantee

__all__ = ["LawBroken", "at_delta", "require", "require_at_most", "require_same"]


class LawBroken(AssertionError):
    """A law does not hold; the message names the law, the numbers, and where they came from."""


def require(holds: bool, law: str) -> None:
    """Raise ``LawBroken`` unless the law holds; never switched off, as ``assert`` can be."""
    if not holds:
        raise LawBroken(law)


def require_at_most(small: float, large: float, law: str, *, slack: float = 1e-12) -> None:
    """``small`` ≤ ``large``, up to a relative slack for round-off."""
    require(small <= large + slack * max(abs(small), abs(large)), f"{law}: {small!r} is above {large!r}")


def require_same(first: float, second: float, law: str, *, slack: float = 1e-12) -> None:
    """Both numbers agree, up to a relative slack for round-off."""
    same = first == second or math.isclose(first, second, rel_tol=slack, abs_tol=1e-300)
    require(same, f"{law}: {first!r} is not {second!r}")


def at_delta(guarantee: Guarantee, delta: float) -> Interval | None:
    """ε at this δ, or None where the accountant refuses to answer for it."""
    try:
        return guarantee.epsilon_bounds(delta=delta)
    except NotProved:
        return None
