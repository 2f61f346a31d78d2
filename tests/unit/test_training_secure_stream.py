"""The stream of random bits: what the cipher makes of zeros, and that no bit of it is used twice."""

import os
import threading

import numpy as np
import pytest

from privet.randomness import SecureNoise, SeededNoise
from privet.training.noise import secure_stream
from privet.training.noise.secure_stream import CipherNoise, expand_source

ciphers = pytest.importorskip("cryptography.hazmat.primitives.ciphers")


@pytest.mark.parametrize("sizes", [(64,), (8, 24, 8), (1 << 17, 16, 3 << 17)])
def test_the_stream_is_that_of_the_counter_mode(sizes):
    """GCM with a nonce of 96 bits starts its counter at 2; 1 is for the tag (NIST SP 800-38D)."""
    key, nonce = bytes(range(16)), bytes(range(100, 112))
    stream = CipherNoise(key, nonce, frozenset())
    found = [stream.bits(size // 8).tobytes() for size in sizes]
    counter = ciphers.modes.CTR(nonce + (2).to_bytes(4, "big"))
    expected = ciphers.Cipher(ciphers.algorithms.AES(key), counter).encryptor().update(bytes(sum(sizes)))
    assert b"".join(found) == expected


def test_a_secure_stream_goes_on_and_never_repeats():
    words = np.concatenate([expand_source(SecureNoise()).bits(16) for _ in range(200)])
    assert len(set(words.tolist())) == words.size


def test_a_key_is_used_for_a_few_calls_only():
    streams = [expand_source(SecureNoise()) for _ in range(3 * secure_stream._CALLS)]
    runs = [streams.count(s) for s in dict.fromkeys(streams)]
    assert max(runs) <= secure_stream._CALLS
    assert len(runs) >= 3


def test_a_long_call_ends_a_key():
    stream = expand_source(SecureNoise())
    stream.bits(secure_stream._BYTES // 8 + 8)
    assert expand_source(SecureNoise()) is not stream


def test_a_seed_has_a_key_for_every_call():
    source = SeededNoise(5)
    assert expand_source(source) is not expand_source(source)
    assert (expand_source(SeededNoise(5)).bits(4) == expand_source(SeededNoise(5)).bits(4)).all()


def test_threads_have_streams_of_their_own():
    found = []
    mine = expand_source(SecureNoise())
    thread = threading.Thread(target=lambda: found.append(expand_source(SecureNoise())))
    thread.start()
    thread.join()
    assert found[0] is not mine


def of_a_child():
    """What the stream gives next in the child of a fork."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writing, expand_source(SecureNoise()).bits(8).tobytes())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    found = os.read(reading, 64)
    os.close(reading)
    os.close(writing)
    return found


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_fork_does_not_share_the_stream(monkeypatch):
    """Here the child cannot tell by its number; it is told to forget."""
    monkeypatch.setattr(secure_stream.os, "getpid", lambda: 7)
    secure_stream._streams.__dict__.clear()
    before = expand_source(SecureNoise())
    before.bits(1)
    theirs = of_a_child()
    assert len(theirs) == 64
    assert expand_source(SecureNoise()) is before
    assert theirs != before.bits(8).tobytes()


def test_another_process_number_ends_a_key(monkeypatch):
    before = expand_source(SecureNoise())
    monkeypatch.setattr(secure_stream.os, "getpid", lambda: -1)
    assert expand_source(SecureNoise()) is not before
    secure_stream._streams.__dict__.clear()
