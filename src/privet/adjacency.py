"""Who is protected: the privacy unit, and when two datasets count as neighbours.

Every claim in Privet names its adjacency, because ε under one means something else under another.

* ``AddRemove``: a neighbour has one unit more or one fewer. The number of units is a secret.
* ``ReplaceOne``: a neighbour has one unit exchanged for another. The number of units is public.
* ``ZeroOut``: a neighbour has one unit's contribution set to nothing; the number of units is public.

A contribution that is bounded by C moves a sum by at most C under ``AddRemove`` and ``ZeroOut`` and
by at most 2C under ``ReplaceOne``. That factor, ``contribution_distance``, is the only "×2" in the
code base: noise multipliers are always relative to the bound C of *one* unit's contribution.
"""

from abc import ABC
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, final

from privet.errors import InvalidArgument, Unreadable
from privet.public_calls import check_public_calls

__all__ = ["AddRemove", "Adjacency", "ReplaceOne", "Unit", "ZeroOut", "adjacency_from_name"]


@final
class Unit(StrEnum):
    """What "one" in "one more or one fewer" is."""

    RECORD = "record"
    USER = "user"
    CLIENT = "client"


@dataclass(frozen=True)
class Adjacency(ABC):
    """When two datasets are neighbours; see the module for the three kinds."""

    unit: Unit = Unit.RECORD

    relation: ClassVar[str]
    contribution_distance: ClassVar[int]

    def __post_init__(self) -> None:
        if not hasattr(self, "relation"):
            raise InvalidArgument(
                "An adjacency must be of one of the three kinds, got the class of all of them. "
                "Write AddRemove(), ReplaceOne() or ZeroOut()."
            )

    def __str__(self) -> str:
        return f"{self.relation} ({self.unit})"


@final
@dataclass(frozen=True)
class AddRemove(Adjacency):
    """One unit more or one fewer.

    >>> str(AddRemove(Unit.USER))
    'add-remove (user)'
    """

    relation: ClassVar[str] = "add-remove"
    contribution_distance: ClassVar[int] = 1


@final
@dataclass(frozen=True)
class ReplaceOne(Adjacency):
    """One unit exchanged for any other."""

    relation: ClassVar[str] = "replace-one"
    contribution_distance: ClassVar[int] = 2


@final
@dataclass(frozen=True)
class ZeroOut(Adjacency):
    """One unit's contribution set to nothing, its place kept."""

    relation: ClassVar[str] = "zero-out"
    contribution_distance: ClassVar[int] = 1


_KINDS: dict[str, type[Adjacency]] = {kind.relation: kind for kind in (AddRemove, ReplaceOne, ZeroOut)}


def adjacency_from_name(relation: str, unit: str = "record") -> Adjacency:
    """The adjacency that a document or a command line names.

    >>> adjacency_from_name("replace-one")
    ReplaceOne(unit=<Unit.RECORD: 'record'>)
    """
    if relation not in _KINDS:
        raise Unreadable(
            f"'adjacency' must be one of {', '.join(_KINDS)}, got {relation!r}. "
            f"Name the relation under which neighbours are meant."
        )
    if unit not in set(Unit):
        raise Unreadable(
            f"'unit' must be one of {', '.join(Unit)}, got {unit!r}. Name what one contribution is of."
        )
    return _KINDS[relation](Unit(unit))


check_public_calls(__name__)
