"""Sums of shares between aggregators: exact, refused where they should be, and uniform for all but one of them."""

import numpy as np
import pytest
from scipy.stats import chi2

pytest.importorskip("cryptography", reason="shares are sealed with the package cryptography")

from privet.accounting import account
from privet.adjacency import Unit, ZeroOut
from privet.errors import InvalidArgument
from privet.federated.sum_protocols import MessageRefused, SumFailed
from privet.federated.sums import (
    DistributedGaussian,
    DistributedSum,
    FixedPoint,
    Identities,
    LocalAggregator,
    SharedSum,
    sum_in_process,
)
from privet.federated.sums.aggregators import SealedShare, ShareRound
from privet.federated.sums.wire import read_message, write_message

CLIENTS, LENGTH = range(8), 50
FALSE_ALARM = 1e-8


def shared(**changed):
    return SharedSum.for_one_process(
        CLIENTS, encoding=FixedPoint(largest=1.0), **{"least_clients": 4, **changed}
    )


def vectors(seed=0):
    generator = np.random.default_rng(seed)
    return {client: generator.uniform(-1, 1, LENGTH) for client in CLIENTS}


def exact_sum(numbers, clients):
    return sum(np.rint(np.ldexp(numbers[client], 24)).astype(np.int64) for client in clients) / 2.0**24


def play(protocol, numbers, change=lambda replies: replies, round_number=1):
    """One round whose replies a test may change; the result, and the replies."""
    server = protocol.serve(round_number=round_number, clients=list(CLIENTS), length=LENGTH)
    replies = {
        client: protocol.answer(
            client=client, message=message, state=b"", vector=lambda c=client: numbers[c]
        )[0]
        for client, message in next(server).items()
    }
    replies = change(replies)
    with pytest.raises(StopIteration) as done:
        server.send(replies)
    return done.value.value


@pytest.mark.parametrize("aggregators", [2, 3, 5])
def test_the_sum_is_exact(aggregators):
    numbers, states = vectors(), {}
    protocol = shared(aggregators=aggregators)
    for number in (1, 2):
        result = sum_in_process(protocol, numbers, round_number=number, states=states, leaving={0: {2}})
        assert result.dropped == (2,)
        assert (result.total == exact_sum(numbers, result.contributors)).all()
        assert result.opened is None


def test_too_few_clients_open_nothing():
    with pytest.raises(SumFailed, match="3 clients are left and 4 are needed"):
        sum_in_process(shared(), vectors(), leaving={0: set(range(5))})


def test_wrong_clients_are_refused_and_the_others_go_on():
    protocol, numbers = shared(), vectors()
    impostor = SharedSum(
        identities=Identities(protocol.identities.public, {0: Identities.generate([0]).private[0]}),
        encoding=protocol.encoding,
        keys=protocol.keys,
        least_clients=4,
    )
    invitation = next(protocol.serve(round_number=1, clients=list(CLIENTS), length=LENGTH))[0]
    forged, _ = impostor.answer(client=0, message=invitation, state=b"", vector=lambda: numbers[0])

    def change(replies):
        fields = read_message(replies[2])
        longer = write_message("shares", dict.fromkeys(("round",), 1))
        head = {
            "round": 1,
            "seeds": fields.table("seeds"),
            "digests": fields.octets("digests"),
            "signature": bytes(64),
        }
        return {
            **replies,
            0: forged,
            1: b"garbage",
            2: write_message("shares", head, fields.tail),
            3: longer,
            77: replies[4],
        }

    result = play(protocol, numbers, change)
    assert result.contributors == (4, 5, 6, 7)
    assert set(result.refused) == {0, 1, 2, 3, 77}
    assert all(text.endswith(".") for text in result.refused.values())
    assert (result.total == exact_sum(numbers, result.contributors)).all()


def test_a_share_of_another_client_does_not_count():
    protocol, numbers = shared(), vectors()
    result = play(protocol, numbers, lambda replies: {**replies, 5: replies[4]})
    assert 5 in result.dropped
    assert (result.total == exact_sum(numbers, result.contributors)).all()


def test_an_old_round_is_refused_by_clients_and_aggregators():
    protocol, states = shared(), {}
    sum_in_process(protocol, vectors(), round_number=3, states=states)
    with pytest.raises(MessageRefused, match="round 3 is over"):
        sum_in_process(protocol, vectors(), round_number=3, states=states)
    with pytest.raises(MessageRefused, match="round 2 is over"):
        protocol.aggregators[0].check_shares(ShareRound(2, tuple(CLIENTS), LENGTH, 64), {})


def test_a_vector_that_cannot_be_encoded_is_left_out():
    numbers = {**vectors(), 3: np.full(LENGTH, np.nan)}
    result = sum_in_process(shared(), numbers)
    assert result.dropped == (3,)


def collect_shares(protocol, numbers, round_number=1):
    server = protocol.serve(round_number=round_number, clients=list(CLIENTS), length=LENGTH)
    messages = next(server)
    found = {}
    for client, message in messages.items():
        reply, _ = protocol.answer(
            client=client, message=message, state=b"", vector=lambda c=client: numbers[c]
        )
        fields = read_message(reply)
        octets = fields.octets("digests")
        digests = tuple(octets[32 * place : 32 * place + 32] for place in range(len(protocol.keys)))
        parts = [*fields.table("seeds").values(), fields.tail]
        found[client] = [SealedShare(part, digests, fields.octets("signature")) for part in parts]
    return found


def test_an_aggregator_opens_no_client_alone_and_nothing_twice():
    protocol = shared()
    shares = collect_shares(protocol, vectors())
    current = ShareRound(1, tuple(CLIENTS), LENGTH, 64)
    for number, aggregator in enumerate(protocol.aggregators):
        given = {client: parts[number] for client, parts in shares.items()}
        assert aggregator.check_shares(current, given) == set(CLIENTS)
        with pytest.raises(MessageRefused, match="at least 4 clients, and was asked for 1"):
            aggregator.add_shares(1, {0})
        with pytest.raises(MessageRefused, match="was asked for others"):
            aggregator.add_shares(1, {0, 1, 2, 99})
        aggregator.add_shares(1, set(CLIENTS))
        with pytest.raises(MessageRefused, match="round 1 is over"):  # a sum without client 0 would open it
            aggregator.add_shares(1, set(CLIENTS) - {0})
        # The shares of round 1 under another number are not those that were signed.
        assert aggregator.check_shares(ShareRound(2, tuple(CLIENTS), LENGTH, 64), given) == set()


def test_all_aggregators_but_one_see_uniform_words():
    """Bytes of the sum of any two of three aggregators, over 40 rounds of the same vectors."""
    numbers = {client: np.zeros(LENGTH) for client in CLIENTS}
    protocol = shared()
    sums = []
    for number in range(1, 41):
        shares = collect_shares(protocol, numbers, round_number=number)
        current = ShareRound(number, tuple(CLIENTS), LENGTH, 64)
        row = []
        for place, aggregator in enumerate(protocol.aggregators):
            aggregator.check_shares(current, {client: parts[place] for client, parts in shares.items()})
            row.append(np.frombuffer(aggregator.add_shares(number, set(CLIENTS)), np.uint64))
        sums.append(row)
    words = np.array(sums)
    assert (words.sum(axis=1) == 0).all()
    for seen in (words[:, 0], words[:, 1], words[:, 2], words[:, 0] + words[:, 1], words[:, 1] + words[:, 2]):
        cells = np.frombuffer(np.ascontiguousarray(seen).tobytes(), np.uint8)
        counts = np.bincount(cells, minlength=256)
        expected = cells.size / 256
        assert ((counts - expected) ** 2 / expected).sum() < chi2.isf(FALSE_ALARM, 255)


def test_distributed_noise_between_aggregators():
    encoding = DistributedGaussian.fit(clip=1.0, noise_multiplier=1.0, clients=8, shares=3, length=LENGTH)
    inner = SharedSum.for_one_process(CLIENTS, encoding=encoding, least_clients=4)
    protocol = DistributedSum(inner)
    result = sum_in_process(protocol, {client: np.zeros(LENGTH) for client in CLIENTS})
    assert result.event == protocol.event(length=LENGTH, contributors=8)
    assert account(result.event, adjacency=ZeroOut(Unit.CLIENT)).epsilon(delta=1e-6) < 4.9
    with pytest.raises(InvalidArgument, match="planned for sums over 3 honest clients"):
        SharedSum(
            identities=inner.identities, encoding=encoding, keys=inner.keys, least_clients=4, colluding=2
        )


def test_wrong_arguments_are_refused():
    protocol = shared()
    with pytest.raises(InvalidArgument, match="at least 2 aggregators"):
        SharedSum(
            identities=protocol.identities,
            encoding=protocol.encoding,
            keys=protocol.keys[:1],
            least_clients=4,
        )
    with pytest.raises(InvalidArgument, match="two aggregators have the same"):
        SharedSum(
            identities=protocol.identities,
            encoding=protocol.encoding,
            keys=protocol.keys[:1] * 2,
            least_clients=4,
        )
    client_side = SharedSum(
        identities=protocol.identities.only(1),
        encoding=protocol.encoding,
        keys=protocol.keys,
        least_clients=4,
    )
    with pytest.raises(InvalidArgument, match="Give the server all of them"):
        next(client_side.serve(round_number=1, clients=list(CLIENTS), length=3))
    with pytest.raises(InvalidArgument, match="at least 4 different clients"):
        next(protocol.serve(round_number=1, clients=[1, 1, 2, 3], length=3))
    with pytest.raises(InvalidArgument, match="'least_clients' must be at least 2"):
        LocalAggregator(number=0, identities=protocol.identities, least_clients=1)
