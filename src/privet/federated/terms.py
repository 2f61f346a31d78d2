"""The terms of one run: who clips, who adds how much noise, the divisor, and the ledger of its rounds.

They are settled before the first round, and both sides compute them from the same public numbers. So a client
need not believe what the server says about the noise that the client itself adds.
"""

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import final

from torch import Tensor

from privet.adjacency import Unit, ZeroOut
from privet.caveats import Caveat
from privet.events import Gaussian, Repeat
from privet.federated.sum_protocols import NoisySumProtocol, SumProtocol
from privet.ledger import Entry, Ledger
from privet.training.clipping import Clip, Flat
from privet.training.plan import TrainingPlan
from privet.training.sampling.schemes import Sampling

__all__ = [
    "CentralTerms",
    "DistributedTerms",
    "LocalTerms",
    "LostRounds",
    "OpenTerms",
    "Terms",
    "name_rounds",
]

LostRounds = tuple[
    tuple[int, int], ...
]  # ranges (from, to] of rounds that ran, were lost in a crash, and run again

_NO_CAVEATS: frozenset[Caveat] = frozenset()


class Terms(ABC):
    """What was settled for a run of ``rounds`` rounds.

    ``plan`` is the plan that is accounted, where there is one. ``clip`` is the rule of the first round.
    ``local_deviation`` is the standard deviation of the noise that each client adds by itself.
    ``hides_failures`` says that noise hides the data, so that no answer may tell that a client cannot train.
    ``server_adds_noise`` says that the clip bound is what the noise on a sum hides, so that rounding must not
    lead beyond it.
    ``clients_count_rounds`` says that a client takes part in ``rounds`` rounds at most, whatever the server
    says.
    """

    plan: TrainingPlan | None = None
    clip: Clip | None = None
    local_deviation: float = 0.0
    least_contributors: int = 0
    server_adds_noise: bool = False
    clients_count_rounds: bool = False
    hides_failures: bool = True
    rounds: int
    sampling: Sampling

    def protocol(self, protocol: SumProtocol) -> SumProtocol:
        """The protocol with the noise of these terms."""
        return protocol

    def divisor(self, population: int, mean_weight: float, contributed: float) -> float:
        """What a sum of updates is divided by: a public number wherever the model is protected."""
        del population, mean_weight
        return contributed

    @abstractmethod
    def ledger(
        self, rounds: int, *, lost: LostRounds = (), caveats: frozenset[Caveat] = _NO_CAVEATS
    ) -> Ledger | None:
        """What these rounds have spent, with those that ran again after a crash; None if it is unbounded."""

    def final_ledger(
        self, rounds: int, times_asked: Tensor, lost: LostRounds, caveats: frozenset[Caveat]
    ) -> Ledger | None:
        """The ledger of a run that has ended, with an entry for each round where rounds are independent."""
        del times_asked
        ledger = self.ledger(rounds, lost=lost, caveats=caveats)
        return None if ledger is None else name_rounds(ledger, rounds + _count(lost))

    def client_ledgers(
        self, times_asked: Tensor, again: int, caveats: frozenset[Caveat]
    ) -> dict[int, Ledger]:
        """What each client has spent by itself: nothing, unless clients add noise alone."""
        del times_asked, again, caveats
        return {}


@final
class CentralTerms(Terms):
    """The server adds the noise of a plan whose examples are clients."""

    server_adds_noise = True

    def __init__(self, plan: TrainingPlan, clip: Clip) -> None:
        self.plan, self.clip, self.rounds, self.sampling = plan, clip, plan.steps, plan.sampling

    def divisor(self, population: int, mean_weight: float, contributed: float) -> float:
        del population, contributed
        assert self.plan is not None
        return self.plan.expected_lot * mean_weight

    def ledger(
        self, rounds: int, *, lost: LostRounds = (), caveats: frozenset[Caveat] = _NO_CAVEATS
    ) -> Ledger:
        assert self.plan is not None
        return self.plan.ledger(rounds, abandoned=lost, caveats=caveats)


@final
class LocalTerms(Terms):
    """Each client adds the noise of a plan in which it takes part in every round."""

    clients_count_rounds = True

    def __init__(self, plan: TrainingPlan, clip: Clip, sampling: Sampling) -> None:
        self.plan, self.clip, self.rounds, self.sampling = plan, clip, plan.steps, sampling
        self.local_deviation = plan.standard_deviation

    def ledger(
        self, rounds: int, *, lost: LostRounds = (), caveats: frozenset[Caveat] = _NO_CAVEATS
    ) -> Ledger:
        """The ledger of a client that was asked in each of these rounds."""
        assert self.plan is not None
        return self.plan.ledger(rounds, abandoned=lost, caveats=caveats)

    def final_ledger(
        self, rounds: int, times_asked: Tensor, lost: LostRounds, caveats: frozenset[Caveat]
    ) -> Ledger:
        """The ledger of the client that was asked most often."""
        del rounds
        return self._client_ledger(int(times_asked.max()), _count(lost), caveats)

    def client_ledgers(
        self, times_asked: Tensor, again: int, caveats: frozenset[Caveat]
    ) -> dict[int, Ledger]:
        """The ledger of each client. A round that a crash lost counts for all: its cohort is not known."""
        ledgers = {times: self._client_ledger(times, again, caveats) for times in set(times_asked.tolist())}
        return {client: ledgers[times] for client, times in enumerate(times_asked.tolist())}

    def _client_ledger(self, times: int, again: int, caveats: frozenset[Caveat]) -> Ledger:
        assert self.plan is not None
        event = Gaussian(self.plan.noise_multiplier)
        entries = tuple(Entry(f"update {number}", event) for number in range(1, times + again + 1))
        return Ledger(self.plan.adjacency, entries, caveats)


@final
class DistributedTerms(Terms):
    """The clients of a round add the noise together."""

    clients_count_rounds = True

    def __init__(
        self,
        protocol: NoisySumProtocol,
        length: int,
        rounds: int,
        least_contributors: int,
        sampling: Sampling,
    ) -> None:
        self._protocol, self._length = protocol, length
        self.rounds, self.least_contributors, self.sampling = rounds, least_contributors, sampling
        self.clip = Flat(protocol.clip_bound)

    def protocol(self, protocol: SumProtocol) -> SumProtocol:
        del protocol
        return self._protocol

    def ledger(
        self, rounds: int, *, lost: LostRounds = (), caveats: frozenset[Caveat] = _NO_CAVEATS
    ) -> Ledger:
        event = self._protocol.event(length=self._length, contributors=self.least_contributors)
        again = sum(stop - start for start, stop in lost)
        stopped = frozenset({Caveat.STOPPED_EARLY}) if 0 < rounds < self.rounds else _NO_CAVEATS
        ledger = Ledger(ZeroOut(Unit.CLIENT), caveats=caveats | stopped)
        if not rounds + again:
            return ledger
        return ledger.spend(f"private training, {rounds + again} steps", Repeat(event, rounds + again))


@final
class OpenTerms(Terms):
    """Nobody adds noise."""

    hides_failures = False

    def __init__(self, rounds: int, clip: Clip | None, sampling: Sampling) -> None:
        self.rounds, self.clip, self.sampling = rounds, clip, sampling

    def ledger(self, rounds: int, *, lost: LostRounds = (), caveats: frozenset[Caveat] = _NO_CAVEATS) -> None:
        del rounds, lost, caveats


def _count(lost: LostRounds) -> int:
    return sum(stop - start for start, stop in lost)


def name_rounds(ledger: Ledger, rounds: int) -> Ledger:
    """The same ledger with an entry for each of these rounds, where rounds cost the same each and
    independently.

    Elsewhere, as with correlated noise, one entry covers all rounds.
    """
    entries = list(ledger)
    if len(entries) != 1:
        return ledger
    event, label = entries[0].event, entries[0].label.replace("private training", "federated training")
    if isinstance(event, Repeat) and event.times == rounds:
        rows = tuple(Entry(f"federated round {number}", event.inner) for number in range(1, rounds + 1))
        return replace(ledger, entries=rows)
    return replace(ledger, entries=(Entry(label.replace("steps", "rounds"), event),))
