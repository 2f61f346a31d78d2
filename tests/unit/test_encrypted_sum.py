"""Encrypted sums and scores: right within their bound, keys apart, wrong messages refused."""

import numpy as np
import pytest

pytest.importorskip("tenseal", reason="homomorphic encryption needs the package tenseal")
pytest.importorskip("cryptography", reason="the comparison with noise needs the package cryptography")

import tenseal

from privet.caveats import Caveat
from privet.errors import InvalidArgument
from privet.federated.sum_protocols import MessageRefused, SumFailed
from privet.federated.sums import (
    DistributedGaussian,
    DistributedSum,
    EncryptedScorer,
    EncryptedSum,
    HonestServer,
    LocalKeyHolder,
    RowOwner,
    SecureSum,
    sum_in_process,
)
from privet.federated.sums.ckks import CKKSParameters, CKKSSecret
from privet.federated.sums.wire import read_message, write_message

CLIENTS, LENGTH = range(5), 3_000  # two ciphertexts each


def vectors(seed=0):
    generator = np.random.default_rng(seed)
    return {client: generator.uniform(-1, 1, LENGTH) for client in CLIENTS}


@pytest.fixture(scope="module")
def holder():
    return LocalKeyHolder(largest=1.0, clients=8)


@pytest.fixture
def encrypted():
    return EncryptedSum.for_one_process(largest=1.0, clients=8)


def test_the_sum_is_right_within_its_bound(encrypted):
    numbers, states = vectors(), {}
    for number in (1, 2):
        result = sum_in_process(encrypted, numbers, round_number=number, states=states, leaving={0: {3}})
        assert result.dropped == (3,)
        error = np.abs(result.total - sum(numbers[client] for client in result.contributors)).max()
        assert error < result.error_bound < 1e-5
        assert result.caveats == {Caveat.ONE_KEY_HOLDER, Caveat.APPROXIMATE_DECRYPTION}
        assert result.opened is None


def test_the_public_context_has_no_secret_key(holder):
    public = tenseal.context_from(holder.public_context)
    assert not public.has_secret_key()
    vector = tenseal.ckks_vector(public, [1.0, 2.0])
    with pytest.raises(ValueError, match="secret_key"):
        vector.decrypt()
    whole = holder._secret._context.serialize(save_secret_key=True)
    with pytest.raises(InvalidArgument, match="must not have the secret key in it, and has"):
        EncryptedSum(public_context=whole, largest=1.0, most_clients=8)
    # A secret key is 4,096 coefficients for each prime: the context with it is longer by that much.
    assert len(whole) - len(holder.public_context) > 4096


def test_the_server_sees_nothing_of_a_vector(encrypted):
    """Two encryptions of one vector have no byte more in common than two of different ones."""

    def tail(seed, round_number):
        message = next(encrypted.serve(round_number=round_number, clients=[0], length=LENGTH))[0]
        reply, _ = encrypted.answer(client=0, message=message, state=b"", vector=lambda: vectors(seed)[0])
        return np.frombuffer(read_message(reply).tail[1000:20_000], np.uint8)

    same = (tail(1, 1) == tail(1, 2)).mean()
    different = (tail(1, 3) == tail(2, 4)).mean()
    assert abs(same - different) < 5.8 * np.sqrt(2 * different / 19_000)


def test_old_rounds_and_other_keys_are_refused(encrypted):
    numbers, states = vectors(), {}
    sum_in_process(encrypted, numbers, round_number=2, states=states)
    with pytest.raises(SumFailed, match="no client answered"):
        sum_in_process(encrypted, numbers, round_number=2, states=states)
    with pytest.raises(MessageRefused, match="one sum a round"):
        encrypted.key_holder.open_sum(round_number=2, ciphertexts=[], contributors=5)
    with pytest.raises(MessageRefused, match="at least 2 clients"):
        encrypted.key_holder.open_sum(round_number=3, ciphertexts=[], contributors=1)
    other = EncryptedSum.for_one_process(largest=1.0, clients=8)
    message = next(other.serve(round_number=3, clients=[0], length=LENGTH))[0]
    with pytest.raises(MessageRefused, match="another public key"):
        encrypted.answer(client=0, message=message, state=b"", vector=lambda: numbers[0])


def test_wrong_replies_are_refused_and_the_others_go_on(encrypted):
    numbers = vectors()
    server = encrypted.serve(round_number=1, clients=list(CLIENTS), length=LENGTH)
    replies = {
        client: encrypted.answer(
            client=client, message=message, state=b"", vector=lambda c=client: numbers[c]
        )[0]
        for client, message in next(server).items()
    }
    tail = read_message(replies[1]).tail
    replies[0] = b"garbage"
    replies[1] = write_message("encrypted", {"round": 1}, tail[:100] + bytes(len(tail) - 100))
    replies[2] = write_message("encrypted", {"round": 1}, tail[:-1])
    replies[9] = replies[3]
    with pytest.raises(StopIteration) as done:
        server.send(replies)
    result = done.value.value
    assert result.contributors == (3, 4)
    assert set(result.refused) == {0, 1, 2, 9}
    assert np.abs(result.total - numbers[3] - numbers[4]).max() < result.error_bound


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (np.full(LENGTH, np.nan), "NaN or infinity"),
        (np.full(LENGTH, 1.5), "at most 1, and has a larger one"),
        (np.zeros(3), "another shape"),
    ],
)
def test_vectors_that_cannot_be_encrypted_are_refused(encrypted, bad, words):
    message = next(encrypted.serve(round_number=1, clients=[0], length=LENGTH))[0]
    with pytest.raises(MessageRefused, match=words):
        encrypted.answer(client=0, message=message, state=b"", vector=lambda: bad)


def test_parameters_follow_the_rule():
    assert CKKSParameters.for_sum(largest=1.0, clients=100) == CKKSParameters(4096, (60, 49), 40)
    assert CKKSParameters.for_sum(largest=1e6, clients=1000).scale_bits == 28
    with pytest.raises(InvalidArgument, match="Scale the numbers down"):
        CKKSParameters.for_sum(largest=1e12, clients=10)
    with pytest.raises(InvalidArgument, match="128 bits of security"):
        CKKSParameters(4096, (60, 60), 40)
    with pytest.raises(InvalidArgument, match="cannot be read"):
        EncryptedSum(public_context=b"nothing", largest=1.0, most_clients=8)
    with pytest.raises(InvalidArgument, match="'key_holder' must be there"):
        next(
            EncryptedSum(
                public_context=CKKSSecret(CKKSParameters(4096, (60, 49), 40)).public,
                largest=1.0,
                most_clients=8,
            ).serve(round_number=1, clients=[0], length=3)
        )


def test_numbers_at_the_edge_of_the_modulus_do_not_wrap():
    encrypted = EncryptedSum.for_one_process(largest=1e6, clients=8)
    numbers = {client: np.full(4, 1e6) for client in range(8)}
    result = sum_in_process(encrypted, numbers)
    assert np.abs(result.total - 8e6).max() < result.error_bound


# What encryption does not stop: the sum itself


def test_two_sums_give_a_client_away_and_only_noise_stops_that():
    numbers = vectors()
    without = {client: vector for client, vector in numbers.items() if client != 2}
    encrypted = EncryptedSum.for_one_process(largest=1.0, clients=8)
    stolen = (
        sum_in_process(encrypted, numbers, round_number=1).total
        - sum_in_process(encrypted, without, round_number=2).total
    )
    assert np.abs(stolen - numbers[2]).max() < 1e-5

    threat = HonestServer(colluding=0.0, dropouts=0.0)
    norm = float(np.linalg.norm(numbers[2]))
    encoding = DistributedGaussian.fit(clip=norm, noise_multiplier=1.0, clients=5, shares=4, length=LENGTH)
    noisy = DistributedSum(SecureSum.for_one_process(CLIENTS, encoding=encoding, threat=threat))
    blurred = (
        sum_in_process(noisy, numbers, round_number=1).total
        - sum_in_process(noisy, without, round_number=2).total
    )
    explained = float(np.corrcoef(blurred, numbers[2])[0, 1] ** 2)
    assert explained < 0.02  # of the vector's variance; 1 without noise


# Scoring


@pytest.fixture(scope="module")
def scoring():
    generator = np.random.default_rng(3)
    weights = generator.normal(size=30)
    owner = RowOwner(features=30, largest=10.0, largest_score=1000.0)
    return owner, weights, EncryptedScorer(weights, -0.5, owner.public_context)


def test_encrypted_scores_are_right_within_their_bound(scoring):
    owner, weights, scorer = scoring
    generator = np.random.default_rng(4)
    for row in (*generator.normal(size=(3, 30)), np.full(30, 10.0), np.zeros(30)):
        found = owner.read_score(scorer.score_row(owner.encrypt_row(row)), scorer.size)
        assert abs(found.score - (row @ weights - 0.5)) < found.error_bound < 1e-2
        assert Caveat.APPROXIMATE_DECRYPTION in found.caveats


def test_the_scorer_cannot_read_a_row(scoring):
    owner, _, scorer = scoring
    assert not tenseal.context_from(owner.public_context).has_secret_key()
    with pytest.raises(ValueError, match="secret_key"):
        tenseal.ckks_vector_from(scorer._context, owner.encrypt_row(np.ones(30))).decrypt()


def test_wrong_rows_are_refused(scoring):
    owner, weights, scorer = scoring
    with pytest.raises(InvalidArgument, match="30 finite numbers"):
        owner.encrypt_row(np.full(30, np.nan))
    with pytest.raises(InvalidArgument, match="at most 10"):
        owner.encrypt_row(np.full(30, 11.0))
    with pytest.raises(MessageRefused, match="under the public key of this run"):
        scorer.score_row(b"nothing")
    shorter = EncryptedScorer(weights[:5], 0.0, owner.public_context)
    with pytest.raises(InvalidArgument, match="a row of 5 numbers, got 30"):
        shorter.score_row(owner.encrypt_row(np.ones(30)))
    with pytest.raises(InvalidArgument, match="finite numbers"):
        EncryptedScorer(np.array([np.inf]), 0.0, owner.public_context)
