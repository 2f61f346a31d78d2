"""Aggregators: parties that each hold one share of every vector, and give out only sums of shares."""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from privet.arguments import whole
from privet.federated.sum_protocols import MessageRefused
from privet.federated.sums.identities import (
    KEY_BYTES,
    Identities,
    agree,
    draw_exchange_key,
    exchange_public_key,
)
from privet.federated.sums.masks import Masker, Words, read_words, word_type, write_words
from privet.federated.sums.secure_rounds import bind_round

__all__ = ["Aggregator", "LocalAggregator", "SealedShare", "ShareRound", "seal_share", "share_statement"]

SEED, WORDS = b"s", b"w"  # how a share begins
_NONCE = bytes(12)  # each key seals one message


@final
@dataclass(frozen=True)
class SealedShare:
    """One client's share for one aggregator, with what the client signed: a hash of each of its shares."""

    sealed: bytes
    digests: tuple[bytes, ...]
    signature: bytes


def seal_share(share: bytes, public_key: bytes, binding: bytes) -> bytes:
    """``share`` for the holder of a key, under a new key pair."""
    private = draw_exchange_key()
    key = agree(private, public_key, purpose=b"share", salt=binding)
    return exchange_public_key(private) + AESGCM(key).encrypt(_NONCE, share, None)


def share_statement(client: int, binding: bytes, digests: Sequence[bytes]) -> bytes:
    """What a client signs of its shares in one round."""
    return b"privet shares" + binding + client.to_bytes(8, "big") + b"".join(digests)


@final
@dataclass(frozen=True)
class ShareRound:
    """What a round of shares is about. Whoever takes part derives the binding from it."""

    round_number: int
    cohort: tuple[int, ...]
    words: int
    bits: int

    def bind(self, identities: Identities) -> bytes:
        """A hash that shares and signatures of another round do not fit."""
        return bind_round(
            round_number=self.round_number,
            length=self.words,
            bits=self.bits,
            cohort=self.cohort,
            identities=identities,
        )


class Aggregator(ABC):
    """One aggregator, wherever it runs."""

    @property
    @abstractmethod
    def public_key(self) -> bytes:
        """Under which clients seal its shares."""

    @abstractmethod
    def check_shares(self, current: ShareRound, shares: Mapping[int, SealedShare]) -> set[int]:
        """The clients whose shares can be added."""

    @abstractmethod
    def add_shares(self, round_number: int, clients: Collection[int]) -> bytes:
        """The sum of these clients' shares, once a round."""


@final
class LocalAggregator(Aggregator):
    """An aggregator in this process, with a key of its own.

    It gives out one sum a round, over at least ``least_clients`` clients of ``identities`` whose signatures
    it has checked itself. So a server that sends it shares of one client alone, or two sets that differ in
    one client, gets nothing.
    """

    def __init__(self, *, number: int, identities: Identities, least_clients: int) -> None:
        self.number = whole("number", number, least=0)
        self.least_clients = whole("least_clients", least_clients, least=2)
        self._identities = identities.only()
        self._key = draw_exchange_key()
        self._last = 0
        self._current: ShareRound | None = None
        self._shares: dict[int, Words | bytes] = {}

    @property
    def public_key(self) -> bytes:
        return exchange_public_key(self._key)

    def check_shares(self, current: ShareRound, shares: Mapping[int, SealedShare]) -> set[int]:
        self._refuse_old(current.round_number)
        self._shares, self._current = {}, current
        binding = current.bind(self._identities)
        for client, share in shares.items():
            try:
                self._shares[client] = self._unseal(client, share, binding, current)
            except MessageRefused:
                continue
        return set(self._shares)

    def add_shares(self, round_number: int, clients: Collection[int]) -> bytes:
        self._refuse_old(round_number)
        chosen, current = set(clients), self._current
        if current is None or round_number != current.round_number or not chosen <= set(self._shares):
            raise MessageRefused(
                "An aggregator adds shares that it has checked in this round, and was asked for others. Send "
                "them for a check first."
            )
        if len(chosen) < self.least_clients:
            raise MessageRefused(
                f"An aggregator adds the shares of at least {self.least_clients} clients, and was asked for "
                f"{len(chosen)}. Begin a round with more clients."
            )
        self._last = round_number
        total = Masker(np.zeros(current.words, dtype=word_type(current.bits)))
        for client in sorted(chosen):
            share = self._shares[client]
            if isinstance(share, bytes):
                total.add(share)
            else:
                np.add(total.words, share, out=total.words)
        self._shares = {}
        return write_words(total.words)

    def _unseal(self, client: int, share: SealedShare, binding: bytes, current: ShareRound) -> Words | bytes:
        """A seed, or words."""
        self._identities.check(client, share_statement(client, binding, share.digests), share.signature)
        own = share.digests[self.number] if self.number < len(share.digests) else b""
        if hashlib.sha256(share.sealed).digest() != own or client not in current.cohort:
            raise MessageRefused(f"The share of client {client} is not one of this round. Leave it out.")
        key = agree(self._key, share.sealed[:KEY_BYTES], purpose=b"share", salt=binding)
        try:
            opened = AESGCM(key).decrypt(_NONCE, share.sealed[KEY_BYTES:], None)
        except InvalidTag:
            raise MessageRefused(f"The share of client {client} cannot be opened. Leave it out.") from None
        if opened[:1] == SEED and len(opened) == 1 + KEY_BYTES:
            return opened[1:]
        return read_words(opened[1:], bits=current.bits, size=current.words)

    def _refuse_old(self, round_number: int) -> None:
        if round_number <= self._last:
            raise MessageRefused(
                f"An aggregator gives one sum a round, and round {round_number} is over. Number rounds "
                "upwards."
            )
