"""Additive secret sharing between aggregators: none of them alone can open a share."""

import hashlib
import secrets
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np

from privet.arguments import whole
from privet.errors import InvalidArgument
from privet.federated.sum_protocols import MessageRefused, Messages, SumFailed, SumResult
from privet.federated.sums.aggregators import (
    SEED,
    WORDS,
    Aggregator,
    LocalAggregator,
    SealedShare,
    ShareRound,
    seal_share,
    share_statement,
)
from privet.federated.sums.identities import KEY_BYTES, SIGNATURE_BYTES, Identities
from privet.federated.sums.masks import Masker, read_words, word_type, write_words
from privet.federated.sums.wire import read_message, write_message
from privet.federated.sums.word_encoding import WordEncoding, require_honest
from privet.federated.sums.word_sums import WordSum
from privet.views import Numbers

__all__ = ["SharedSum"]

_DIGEST = 32


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class SharedSum(WordSum):
    """The sum of all vectors, from the sums of their shares.

    A client splits its words x into k random vectors with x = s_1 + … + s_k modulo 2^bits, and seals s_a for
    aggregator a. Each aggregator adds the shares that it holds, and gives out the sum; the server adds those.
    All shares but the last are short seeds, expanded by AES.

    Guarantee: any k − 1 shares of a vector are uniform and independent of it. As long as one aggregator
    follows the protocol and keeps its key, the server and the other aggregators learn the sum over one set of
    at least ``least_clients`` clients a round, and nothing else. Clients send one message, so whoever drops
    out is simply not in the sum.

    Adversary: the server, all aggregators but one, and ``colluding`` clients, who pool all that they see.
    Malicious ones too, for what they learn; but each of them can spoil the sum, and nobody notices.

    Leaks: the sum, and who took part. Against all aggregators together nothing is hidden.

    ``keys`` are the public keys of the aggregators, which clients must have from the aggregators themselves.
    The server has the ``aggregators`` too; a client needs none.
    """

    identities: Identities
    encoding: WordEncoding
    keys: tuple[bytes, ...]
    least_clients: int
    aggregators: tuple[Aggregator, ...] = ()
    colluding: int = 0

    def __post_init__(self) -> None:
        whole("least_clients", self.least_clients, least=2)
        whole("colluding", self.colluding, least=0)
        if len(self.keys) < 2 or any(len(key) != KEY_BYTES for key in self.keys):
            raise InvalidArgument(
                f"'keys' must be {KEY_BYTES} bytes of each of at least 2 aggregators, got "
                f"{len(self.keys)} of them. A single one would see every vector."
            )
        if len(set(self.keys)) < len(self.keys):
            raise InvalidArgument(
                "'keys' must be different, and two aggregators have the same. They would be one party."
            )
        require_honest(self.least_clients - self.colluding, self.encoding.least_honest)

    @staticmethod
    def for_one_process(
        clients: Iterable[int], *, encoding: WordEncoding, aggregators: int = 3, least_clients: int = 2
    ) -> "SharedSum":
        """Everybody in one process, with new identities: for simulations, where nobody is apart."""
        identities = Identities.generate(clients)
        locals_ = tuple(
            LocalAggregator(number=number, identities=identities, least_clients=least_clients)
            for number in range(whole("aggregators", aggregators, least=2))
        )
        return SharedSum(
            identities=identities,
            encoding=encoding,
            keys=tuple(each.public_key for each in locals_),
            least_clients=least_clients,
            aggregators=locals_,
        )

    @property
    def threat_model(self) -> str:
        return (
            f"The server, {len(self.keys) - 1} of the {len(self.keys)} aggregators and {self.colluding} "
            "clients may pool all that they see; one aggregator must be honest, and nobody checks that "
            "sums are right."
        )

    def with_encoding(self, encoding: WordEncoding) -> "SharedSum":
        return replace(self, encoding=encoding)

    def serve(
        self, *, round_number: int, clients: Sequence[int], length: int
    ) -> Generator[Messages, Messages, SumResult]:
        whole("round_number", round_number)
        whole("length", length)
        if len(self.aggregators) != len(self.keys):
            raise InvalidArgument(
                f"'aggregators' must be there at the server for each of {len(self.keys)} keys, got "
                f"{len(self.aggregators)}. Give the server all of them."
            )
        if len(set(clients)) < max(len(clients), self.least_clients):
            raise InvalidArgument(
                f"'clients' must be at least {self.least_clients} different clients, and are not. Invite "
                "more, each once."
            )
        self.encoding.check_cohort(len(clients), length)
        current = self._describe(round_number, clients, length)
        invitation = write_message(
            "share", {"round": round_number, "length": length, "cohort": current.cohort}
        )
        replies = yield dict.fromkeys(clients, invitation)
        refused: dict[int, str] = {}
        shares = self._read(replies, current, refused)
        accepted = set(shares)
        for number, aggregator in enumerate(self.aggregators):
            given = {client: parts[number] for client, parts in shares.items()}
            accepted &= aggregator.check_shares(current, given)
        for client in set(shares) - accepted:
            refused[client] = (
                f"An aggregator refused the share of client {client}. Give it the identity that the others "
                "know, and the keys of the aggregators."
            )
        if len(accepted) < self.least_clients:
            raise SumFailed(
                f"Round {round_number} has no sum: {len(accepted)} clients are left and {self.least_clients} "
                "are needed. Nothing was opened; begin a new round."
            )
        total = np.zeros(current.words, dtype=word_type(current.bits))
        for aggregator in self.aggregators:
            part = aggregator.add_shares(round_number, accepted)
            np.add(total, read_words(part, bits=current.bits, size=current.words), out=total)
        return SumResult(
            total=self.encoding.decode(total, round_number=round_number, length=length),
            contributors=tuple(sorted(accepted)),
            dropped=tuple(client for client in clients if client not in accepted),
            refused=refused,
            error_bound=self.encoding.bound_error(len(accepted), length),
            event=self.encoding.describe_noise(length),
            caveats=self.encoding.caveats,
        )

    def answer(
        self, *, client: int, message: bytes, state: bytes, vector: Callable[[], Numbers]
    ) -> tuple[bytes, bytes]:
        asked = read_message(message, "share")
        last = read_message(state).whole("round") if state else 0
        round_number, length, cohort = asked.whole("round"), asked.whole("length"), asked.wholes("cohort")
        if round_number <= last:
            raise MessageRefused(
                f"A round must be after round {last}, and is round {round_number}. Number rounds upwards."
            )
        if client not in cohort or len(cohort) < self.least_clients:
            raise MessageRefused(
                f"A cohort must have client {client} and at least {self.least_clients} clients, and has not. "
                "Invite more."
            )
        try:
            self.encoding.check_cohort(len(cohort), length)
        except InvalidArgument as impossible:
            raise MessageRefused(str(impossible)) from None
        current = self._describe(round_number, cohort, length)
        binding = current.bind(self.identities)
        rest = Masker(self.encoding.encode(vector(), round_number=round_number, length=length))
        sealed = []
        for key in self.keys[:-1]:
            seed = secrets.token_bytes(KEY_BYTES)
            rest.subtract(seed)
            sealed.append(seal_share(SEED + seed, key, binding))
        sealed.append(seal_share(WORDS + write_words(rest.words), self.keys[-1], binding))
        digests = [hashlib.sha256(part).digest() for part in sealed]
        reply = write_message(
            "shares",
            {
                "round": round_number,
                "seeds": dict(enumerate(sealed[:-1])),
                "digests": b"".join(digests),
                "signature": self.identities.sign(client, share_statement(client, binding, digests)),
            },
            sealed[-1],
        )
        return reply, write_message("over", {"round": round_number})

    def _describe(self, round_number: int, cohort: Sequence[int], length: int) -> ShareRound:
        return ShareRound(
            round_number, tuple(sorted(cohort)), self.encoding.word_count(length), self.encoding.bits
        )

    def _read(
        self, replies: Mapping[int, bytes], current: ShareRound, refused: dict[int, str]
    ) -> dict[int, list[SealedShare]]:
        """The shares of each client whose reply is well-formed; why the others are refused."""
        parts = len(self.keys)
        shares = {}
        for client, reply in replies.items():
            try:
                if client not in current.cohort:
                    raise MessageRefused(f"Client {client} was not asked in this round. Invite it.")
                fields = read_message(reply, "shares")
                if fields.whole("round") != current.round_number:
                    raise MessageRefused(
                        f"A reply must be of round {current.round_number}, and is of another. Answer each "
                        "message once."
                    )
                seeds, octets = fields.table("seeds"), fields.octets("digests", parts * _DIGEST)
                if set(seeds) != set(range(parts - 1)):
                    raise MessageRefused(
                        f"Client {client} must send {parts} shares, and sent others. Give both ends the same "
                        "aggregators."
                    )
                digests = tuple(octets[_DIGEST * place : _DIGEST * (place + 1)] for place in range(parts))
                signature = fields.octets("signature", SIGNATURE_BYTES)
                sealed = [*(seeds[place] for place in range(parts - 1)), fields.tail]
                shares[client] = [SealedShare(part, digests, signature) for part in sealed]
            except MessageRefused as wrong:
                refused[client] = str(wrong)
        return shares
