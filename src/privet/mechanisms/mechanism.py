"""What every mechanism has: public parameters as fields, private data as an argument, an event for its cost.

``release`` reads the data and adds noise. ``event`` is what it costs, and is known before. ``charge`` writes
the event into a ledger; call it before ``release``, so that no answer is ever missing from the ledger.
"""

from abc import ABC, abstractmethod
from typing import Generic, TypeVar

from privet.adjacency import Adjacency
from privet.arguments import format_value
from privet.errors import InvalidArgument
from privet.events import Event
from privet.ledger import Ledger
from privet.randomness import NoiseSource, SecureNoise

__all__ = ["SECURE", "Mechanism", "check_adjacency"]

SECURE = SecureNoise()

Released_co = TypeVar("Released_co", covariant=True)


class Mechanism(ABC, Generic[Released_co]):
    """A frozen object that answers once about private data, with noise.

    *Leaks*: time and memory may depend on the data. The event covers only what ``release`` returns.
    """

    adjacency: Adjacency

    @property
    @abstractmethod
    def event(self) -> Event:
        """What one ``release`` does, under ``adjacency``."""

    @abstractmethod
    def release(self, data: object, noise: NoiseSource = SECURE) -> Released_co:
        """The noisy answer. Every call spends ``event`` once more."""

    def charge(self, ledger: Ledger, label: str, *, noise: NoiseSource = SECURE) -> Ledger:
        """The ledger with one more release, and with the caveats of this source of noise.

        >>> from privet.adjacency import AddRemove
        >>> from privet.mechanisms import CountWhere, Laplace
        >>> count = Laplace.calibrated(CountWhere(bool), epsilon=0.1, adjacency=AddRemove())
        >>> ledger = count.charge(Ledger(AddRemove()), "blue eyes")
        >>> len(ledger)
        1
        """
        if ledger.adjacency != self.adjacency:
            raise InvalidArgument(
                f"'ledger' must have the mechanism's adjacency, {self.adjacency}, got {ledger.adjacency}. "
                f"Make both with the same adjacency."
            )
        return ledger.spend(label, self.event, caveats=noise.caveats)


def check_adjacency(value: object) -> Adjacency:
    """An adjacency, which no mechanism chooses by itself."""
    if not isinstance(value, Adjacency):
        raise InvalidArgument(
            f"'adjacency' must be an adjacency, got {format_value(value)}, because a sensitivity depends "
            f"on it. Use AddRemove(), ReplaceOne() or ZeroOut()."
        )
    return value
