"""The messages between server and clients, as records of Flower.

An instruction says which run, round and exchange it is for; the first one of a round has the weights. A reply
repeats the three, and has what the sum protocol says. So a reply to another round is told apart from one to
this round, whoever sends it again.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

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
    "read_weights",
    "write_instruction",
    "write_number",
    "write_reply",
]

TRAIN, ASK_NUMBER = "train", "query"
_NAME, _HEAD, _CONTENT, _WEIGHTS = "privet", "head", "message", "weights"
_STORED_AS = "privet.float32"  # little-endian numbers, without the header of a file of numpy
_VERSION = 1
_FLOAT = np.dtype("<f4")
_LONGEST_REFUSAL = 300


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class Instruction:
    """What the server asks of a client.

    ``bound`` is the clip bound of this round, 0 for none. ``weights`` are float32 numbers, None after the
    first exchange of a round.
    """

    run: str
    round: int
    exchange: int
    bound: float
    message: bytes
    weights: bytes | None = None


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
        self.record = ArrayRecord(
            {_WEIGHTS: Array("float32", (numbers.size,), _STORED_AS, numbers.tobytes())}
        )


def write_instruction(instruction: Instruction, node: int, weights: WeightsRecord | None) -> Message:
    """The message for a node."""
    head: Sequence[str | float] = [
        instruction.run,
        instruction.round,
        instruction.exchange,
        float(instruction.bound),
    ]
    content = RecordDict({_NAME: _make_record(head, instruction.message)})
    if weights is not None:
        content[_WEIGHTS] = weights.record
    return Message(content, node, TRAIN, group_id=str(instruction.round))


def read_instruction(message: Message) -> Instruction:
    """The instruction of a message."""
    (run, number, exchange, bound), content = _open(message, (str, int, int, float))
    weights = None
    if _WEIGHTS in message.content:
        arrays = message.content[_WEIGHTS]
        array = arrays.get(_WEIGHTS) if isinstance(arrays, ArrayRecord) else None
        if array is None or array.stype != _STORED_AS or len(array.data) % _FLOAT.itemsize:
            raise Unreadable("An instruction must have an array 'weights', and has not. Update the server.")
        weights = array.data
    return Instruction(
        run=run, round=number, exchange=exchange, bound=bound, message=content, weights=weights
    )


def read_weights(weights: bytes) -> Tensor:
    """The weights of an instruction."""
    return torch.from_numpy(np.frombuffer(weights, dtype=_FLOAT).astype(np.float32))


def write_reply(reply: Reply, to: Message) -> Message:
    """The message that answers ``to``."""
    head: Sequence[str | float] = [reply.run, reply.round, reply.exchange, reply.client, reply.refusal]
    return Message(RecordDict({_NAME: _make_record(head, reply.message)}), reply_to=to)


def read_reply(message: Message) -> Reply:
    """The reply of a message."""
    (run, number, exchange, client, refusal), content = _open(message, (str, int, int, int, str))
    return Reply(
        run=run,
        round=number,
        exchange=exchange,
        client=client,
        message=content,
        refusal=" ".join(refusal.split())[:_LONGEST_REFUSAL],
    )


def ask_number(node: int) -> Message:
    """The message that asks a node for its client's number."""
    return Message(RecordDict({_NAME: _make_record([], b"")}), node, ASK_NUMBER)


def write_number(number: int, to: Message) -> Message:
    """The answer of a client that is asked for its number."""
    return Message(RecordDict({_NAME: _make_record([number], b"")}), reply_to=to)


def read_number(message: Message) -> int:
    """The number of a client."""
    (number,), _ = _open(message, (int,))
    found: int = number
    return found


def _make_record(head: Sequence[str | float], content: bytes) -> ConfigRecord:
    """Two fields only: Flower checks every field of every message."""
    return ConfigRecord({_HEAD: json.dumps([_VERSION, *head]), _CONTENT: content})


def _open(message: Message, kinds: tuple[type, ...]) -> tuple[list[Any], bytes]:
    """The head of a message, whose parts are of these types, and its content."""
    record = message.content.get(_NAME) if message.has_content() else None
    if not isinstance(record, ConfigRecord):
        raise Unreadable(
            f"A message must have the record {_NAME!r}, and has not. Run the same app everywhere."
        )
    try:
        version, *head = json.loads(str(record.get(_HEAD)))
    except (ValueError, TypeError):
        version, head = None, []
    if version != _VERSION:
        raise Unreadable(
            f"A message must have version {_VERSION} of the record {_NAME!r}, and has another. Run the same "
            "version of Privet everywhere."
        )
    content = record.get(_CONTENT)
    if not isinstance(content, bytes) or [type(part) for part in head] != list(kinds):
        raise Unreadable(
            "A message must have the fields of its kind, and has others. Run the same app everywhere."
        )
    return head, content
