"""What every mechanism is: public parameters as fields, private data as an argument, an event that says what it did.

``release`` looks at the data and adds noise. ``event`` is what it costs, known before. ``charge`` writes that into a
ledger; call it before ``release``, so that nothing that was answered is ever missing from the ledger.
"""

from abc import ABC, abstractmethod
from typing import Generic, TypeVar

from privet.adjacency import Adjacency
from privet.arguments import shown
from privet.errors import InvalidArgument
from privet.events import Event
from privet.ledger import Ledger
from privet.randomness import NoiseSource, SecureNoise

__all__ = ["SECURE", "Mechanism", "check_adjacency"]

SECURE = SecureNoise()

Released_co = TypeVar("Released_co", covariant=True)


class Mechanism(ABC, Generic[Released_co]):
    """A frozen object that answers once about private data, with noise.

    *Leaks*: time and memory may depend on the data; only what ``release`` returns is covered by the event.
    """

    adjacency: Adjacency

    @property
    @abstractmethod
    def event(self) -> Event:
        """What one ``release`` does, to be read under ``adjacency``."""

    @abstractmethod
    def release(self, data: object, noise: NoiseSource = SECURE) -> Released_co:
        """The noisy answer. Every call spends ``event`` once more."""

    def charge(self, ledger: Ledger, label: str, *, noise: NoiseSource = SECURE) -> Ledger:
        """The ledger with one release more, and with what this source of noise must say.

        >>> from privet.adjacency import AddRemove
        >>> from privet.mechanisms import CountWhere, Laplace
        >>> count = Laplace.calibrated(CountWhere(bool), epsilon=0.1, adjacency=AddRemove())
        >>> ledger = count.charge(Ledger(AddRemove()), "blue eyes")
        >>> len(ledger)
        1
        """
        if ledger.adjacency != self.adjacency:
            raise InvalidArgument(
                f"'ledger' must be kept under the mechanism's {self.adjacency}, got one under {ledger.adjacency}. "
                f"Make both under the same adjacency."
            )
        return ledger.spend(label, self.event, caveats=noise.caveats)


def check_adjacency(value: object) -> Adjacency:
    """An adjacency, which no mechanism picks silently."""
    if not isinstance(value, Adjacency):
        raise InvalidArgument(
            f"'adjacency' must be an adjacency, got {shown(value)}, because a sensitivity is one under an adjacency "
            f"only. Use AddRemove(), ReplaceOne() or ZeroOut()."
        )
    return value
