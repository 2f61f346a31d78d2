"""What the server sees of masked vectors and shares is uniform, and mistakes that would undo it are found.

Each test of uniformity counts bytes, or elements of a small field, in 256 (or fewer) cells and has a false-alarm
rate of 1e-8. Every mutation is put in on purpose, and the public check must fail.
"""

import numpy as np
import pytest
from scipy.stats import chi2

pytest.importorskip("cryptography", reason="secure aggregation needs the package cryptography")

from privet.federated.sums import (
    FixedPoint,
    HonestServer,
    MaliciousServer,
    SecureSum,
    secure_client,
    secure_server,
)
from privet.federated.sums.in_process import sum_in_process
from privet.federated.sums.masks import Masker, read_words
from privet.federated.sums.shamir import open_secret, share_secret
from privet.federated.sums.wire import read_message

FALSE_ALARM = 1e-8
LENGTH = 4_000
CLIENTS = range(8)
CURIOUS = HonestServer(colluding=0.2, dropouts=0.25)


def is_uniform(cells, kinds):
    """Pearson's test."""
    counts = np.bincount(cells, minlength=kinds)
    expected = cells.size / kinds
    return float(((counts - expected) ** 2 / expected).sum()) < chi2.isf(FALSE_ALARM, kinds - 1)


def words_are_uniform(words):
    return is_uniform(np.frombuffer(words.tobytes(), np.uint8), 256)


def masked_vectors(secure, numbers, round_number=1):
    """The words that the server gets, by client; and what the clients knew before: their seeds and masks."""
    states = {}
    server = secure.serve(round_number=round_number, clients=sorted(numbers), length=LENGTH)
    messages = next(server)
    for _ in range(3):
        replies = {}
        seeds = {c: read_message(states[c]) for c in states}
        for client, message in messages.items():
            replies[client], states[client] = secure.answer(
                client=client,
                message=message,
                state=states.get(client, b""),
                vector=lambda c=client: numbers[c],
            )
        if "masked" in {read_message(reply).step for reply in replies.values()}:
            break
        messages = server.send(replies)
    words = {c: read_words(read_message(r).tail, bits=64, size=LENGTH) for c, r in replies.items()}
    return words, seeds


def remove_own(words, kept):
    """Without the own masks, as after their opening."""
    masker = Masker(words.copy())
    masker.subtract(kept.octets("seed"))
    return masker.words


def remove_common(words, kept, client):
    """Without the common masks, as if the keys of all neighbours had been opened."""
    masker = Masker(words.copy())
    for other, seed in kept.table("masks").items():
        (masker.subtract if client < other else masker.add)(seed)
    return masker.words


def hides(secure):
    """Whether vectors of zeros look uniform: alone, from round to round, without the common masks, and without
    the own masks in each sum that is not over everybody.
    """
    numbers = {client: np.zeros(LENGTH) for client in CLIENTS}
    words, kept = masked_vectors(secure, numbers)
    later, _ = masked_vectors(secure, numbers, round_number=2)
    if not all(words_are_uniform(part) for part in words.values()):
        return False
    if not all(words_are_uniform(words[client] - later[client]) for client in CLIENTS):
        return False
    if not all(words_are_uniform(remove_common(words[c], kept[c], c)) for c in CLIENTS):
        return False
    common = {client: remove_own(words[client], kept[client]) for client in CLIENTS}
    partial = [sum(common[c] for c in range(size)) for size in range(1, len(CLIENTS))]
    return all(words_are_uniform(part) for part in partial)


def sums_exactly(secure):
    """Whether a round with a client that leaves at each moment gives the exact sum."""
    generator = np.random.default_rng(0)
    numbers = {client: generator.integers(-100, 100, LENGTH).astype(float) for client in CLIENTS}
    result = sum_in_process(secure, numbers, leaving={2: {1}, 4: {3}})
    return bool((result.total == sum(numbers[client] for client in result.contributors)).all())


@pytest.fixture
def secure():
    encoding = FixedPoint(largest=128.0, fraction_bits=0)
    return SecureSum.for_one_process(CLIENTS, encoding=encoding, threat=CURIOUS)


def test_the_server_sees_uniform_words(secure):
    assert hides(secure)
    assert sums_exactly(secure)


def test_clients_that_draw_their_own_neighbours_are_hidden_too():
    threat = MaliciousServer(colluding=0.1, dropouts=0.15)
    encoding = FixedPoint(largest=128.0, fraction_bits=0)
    assert hides(SecureSum.for_one_process(CLIENTS, encoding=encoding, threat=threat))


def test_all_masks_cancel_in_the_whole_sum(secure):
    """The control of the test above: only the sum over everybody opens."""
    words, kept = masked_vectors(secure, {client: np.full(LENGTH, 3.0) for client in CLIENTS})
    total = sum(remove_own(words[client], kept[client]) for client in CLIENTS)
    assert (total == 3 * len(CLIENTS)).all()


# Mutations


def test_masks_that_cancel_too_early_are_found(secure, monkeypatch):
    """Every pair has the same mask, so that the masks of some clients cancel in a sum of two."""
    monkeypatch.setattr(secure_client, "agree", lambda *keys, **rest: b"m" * 32)
    assert not hides(secure)


def test_masks_of_an_earlier_round_are_found(secure, monkeypatch):
    """The own seed is the same in each round, and so are the common ones: a difference of rounds opens."""
    monkeypatch.setattr(secure_client.secrets, "token_bytes", lambda size: b"s" * size)
    monkeypatch.setattr(secure_client, "agree", lambda *keys, **rest: b"m" * 32)
    assert not hides(secure)


def test_a_forgotten_own_mask_is_found(secure, monkeypatch):
    """Neither the client nor the server knows of it, so the sum is right; but a late vector would be open."""
    own, real, draw = set(), Masker.add, secure_client.secrets.token_bytes

    def remember(size):
        own.add(seed := draw(size))
        return seed

    def skip_own(self, seed):
        if seed not in own:
            real(self, seed)

    monkeypatch.setattr(secure_client.secrets, "token_bytes", remember)
    monkeypatch.setattr(Masker, "add", skip_own)
    assert not hides(secure)
    assert not sums_exactly(secure)


def test_a_mask_of_a_dropped_client_that_stays_is_found(secure, monkeypatch):
    real = secure_server.SecureRound._open
    monkeypatch.setattr(
        secure_server.SecureRound,
        "_open",
        lambda self, client, name, opened: bytes(32) if name == "keys" else real(self, client, name, opened),
    )
    assert not sums_exactly(secure)


def test_a_client_that_is_counted_twice_is_found(secure, monkeypatch):
    real = secure_server.SecureRound._collect_vectors

    def twice(self, *rest):
        vectors = yield from real(self, *rest)
        vectors[0] = vectors[0] + vectors[0]
        return vectors

    monkeypatch.setattr(secure_server.SecureRound, "_collect_vectors", twice)
    assert not sums_exactly(secure)


# Shares

PRIME, THRESHOLD = 251, 3
HOLDERS = (1, 2, 5, 7, 9)


def shares_hide(share, secret):
    """Whether every two of five shares are uniform, together: threshold − 1 of them."""
    many = [share(secret, HOLDERS, THRESHOLD, PRIME) for _ in range(6_000)]
    for place, first in enumerate(HOLDERS):
        for second in HOLDERS[place + 1 :]:
            cells = np.array([(one[first] // 28) * 9 + one[second] // 28 for one in many])
            # 251 = 8 · 28 + 27: the last of nine cells on each side has 27 elements.
            if not _fits(cells):
                return False
    return True


def _fits(cells):
    side = np.array([28] * 8 + [27]) / PRIME
    expected = np.outer(side, side).ravel() * cells.size
    counts = np.bincount(cells, minlength=81)
    return float(((counts - expected) ** 2 / expected).sum()) < chi2.isf(FALSE_ALARM, 80)


@pytest.mark.parametrize("secret", [0, 1, 250])
def test_fewer_shares_than_the_threshold_are_uniform(secret):
    assert shares_hide(share_secret, secret)
    shares = share_secret(secret, HOLDERS, THRESHOLD, PRIME)
    assert open_secret({holder: shares[holder] for holder in (2, 7, 9)}, PRIME) == secret


def test_a_reused_polynomial_is_found():
    """One polynomial for two secrets: the difference of two shares is the difference of the secrets."""
    coefficients = iter([])

    def reuse(secret, holders, threshold, prime):
        nonlocal coefficients
        kept = [next(coefficients, None) for _ in range(threshold - 1)]
        if None in kept:
            generator = np.random.default_rng(1)
            kept = [int(generator.integers(prime)) for _ in range(threshold - 1)]
        drawn = iter(kept)
        return share_secret(secret, holders, threshold, prime, draw=lambda bound: next(drawn))

    assert not shares_hide(reuse, 5)


def test_a_polynomial_of_too_low_a_degree_is_found():
    def lower(secret, holders, threshold, prime):
        return share_secret(secret, holders, threshold - 1, prime)

    assert not shares_hide(lower, 5)


def test_the_two_secrets_of_a_client_have_polynomials_of_their_own(secure, monkeypatch):
    """Shares of the own mask and of the mask key, as a holder gets both: their difference says nothing."""
    dealt = []
    real = secure_client.share_secret

    def watch(*arguments):
        dealt.append((arguments[0], real(*arguments)))
        return dealt[-1][1]

    monkeypatch.setattr(secure_client, "share_secret", watch)
    assert sums_exactly(secure)
    for (own, shares), (key, others) in zip(dealt[::2], dealt[1::2], strict=True):
        assert all(shares[place] - others[place] != own - key for place in shares)
