"""What an adversary of a federated run keeps of it, and the steps that they read off.

A *step* is a move of the model that can be ascribed to clients: the finest that the adversary sees. A server
that opens messages sees one step for each client. A server that learns only a sum sees one step for all
participants of a round. A participant sees the difference of two global models, with the server's noise in
it. All attacks on rounds start from steps, so the same attack runs under every defence.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
from numpy.typing import NDArray

from privet.arguments import whole
from privet.errors import InvalidArgument
from privet.observed_rounds import ObservedRound, Observer, RoundObserver, Weights
from privet.scores import Records

__all__ = ["ClientRecords", "ObservedStep", "RoundRecorder", "list_steps", "spread_rounds"]


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class ObservedStep:
    """A model before and after some clients trained on it.

    ``clients`` are those whose data are in the step. None says that the observer does not know who took part:
    everybody may have. A step of one client is ``isolated``.
    """

    round_number: int
    before: Weights
    update: Weights
    clients: frozenset[int] | None

    @property
    def isolated(self) -> bool:
        """Whether it is the step of a single client."""
        return self.clients is not None and len(self.clients) == 1

    @cached_property
    def after(self) -> Weights:
        """The weights after the step."""
        return {
            name: values + self.update[name] if name in self.update else values
            for name, values in self.before.items()
        }

    def may_hold(self, client: int) -> bool:
        """Whether the data of this client may be in the step."""
        return self.clients is None or client in self.clients


@final
class RoundRecorder(RoundObserver):
    """A passive adversary: keeps what it sees.

    *Adversary*: stands at ``place``; sees what the run shows there; changes nothing.

    ``keep`` names the rounds to keep, where all of them would need too much memory. A participant needs a
    round and the next one to see what happened in between.
    """

    def __init__(self, place: Observer, *, keep: Sequence[int] | None = None) -> None:
        self._place = place
        self._keep = None if keep is None else frozenset(keep)
        self.rounds: list[ObservedRound] = []

    @property
    def place(self) -> Observer:
        return self._place

    def observe(self, seen: ObservedRound) -> None:
        if self._keep is None or seen.number in self._keep:
            self.rounds.append(seen)


@final
@dataclass(frozen=True, eq=False)
class ClientRecords:
    """Records that may be in the data of clients: each with the one client that would hold it.

    Whose record it would be is public in this game (*does this hospital have this patient?*); whether it is
    there is decided by a coin, which no attack sees.
    """

    records: Records
    homes: NDArray[np.int64]

    def __post_init__(self) -> None:
        homes = np.asarray(self.homes)
        if homes.shape != (len(self.records),) or homes.dtype.kind not in "iu":
            raise InvalidArgument(
                f"'homes' must be the number of one client for each of {len(self.records)} records, got "
                f"{homes.dtype} of shape {homes.shape}. Give whole numbers on one axis."
            )
        object.__setattr__(self, "homes", homes.astype(np.int64))

    def __len__(self) -> int:
        return len(self.records)

    def take(self, which: NDArray[np.intp] | NDArray[np.bool_]) -> "ClientRecords":
        """Some of the records with their homes."""
        return ClientRecords(self.records.take(which), self.homes[which])


def list_steps(
    rounds: Sequence[ObservedRound], *, sent: Mapping[tuple[int, int], Weights] | None = None
) -> list[ObservedStep]:
    """The finest steps that these rounds show, in the order of the rounds.

    Opened messages come first: if a round shows the update of any client by itself, the steps of that round
    are those. Otherwise the sum is one step, divided by the number of participants as an average is. Without
    a sum, the step from a round to the next one is used. A round that shows no model gives no step. ``sent``
    holds the weights that an active server sent to a client in place of the global ones, by (round, client).
    """
    ordered = sorted(rounds, key=lambda seen: seen.number)
    _require_single_rounds(ordered)
    following = {seen.number - 1: seen.weights for seen in ordered}
    steps: list[ObservedStep] = []
    for seen in ordered:
        if not seen.weights:
            continue
        opened = [message for message in seen.messages if message.update is not None]
        if opened:
            steps.extend(
                ObservedStep(
                    round_number=seen.number,
                    before=(sent or {}).get((seen.number, message.client), seen.weights),
                    update=message.update or {},
                    clients=frozenset({message.client}),
                )
                for message in opened
            )
            continue
        after = following.get(seen.number)
        update: Weights | None = None
        if seen.total is not None:
            count = max(1, len(seen.participants))
            update = {name: np.asarray(values) / count for name, values in seen.total.items()}
        elif after:
            update = {name: np.asarray(after[name]) - values for name, values in seen.weights.items()}
        if update is not None:
            clients = frozenset(seen.participants) or None
            steps.append(
                ObservedStep(round_number=seen.number, before=seen.weights, update=update, clients=clients)
            )
    return steps


def spread_rounds(steps: Sequence[ObservedStep], count: int) -> list[ObservedStep]:
    """The steps of at most ``count`` rounds, evenly spread and with the last one."""
    numbers = sorted({step.round_number for step in steps})
    if len(numbers) <= whole("count", count):
        return list(steps)
    chosen = {numbers[int(place)] for place in np.linspace(0, len(numbers) - 1, count).round()}
    return [step for step in steps if step.round_number in chosen]


def _require_single_rounds(ordered: Sequence[ObservedRound]) -> None:
    numbers = [seen.number for seen in ordered]
    if not numbers:
        raise InvalidArgument(
            "'rounds' must hold at least one observed round, got none. Give an observer to the run, and let "
            "it finish a round."
        )
    if len(set(numbers)) < len(numbers):
        raise InvalidArgument(
            f"'rounds' must be one entry for each round of one run, got {len(numbers)} entries of "
            f"{len(set(numbers))} rounds. Give what one observer saw of one run."
        )
