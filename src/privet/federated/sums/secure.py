"""Secure aggregation: the server learns the sum, and no single vector."""

from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import final

from privet.arguments import whole
from privet.errors import InvalidArgument
from privet.federated.sum_protocols import Messages, SumResult
from privet.federated.sums.identities import Identities
from privet.federated.sums.secure_client import SecureClient
from privet.federated.sums.secure_rounds import plan_graph
from privet.federated.sums.secure_server import SecureRound
from privet.federated.sums.threats import ServerThreat
from privet.federated.sums.word_encoding import WordEncoding, require_honest
from privet.federated.sums.word_sums import WordSum
from privet.views import Numbers

__all__ = ["SecureSum"]


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class SecureSum(WordSum):
    """The sum of all vectors, by masks that cancel in it.

    Client i sends x_i + F(b_i) + Σ_{i<j} F(s_ij) − Σ_{j<i} F(s_ij) modulo 2^bits: F is the key stream of AES,
    b_i its own seed, s_ij the Diffie-Hellman secret with neighbour j. Shares of b_i and of the key behind all
    s_ij lie with its neighbours. For a client whose vector arrived they open b_i; for one that dropped out
    after it dealt its shares they open the key, so that its masks are taken out of the others' vectors. Both
    together would open x_i, so no neighbour ever gives both.

    Guarantee: that of the ``threat``: ``HonestServer`` or ``MaliciousServer``. The sum is exact modulo
    2^bits. Dropouts at any moment are survived up to ``threat.dropouts``; beyond that the round fails and
    nothing is opened.

    Adversary: the server and the colluding clients see all messages, and know all of the protocol. They want
    a single vector, or a sum over few clients.

    Leaks: the sum, and who took part. A sum is not private by itself; only noise makes it so
    (``DistributedGaussian``). A malicious client can send any words: inputs are not checked, and one wrong
    vector spoils the sum. The keys of two clients are as secret as X25519, HKDF-SHA256 and AES-256 are.

    Reference: Bonawitz et al. 2017, "Practical Secure Aggregation for Privacy-Preserving Machine Learning",
    Section 4 (double masking); Bell et al. 2020 for the graph. Deviations: the choice of the graph
    (``threats``), confirmations in place of signatures on the list of survivors, and a commitment to b_i so
    that a wrong share is found.

    ``least_clients`` is the smallest cohort that a client takes part in.
    """

    identities: Identities
    encoding: WordEncoding
    threat: ServerThreat
    least_clients: int

    def __post_init__(self) -> None:
        whole("least_clients", self.least_clients, least=3)
        plan_graph(self.threat, self.least_clients)

    @staticmethod
    def for_one_process(
        clients: Iterable[int], *, encoding: WordEncoding, threat: ServerThreat
    ) -> "SecureSum":
        """Everybody in one process, with new identities, and cohorts from 3 clients on: for simulations.

        Where parties are apart, each is given its own part of the identities instead (``Identities.only``).
        """
        return SecureSum(
            identities=Identities.generate(clients), encoding=encoding, threat=threat, least_clients=3
        )

    @property
    def threat_model(self) -> str:
        return self.threat.description

    def with_encoding(self, encoding: WordEncoding) -> "SecureSum":
        return replace(self, encoding=encoding)

    def serve(
        self, *, round_number: int, clients: Sequence[int], length: int
    ) -> Generator[Messages, Messages, SumResult]:
        whole("round_number", round_number)
        whole("length", length)
        strangers = [client for client in clients if client not in self.identities.public]
        if strangers or len(set(clients)) < len(clients):
            raise InvalidArgument(
                "'clients' must be different clients with an identity, and one is missing or stands "
                "twice. Add its public key to the identities."
            )
        if len(clients) < self.least_clients:
            raise InvalidArgument(
                f"'clients' must be at least {self.least_clients}, got {len(clients)}. Invite more."
            )
        self.encoding.check_cohort(len(clients), length)
        plan = plan_graph(self.threat, len(clients))
        require_honest(plan.together, self.encoding.least_honest)
        current = SecureRound(
            round_number=round_number,
            cohort=clients,
            length=length,
            words=self.encoding.word_count(length),
            bits=self.encoding.bits,
            plan=plan,
            least_contributors=len(clients) - self.threat.count_dropouts(len(clients)),
            clients_choose=self.threat.clients_choose,
            identities=self.identities,
        )
        words = yield from current.sum_words()
        staying = set(current.contributors)
        return SumResult(
            total=self.encoding.decode(words, round_number=round_number, length=length),
            contributors=current.contributors,
            dropped=tuple(client for client in clients if client not in staying),
            refused=current.refused,
            error_bound=self.encoding.bound_error(len(staying), length),
            event=self.encoding.describe_noise(length),
            caveats=self.encoding.caveats,
        )

    def answer(
        self, *, client: int, message: bytes, state: bytes, vector: Callable[[], Numbers]
    ) -> tuple[bytes, bytes]:
        own = SecureClient(client, self.identities, self.encoding, self.threat, self.least_clients)
        return own.answer(message, state, vector)
