"""Active attacks: raise the loss of a record on purpose, and watch who brings it down again.

A client that holds the record descends its loss, which is suddenly large; another client does not. The
attack changes only what the adversary may change: a server the weights that it sends, a participant the
update of its own client.

*The direction.* Along the plain gradient of a record's loss the loss of everything like it rises too, and
then every client brings it down. So the part of the gradient that other records share is taken out: with the
gradients g of the records to spare as rows of G, each of norm 1, the ascent goes along
g − Gᵀ (G Gᵀ + λ 1)⁻¹ G g. That is the residual of a ridge regression of the record's gradient on the others.
"""

from collections.abc import Sequence
from typing import final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from privet.arguments import positive, whole
from privet.attacks.federated.signals import list_gradients, load_weights
from privet.attacks.federated.steps import ClientRecords, ObservedStep, list_steps
from privet.observed_rounds import ObservedRound, Observer, RoundObserver, Weights
from privet.scores import Bits, Records
from privet.views import Numbers

__all__ = ["GradientAscent"]

_LEAST = 1e-30
_MOST_SPARED = 32  # records: each costs a gradient for every model that is sent


@final
class GradientAscent(RoundObserver):
    """Ascends the loss of target records from round ``start`` on, and keeps what comes back.

    *Adversary*: a server, or the participant ``client``; knows the targets and their homes, and records to
    spare; wants to know which of the targets their clients hold.

    A server sends each client a model on which the loss of that client's own targets was raised, all of them
    or ``at_once`` in turn. Where it can open messages it *isolates* each client: the model that it sends is
    what the client made of the last one, never an average, so nothing fades. A participant adds to its
    update what raises the loss of all targets in the next global model; ``boost`` is the number of clients
    whose average dilutes it.

    ``strength`` is the length of an ascent relative to the norm of the weights. ``spare`` are records whose
    loss should stay: public ones, or a participant's own. By default they are the targets of other clients,
    and nothing for a participant, who has none left; a few dozen are enough, and no more are used. ``ridge``
    is λ.

    *Reference*: Nasr, Shokri & Houmansadr 2019, section III-C (gradient ascent, isolation; global and local
    attacker). Deviations: a fixed length in place of a learning rate γ, so that the ascent is felt at any
    size of the gradient; other records are spared; their averages go on without the isolated clients, as
    here the sum is the server's own affair.
    """

    def __init__(
        self,
        module: nn.Module,
        targets: ClientRecords,
        *,
        client: int | None = None,
        start: int = 0,
        strength: float = 0.05,
        at_once: int | None = None,
        boost: float = 1.0,
        isolate: bool = True,
        spare: Records | None = None,
        ridge: float = 0.1,
    ) -> None:
        self._module, self._targets = module, targets
        self._client = client if client is None else whole("client", client, least=0)
        self._start = whole("start", start, least=0)
        self._strength = positive("strength", strength)
        self._at_once = at_once if at_once is None else whole("at_once", at_once)
        self._boost = positive("boost", boost)
        self._isolate, self._spare = isolate, spare
        self._ridge = positive("ridge", ridge)
        self._own: dict[int, Weights] = {}  # what each isolated client made of its own model
        self._sent: dict[tuple[int, int], Weights] = {}
        self._raised: dict[tuple[int, int], NDArray[np.intp]] = {}
        self.rounds: list[ObservedRound] = []

    @property
    def place(self) -> Observer:
        return Observer.SERVER if self._client is None else Observer.PARTICIPANT

    @property
    def controls(self) -> frozenset[int]:
        return frozenset() if self._client is None else frozenset({self._client})

    def alter(self, round_number: int, client: int, weights: Weights) -> Weights:
        held = np.flatnonzero(self._targets.homes == client)
        if round_number < self._start or not len(held):
            return weights
        count = len(held) if self._at_once is None else min(self._at_once, len(held))
        turn = (round_number - self._start) * count
        chosen = held[(turn + np.arange(count)) % len(held)]
        altered = self._ascend(self._own.get(client, weights), chosen, self._strength)
        self._sent[round_number, client] = altered
        self._raised[round_number, client] = chosen
        return altered

    def replace_update(self, round_number: int, client: int, weights: Weights, update: Weights) -> Weights:
        if round_number < self._start:
            return update
        everything = np.arange(len(self._targets))
        raised = self._ascend(weights, everything, self._strength * self._boost)
        return {name: values + (raised[name] - weights[name]) for name, values in update.items()}

    def observe(self, seen: ObservedRound) -> None:
        if seen.number < self._start:
            return
        self.rounds.append(seen)
        for message in seen.messages:
            update = message.update
            if self._isolate and update is not None and self.place is Observer.SERVER:
                sent = self._sent.get((seen.number, message.client), seen.weights)
                self._own[message.client] = {
                    name: values + update[name] if name in update else values for name, values in sent.items()
                }

    def list_steps(self) -> list[ObservedStep]:
        """The steps from what was really sent, as ``measure_rounds`` takes them."""
        return list_steps(self.rounds, sent=self._sent)

    def mark_raised(self, rounds: Sequence[int]) -> Bits:
        """Which targets had their loss raised in which of these rounds, rounds × targets.

        A participant raises every target in every round.
        """
        answer = np.zeros((len(rounds), len(self._targets)), dtype=np.bool_)
        if self.place is Observer.PARTICIPANT:
            return ~answer
        for place, number in enumerate(rounds):
            for (when, _), chosen in self._raised.items():
                if when == number:
                    answer[place, chosen] = True
        return answer

    def _ascend(self, weights: Weights, chosen: NDArray[np.intp], strength: float) -> Weights:
        """The weights, moved by a fixed length along the mean direction of the chosen targets."""
        records = self._targets.records
        model = load_weights(self._module, weights, records.inputs.shape[1:])
        rows = _to_units(list_gradients(model, records.take(chosen)))
        others = self._choose_spared(chosen)
        if others is not None:
            spared = _to_units(list_gradients(model, others))
            square = spared @ spared.T + self._ridge * np.eye(len(spared))
            rows = rows - np.linalg.solve(square, spared @ rows.T).T @ spared
        direction = rows.sum(axis=0)
        names = list(model.weights)
        scale = float(np.sqrt(sum(float(np.square(weights[name]).sum()) for name in names)))
        direction *= strength * scale / max(float(np.linalg.norm(direction)), _LEAST)
        moved, place = dict(weights), 0
        for name in names:
            values = np.asarray(weights[name])
            moved[name] = values + direction[place : place + values.size].reshape(values.shape)
            place += values.size
        return moved

    def _choose_spared(self, chosen: NDArray[np.intp]) -> Records | None:
        if self._spare is not None:
            return self._spare.take(np.arange(min(len(self._spare), _MOST_SPARED)))
        homes = self._targets.homes
        others = np.flatnonzero(~np.isin(homes, homes[chosen]))[:_MOST_SPARED]
        return self._targets.records.take(others) if len(others) else None


def _to_units(gradients: torch.Tensor) -> Numbers:
    rows = np.nan_to_num(gradients.numpy())
    answer: Numbers = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    return answer
