"""What the server may do, and the graph of masks that is enough against it.

Each client shares masks with some neighbours only, so that its work grows as the logarithm of the number of
clients. How many neighbours, and how many of them must help to open a secret, follows from the threat: the
share of clients that collude, the share that may drop out, and how unlikely a failure must be.

Reference: Bell, Bonawitz, Gascón, Lepoint & Raykova 2020, "Secure Single-Server Aggregation with
(Poly)Logarithmic Overhead": the k-regular graph and its good events (Section 3), neighbours chosen by the
clients against a malicious server (Section 4). The failure probabilities are not their asymptotic bounds:
they are the hypergeometric tails themselves, added up over all clients.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import final

from privet.arguments import finite, whole
from privet.errors import InvalidArgument
from privet.federated.sums.tails import log_at_least, log_below, log_choose

__all__ = ["GraphPlan", "HonestServer", "MaliciousServer", "ServerThreat"]

_LN2 = math.log(2)
_MOST_CLIENTS = 100_000


@final
@dataclass(frozen=True, kw_only=True)
class GraphPlan:
    """The graph of one round.

    Each client gives shares of its secrets to ``neighbours`` others; ``threshold`` of them open one. No sum
    is opened over fewer than ``together`` honest clients, except with probability 2^``log2_leak``. A round
    with no more dropouts than planned fails with probability at most 2^``log2_failure``.
    """

    clients: int
    neighbours: int
    threshold: int
    together: int
    log2_leak: float
    log2_failure: float


@dataclass(frozen=True, kw_only=True)
class ServerThreat(ABC):
    """Who may collude, who may drop out, and how unlikely a failure must be.

    ``colluding`` is the share of clients that work together with the server, ``dropouts`` the share that may
    leave at any moment of a round. ``privacy_bits`` is −log₂ of the probability that the choice of neighbours
    hides too little, ``delivery_bits`` that of a round without a sum.
    """

    colluding: float
    dropouts: float
    privacy_bits: int = 40
    delivery_bits: int = 20

    def __post_init__(self) -> None:
        for name in ("colluding", "dropouts"):
            value = getattr(self, name)
            if not 0 <= finite(name, value) < 1:
                raise InvalidArgument(
                    f"'{name}' must be at least 0 and below 1, got {value!r}. Give a share of the clients."
                )
        whole("privacy_bits", self.privacy_bits, most=256)
        whole("delivery_bits", self.delivery_bits, most=256)

    @property
    @abstractmethod
    def description(self) -> str:
        """The threat in one sentence."""

    @property
    @abstractmethod
    def clients_choose(self) -> bool:
        """Whether each client draws its own neighbours, and does not take those that the server names."""

    @abstractmethod
    def _with(self, clients: int, neighbours: int) -> GraphPlan | None:
        """The plan with so many neighbours, or None where a bound is not met."""

    def plan(self, clients: int) -> GraphPlan:
        """The graph with the fewest neighbours that meets both bounds."""
        whole("clients", clients, most=_MOST_CLIENTS)
        candidates = [*range(2, clients - 1, 2), clients - 1] if clients > 2 else []
        low, high = 0, len(candidates)
        while low < high:  # more neighbours are better, apart from whole numbers; so this is near the least
            middle = (low + high) // 2
            if self._with(clients, candidates[middle]) is None:
                low = middle + 1
            else:
                high = middle
        found = self._with(clients, candidates[low]) if low < len(candidates) else None
        if found is None:
            raise InvalidArgument(
                f"No graph of {clients} clients stands {self.colluding:.0%} of them colluding and "
                f"{self.dropouts:.0%} dropping out. Invite more clients, or plan for fewer of either."
            )
        return found

    def count_dropouts(self, clients: int) -> int:
        """How many of so many clients may drop out."""
        return math.floor(self.dropouts * clients)

    def _counts(self, clients: int) -> tuple[int, int]:
        """How many clients collude, and how many drop out, at most."""
        return math.floor(self.colluding * clients), self.count_dropouts(clients)

    def _log_short(self, clients: int, neighbours: int, threshold: int) -> float:
        """ln of the bound that some client has fewer than ``threshold`` neighbours left."""
        _, gone = self._counts(clients)
        others = clients - 1
        left = others - min(gone, others)
        return math.log(clients) + log_below(threshold, population=others, marked=left, draws=neighbours)


@final
@dataclass(frozen=True, kw_only=True)
class HonestServer(ServerThreat):
    """The server follows the protocol and looks at all that it sees, together with colluding clients.

    The server puts the clients on a circle in a random order; each has k/2 neighbours on either side.

    Guarantee: with T the threshold, C and D the colluding and the dropped clients (both do not depend on the
    order), the server learns the sum over the honest clients that stayed, and nothing else, unless (i) a
    client has T colluding neighbours, at most n P[H(n−1, C, k) ≥ T], or (ii) the honest clients that stayed
    are not connected, for which k/2 neighbours in a row must be gone, at most n C(r, k/2)/C(n, k/2) with r =
    C + D.

    Reference: Bell et al. 2020, Section 3 (semi-honest).
    """

    @property
    def description(self) -> str:
        return (
            f"The server and up to {self.colluding:.0%} of the clients may pool all that they see while they "
            "follow the protocol; a server that deviates is not covered."
        )

    @property
    def clients_choose(self) -> bool:
        return False

    def _with(self, clients: int, neighbours: int) -> GraphPlan | None:
        corrupt, gone = self._counts(clients)
        others = clients - 1
        together = clients - corrupt - gone
        cut = -math.inf
        if neighbours < others:
            run = neighbours // 2
            cut = math.log(clients) + log_choose(corrupt + gone, run) - log_choose(clients, run)
        allowed = -self.privacy_bits * _LN2
        for threshold in range(1, neighbours + 1):
            seen = log_at_least(threshold, population=others, marked=min(corrupt, others), draws=neighbours)
            leak = _add_logs(math.log(clients) + seen, cut)
            if leak <= allowed:
                short = self._log_short(clients, neighbours, threshold)
                if short > -self.delivery_bits * _LN2 or together < 2:
                    return None
                return GraphPlan(
                    clients=clients,
                    neighbours=neighbours,
                    threshold=threshold,
                    together=together,
                    log2_leak=leak / _LN2,
                    log2_failure=short / _LN2,
                )
        return None


@final
@dataclass(frozen=True, kw_only=True)
class MaliciousServer(ServerThreat):
    """The server may send anything to anybody, together with clients that were corrupted beforehand.

    Each client draws k neighbours of the whole cohort itself and gives its shares to them only.

    Guarantee: let c be the largest number of colluding neighbours of an honest client; more occur with
    probability at most n P[H(n−1, C, k) > c]. With 2T > k + c:

    * Of no honest client are both secrets opened: an honest neighbour gives a share of one of them.
    * A client gives shares only after T neighbours have confirmed to it that it is in the sum. At least T −
      c' of these are honest (c' colluding), so at most k − T + c' < T shares of its mask key can be had.
    * A client gives no share of a neighbour that has not said to it that their common mask is in its vector.
    * So where a client's own mask is opened, T − c honest neighbours gave shares of it, whose mask keys stay
      closed, and whose common masks are in its vector. These leave it only in a sum with theirs. The same
      holds for each of them. A sum of m honest clients is opened only if each of the m chose T − c of its
      neighbours among the others: at most C(n, m) P[H(n−1, m−1, k) ≥ T − c]^m, as all choose independently.
      ``together`` is the smallest m up to which these bounds add up to more than the failure allowed.

    The server can leave honest clients out, or end a round without a sum: nothing protects from that.

    Reference: after Bell et al. 2020, Section 4; what clients say to each other has a message
    authentication code under a key of the two, in place of signatures, and the bound on ``together`` is the
    one above.
    """

    @property
    def description(self) -> str:
        return (
            f"The server may deviate in any way, together with up to {self.colluding:.0%} of the clients, "
            "which were corrupted before the round."
        )

    @property
    def clients_choose(self) -> bool:
        return True

    def _with(self, clients: int, neighbours: int) -> GraphPlan | None:
        corrupt, _ = self._counts(clients)
        others = clients - 1
        marked = min(corrupt, others)
        allowed = -(self.privacy_bits + 1) * _LN2
        colluding, unlikely = 0, -math.inf
        for colluding in range(min(marked, neighbours) + 1):
            unlikely = math.log(clients) + log_at_least(
                colluding + 1, population=others, marked=marked, draws=neighbours
            )
            if unlikely <= allowed:
                break
        threshold = (neighbours + colluding) // 2 + 1
        short = self._log_short(clients, neighbours, threshold) if threshold <= neighbours else 0.0
        if short > -self.delivery_bits * _LN2:
            return None
        together, apart = self._fewest(clients - corrupt, others, neighbours, threshold - colluding, allowed)
        if together < 2:
            return None
        return GraphPlan(
            clients=clients,
            neighbours=neighbours,
            threshold=threshold,
            together=together,
            log2_leak=_add_logs(unlikely, apart) / _LN2,
            log2_failure=short / _LN2,
        )

    @staticmethod
    def _fewest(honest: int, others: int, neighbours: int, inside: int, allowed: float) -> tuple[int, float]:
        """The fewest honest clients of a sum, and ln of the bound that there are fewer."""
        total = -math.inf
        for size in range(inside + 1, honest + 1):
            one = log_at_least(inside, population=others, marked=size - 1, draws=neighbours)
            total_with = _add_logs(total, log_choose(honest, size) + size * one)
            if total_with > allowed:
                return size, total
            total = total_with
        return honest, total


def _add_logs(first: float, second: float) -> float:
    high, low = max(first, second), min(first, second)
    return high if low == -math.inf else high + math.log1p(math.exp(low - high))
