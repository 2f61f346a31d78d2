"""The client's part of secure aggregation: five answers, each of which is given once.

A client keeps its state between messages. A message of another step, of an old round or of another cohort is
refused, and the state stays as it was.
"""

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import final

from privet.errors import InvalidArgument
from privet.federated.sum_protocols import MessageRefused
from privet.federated.sums.identities import (
    Identities,
    PairKeys,
    agree,
    draw_exchange_key,
    exchange_public_key,
    pair_keys,
)
from privet.federated.sums.masks import Masker, write_words
from privet.federated.sums.secure_rounds import (
    ROUND_KEYS_BYTES,
    SECRET_BYTES,
    SHARE_BYTES,
    RoundKeys,
    bind_round,
    commit,
    draw_neighbours,
    plan_graph,
)
from privet.federated.sums.shamir import KEY_PRIME, share_secret
from privet.federated.sums.threats import GraphPlan, ServerThreat
from privet.federated.sums.wire import MessageFields, Values, read_message, write_message
from privet.federated.sums.word_encoding import WordEncoding, require_honest
from privet.views import Numbers

__all__ = ["SecureClient"]

Answer = tuple[bytes, bytes]
MASKED, INCLUDED = b"masked", b"included"  # what clients say to each other


@final
@dataclass(frozen=True, eq=False)
class SecureClient:
    """One client with what it was given beforehand; nothing of a round is kept here."""

    client: int
    identities: Identities
    encoding: WordEncoding
    threat: ServerThreat
    least_clients: int

    def answer(self, message: bytes, state: bytes, vector: Callable[[], Numbers]) -> Answer:
        """The reply to one message, and the state after it."""
        asked = read_message(message)
        kept = read_message(state) if state else MessageFields("new", {"round": 0}, b"")
        if asked.step == "invite":
            return self._give_keys(asked, kept)
        if asked.whole("round") != kept.whole("round"):
            raise MessageRefused(
                f"A message must be of round {kept.whole('round')}, and is of round {asked.whole('round')}. "
                "Begin a round with an invitation, and do not send old messages again."
            )
        if asked.step != kept.step:
            raise MessageRefused(
                f"A message must be of the step '{kept.step}' now, and is of '{asked.step}'. Send each step "
                "once, in its order."
            )
        match asked.step:
            case "deal":
                return self._deal_shares(asked, kept)
            case "mask":
                return self._mask_vector(asked, kept, vector)
            case "confirm":
                return self._confirm_neighbours(asked, kept)
            case "open":
                return self._open_shares(asked, kept)
        raise MessageRefused("A round that is over takes no further message. Begin a new one.")

    def _plan(self, cohort: int) -> GraphPlan:
        if cohort < self.least_clients:
            raise MessageRefused(
                f"A cohort must have at least {self.least_clients} clients, and has {cohort}. Invite more."
            )
        try:
            plan = plan_graph(self.threat, cohort)
            require_honest(plan.together, self.encoding.least_honest)
        except InvalidArgument as impossible:
            raise MessageRefused(str(impossible)) from None
        return plan

    def _give_keys(self, asked: MessageFields, kept: MessageFields) -> Answer:
        """New keys for a new round; whatever an earlier round left is forgotten."""
        round_number, length, cohort = asked.whole("round"), asked.whole("length"), asked.wholes("cohort")
        if round_number <= kept.whole("round"):
            raise MessageRefused(
                f"A round must be after round {kept.whole('round')}, and is round {round_number}. Number "
                "rounds upwards, also after a restart."
            )
        if self.client not in cohort:
            raise MessageRefused(
                f"Client {self.client} is not in the cohort that it was invited to. Name it."
            )
        plan = self._plan(len(cohort))
        try:
            self.encoding.check_cohort(len(cohort), length)
        except InvalidArgument as impossible:
            raise MessageRefused(str(impossible)) from None
        if self.threat.clients_choose:
            holders = draw_neighbours(self.client, cohort, plan.neighbours)
        else:
            holders = asked.wholes("neighbours")
            if len(holders) != plan.neighbours or not set(holders) <= set(cohort) - {self.client}:
                raise MessageRefused(
                    f"A client must get {plan.neighbours} neighbours of its cohort, and got others. Plan for "
                    "the same threat at both ends."
                )
        binding = bind_round(
            round_number=round_number,
            length=length,
            bits=self.encoding.bits,
            cohort=cohort,
            identities=self.identities,
        )
        sealing, masking, seed = draw_exchange_key(), draw_exchange_key(), secrets.token_bytes(SECRET_BYTES)
        keys = RoundKeys(exchange_public_key(sealing), exchange_public_key(masking), commit(seed))
        signed = keys.sign(self.client, binding, self.identities)
        reply = write_message("keys", {"round": round_number, "keys": signed.to_bytes(), "holders": holders})
        state: Values = {
            "round": round_number,
            "length": length,
            "threshold": plan.threshold,
            "binding": binding,
        }
        secret: Values = {"sealing": sealing, "masking": masking, "seed": seed, "holders": holders}
        return reply, write_message("deal", {**state, **secret})

    def _deal_shares(self, asked: MessageFields, kept: MessageFields) -> Answer:
        """Shares of both secrets for each holder, sealed for it."""
        binding, threshold = kept.octets("binding"), kept.whole("threshold")
        statements = asked.table("keys", ROUND_KEYS_BYTES)
        dealers = [dealer for dealer in asked.wholes("dealers") if dealer in statements]
        holders = [holder for holder in kept.wholes("holders") if holder in statements]
        if set(statements) - set(holders) - set(dealers) or self.client in statements:
            raise MessageRefused(
                "A client must get the keys of its neighbours only, and got others. Send each client its own."
            )
        self._need(len(holders), threshold)
        pairs: dict[int, PairKeys] = {}
        masks: dict[int, bytes] = {}
        for other, octets in statements.items():
            keys = RoundKeys.from_bytes(octets)
            keys.check(other, binding, self.identities)
            pairs[other] = pair_keys(self.client, other, kept.octets("sealing"), keys.sealing, binding)
            masks[other] = agree(kept.octets("masking"), keys.masking, purpose=b"mask", salt=binding)
        places = [holder + 1 for holder in holders]
        own, key = (
            share_secret(int.from_bytes(kept.octets(name), "big"), places, threshold, KEY_PRIME)
            for name in ("seed", "masking")
        )
        sealed = {
            holder: pairs[holder].seal(_to_octets(own[holder + 1]) + _to_octets(key[holder + 1]))
            for holder in holders
        }
        state: Values = {name: kept.whole(name) for name in ("round", "length", "threshold")}
        held: Values = {
            "seed": kept.octets("seed"),
            "holders": holders,
            "dealers": dealers,
            "pairs": {other: pair.material for other, pair in pairs.items()},
            "masks": masks,
        }
        return write_message("shares", {"round": kept.whole("round"), "sealed": sealed}), write_message(
            "mask", {**state, **held}
        )

    def _mask_vector(
        self, asked: MessageFields, kept: MessageFields, vector: Callable[[], Numbers]
    ) -> Answer:
        """The vector plus the client's own mask plus or minus one mask for each neighbour that has dealt."""
        pairs, masks = self._pairs(kept), kept.table("masks", SECRET_BYTES)
        peers = asked.wholes("peers")
        if not set(peers) <= set(masks):
            raise MessageRefused(
                "A client must be told of its neighbours only. Send each client its own list."
            )
        holders = [holder for holder in kept.wholes("holders") if holder in peers]
        self._need(len(holders), kept.whole("threshold"))
        shares = {}
        for dealer, sealed in asked.table("sealed").items():
            if dealer not in peers or dealer not in kept.wholes("dealers"):
                raise MessageRefused(
                    f"Client {dealer} gave no shares to client {self.client} in this round. Send each client "
                    "what was sealed for it."
                )
            shares[dealer] = pairs[dealer].unseal(sealed)
        round_number, length = kept.whole("round"), kept.whole("length")
        words = self.encoding.encode(vector(), round_number=round_number, length=length)
        masker = Masker(words)
        masker.add(kept.octets("seed", SECRET_BYTES))
        for peer in peers:
            if self.client < peer:
                masker.add(masks[peer])
            else:
                masker.subtract(masks[peer])
        state: Values = {
            "round": round_number,
            "threshold": kept.whole("threshold"),
            "holders": holders,
            "peers": peers,
        }
        held: Values = {"pairs": kept.table("pairs"), "shares": shares}
        tags = {holder: pairs[holder].tag(MASKED) for holder in holders}
        reply = write_message("masked", {"round": round_number, "tags": tags}, write_words(masker.words))
        return reply, write_message("confirm", {**state, **held})

    def _confirm_neighbours(self, asked: MessageFields, kept: MessageFields) -> Answer:
        """A confirmation for each dealer whose vector arrived. From now on its mask key is not given away.

        The dealer must have said that its vector has the mask that it shares with this client. Of one that
        has not, no share is given away.
        """
        alive, dropped = asked.wholes("alive"), asked.wholes("dropped")
        if set(alive) & set(dropped):
            raise MessageRefused(
                "A client is listed both as alive and as dropped, and its vector could be opened. Nothing is "
                "given away in this round; distrust the server."
            )
        if set(alive) | set(dropped) != set(kept.wholes("peers")):
            raise MessageRefused(
                "Each neighbour must be listed as alive or as dropped, and one is missing or is a stranger. "
                "Send each client its own list."
            )
        pairs, said = self._pairs(kept), asked.table("tags", SECRET_BYTES)
        masked = {dealer for dealer in alive if dealer in said and pairs[dealer].is_tag(said[dealer], MASKED)}
        shares = {
            dealer: both
            for dealer, both in kept.table("shares").items()
            if dealer in masked or dealer in dropped
        }
        tags = {dealer: pairs[dealer].tag(INCLUDED) for dealer in shares if dealer in masked}
        state: Values = {name: kept.whole(name) for name in ("round", "threshold")}
        held: Values = {"pairs": kept.table("pairs"), "shares": shares, "holders": kept.wholes("holders")}
        return write_message("confirmed", {"round": kept.whole("round"), "tags": tags}), write_message(
            "open", {**state, **held, "alive": alive}
        )

    def _open_shares(self, asked: MessageFields, kept: MessageFields) -> Answer:
        """One share for each dealer, once enough holders have confirmed that this client is in the sum."""
        pairs, alive = self._pairs(kept), set(kept.wholes("alive"))
        tags = asked.table("tags", SECRET_BYTES)
        confirmed = [
            holder
            for holder in kept.wholes("holders")
            if holder in tags and pairs[holder].is_tag(tags[holder], INCLUDED)
        ]
        if len(confirmed) < kept.whole("threshold"):
            raise MessageRefused(
                f"At least {kept.whole('threshold')} neighbours must confirm that client {self.client} is in "
                f"the sum, and {len(confirmed)} did. Nothing is given away in this round."
            )
        own, keys = {}, {}
        for dealer, both in kept.table("shares", 2 * SHARE_BYTES).items():
            if dealer in alive:
                own[dealer] = both[:SHARE_BYTES]
            else:
                keys[dealer] = both[SHARE_BYTES:]
        reply = write_message("opened", {"round": kept.whole("round"), "own": own, "keys": keys})
        return reply, write_message("over", {"round": kept.whole("round")})

    def _need(self, holders: int, threshold: int) -> None:
        if holders < threshold:
            raise MessageRefused(
                f"At least {threshold} neighbours must hold shares of client {self.client}, and {holders} "
                "are left. Begin a new round."
            )

    def _pairs(self, kept: MessageFields) -> dict[int, PairKeys]:
        return {other: PairKeys(self.client, other, octets) for other, octets in kept.table("pairs").items()}


def _to_octets(share: int) -> bytes:
    return share.to_bytes(SHARE_BYTES, "big")
