"""The defences of a federated run that attacks are compared under, and against whom each proves something."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import final

from privet.accounting import account
from privet.adjacency import ReplaceOne, Unit
from privet.arguments import open_fraction, positive, whole
from privet.errors import NotProved
from privet.federated import (
    CentralNoise,
    DistributedNoise,
    Federated,
    LocalNoise,
    NoNoise,
    SumProtocol,
)
from privet.federated.privacy import FederatedPrivacy
from privet.federated.sums import (
    DistributedGaussian,
    DistributedSum,
    EncryptedSum,
    FixedPoint,
    HonestServer,
    SecureSum,
)
from privet.guarantees import Guarantee
from privet.observed_rounds import Observer
from privet.public_calls import check_public_calls

__all__ = ["FederatedDefence", "list_federated_defences", "prove_for_record"]

_LARGEST = 64.0  # of a number in an update that nobody clipped; a larger one is refused
_THREAT = HonestServer(colluding=0.1, dropouts=0.1)


@final
@dataclass(frozen=True, kw_only=True)
class FederatedDefence:
    """How a run is protected: who adds noise, and what of a client's update the server can read.

    ``sums`` makes the protocol for so many clients; None is a plain sum, which opens every message.
    ``epsilon`` and ``delta`` are left out where nobody adds noise.
    """

    name: str
    words: str
    privacy: FederatedPrivacy
    sums: Callable[[int], SumProtocol] | None = None
    epsilon: float | None = None
    delta: float | None = None

    def covers(self, observer: Observer) -> bool:
        """Whether the proof holds against this observer.

        Noise that the server adds is behind its back: it protects from those who see models, not from the
        server.
        """
        if isinstance(self.privacy, CentralNoise):
            return observer is Observer.PARTICIPANT
        return isinstance(self.privacy, LocalNoise | DistributedNoise)

    @property
    def covered(self) -> str:
        """Against whom the proof holds, in words."""
        words = {Observer.SERVER: "the server", Observer.PARTICIPANT: "participants"}
        return " and ".join(words[place] for place in Observer if self.covers(place)) or "nobody"


def list_federated_defences(
    *, clients: int, epsilon: float, delta: float, clip: float, everything: bool = False
) -> tuple[FederatedDefence, ...]:
    """No defence, clipping + noise, secure aggregation, and both.

    With ``everything`` also noise that each client adds alone, noise that the clients add together behind
    masks, and homomorphic encryption (package tenseal). All noise is the least for the same ε and δ of a
    client.
    """
    whole("clients", clients, least=3)
    positive("epsilon", epsilon)
    open_fraction("delta", delta)
    positive("clip", clip)
    central = FederatedDefence(
        name="clipping + noise",
        words="The server clips, sums, and adds noise to the sum before anybody sees a model.",
        privacy=CentralNoise(clip=clip),
        epsilon=epsilon,
        delta=delta,
    )
    defences = (
        FederatedDefence(name="no defence", words="The server reads every update.", privacy=NoNoise()),
        central,
        FederatedDefence(
            name="secure aggregation",
            words="Masks hide every update; the server reads the exact sum.",
            privacy=NoNoise(),
            sums=lambda count: _mask(count, _LARGEST),
        ),
        replace(
            central,
            name="both",
            words="Masks hide every update, and the server adds noise to the sum.",
            sums=lambda count: _mask(count, clip),
        ),
    )
    if not everything:
        return defences
    honest = _THREAT.plan(clients).together
    return (
        *defences,
        FederatedDefence(
            name="noise of each client",
            words="Each client clips its update and adds noise before it is sent.",
            privacy=LocalNoise(clip=clip),
            epsilon=epsilon,
            delta=delta,
        ),
        FederatedDefence(
            name="masks + shared noise",
            words="Masks hide every update, and the clients add the noise of the sum together.",
            privacy=DistributedNoise(least_contributors=honest),
            sums=lambda count: _share_noise(count, clip),
            epsilon=epsilon,
            delta=delta,
        ),
        FederatedDefence(
            name="homomorphic encryption",
            words="Updates are added under encryption; the server and the key holder read the sum.",
            privacy=NoNoise(),
            sums=lambda count: EncryptedSum.for_one_process(largest=_LARGEST, clients=count),
        ),
    )


def prove_for_record(run: Federated) -> Guarantee:
    """What a run proves for a record or a property that comes or goes within one client.

    A client with other data is another client: it is exchanged. Where the ledger's events have no bound under
    exchange, the guarantee for two units is used: the client goes, and the other one comes.
    """
    if run.ledger is None:
        return run.guarantee()  # raises NotProved, and says what to do
    if isinstance(run.ledger.adjacency, ReplaceOne):
        return run.guarantee()
    try:
        return account(replace(run.ledger, adjacency=ReplaceOne(Unit.CLIENT)))
    except NotProved:
        return run.guarantee().group(size=2)


def _mask(clients: int, largest: float) -> SecureSum:
    return SecureSum.for_one_process(range(clients), encoding=FixedPoint(largest=largest), threat=_THREAT)


def _share_noise(clients: int, clip: float) -> DistributedSum:
    encoding = DistributedGaussian(
        clip=clip,
        noise_multiplier=1.0,  # the run puts that of its ε here
        shares=_THREAT.plan(clients).together,
        granularity=clip * 2.0**-16,
    )
    return DistributedSum(SecureSum.for_one_process(range(clients), encoding=encoding, threat=_THREAT))


check_public_calls(__name__)
