"""Noise on a buffer: grid, dither, tails, seeds and refusals. Its distribution is in tests/statistical."""

import math

import numpy as np
import pytest
import torch

from privet.caveats import Caveat
from privet.errors import InvalidArgument
from privet.randomness import NoiseSource, SecureNoise, SeededNoise
from privet.training.noise import compiled_normals, normals, secure_stream
from privet.training.noise import gradient_noise as noise
from privet.training.noise.gradient_noise import add_gaussian_, add_student_, grid_spacing
from privet.training.noise.secure_stream import expand_source

with_numba = pytest.mark.skipif(not compiled_normals.is_available(), reason="numba is not installed")


class Constant(NoiseSource):
    """The same word again and again, to reach what chance does not."""

    def __init__(self, word: int) -> None:
        self.word = word

    @property
    def caveats(self):
        return frozenset({Caveat.SEEDED_NOISE})

    def bits(self, words):
        return np.full(words, self.word, dtype=np.uint64)


@pytest.fixture
def plain(monkeypatch):
    """No cipher: the bits are those of the source."""
    monkeypatch.setattr(secure_stream, "_has_cipher", lambda: False)
    monkeypatch.setattr(compiled_normals, "has_cipher", lambda: False)


@pytest.mark.parametrize("size", [1, 2, 3, 10, 16384, 20001, 200_003])
def test_every_number_of_the_buffer_gets_noise_once(size):
    found = add_gaussian_(torch.zeros(size), 1.0, SeededNoise(size))
    assert int((found != 0).sum()) >= size - 1
    assert bool(torch.isfinite(found).all())
    again = add_gaussian_(torch.zeros(size), 1.0, SeededNoise(size))
    assert torch.equal(found, again)
    assert not torch.equal(found, add_gaussian_(torch.zeros(size), 1.0, SeededNoise(size + 1)))


@pytest.mark.parametrize("deviation", [1e-20, 0.3, 1.0, 1.5, 7e12])
@pytest.mark.parametrize("size", [1000, 20_000])
def test_results_are_on_the_grid_and_next_to_the_sum(deviation, size):
    sums = deviation * torch.linspace(-3, 3, size)
    found = add_gaussian_(sums.clone(), deviation, SeededNoise(1)).double()
    alone = add_gaussian_(torch.zeros(size), deviation, SeededNoise(1)).double()
    cell = grid_spacing(deviation)
    assert 2.0**-21 <= cell / deviation <= 2.0**-20
    assert bool((found / cell == (found / cell).round()).all())
    assert (
        float((found - alone - sums.double()).abs().max()) <= 2 * cell
    )  # float32 adds in steps of half a cell


def test_a_sum_that_is_far_larger_than_its_noise_keeps_its_digits():
    found = add_gaussian_(torch.full((100,), 1e6), 1.0, SeededNoise(1))
    assert float((found - 1e6).abs().max()) < 8


@pytest.mark.usefixtures("plain")
@pytest.mark.parametrize("size", [10, pytest.param(20_000, marks=with_numba)])
def test_the_tail_goes_far_beyond_what_32_bits_reach(size):
    found = add_gaussian_(torch.zeros(size), 1.0, Constant(0))
    assert float(found.max()) == pytest.approx(math.sqrt(2 * 85 * math.log(2)), rel=1e-5)  # U = 2⁻⁸⁵, cos 0
    assert float(found.min()) == 0
    highest = add_gaussian_(torch.zeros(size), 1.0, Constant(2**64 - 1))  # U = 1: nothing but the dither's −1
    assert float(highest.abs().max()) <= 2 * grid_spacing(1.0)


@pytest.mark.usefixtures("plain")
def test_every_number_is_dithered_by_itself(monkeypatch):
    """Mutation: without the dither, the same bits of radius and angle give the same numbers."""

    class Same(NoiseSource):
        caveats = frozenset()

        def bits(self, words):
            found = SeededNoise(1).bits(words)
            found[: words * 2 // 3] = 12345678901234567
            return found

    monkeypatch.setattr(compiled_normals, "is_available", lambda: False)
    cells = add_gaussian_(torch.zeros(4000), 1.0, Same()) / grid_spacing(1.0)
    for half in (cells[:2000:2], cells[2000::2]):
        spread = half - half.mean()
        assert 2**15 * 0.95 < float(spread.abs().max()) < 2**15 * 1.05
        assert float(spread.var()) == pytest.approx(2**32 / 12, rel=0.2)
    monkeypatch.setattr(normals.Block, "dither", lambda self: (torch.zeros(self.pairs),) * 2)
    bare = add_gaussian_(torch.zeros(4000), 1.0, Same())
    assert len(set(bare[:2000:2].tolist())) == 1


@with_numba
@pytest.mark.usefixtures("plain")
def test_the_compiled_loop_reads_the_same_bits(monkeypatch):
    size = 2**16
    fast = add_gaussian_(torch.zeros(size), 1.0, SeededNoise(5))
    monkeypatch.setattr(compiled_normals, "is_available", lambda: False)
    slow = add_gaussian_(torch.zeros(size), 1.0, SeededNoise(5))
    assert float((fast - slow).abs().max()) <= 16 * grid_spacing(1.0)


@with_numba
def test_the_result_does_not_depend_on_the_number_of_threads():
    size, before = 1_200_001, torch.get_num_threads()
    try:
        found = []
        for threads in (1, 3):
            torch.set_num_threads(threads)
            found.append(add_gaussian_(torch.zeros(size), 1.0, SeededNoise(5)))
    finally:
        torch.set_num_threads(before)
    assert torch.equal(*found)


@with_numba
@pytest.mark.parametrize("size", [1, 2, 3, 2047, 2048, 2049, 4095, 4097, 10_001])
def test_a_buffer_is_a_beginning_of_a_longer_one_up_to_its_last_chunk(size):
    """Chunks have 2,048 numbers. The halves of the last chunk are drawn as pairs, also for odd sizes."""
    scale = 1.0, grid_spacing(1.0), SeededNoise(3), 1.0
    short, long = np.zeros(size, dtype=np.float32), np.zeros(12_288, dtype=np.float32)
    compiled_normals.add_normal(short, *scale)
    compiled_normals.add_normal(long, *scale[:2], SeededNoise(3), 1.0)
    whole = size - size % 2048
    assert (short[:whole] == long[:whole]).all()
    left = size - whole
    assert (short[whole : whole + left // 2] == long[whole : whole + left // 2]).all()
    assert (short != 0).all()


@pytest.mark.parametrize("size", [8, 2000])
def test_seeded_sources_go_on_and_secure_ones_never_repeat(size):
    seeded = SeededNoise(9)
    first, second = (add_gaussian_(torch.zeros(size), 1.0, seeded) for _ in range(2))
    assert not torch.equal(first, second)
    secure = {tuple(add_gaussian_(torch.zeros(size), 1.0, SecureNoise()).tolist()) for _ in range(50)}
    assert len(secure) == 50


def test_expanded_sources_keep_their_caveats():
    assert expand_source(SeededNoise(1)).caveats == {Caveat.SEEDED_NOISE}
    assert expand_source(SecureNoise()).caveats == frozenset()
    once = expand_source(SecureNoise())
    assert expand_source(once) is once or not secure_stream._has_cipher()
    assert expand_source(SecureNoise()).bits(0).size == 0


@pytest.mark.usefixtures("plain")
def test_without_the_cipher_the_system_is_asked():
    source = SecureNoise()
    assert expand_source(source) is source
    assert float(add_gaussian_(torch.zeros(1000), 1.0, source).std()) == pytest.approx(1, abs=0.3)


@pytest.mark.parametrize(
    "add", [lambda b, s: add_gaussian_(b, 0.5, s, divisor=4.0), lambda b, s: add_student_(b, 0.5, 3.0, s)]
)
def test_a_buffer_elsewhere_gets_the_same_rounded_noise(add, monkeypatch):
    """As on a second device, which is not at hand: the first look says that the buffer is not on the CPU."""
    expected = add(torch.arange(700.0), SeededNoise(3))
    looks = iter([False, True])
    monkeypatch.setattr(noise, "_is_on_host", lambda buffer: next(looks))
    buffer = torch.arange(700.0)
    assert add(buffer, SeededNoise(3)) is buffer
    assert torch.equal(buffer, expected)


def test_views_and_shapes():
    buffer = torch.zeros(4, 5)
    assert add_gaussian_(buffer, 1.0, SeededNoise(1)) is buffer
    parameter = torch.nn.Parameter(torch.zeros(6))
    add_gaussian_(parameter.data, 1.0, SeededNoise(1))
    flat = torch.zeros(10)
    add_gaussian_(flat[2:5], 1.0, SeededNoise(1))
    assert flat[:2].tolist() == [0, 0]
    assert flat[5:].tolist() == [0] * 5
    assert add_gaussian_(torch.zeros(0), 1.0, SeededNoise(1)).numel() == 0


def test_no_noise_is_no_change():
    values = torch.randn(5, generator=torch.Generator().manual_seed(1))
    assert torch.equal(add_gaussian_(values.clone(), 0.0, SeededNoise(1)), values)
    assert torch.equal(add_student_(values.clone(), 0.0, 3.0, SeededNoise(1)), values)


@pytest.mark.parametrize("function", [add_gaussian_, lambda b, s, n: add_student_(b, s, 3.0, n)])
@pytest.mark.parametrize(
    ("buffer", "deviation", "source"),
    [
        (torch.zeros(3, dtype=torch.float64), 1.0, SeededNoise(1)),
        (torch.zeros(3, dtype=torch.int64), 1.0, SeededNoise(1)),
        (torch.zeros(4, 4)[:, 1], 1.0, SeededNoise(1)),
        (np.zeros(3, dtype=np.float32), 1.0, SeededNoise(1)),
        (torch.zeros(3), -1.0, SeededNoise(1)),
        (torch.zeros(3), float("nan"), SeededNoise(1)),
        (torch.zeros(3), 1e30, SeededNoise(1)),
        (torch.zeros(3), 1e-30, SeededNoise(1)),
        (torch.zeros(3), 1.0, np.random.default_rng(1)),
    ],
)
def test_refusals(function, buffer, deviation, source):
    with pytest.raises(InvalidArgument):
        function(buffer, deviation, source)


def test_student_needs_degrees():
    with pytest.raises(InvalidArgument, match="degrees"):
        add_student_(torch.zeros(3), 1.0, 0.0, SeededNoise(1))


def test_global_randomness_is_not_touched():
    before = torch.random.get_rng_state(), np.random.get_state()[1].copy()
    add_gaussian_(torch.zeros(100), 1.0, SecureNoise())
    assert torch.equal(before[0], torch.random.get_rng_state())
    assert (before[1] == np.random.get_state()[1]).all()


def test_the_module_says_what_float_noise_leaks():
    assert "IDEALISED_REALS" in (noise.__doc__ or "")
