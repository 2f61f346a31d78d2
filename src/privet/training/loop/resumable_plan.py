"""A plan, other than a ``TrainingPlan``, whose run a checkpoint can keep."""

from abc import ABC, abstractmethod
from typing import Any

from privet.caveats import Caveat
from privet.ledger import Ledger

__all__ = ["ResumablePlan"]


class ResumablePlan(ABC):
    """A run of ``steps`` steps, each of which is reserved before it spends anything."""

    @property
    @abstractmethod
    def steps(self) -> int:
        """The number of steps."""

    @abstractmethod
    def ledger(
        self,
        steps: int,
        *,
        abandoned: tuple[tuple[int, int], ...] = (),
        caveats: frozenset[Caveat] = frozenset(),
    ) -> Ledger | None:
        """What this number of steps costs, with those that ran again after a crash; None if nothing is
        proved.
        """

    @abstractmethod
    def to_plain(self) -> dict[str, Any]:
        """The plan as plain data, by which a run that resumes is compared with the first one."""

    def find_differences(self, plain: object) -> list[str]:
        """The names of the fields in which a stored plan differs from this one."""
        own = self.to_plain()
        if not isinstance(plain, dict):
            return sorted(own)
        return sorted(name for name in own.keys() | plain.keys() if own.get(name) != plain.get(name))
