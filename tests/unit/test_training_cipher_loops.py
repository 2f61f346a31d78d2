"""AES in compiled loops: published examples, the package ``cryptography``, and every width of instruction."""

import numpy as np
import pytest

from privet.training.noise import normals

numba = pytest.importorskip("numba", reason="numba is not installed")
ciphers = pytest.importorskip(
    "cryptography.hazmat.primitives.ciphers", reason="cryptography is not installed"
)
cipher_loops = pytest.importorskip("privet.training.noise.cipher_loops")

pytestmark = pytest.mark.skipif(
    not cipher_loops.is_available(), reason="the processor has no instructions for AES"
)

KEY = bytes.fromhex("2b7e151628aed2a6abf7158809cf4f3c")


def schedule(key):
    @numba.njit
    def call(given, out):
        cipher_loops.expand(given, out)

    found = np.zeros(44, dtype=np.uint32)
    call(np.frombuffer(key, dtype=np.uint64).copy(), found)
    return found


def stream(key, nonce, first, out):
    @numba.njit
    def call(words, nonce, first, out):
        cipher_loops.keystream(words, nonce, first, out)

    call(schedule(key), np.uint64(nonce), np.uint64(first), out)
    return out.tobytes()


def expected(key, nonce, first, blocks):
    counters = [
        ((first + i) % 2**64).to_bytes(8, "little") + nonce.to_bytes(8, "little") for i in range(blocks)
    ]
    return (
        ciphers.Cipher(ciphers.algorithms.AES(key), ciphers.modes.ECB())
        .encryptor()
        .update(b"".join(counters))
    )


def test_the_key_schedule_of_fips_197():
    """FIPS 197, appendix A.1: words 4 to 7, and the last four."""
    words = schedule(KEY)
    assert words[:4].tobytes() == KEY
    assert words[4:8].tobytes().hex() == "a0fafe1788542cb123a339392a6c7605"
    assert words[40:].tobytes().hex() == "d014f9a8c9ee2589e13f0cc8b6630ca6"


def test_a_block_of_fips_197():
    """FIPS 197, appendix C.1: the plaintext is the counter and the nonce, as two little-endian words."""
    plain = bytes.fromhex("00112233445566778899aabbccddeeff")
    first, nonce = (int.from_bytes(half, "little") for half in (plain[:8], plain[8:]))
    found = stream(bytes(range(16)), nonce, first, np.zeros(256, dtype=np.uint8))
    assert found[:16].hex() == "69c4e0d86a7b0430d8cdb78070b4c55a"


@pytest.mark.parametrize("lanes", [1, 2, 4])
@pytest.mark.parametrize("first", [0, 7, 2**63, 2**64 - 5])
def test_every_width_gives_the_stream_that_the_package_gives(lanes, first, monkeypatch):
    if lanes > cipher_loops._lanes():
        pytest.skip("the processor has no instructions of this width")
    monkeypatch.setattr(cipher_loops, "_lanes", lambda: lanes)
    generator = np.random.default_rng(first % 1000)
    key, nonce = generator.bytes(16), int(generator.integers(2**63))
    found = stream(key, nonce, first, np.zeros(3 * 64, dtype=np.int32))
    assert found == expected(key, nonce, first, 48)


def test_what_is_no_whole_batch_is_left_alone():
    out = np.full(64 + 63, 7, dtype=np.int32)
    stream(KEY, 1, 1, out)
    assert (out[64:] == 7).all()
    assert (out[:64] != 7).all()


def test_blocks_go_on_where_the_last_ones_ended():
    """What makes parts of one stream on several threads the stream itself."""
    whole = stream(KEY, 5, 0, np.zeros(128, dtype=np.int32))
    assert stream(KEY, 5, 16, np.zeros(64, dtype=np.int32)) == whole[256:]


SCALES = (np.float32(2**20), np.float32(2**20), np.float32(2.0**-20))


def test_noise_in_the_loop_is_made_of_the_stream():
    """The loop that takes its bits makes the same numbers from the same bits; chunk 1 starts at block 768."""
    kernels = pytest.importorskip("privet.training.noise.normal_kernels")
    secret = np.arange(3, dtype=np.uint64)
    found = np.zeros(4 * kernels.CHUNK, dtype=np.float32)
    kernels.add(2, secret, found, *SCALES)
    for chunk in range(2):
        bits = np.frombuffer(
            stream(secret[:2].tobytes(), 2, 768 * chunk, np.zeros(3072, dtype=np.int32)), np.int32
        )
        words, angles, dithers = bits[:1024].copy(), bits[1024:2048].copy(), bits[2048:].view(np.int16).copy()
        alone = np.zeros(2048, dtype=np.float32)
        assert kernels.finish(words, angles, dithers, alone, *SCALES, False) == 0
        assert (found[2048 * chunk : 2048 * (chunk + 1)] == alone).all()


def test_words_that_are_too_coarse_get_further_bits_of_their_own():
    kernels = pytest.importorskip("privet.training.noise.normal_kernels")
    words = np.array([0, 5, normals.COARSE - 1, normals.COARSE, 2**30, 0], dtype=np.int32)
    before = words.copy()
    kernels._refine(words, schedule(KEY), np.uint64(1), 100)
    assert (words[3:5] == before[3:5]).all()
    exact = (words[[0, 1, 2, 5]] & 0x7FFFFFFF).view(np.float32)
    assert (words[[0, 1, 2, 5]] < 0).all()
    assert (exact > before[[0, 1, 2, 5]]).all()
    assert (exact <= before[[0, 1, 2, 5]] + 1).all()
    assert exact[0] != exact[3]


def test_coarse_words_are_refined_in_the_loop():
    """Of 2²² pairs about 8 are too coarse; the length of such a pair is that of its refined word."""
    kernels = pytest.importorskip("privet.training.noise.normal_kernels")
    secret = np.array([1, 2, 3], dtype=np.uint64)
    key, found = secret[:2].tobytes(), np.zeros(2**23, dtype=np.float32)
    kernels.add(2, secret, found, *SCALES)
    assert np.isfinite(found).all()
    whole = np.frombuffer(stream(key, 3, 0, np.zeros(3 * 2**22, dtype=np.int32)), np.int32).reshape(-1, 3072)
    uniform = whole[:, :1024] & 0x7FFFFFFF
    chunk, place = np.unravel_index(uniform.argmin(), uniform.shape)  # where the further bits matter most
    assert uniform[chunk, place] < normals.COARSE
    further = np.frombuffer(
        stream(key, 3, 2**63 + 16 * (1024 * int(chunk) + int(place)), np.zeros(32, np.uint64)), np.uint64
    )
    u = (int(uniform[chunk, place]) + ((int(further[0]) >> 11) + 0.5) * 2.0**-53) * 2.0**-31
    pair = found[2048 * chunk + place], found[2048 * chunk + 1024 + place]
    dithers = whole[chunk, 2048:].view(np.int16)[[place, 1024 + place]] * 2.0**-20
    radius = np.hypot(*(np.array(pair, dtype=np.float64) - dithers))
    assert radius == pytest.approx(np.sqrt(-2 * np.log(u)), rel=3e-6)
