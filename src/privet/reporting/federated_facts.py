"""What attacks on federated runs found under several defences: the figures, as plain values."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from privet.auditing import Rate
from privet.errors import InvalidArgument
from privet.exhibits import Picture
from privet.reporting.facts import Origin

__all__ = ["AttackedDefence", "FederatedAttack", "FederatedContent", "ServerSight"]


@final
@dataclass(frozen=True, kw_only=True)
class FederatedAttack:
    """One attack on a live run.

    ``success`` is the share of hits among targets that are in the data, ``baseline`` that among targets which
    the coin left out. ``ceiling`` is the most that any attack of this observer can reach at this baseline, if
    the claim holds, and ``sure_ceiling`` the same at the upper end of the baseline's interval; both are None
    where no claim covers the observer. ``exceeded`` says that all of success's interval is above
    ``sure_ceiling``.
    """

    attack: str
    observer: str
    active: bool
    method: str
    wants: str
    targets: int
    success: Rate
    baseline: Rate
    leak: Rate
    ceiling: float | None = None
    sure_ceiling: float | None = None
    exceeded: bool = False

    @property
    def detected(self) -> bool:
        """Whether the interval of the leak excludes 0."""
        return self.leak.lower > 0

    @property
    def key(self) -> str:
        """What the attack is called in a table of all defences."""
        return f"{self.attack}, {'active ' if self.active else ''}{self.observer}"


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class ServerSight:
    """What the server reads of one client's message: pictures of the first layer, and what it is."""

    words: str
    pictures: tuple[Picture, ...]


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class AttackedDefence:
    """One defence: what it costs, what it proves of a client, and what attacks find under it.

    ``covers`` says against whom the proof holds. ``epsilon_proved`` is that of a client, under ``adjacency``.
    """

    name: str
    words: str
    test_accuracy: Rate
    attacks: tuple[FederatedAttack, ...]
    epsilon_proved: float | None = None
    delta: float | None = None
    adjacency: str = ""
    covers: str = "nobody"
    seconds: float = 0.0
    sight: ServerSight | None = None

    def find(self, key: str) -> FederatedAttack | None:
        """The attack with this key, if it was run."""
        return next((attack for attack in self.attacks if attack.key == key), None)


@dataclass(frozen=True, eq=False, kw_only=True)
class FederatedContent:
    """Attacks on live federated runs, under several defences of the same clients.

    ``confidence`` is that of each interval by itself. ``truths`` are the records of the client whose message
    ``ServerSight`` shows.
    """

    defences: Sequence[AttackedDefence]
    clients: int
    rounds: int
    records: int
    confidence: float
    origin: Origin
    truths: tuple[Picture, ...] = ()
    title: str = "Attacks on federated training"

    def __post_init__(self) -> None:
        object.__setattr__(self, "defences", tuple(self.defences))
        if not self.defences:
            raise InvalidArgument(
                "'defences' must hold at least one, got none. Attack a run without a defence first."
            )
        names = [defence.name for defence in self.defences]
        if len(set(names)) < len(names):
            raise InvalidArgument("'defences' must have names that differ, got one twice. Name each defence.")

    @property
    def keys(self) -> tuple[str, ...]:
        """All attacks, in the order in which they were first run."""
        found: dict[str, None] = {}
        for defence in self.defences:
            for attack in defence.attacks:
                found.setdefault(attack.key)
        return tuple(found)

    @property
    def exceeded(self) -> tuple[tuple[str, str], ...]:
        """Defence and attack of every success above its ceiling."""
        return tuple(
            (defence.name, attack.key)
            for defence in self.defences
            for attack in defence.attacks
            if attack.exceeded
        )
