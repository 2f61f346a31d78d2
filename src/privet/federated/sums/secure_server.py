"""The server's part of secure aggregation: it passes messages on, and removes masks that others open for it.

A client whose reply does not come, or is refused, has dropped. The server can open no single vector: it gets
shares of a client's own mask or of its mask key, never of both.
"""

from collections.abc import Generator, Mapping, Sequence
from itertools import combinations, islice

import numpy as np

from privet.federated.sum_protocols import MessageRefused, Messages, SumFailed
from privet.federated.sums.identities import Identities, agree, exchange_public_key
from privet.federated.sums.masks import Masker, Words, read_words, word_type
from privet.federated.sums.secure_rounds import (
    ROUND_KEYS_BYTES,
    SECRET_BYTES,
    SHARE_BYTES,
    RoundKeys,
    bind_round,
    commit,
    seat_clients,
)
from privet.federated.sums.shamir import KEY_PRIME, open_secret
from privet.federated.sums.threats import GraphPlan
from privet.federated.sums.wire import MessageFields, Values, read_message, write_message

__all__ = ["SecureRound"]

Exchange = Generator[Messages, Messages, dict[int, MessageFields]]
_ATTEMPTS = 64  # subsets of shares that are tried where some are wrong


class SecureRound:
    """One round at the server. After ``sum_words`` it knows who contributed and who was refused."""

    def __init__(
        self,
        *,
        round_number: int,
        cohort: Sequence[int],
        length: int,
        words: int,
        bits: int,
        plan: GraphPlan,
        least_contributors: int,
        clients_choose: bool,
        identities: Identities,
    ) -> None:
        self.round_number, self.cohort, self.length = round_number, tuple(cohort), length
        self.plan, self.least_contributors = plan, least_contributors
        self.clients_choose, self.identities = clients_choose, identities
        self._words, self._bits = words, bits
        self.refused: dict[int, str] = {}
        self.contributors: tuple[int, ...] = ()
        self._binding = bind_round(
            round_number=round_number, length=length, bits=bits, cohort=cohort, identities=identities
        )
        self._holders: dict[int, list[int]] = {}
        self._keys: dict[int, RoundKeys] = {}
        self._masked: dict[int, dict[int, bytes]] = {}  # what clients said to their holders

    def sum_words(self) -> Generator[Messages, Messages, Words]:
        """The sum of the contributors' words, modulo 2^bits."""
        yield from self._collect_keys()
        peers = self._find_peers(set(self._keys))
        sealed = yield from self._collect_shares(peers)
        peers = self._find_peers(set(sealed))
        vectors = yield from self._collect_vectors(peers, sealed)
        self.contributors = tuple(sorted(vectors))
        opened = yield from self._collect_openings(peers, set(vectors))
        return self._remove_masks(peers, vectors, opened)

    def _exchange(self, step: str, messages: Mapping[int, bytes]) -> Exchange:
        """The well-formed replies to these messages; the others have dropped."""
        replies = yield messages
        read: dict[int, MessageFields] = {}
        for client, reply in replies.items():
            if client not in messages:
                self.refused[client] = (
                    f"Client {client} was not asked in this round, and its reply is not used. Invite it."
                )
                continue
            try:
                fields = read_message(reply, step)
                if fields.whole("round") != self.round_number:
                    raise MessageRefused(
                        f"A reply must be of round {self.round_number}, and is of another. Answer each "
                        "message once, in its round."
                    )
                read[client] = fields
            except MessageRefused as wrong:
                self.refused[client] = str(wrong)
        return read

    def _collect_keys(self) -> Generator[Messages, Messages, None]:
        seats = {} if self.clients_choose else seat_clients(self.cohort, self.plan.neighbours)
        common: Values = {"round": self.round_number, "length": self.length, "cohort": self.cohort}
        replies = yield from self._exchange(
            "keys",
            {c: write_message("invite", {**common, "neighbours": seats.get(c, [])}) for c in self.cohort},
        )
        known = set(self.cohort)
        for client, fields in replies.items():
            try:
                keys = RoundKeys.from_bytes(fields.octets("keys", ROUND_KEYS_BYTES))
                keys.check(client, self._binding, self.identities)
                holders = fields.wholes("holders")
                if len(holders) != self.plan.neighbours or not set(holders) <= known - {client}:
                    raise MessageRefused(
                        f"Client {client} must name {self.plan.neighbours} neighbours of the cohort, and "
                        "named others. Plan for the same threat at both ends."
                    )
            except MessageRefused as wrong:
                self.refused[client] = str(wrong)
            else:
                self._keys[client], self._holders[client] = keys, holders
        self._need(len(self._keys))

    def _find_peers(self, present: set[int]) -> dict[int, list[int]]:
        """The neighbours of each client that is present: whom it chose, and who chose it."""
        peers: dict[int, set[int]] = {client: set() for client in present}
        for client in present:
            for holder in self._holders[client]:
                if holder in present:
                    peers[client].add(holder)
                    peers[holder].add(client)
        return {client: sorted(found) for client, found in peers.items()}

    def _collect_shares(
        self, peers: Mapping[int, Sequence[int]]
    ) -> Generator[Messages, Messages, dict[int, dict[int, bytes]]]:
        messages = {}
        for client, others in peers.items():
            keys = {other: self._keys[other].to_bytes() for other in others}
            dealers = [other for other in others if client in self._holders[other]]
            messages[client] = write_message(
                "deal", {"round": self.round_number, "keys": keys, "dealers": dealers}
            )
        replies = yield from self._exchange("shares", messages)
        sealed: dict[int, dict[int, bytes]] = {}
        for client, fields in replies.items():
            try:
                found = fields.table("sealed")
                if set(found) != set(self._holders[client]) & set(peers):
                    raise MessageRefused(
                        f"Client {client} must seal a share for each of its neighbours, and did not. Run "
                        "the same version at both ends."
                    )
                sealed[client] = found
            except MessageRefused as wrong:
                self.refused[client] = str(wrong)
        self._need(len(sealed))
        return sealed

    def _collect_vectors(
        self, peers: Mapping[int, Sequence[int]], sealed: Mapping[int, Mapping[int, bytes]]
    ) -> Generator[Messages, Messages, dict[int, Words]]:
        messages = {}
        for client, others in peers.items():
            mine = {other: sealed[other][client] for other in others if client in sealed[other]}
            messages[client] = write_message(
                "mask", {"round": self.round_number, "peers": others, "sealed": mine}
            )
        replies = yield from self._exchange("masked", messages)
        vectors = {}
        for client, fields in replies.items():
            try:
                tags = fields.table("tags", SECRET_BYTES)
                vectors[client] = read_words(fields.tail, bits=self._bits, size=self._words)
                self._masked[client] = tags
            except MessageRefused as wrong:
                self.refused[client] = str(wrong)
        self._need(len(vectors))
        return vectors

    def _collect_openings(
        self, peers: Mapping[int, Sequence[int]], alive: set[int]
    ) -> Generator[Messages, Messages, dict[int, dict[str, dict[int, bytes]]]]:
        """Confirmations go from everybody to everybody; then the shares, by the client that gave them."""
        lists = {
            client: write_message(
                "confirm",
                {
                    "round": self.round_number,
                    "alive": [other for other in peers[client] if other in alive],
                    "dropped": [other for other in peers[client] if other not in alive],
                    "tags": {
                        other: self._masked[other][client]
                        for other in peers[client]
                        if other in alive and client in self._masked[other]
                    },
                },
            )
            for client in alive
        }
        replies = yield from self._exchange("confirmed", lists)
        tags: dict[int, dict[int, bytes]] = {client: {} for client in replies}
        for holder, fields in replies.items():
            try:
                for dealer, tag in fields.table("tags", SECRET_BYTES).items():
                    if dealer in tags:
                        tags[dealer][holder] = tag
            except MessageRefused as wrong:
                self.refused[holder] = str(wrong)
        replies = yield from self._exchange(
            "opened",
            {
                c: write_message("open", {"round": self.round_number, "tags": found})
                for c, found in tags.items()
            },
        )
        opened = {}
        for holder, fields in replies.items():
            try:
                opened[holder] = {name: fields.table(name, SHARE_BYTES) for name in ("own", "keys")}
            except MessageRefused as wrong:
                self.refused[holder] = str(wrong)
        return opened

    def _remove_masks(
        self,
        peers: Mapping[int, Sequence[int]],
        vectors: Mapping[int, Words],
        opened: Mapping[int, Mapping[str, Mapping[int, bytes]]],
    ) -> Words:
        """Σ vectors − own masks of those who stayed ∓ common masks of a neighbour that dropped."""
        total = np.zeros(self._words, dtype=word_type(self._bits))
        for words in vectors.values():
            np.add(total, words, out=total)
        masker = Masker(total)
        for client, others in peers.items():
            if client in vectors:
                masker.subtract(self._open(client, "own", opened))
            elif any(other in vectors for other in others):
                key = self._open(client, "keys", opened)
                for other in others:
                    if other in vectors:
                        public = self._keys[other].masking
                        seed = agree(key, public, purpose=b"mask", salt=self._binding)
                        (masker.subtract if other < client else masker.add)(seed)
        return masker.words

    def _open(self, client: int, name: str, opened: Mapping[int, Mapping[str, Mapping[int, bytes]]]) -> bytes:
        """A secret from the shares of its holders, checked against what the client signed for.

        Where a holder gave a wrong share, other subsets are tried.
        """
        shares = {
            holder + 1: int.from_bytes(opened[holder][name][client], "big")
            for holder in self._holders[client]
            if holder in opened and client in opened[holder][name]
        }
        if len(shares) >= self.plan.threshold:
            places = sorted(shares)
            for chosen in islice(_subsets(places, self.plan.threshold), _ATTEMPTS):
                secret = open_secret({place: shares[place] for place in chosen}, KEY_PRIME)
                if secret < 2 ** (8 * SECRET_BYTES):
                    octets = secret.to_bytes(SECRET_BYTES, "big")
                    if self._fits(client, name, octets):
                        return octets
        raise SumFailed(
            f"Round {self.round_number} has no sum: {len(shares)} of {self.plan.threshold} neighbours "
            f"that are needed gave a right share of a secret of client {client}. Begin a new round, and "
            "plan for more dropouts."
        )

    def _fits(self, client: int, name: str, secret: bytes) -> bool:
        keys = self._keys[client]
        return (
            commit(secret) == keys.commitment
            if name == "own"
            else exchange_public_key(secret) == keys.masking
        )

    def _need(self, clients: int) -> None:
        if clients < self.least_contributors:
            raise SumFailed(
                f"Round {self.round_number} has no sum: {clients} clients are left and "
                f"{self.least_contributors} are needed. Nothing was opened; begin a new round, and plan "
                "for more dropouts."
            )


def _subsets(places: Sequence[int], size: int) -> Generator[Sequence[int], None, None]:
    """The first ones, then every window of them, then any."""
    for start in range(len(places) - size + 1):
        yield places[start : start + size]
    yield from combinations(places, size)
