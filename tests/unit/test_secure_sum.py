"""Secure aggregation: exact sums with dropouts at every moment, and everything that is refused."""

import numpy as np
import pytest

pytest.importorskip("cryptography", reason="secure aggregation needs the package cryptography")

from privet.errors import InvalidArgument
from privet.federated.plain_sum import PlainSum
from privet.federated.sum_protocols import MessageRefused, SumFailed
from privet.federated.sums import FixedPoint, HonestServer, Identities, MaliciousServer, SecureSum
from privet.federated.sums.in_process import sum_in_process
from privet.federated.sums.wire import read_message, write_message

CURIOUS = HonestServer(colluding=0.2, dropouts=0.3)
MALICIOUS = MaliciousServer(colluding=0.2, dropouts=0.2)
CLIENTS = range(12)
LENGTH = 40


def vectors(clients=CLIENTS, length=LENGTH, seed=0):
    generator = np.random.default_rng(seed)
    return {client: generator.uniform(-1, 1, length) for client in clients}


def protocol(threat=CURIOUS, clients=CLIENTS, **encoding):
    return SecureSum.for_one_process(
        clients, encoding=FixedPoint(**{"largest": 1.0, **encoding}), threat=threat
    )


def exact_sum(numbers, clients, bits=24):
    return sum(np.rint(np.ldexp(numbers[client], bits)).astype(np.int64) for client in clients) / 2.0**bits


class Talk:
    """A round that a test conducts itself: it may change any message on its way."""

    def __init__(self, secure, numbers, round_number=1):
        self.secure, self.numbers, self.states = secure, numbers, {}
        self.errors = {}
        self.server = secure.serve(round_number=round_number, clients=sorted(numbers), length=LENGTH)
        self.messages = next(self.server)

    def replies(self, change=lambda client, message: message):
        found = {}
        for client, message in self.messages.items():
            try:
                found[client] = self.answer(client, change(client, message))
            except MessageRefused as refused:
                self.errors[client] = str(refused)
        return found

    def answer(self, client, message):
        reply, self.states[client] = self.secure.answer(
            client=client,
            message=message,
            state=self.states.get(client, b""),
            vector=lambda: self.numbers[client],
        )
        return reply

    def step(self, change=lambda client, message: message, change_reply=lambda replies: replies):
        self.messages = self.server.send(change_reply(self.replies(change)))

    def finish(self):
        try:
            while True:
                self.step()
        except StopIteration as done:
            return done.value


@pytest.mark.parametrize("threat", [CURIOUS, MALICIOUS], ids=["curious", "malicious"])
@pytest.mark.parametrize("moment", range(5))
def test_the_sum_is_exact_whenever_clients_leave(threat, moment):
    numbers = vectors()
    gone = {1, 7} if threat is MALICIOUS else {1, 5, 7}
    result = sum_in_process(protocol(threat), numbers, leaving={moment: gone})
    # A client that leaves after its vector arrived is in the sum.
    staying = [client for client in CLIENTS if client not in gone or moment > 2]
    assert result.contributors == tuple(staying)
    assert set(result.dropped) == set(CLIENTS) - set(staying)
    assert (result.total == exact_sum(numbers, staying)).all()
    assert result.opened is None
    assert np.abs(result.total - sum(numbers[client] for client in staying)).max() <= result.error_bound


@pytest.mark.parametrize("bits", [16, 32, 64])
def test_every_word_size(bits):
    numbers = vectors()
    result = sum_in_process(protocol(bits=bits, fraction_bits=8, largest=1.0), numbers)
    assert (result.total == exact_sum(numbers, CLIENTS, bits=8)).all()


def test_the_sum_is_exact_modulo_2_64():
    """Numbers that fill the words: the total of the words is that of the whole numbers, modulo 2^64."""
    encoding = FixedPoint(largest=2.0**58, fraction_bits=0)
    generator = np.random.default_rng(1)
    numbers = {client: np.rint(generator.uniform(-(2.0**58), 2.0**58, LENGTH)) for client in CLIENTS}
    secure = SecureSum.for_one_process(CLIENTS, encoding=encoding, threat=CURIOUS)
    result = sum_in_process(secure, numbers, leaving={2: {3, 4}})
    wanted = [sum(int(numbers[c][place]) for c in result.contributors) for place in range(LENGTH)]
    assert result.total.tolist() == [float(number) for number in wanted]


def test_sparse_graph_sums_exactly():
    clients = range(60)
    threat = HonestServer(colluding=0.05, dropouts=0.1, privacy_bits=20, delivery_bits=10)
    assert threat.plan(60).neighbours < 30
    numbers = vectors(clients)
    result = sum_in_process(protocol(threat, clients), numbers, leaving={1: {0, 9}, 2: {11, 30}, 4: {40, 41}})
    assert (result.total == exact_sum(numbers, result.contributors)).all()
    assert set(result.dropped) == {0, 9, 11, 30}


def test_clients_draw_their_own_neighbours_against_a_malicious_server():
    clients = range(60)
    threat = MaliciousServer(colluding=0.02, dropouts=0.05, privacy_bits=20, delivery_bits=10)
    assert threat.plan(60).neighbours < 30
    numbers = vectors(clients)
    result = sum_in_process(protocol(threat, clients), numbers, leaving={2: {11, 30}})
    assert (result.total == exact_sum(numbers, result.contributors)).all()


def test_too_many_dropouts_open_nothing():
    with pytest.raises(SumFailed, match="Nothing was opened"):
        sum_in_process(protocol(), vectors(), leaving={2: set(range(6))})
    with pytest.raises(SumFailed, match="plan for more dropouts"):
        sum_in_process(protocol(), vectors(), leaving={4: set(range(11))})


def test_rounds_follow_each_other():
    secure, states = protocol(), {}
    for number in (1, 2, 5):
        numbers = vectors(seed=number)
        result = sum_in_process(secure, numbers, round_number=number, states=states)
        assert (result.total == exact_sum(numbers, CLIENTS)).all()
    with pytest.raises(SumFailed):  # every client refuses an old round
        sum_in_process(secure, vectors(), round_number=5, states=states)


# What a client refuses


def test_old_rounds_and_repeated_messages_are_refused():
    talk = Talk(protocol(), vectors(), round_number=4)
    invitation = talk.messages[0]
    talk.step()
    with pytest.raises(MessageRefused, match="must be after round 4"):
        talk.answer(0, invitation)
    deal = talk.messages[0]
    talk.step()
    with pytest.raises(MessageRefused, match="must be of the step 'mask' now, and is of 'deal'"):
        talk.answer(0, deal)
    talk.step()
    talk.step()
    opening = talk.messages[0]
    talk.answer(0, opening)
    with pytest.raises(MessageRefused, match="must be of the step 'over' now"):
        talk.answer(0, opening)
    stale = write_message("deal", {"round": 3})
    with pytest.raises(MessageRefused, match="must be of round 4, and is of round 3"):
        talk.answer(0, stale)


def test_a_refusal_changes_nothing():
    talk = Talk(protocol(), vectors())
    before = dict(talk.states)
    with pytest.raises(MessageRefused):
        talk.answer(0, write_message("open", {"round": 1}))
    assert talk.states == before
    assert (talk.finish().total == exact_sum(talk.numbers, CLIENTS)).all()


def test_a_client_listed_as_alive_and_as_dropped_gives_nothing():
    talk = Talk(protocol(), vectors())
    for _ in range(3):
        talk.step()

    def list_twice(client, message):
        fields = read_message(message)
        alive = fields.wholes("alive")
        head = {"round": 1, "alive": alive, "dropped": alive[:1], "tags": fields.table("tags")}
        return write_message("confirm", head)

    assert talk.replies(list_twice) == {}
    assert all("both as alive and as dropped" in text for text in talk.errors.values())
    assert len(talk.errors) == len(CLIENTS)


def test_a_server_that_hides_a_neighbour_gets_nothing():
    talk = Talk(protocol(), vectors())
    for _ in range(3):
        talk.step()

    def leave_out(client, message):
        fields = read_message(message)
        head = {"round": 1, "alive": fields.wholes("alive")[1:], "dropped": [], "tags": fields.table("tags")}
        return write_message("confirm", head)

    assert talk.replies(leave_out) == {}


def test_different_lists_open_no_single_vector():
    """The server tells half of the neighbours that client 0 is alive, and the others that it dropped."""
    secure = protocol(MALICIOUS)
    threshold = MALICIOUS.plan(len(CLIENTS)).threshold
    talk = Talk(secure, vectors())
    for _ in range(3):
        talk.step()

    def split(client, message):
        fields = read_message(message)
        alive = fields.wholes("alive")
        if client % 2 and client != 0:
            head = {
                "round": 1,
                "alive": [c for c in alive if c],
                "dropped": [0, *fields.wholes("dropped")],
                "tags": fields.table("tags"),
            }
            return write_message("confirm", head)
        return message

    talk.step(split)
    replies = talk.replies()
    own = sum(1 for reply in replies.values() if 0 in read_message(reply).table("own"))
    keys = sum(1 for reply in replies.values() if 0 in read_message(reply).table("keys"))
    assert own < threshold or keys < threshold
    assert 0 not in replies  # too few neighbours confirmed it, so it gives nothing away either


def test_who_shares_no_mask_with_a_client_does_not_open_its_own_mask():
    """The server hides from client 0 that two of its neighbours have dealt, and gives them its shares.

    Their common masks are missing in its vector, so they must not help to open it.
    """
    talk = Talk(protocol(MALICIOUS), vectors())
    talk.step()
    holders = read_message(talk.states[0]).wholes("holders")
    hidden = holders[:2]
    talk.step()

    def hide(client, message):
        if client:
            return message
        fields = read_message(message)
        peers = [peer for peer in fields.wholes("peers") if peer not in hidden]
        sealed = {dealer: part for dealer, part in fields.table("sealed").items() if dealer not in hidden}
        return write_message("mask", {"round": 1, "peers": peers, "sealed": sealed})

    def restore(client, message):
        if client:
            return message
        fields = read_message(message)
        alive = [peer for peer in fields.wholes("alive") if peer not in hidden]
        head = {"round": 1, "alive": alive, "dropped": [], "tags": fields.table("tags")}
        return write_message("confirm", head)

    talk.step(hide)
    talk.step(restore)
    replies = {client: read_message(reply) for client, reply in talk.replies().items()}
    helping = {client for client, reply in replies.items() if 0 in reply.table("own")}
    assert helping == set(holders) - set(hidden)


def test_confirmations_cannot_be_forged():
    talk = Talk(protocol(), vectors())
    for _ in range(4):
        talk.step()

    def forge(client, message):
        tags = {holder: bytes(32) for holder in read_message(message).table("tags")}
        return write_message("open", {"round": 1, "tags": tags})

    assert talk.replies(forge) == {}
    assert all("and 0 did" in text for text in talk.errors.values())


def test_keys_that_were_changed_on_their_way_are_refused():
    talk = Talk(protocol(), vectors())
    talk.step()

    def exchange_keys(client, message):
        fields = read_message(message)
        keys = fields.table("keys")
        first, second = sorted(keys)[:2]
        keys[first] = keys[second]
        return write_message("deal", {"round": 1, "keys": keys, "dealers": fields.wholes("dealers")})

    assert talk.replies(exchange_keys) == {}
    assert all("not signed by its identity" in text for text in talk.errors.values())


def test_a_small_cohort_is_refused_by_the_client():
    secure = protocol()
    wary = SecureSum(identities=secure.identities, encoding=secure.encoding, threat=CURIOUS, least_clients=10)
    invitation = write_message(
        "invite", {"round": 1, "length": 4, "cohort": [0, 1, 2, 3], "neighbours": [1, 2, 3]}
    )
    with pytest.raises(MessageRefused, match="at least 10 clients, and has 4"):
        wary.answer(client=0, message=invitation, state=b"", vector=lambda: np.zeros(4))


# What a server refuses: the others go on


def test_a_wrong_key_is_refused_and_the_others_go_on():
    right = protocol()
    wrong = SecureSum(
        identities=Identities(right.identities.public, {0: Identities.generate([0]).private[0]}),
        encoding=right.encoding,
        threat=CURIOUS,
        least_clients=3,
    )
    talk = Talk(right, vectors())
    impostor, _ = wrong.answer(client=0, message=talk.messages[0], state=b"", vector=lambda: np.zeros(LENGTH))
    talk.step(change_reply=lambda replies: {**replies, 0: impostor})
    result = talk.finish()
    assert result.contributors == tuple(range(1, 12))
    assert "not signed by its identity" in result.refused[0]
    assert (result.total == exact_sum(talk.numbers, result.contributors)).all()


@pytest.mark.parametrize("exchange", range(5))
@pytest.mark.parametrize(
    "garbage", [b"", b"\x00" * 40, b"\xff\xff\xff\xff{}", write_message("keys", {"round": 9})]
)
def test_garbage_from_one_client_stops_nobody(exchange, garbage):
    talk = Talk(protocol(), vectors())
    for _ in range(exchange):
        talk.step()

    def spoil(replies):
        return {**replies, 3: garbage, 99: b"a stranger"}

    try:
        talk.step(change_reply=spoil)
    except StopIteration as done:
        result = done.value
    else:
        result = talk.finish()
    assert set(result.refused) == {3, 99}
    assert "was not asked" in result.refused[99]
    assert (result.total == exact_sum(talk.numbers, result.contributors)).all()
    assert (3 in result.contributors) == (exchange > 2)


def test_a_replayed_vector_of_another_length_or_round_is_refused():
    talk = Talk(protocol(), vectors())
    talk.step()
    talk.step()

    def shorten(replies):
        old = write_message("masked", {"round": 7}, read_message(replies[5]).tail)
        return {**replies, 4: replies[4][:-8], 5: old}

    talk.step(change_reply=shorten)
    result = talk.finish()
    assert "has another length" in result.refused[4]
    assert "must be of round 1, and is of another" in result.refused[5]
    assert (result.total == exact_sum(talk.numbers, result.contributors)).all()


def test_one_wrong_share_is_found_and_left_out():
    talk = Talk(protocol(), vectors())
    for _ in range(4):
        talk.step()

    def spoil(replies):
        fields = read_message(replies[2])
        own = {dealer: bytes(33) for dealer in fields.table("own")}
        return {**replies, 2: write_message("opened", {"round": 1, "own": own, "keys": fields.table("keys")})}

    with pytest.raises(StopIteration) as done:
        talk.step(change_reply=spoil)
    assert (done.value.value.total == exact_sum(talk.numbers, CLIENTS)).all()


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (np.full(LENGTH, np.nan), "has NaN or infinity"),
        (np.full(LENGTH, -np.inf), "has NaN or infinity"),
        (np.full(LENGTH, 1.001), "at most 1, and has a larger one"),
        (np.zeros(LENGTH + 1), "has another shape"),
    ],
)
def test_a_vector_that_cannot_be_encoded_is_refused_and_the_others_go_on(bad, words):
    talk = Talk(protocol(), {**vectors(), 6: bad})
    result = talk.finish()
    assert words in talk.errors[6]
    assert result.dropped == (6,)
    assert (result.total == exact_sum(talk.numbers, result.contributors)).all()


def test_impossible_rounds_are_refused_before_anything_is_sent():
    secure = protocol()
    with pytest.raises(InvalidArgument, match="one is missing or stands twice"):
        next(secure.serve(round_number=1, clients=[0, 1, 1], length=3))
    with pytest.raises(InvalidArgument, match="one is missing or stands twice"):
        next(secure.serve(round_number=1, clients=[0, 1, 77], length=3))
    with pytest.raises(InvalidArgument, match="at least 3"):
        next(secure.serve(round_number=1, clients=[0, 1], length=3))
    tight = protocol(largest=2.0**6, fraction_bits=24, bits=32)
    with pytest.raises(InvalidArgument, match="does not fit into 32 bits"):
        next(tight.serve(round_number=1, clients=list(CLIENTS), length=3))
    with pytest.raises(InvalidArgument, match="stands 60% of them colluding"):
        next(
            protocol(MaliciousServer(colluding=0.6, dropouts=0.3)).serve(
                round_number=1, clients=CLIENTS, length=3
            )
        )


def test_plain_sum_opens_everything_and_refuses_the_same():
    numbers = {**vectors(range(4)), 2: np.full(LENGTH, np.inf)}
    result = sum_in_process(PlainSum(), numbers)
    assert result.contributors == (0, 1, 3)
    assert set(result.opened) == {0, 1, 3}
    assert np.allclose(result.total, numbers[0] + numbers[1] + numbers[3], atol=1e-12)
