"""Encrypted sums: the server adds what it cannot read, and a key holder opens the sum only."""

import hashlib
import math
import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import numpy as np

from privet.arguments import positive, whole
from privet.caveats import Caveat
from privet.errors import InvalidArgument
from privet.federated.sum_protocols import MessageRefused, Messages, SumFailed, SumProtocol, SumResult
from privet.federated.sums.ckks import CKKSParameters, CKKSSecret, encrypt_public, open_public, read_vectors
from privet.federated.sums.wire import Values, read_message, write_message
from privet.federated.sums.word_encoding import check_vector
from privet.views import Numbers

__all__ = ["EncryptedSum", "KeyHolder", "LocalKeyHolder"]

_SIZE = struct.Struct("<I")


class KeyHolder(ABC):
    """Who holds the secret key, wherever it is: not the server."""

    @property
    @abstractmethod
    def public_context(self) -> bytes:
        """What clients and the server need: the public key and the parameters."""

    @abstractmethod
    def open_sum(self, *, round_number: int, ciphertexts: Sequence[bytes], contributors: int) -> Numbers:
        """The numbers of a sum, once a round."""


@final
class LocalKeyHolder(KeyHolder):
    """A key holder in this process, with a new key.

    It opens one sum a round, of at least ``least_clients`` contributors as the server states it. It cannot
    see whether a ciphertext is a sum: that is what "the server and the key holder do not collude" is about.
    """

    def __init__(self, *, largest: float, clients: int, least_clients: int = 2) -> None:
        self.parameters = CKKSParameters.for_sum(largest=largest, clients=clients)
        self.least_clients = whole("least_clients", least_clients, least=2)
        self._secret = CKKSSecret(self.parameters)
        self._last = 0

    @property
    def public_context(self) -> bytes:
        return self._secret.public

    def open_sum(self, *, round_number: int, ciphertexts: Sequence[bytes], contributors: int) -> Numbers:
        if round_number <= self._last or contributors < self.least_clients:
            raise MessageRefused(
                f"The key holder opens one sum a round, over at least {self.least_clients} clients, and was "
                "asked for another. Number rounds upwards, and invite enough clients."
            )
        self._last = round_number
        return np.concatenate([self._secret.decrypt(octets) for octets in ciphertexts])


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class EncryptedSum(SumProtocol):
    """The sum of all vectors, added under encryption (CKKS).

    Guarantee: the server sees ciphertexts only, which say nothing about the vectors as long as ring
    learning with errors is hard (128 bits by the Homomorphic Encryption Standard). The key holder sees the
    sum. Clients send one message, so whoever drops out is not in the sum.

    Adversary: a server that follows the protocol, or a key holder that does; the two do not work together.
    Any clients may, with either.

    Leaks: the sum, to the key holder and the server. The error of a decrypted sum depends on the keys, so
    the total of a result must not be published as it is (``APPROXIMATE_DECRYPTION``): round it, or add the
    noise of differential privacy, which is far larger. Server and key holder together can open every vector
    (``ONE_KEY_HOLDER``). A malicious client can encrypt anything; inputs are not checked.

    Reference: Cheon, Kim, Kim & Song 2017 (CKKS); Li & Micciancio 2021 (IND-CPA-D).

    ``public_context`` comes from the key holder; ``largest`` is the largest absolute value of a number, and
    ``most_clients`` how many clients the parameters are for. The server has the ``key_holder`` too; a client
    has none.
    """

    public_context: bytes
    largest: float
    most_clients: int
    key_holder: KeyHolder | None = None

    def __post_init__(self) -> None:
        positive("largest", self.largest)
        whole("most_clients", self.most_clients)
        open_public(self.public_context)

    @staticmethod
    def for_one_process(*, largest: float, clients: int) -> "EncryptedSum":
        """Everybody in one process, with a new key: for simulations, where nobody is apart."""
        holder = LocalKeyHolder(largest=largest, clients=clients)
        return EncryptedSum(
            public_context=holder.public_context, largest=largest, most_clients=clients, key_holder=holder
        )

    @property
    def threat_model(self) -> str:
        return (
            "The server sees ciphertexts and the sum, and the key holder sees the sum; both follow the "
            "protocol, and together they could open every vector."
        )

    @property
    def largest_number(self) -> float:
        return self.largest

    def bound_growth(self, length: int) -> float:
        """The errors of the encryption of a vector, and of that of zeros in its place."""
        return 2 * math.sqrt(length) * self.parameters.fresh_error

    @cached_property
    def parameters(self) -> CKKSParameters:
        """The parameters, by the rule."""
        return CKKSParameters.for_sum(largest=self.largest, clients=self.most_clients)

    @cached_property
    def _context(self) -> Any:  # noqa: ANN401 - TenSEAL has no types
        return open_public(self.public_context)

    @cached_property
    def _fingerprint(self) -> bytes:
        return hashlib.sha256(self.public_context).digest()

    def serve(
        self, *, round_number: int, clients: Sequence[int], length: int
    ) -> Generator[Messages, Messages, SumResult]:
        whole("round_number", round_number)
        whole("length", length)
        holder = self.key_holder
        if holder is None:
            raise InvalidArgument(
                "'key_holder' must be there at the server, got None. Give the server the way to the key "
                "holder."
            )
        if not clients or len(set(clients)) < len(clients) or len(clients) > self.most_clients:
            raise InvalidArgument(
                f"'clients' must be 1 to {self.most_clients} different clients, and are not. Plan the "
                "parameters for more, and name each client once."
            )
        fields: Values = {"round": round_number, "length": length, "key": self._fingerprint}
        replies = yield dict.fromkeys(clients, write_message("encrypt", fields))
        pieces = -(-length // self.parameters.slots)
        total: list[Any] = []
        contributors, refused = [], {}
        for client, reply in replies.items():
            try:
                if client not in clients:
                    raise MessageRefused(f"Client {client} was not asked in this round. Invite it.")
                parts = read_vectors(self._context, self._split(reply, round_number, pieces))
                sizes = [self.parameters.slots] * (pieces - 1)
                if [part.size() for part in parts] != [*sizes, length - sum(sizes)]:
                    raise MessageRefused(
                        f"Client {client} must send {length} numbers, and sent others. Send all."
                    )
                total = [sum(both[1:], both[0]) for both in zip(*filter(None, (total, parts)), strict=True)]
            except MessageRefused as wrong:
                refused[client] = str(wrong)
            else:
                contributors.append(client)
        if not contributors:
            raise SumFailed(f"Round {round_number} has no sum: no client answered. Begin a new round.")
        opened = holder.open_sum(
            round_number=round_number,
            ciphertexts=[part.serialize() for part in total],
            contributors=len(contributors),
        )
        return SumResult(
            total=np.asarray(opened, dtype=np.float64),
            contributors=tuple(sorted(contributors)),
            dropped=tuple(client for client in clients if client not in contributors),
            refused=refused,
            error_bound=len(contributors) * self.parameters.fresh_error,
            caveats=frozenset({Caveat.ONE_KEY_HOLDER, Caveat.APPROXIMATE_DECRYPTION}),
        )

    @staticmethod
    def _split(reply: bytes, round_number: int, pieces: int) -> list[bytes]:
        """The ciphertexts of a reply; each begins with its size."""
        fields = read_message(reply, "encrypted")
        if fields.whole("round") != round_number:
            raise MessageRefused(
                f"A reply must be of round {round_number}, and is of another. Answer each message once."
            )
        found: list[bytes] = []
        start = 0
        while start + _SIZE.size <= len(fields.tail) and len(found) < pieces:
            (size,) = _SIZE.unpack_from(fields.tail, start)
            start += _SIZE.size
            found.append(fields.tail[start : start + size])
            start += size
        if len(found) != pieces or start != len(fields.tail):
            raise MessageRefused(
                f"A vector must come in {pieces} ciphertexts, and did not. Run the same version at both ends."
            )
        return found

    def answer(
        self, *, client: int, message: bytes, state: bytes, vector: Callable[[], Numbers]
    ) -> tuple[bytes, bytes]:
        del client
        asked = read_message(message, "encrypt")
        last = read_message(state).whole("round") if state else 0
        round_number, length = asked.whole("round"), asked.whole("length")
        if round_number <= last:
            raise MessageRefused(
                f"A round must be after round {last}, and is round {round_number}. Number rounds upwards."
            )
        if asked.octets("key") != self._fingerprint:
            raise MessageRefused(
                "The server sums under another public key than this client was given. Distribute one key "
                "to all."
            )
        numbers = check_vector(vector(), length)
        if numbers.size and float(np.abs(numbers).max()) > self.largest:
            raise MessageRefused(
                f"A vector to be summed must have numbers of at most {self.largest:g}, and has a larger one. "
                "Clip it before it is sent, or agree on a larger bound."
            )
        tail = []
        for start in range(0, length, self.parameters.slots):
            octets = encrypt_public(self._context, numbers[start : start + self.parameters.slots])
            tail += [_SIZE.pack(len(octets)), octets]
        reply = write_message("encrypted", {"round": round_number}, b"".join(tail))
        return reply, write_message("over", {"round": round_number})
