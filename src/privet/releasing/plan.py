"""Several statistics under one budget: what will be asked, what it costs, and the asking itself."""

from dataclasses import dataclass
from typing import final

from privet.adjacency import AddRemove, Adjacency, Unit
from privet.events import Compose, Event
from privet.randomness import NoiseSource, SecureNoise
from privet.releasing.answers import Quote, Released
from privet.releasing.budget import Budget
from privet.releasing.contribution import Contribution
from privet.releasing.questions import Part
from privet.releasing.statistics import Statistic
from privet.releasing.store import Store

__all__ = ["Plan"]


@final
@dataclass(frozen=True, kw_only=True)
class Plan:
    """Statistics to be released together. Nothing happens before ``run``."""

    statistics: tuple[tuple[str, Statistic], ...]
    unit: str | None
    budget: Budget
    split: tuple[float, ...] | None = None
    contribution: Contribution = Contribution()  # noqa: RUF009 - frozen
    adjacency: Adjacency | None = None
    confidence: float = 0.95

    @property
    def relation(self) -> Adjacency:
        """The adjacency that holds: the one that was given, or add-remove of one user, or of one row."""
        if self.adjacency is not None:
            return self.adjacency
        return AddRemove(Unit.RECORD if self.unit is None else Unit.USER)

    @property
    def parts(self) -> tuple[Part, ...]:
        """Each statistic with what its answer depends on."""
        return tuple(
            Part(label, statistic, self.unit, self.contribution, self.relation)
            for label, statistic in self.statistics
        )

    @property
    def events(self) -> tuple[Event, ...]:
        """What each statistic will spend."""
        raise NotImplementedError

    @property
    def event(self) -> Event:
        """All of it."""
        return Compose(self.events)

    def quote(self) -> tuple[Quote, ...]:
        """Cost and expected error of each statistic; no row is read."""
        raise NotImplementedError

    def run(
        self,
        data: object,
        *,
        noise: NoiseSource | None = None,
        store: Store | None = None,
        data_name: str = "data",
    ) -> Released:
        """Answer everything, after the spending was written down in the store."""
        raise NotImplementedError(noise or SecureNoise())
