"""Active attacks: raise the loss of a record on purpose, and watch who brings it down again.

A client that holds the record descends its loss, which is suddenly large; another client does not. The
attack changes only what the adversary may change: a server the weights that it sends, a participant the
update of its own client.
"""

from collections.abc import Sequence
from typing import final

import numpy as np
import torch
from torch import nn

from privet.arguments import positive, whole
from privet.attacks.federated.signals import load_weights
from privet.attacks.federated.steps import ClientRecords, ObservedStep, list_steps
from privet.errors import InvalidArgument
from privet.observed_rounds import ObservedRound, Observer, RoundObserver, Weights
from privet.views import Numbers

__all__ = ["GradientAscent"]


@final
class GradientAscent(RoundObserver):
    """Ascends the loss of target records from round ``start`` on, and keeps what comes back.

    *Adversary*: a server, or the participant ``client``; knows the targets and their homes; wants to know which
    of them their clients hold.

    A server sends each client a model on which the loss of that client's own targets was raised, ``at_once``
    of them in turn. A participant sends an update that raises the loss of all targets in the next global
    model. ``strength`` is the length of the ascent relative to the norm of the weights; a participant's is
    multiplied by ``boost``, the number of clients whose average dilutes it.

    *Reference*: Nasr, Shokri & Houmansadr 2019, section III-C and table XII (global and local attacker).
    Deviations: the step has a fixed length in place of a learning rate γ, so that it is felt at any size of
    the gradient; a server raises few targets of a client at a time (``at_once``).
    """

    def __init__(
        self,
        module: nn.Module,
        targets: ClientRecords,
        *,
        client: int | None = None,
        start: int = 0,
        strength: float = 0.1,
        at_once: int = 1,
        boost: float = 1.0,
    ) -> None:
        self._module, self._targets = module, targets
        self._client = client if client is None else whole("client", client, least=0)
        self._start = whole("start", start, least=0)
        self._strength = positive("strength", strength)
        self._at_once = whole("at_once", at_once)
        self._boost = positive("boost", boost)
        self._sent: dict[tuple[int, int], Weights] = {}
        self._raised: dict[tuple[int, int], Numbers] = {}
        self.rounds: list[ObservedRound] = []

    @property
    def place(self) -> Observer:
        return Observer.SERVER if self._client is None else Observer.PARTICIPANT

    @property
    def client(self) -> int | None:
        return self._client

    def alter(self, round_number: int, client: int, weights: Weights) -> Weights:
        held = np.flatnonzero(self._targets.homes == client)
        if round_number < self._start or not len(held):
            return weights
        turn = (round_number - self._start) * self._at_once
        chosen = held[(turn + np.arange(min(self._at_once, len(held)))) % len(held)]
        altered = self._ascend(weights, chosen, self._strength)
        self._sent[round_number, client] = altered
        self._raised[round_number, client] = chosen
        return altered

    def contribute(self, round_number: int, weights: Weights, update: Weights) -> Weights:
        if round_number < self._start:
            return update
        everything = np.arange(len(self._targets))
        raised = self._ascend(weights, everything, self._strength * self._boost)
        return {
            name: np.asarray(raised[name]) - weights[name] if name in raised else values
            for name, values in update.items()
        }

    def observe(self, seen: ObservedRound) -> None:
        if seen.number >= self._start:
            self.rounds.append(seen)

    def list_steps(self) -> list[ObservedStep]:
        """The steps from what was really sent, as ``measure_rounds`` takes them."""
        return list_steps(self.rounds, sent=self._sent)

    def was_raised(self, steps: Sequence[ObservedStep]) -> Numbers:
        """Which targets had their loss raised in which round, rounds × targets, for rounds of these steps.

        For a participant it is every target in every round.
        """
        numbers = sorted({step.round_number for step in steps})
        if self.place is Observer.PARTICIPANT:
            return np.ones((len(numbers), len(self._targets)), dtype=np.bool_)
        answer = np.zeros((len(numbers), len(self._targets)), dtype=np.bool_)
        for place, number in enumerate(numbers):
            for (when, _), chosen in self._raised.items():
                if when == number:
                    answer[place, chosen] = True
        return answer

    def _ascend(self, weights: Weights, chosen: Numbers, strength: float) -> Weights:
        """The weights moved by a fixed length along the gradient of the chosen targets' mean loss."""
        records = self._targets.records.take(chosen)
        model = load_weights(self._module, weights, records.inputs.shape[1:])
        totals = {name: torch.zeros_like(value, dtype=torch.float64) for name, value in model.weights.items()}
        for part in model.per_example(records.inputs, records.known_labels):
            for name, value in part.items():
                totals[name] += value.double().sum(dim=0)
        slope = {name: value.cpu().numpy() for name, value in totals.items()}
        size = float(np.sqrt(sum(float(np.square(value).sum()) for value in slope.values())))
        scale = float(np.sqrt(sum(float(np.square(weights[name]).sum()) for name in slope)))
        if not np.isfinite(size):
            raise InvalidArgument(
                "'weights' must give finite gradients, got NaN or infinity. End the attack before the model "
                "diverges: lower 'strength'."
            )
        step = strength * scale / max(size, 1e-30)
        return {
            name: np.asarray(values) + step * slope[name] if name in slope else values
            for name, values in weights.items()
        }
