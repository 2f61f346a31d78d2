"""The messages between server and clients, as records of Flower.

An instruction says which run, round and exchange it is for; the first one of a round has the weights. A reply
repeats the three, and has what the sum protocol says. So a reply to another round is told apart from one to
this round, whoever sends it again.
"""

from dataclasses import dataclass
from typing import TypeVar, final

import numpy as np
import torch
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, RecordDict
from torch import Tensor

from privet.errors import Unreadable

__all__ = [
    "ASK_NUMBER",
    "TRAIN",
    "Instruction",
    "Reply",
    "WeightsRecord",
    "ask_number",
    "read_instruction",
    "read_number",
    "read_reply",
    "write_instruction",
    "write_number",
    "write_reply",
]

TRAIN, ASK_NUMBER = "train", "query"
_NAME, _WEIGHTS = "privet", "weights"
_VERSION = 1
_FLOAT = np.dtype("<f4")
_LONGEST_REFUSAL = 300
_Value = TypeVar("_Value", str, int, float, bytes)


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class Instruction:
    """What the server asks of a client.

    ``bound`` is the clip bound of this round, 0 for none. ``weights`` are float32 numbers, empty after the
    first exchange of a round.
    """

    run: str
    round: int
    exchange: int
    bound: float
    message: bytes
    weights: Tensor | None = None


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class Reply:
    """What a client answers. ``refusal`` says in one sentence why it does not take part; otherwise empty."""

    run: str
    round: int
    exchange: int
    client: int
    message: bytes
    refusal: str = ""


@final
class WeightsRecord:
    """Weights as a record, made once for all clients of a round."""

    def __init__(self, weights: Tensor) -> None:
        numbers = np.ascontiguousarray(weights.numpy(), dtype=_FLOAT)
        self.record = ArrayRecord({_WEIGHTS: Array(numbers)})


def write_instruction(instruction: Instruction, node: int, weights: WeightsRecord | None) -> Message:
    """The message for a node."""
    content = RecordDict(
        {
            _NAME: ConfigRecord(
                {
                    "version": _VERSION,
                    "run": instruction.run,
                    "round": instruction.round,
                    "exchange": instruction.exchange,
                    "bound": instruction.bound,
                    "message": instruction.message,
                }
            )
        }
    )
    if weights is not None:
        content[_WEIGHTS] = weights.record
    return Message(content, node, TRAIN, group_id=str(instruction.round))


def read_instruction(message: Message) -> Instruction:
    """The instruction of a message."""
    record = _open(message)
    weights = None
    if _WEIGHTS in message.content:
        arrays = message.content[_WEIGHTS]
        if not isinstance(arrays, ArrayRecord) or _WEIGHTS not in arrays:
            raise Unreadable("An instruction must have an array 'weights', and has not. Update the server.")
        weights = torch.from_numpy(arrays[_WEIGHTS].numpy().astype(np.float32))
    return Instruction(
        run=_take(record, "run", str),
        round=_take(record, "round", int),
        exchange=_take(record, "exchange", int),
        bound=_take(record, "bound", float),
        message=_take(record, "message", bytes),
        weights=weights,
    )


def write_reply(reply: Reply, to: Message) -> Message:
    """The message that answers ``to``."""
    record = ConfigRecord(
        {
            "version": _VERSION,
            "run": reply.run,
            "round": reply.round,
            "exchange": reply.exchange,
            "client": reply.client,
            "message": reply.message,
            "refusal": reply.refusal,
        }
    )
    return Message(RecordDict({_NAME: record}), reply_to=to)


def read_reply(message: Message) -> Reply:
    """The reply of a message."""
    record = _open(message)
    return Reply(
        run=_take(record, "run", str),
        round=_take(record, "round", int),
        exchange=_take(record, "exchange", int),
        client=_take(record, "client", int),
        message=_take(record, "message", bytes),
        refusal=" ".join(_take(record, "refusal", str).split())[:_LONGEST_REFUSAL],
    )


def write_number(number: int, to: Message) -> Message:
    """The answer of a client that is asked for its number."""
    return Message(RecordDict({_NAME: ConfigRecord({"version": _VERSION, "client": number})}), reply_to=to)


def read_number(message: Message) -> int:
    """The number of a client."""
    return _take(_open(message), "client", int)


def ask_number(node: int) -> Message:
    """The message that asks a node for its client's number."""
    return Message(RecordDict({_NAME: ConfigRecord({"version": _VERSION})}), node, ASK_NUMBER)


def _open(message: Message) -> ConfigRecord:
    if message.has_error() or _NAME not in message.content:
        raise Unreadable(
            f"A message must have the record {_NAME!r}, and has not. Run the same app everywhere."
        )
    record = message.content[_NAME]
    if not isinstance(record, ConfigRecord) or record.get("version") != _VERSION:
        raise Unreadable(
            f"A message must have version {_VERSION} of the record {_NAME!r}, and has another. Run the same "
            "version of Privet everywhere."
        )
    return record


def _take(record: ConfigRecord, name: str, kind: type[_Value]) -> _Value:
    value = record.get(name)
    if isinstance(value, bool) or not isinstance(value, kind):
        raise Unreadable(f"A message must have {name!r} as {kind.__name__}, and has not. Run the same app.")
    return value
