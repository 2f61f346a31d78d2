"""What one client does with an instruction: check it, train, clip, add its own noise, and answer the
protocol.

A client keeps four things between messages, in the context that Flower stores for it: where it is in a round,
the state of the sum protocol, the weights until they are used, and in how many rounds it has given a vector.
An instruction that is not the next one is refused. So a server cannot have a second answer to one exchange,
which would be a second look at the data.
"""

import copy
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from logging import getLogger
from typing import Any, final

import torch
from flwr.app import ConfigRecord, Context, Message
from torch import Tensor, nn

from privet.arguments import whole
from privet.errors import BudgetExceeded, InvalidArgument, PrivetError, Unreadable
from privet.federated.local_training import (
    LocalObjective,
    LocalTraining,
    require_examples,
    train_with_seed,
)
from privet.federated.messages import (
    Instruction,
    Reply,
    read_instruction,
    read_weights,
    write_number,
    write_reply,
)
from privet.federated.model_layout import ModelLayout
from privet.federated.sum_protocols import SumProtocol
from privet.federated.terms import Terms
from privet.observed_rounds import RoundObserver
from privet.randomness import NoiseSource
from privet.training.clipping import Adaptive, Clip
from privet.training.loop.inputs import prepare_data
from privet.training.loop.losses import TorchLoss
from privet.training.noise.gradient_noise import add_gaussian_
from privet.views import Numbers

__all__ = ["ClientData", "ClientWork"]

ClientData = Callable[[int], object]
"""The data of the client with this number."""

_LOGGER = getLogger(__name__)
_MEMORY = "privet"
_MOST_KEPT = 4096
_BELOW = 1 - 1e-12  # of float64 norms


@final
@dataclass(frozen=True)
class _Memory:
    """What a client keeps between messages."""

    run: str = ""
    round: int = 0
    exchange: int = 0
    rounds_given: int = 0
    state: bytes = b""
    weights: bytes = b""

    @staticmethod
    def recall(context: Context) -> "_Memory":
        """What the context has."""
        record = context.state.get(_MEMORY)
        if not isinstance(record, ConfigRecord):
            return _Memory()
        fields: dict[str, Any] = dict(record)
        run, number, exchange, given = json.loads(fields["head"])
        return _Memory(run, number, exchange, given, fields["state"], fields["weights"])

    def keep(self, context: Context) -> None:
        """Store it in the context."""
        head = json.dumps([self.run, self.round, self.exchange, self.rounds_given])
        context.state[_MEMORY] = ConfigRecord({"head": head, "state": self.state, "weights": self.weights})


@final
class ClientWork:
    """The work of all clients of one process: they share a model, which each loads with its weights.

    Args:
        model: the model whose copy is trained.
        data: the data of a client, by its number.
        training: what a client does in a round.
        loss: the loss, as for ``privet.train``.
        terms: clip and noise.
        protocol: how the sum is made.
        weights: public weights of the clients, the largest being 1; None for all alike.
        seed: the public seed of the order of examples.
        noise: the source of the noise that a client adds.
        observers: adversaries that control clients of this process.
    """

    def __init__(
        self,
        model: nn.Module,
        data: ClientData,
        *,
        training: LocalTraining,
        loss: TorchLoss | None,
        terms: Terms,
        protocol: SumProtocol,
        weights: Sequence[float] | None,
        seed: int,
        noise: NoiseSource,
        observers: Sequence[RoundObserver] = (),
    ) -> None:
        self._model, self._layout = copy.deepcopy(model), ModelLayout(model)
        if not model.training:
            self._model.train()
        self._counters = [
            (buffer, buffer.clone()) for buffer in self._model.buffers() if not buffer.is_floating_point()
        ]
        self._data, self._training, self._loss = data, training, loss
        self._terms, self._protocol, self._weights = terms, protocol, weights
        self._seed, self._noise = seed, noise
        self._observers = [observer for observer in observers if observer.controls]
        self._objectives: dict[int, LocalObjective] = {}

    def tell_number(self, message: Message, context: Context) -> Message:
        """Answer which client this node has."""
        return write_number(find_number(context), message)

    def answer(self, message: Message, context: Context) -> Message:
        """Answer an instruction. A refusal is an answer too."""
        client, instruction = find_number(context), read_instruction(message)
        content, refusal = b"", ""
        try:
            content = self._take_part(client, instruction, context)
        except PrivetError as refused:
            refusal = str(refused)
        reply = Reply(
            run=instruction.run,
            round=instruction.round,
            exchange=instruction.exchange,
            client=client,
            message=content,
            refusal=refusal,
        )
        return write_reply(reply, message)

    def _take_part(self, client: int, instruction: Instruction, context: Context) -> bytes:
        """Answer the protocol. What the client remembers is stored in any case: it does not answer twice."""
        memory = _Memory.recall(context)
        _require_next(instruction, memory)
        is_first = instruction.exchange == 0
        state = b"" if is_first else memory.state
        weights = (instruction.weights or b"") if is_first else memory.weights
        given = False

        def make_vector() -> Numbers:
            nonlocal given
            if given or not weights:
                raise InvalidArgument(
                    "A client gives one vector a round, and was asked for another. Start again."
                )
            if self._terms.clients_count_rounds and memory.rounds_given >= self._terms.rounds:
                raise BudgetExceeded(
                    f"This client has taken part in all {self._terms.rounds} rounds of its plan. End the run."
                )
            given = True
            return self._make_vector(client, instruction, read_weights(weights))

        content = b""
        try:
            content, state = self._protocol.answer(
                client=client, message=instruction.message, state=state, vector=make_vector
            )
        finally:
            _Memory(
                instruction.run,
                instruction.round,
                instruction.exchange,
                memory.rounds_given + given,
                state,
                b"" if given else weights,
            ).keep(context)
        return content

    def _make_vector(self, client: int, instruction: Instruction, before: Tensor) -> Numbers:
        """The clipped update with the client's noise, and its count for the adaptive clip."""
        vector = self._clip(self._make_update(client, instruction, before), instruction.bound)
        if self._terms.local_deviation:
            noisy = vector.float()
            add_gaussian_(noisy, self._terms.local_deviation, self._noise)
            vector = noisy.double()
        if self._weights is not None:
            vector[: self._layout.size] *= self._weights[client]
        if self._terms.server_adds_noise:
            self._leave_room(vector, instruction.bound)
        numbers: Numbers = vector.numpy()
        return numbers

    def _make_update(self, client: int, instruction: Instruction, before: Tensor) -> Tensor:
        """What training changes; nothing if it fails in a run with noise.

        That a client cannot train depends on its data. Where noise hides these, no answer may tell of it: the
        client takes part with an update of 0, and only its own log says why.
        """
        try:
            update = self._train(client, instruction, before)
            if not bool(torch.isfinite(update).all()):
                raise InvalidArgument(
                    "The update must be finite, and is not. Lower the client's learning rate."
                )
        except Exception as failure:
            if not self._terms.hides_failures:
                raise
            _LOGGER.warning(
                "Client %d contributes nothing to round %d: %s", client, instruction.round, failure
            )
            return torch.zeros(self._layout.size, dtype=torch.float64)
        return update

    def _train(self, client: int, instruction: Instruction, before: Tensor) -> Tensor:
        objective = self.open(client)
        self._layout.write(before, self._model)
        for counter, start in self._counters:  # no client starts from the count of another
            counter.copy_(start)
        train_with_seed(
            lambda generator: self._training.train(self._model, objective, generator),
            (self._seed, instruction.round, client),
        )
        update = (self._layout.read(self._model) - before).double()
        for observer in self._observers:
            if client in observer.controls:
                named = self._layout.name_weights(update)
                sent = self._layout.name_weights(before)
                replaced = observer.replace_update(instruction.round, client, sent, named)
                update = torch.from_numpy(self._layout.join_weights(replaced))
        return update

    def _clip(self, update: Tensor, bound: float) -> Tensor:
        """The update within the bound, and for the adaptive clip a last number: ½ if it was within, or −½."""
        clip: Clip | None = self._terms.clip
        squared = update.square().sum()
        if clip is None:
            return update
        if isinstance(clip, Adaptive):
            clip = clip.with_bound(bound)
            count = clip.count(squared.reshape(1))
            return torch.cat([update * clip.factors(squared.reshape(1)), torch.tensor([count]).double()])
        return update * clip.factors(squared.reshape(1))

    def _leave_room(self, vector: Tensor, bound: float) -> None:
        """Shorten the update so much that the protocol takes it, and rounds it to within the clip bound."""
        clip = self._terms.clip
        growth = self._protocol.bound_growth(vector.numel())
        assert clip is not None
        most = clip.with_bound(bound).bound if isinstance(clip, Adaptive) else clip.bound
        update = vector[: self._layout.size]
        room = min(most - growth, self._protocol.largest_number * _BELOW)
        norm = float(update.norm())
        if norm > room and room < most:  # else it was clipped already
            update *= max(room, 0.0) * _BELOW / norm

    def open(self, client: int) -> LocalObjective:
        """The examples of a client. The last ones are kept."""
        if client not in self._objectives:
            if len(self._objectives) >= _MOST_KEPT:
                del self._objectives[next(iter(self._objectives))]
            examples, loss = prepare_data(self._model, self._data(client), self._loss)
            self._objectives[client] = require_examples(LocalObjective(examples, loss))
        return self._objectives[client]


def find_number(context: Context) -> int:
    """The number of the client of a node, which its configuration has."""
    number = context.node_config.get("partition-id")
    if isinstance(number, bool) or not isinstance(number, int):
        raise Unreadable(
            "A node must have the number of its client, and has not. Start it with --node-config "
            "'partition-id=0'."
        )
    return whole("partition-id", number, least=0)


def _require_next(instruction: Instruction, memory: _Memory) -> None:
    same_run = instruction.run == memory.run
    if same_run and instruction.exchange:
        fits = (instruction.round, instruction.exchange) == (memory.round, memory.exchange + 1)
    else:
        fits = instruction.exchange == 0 and (not same_run or instruction.round > memory.round)
    if not fits:
        raise InvalidArgument(
            f"Exchange {instruction.exchange} of round {instruction.round} is not the next one for this "
            "client. Ask each client once."
        )
    if instruction.exchange == 0 and instruction.weights is None:
        raise Unreadable("The first instruction of a round must have the weights, and has not. Send them.")
