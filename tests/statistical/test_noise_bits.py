"""Bits of privacy noise. Each test states its false-alarm rate and the deviation that it can detect."""

import numpy as np
import pytest
from scipy.stats import chi2

from privet.randomness import SecureNoise, SeededNoise

_FALSE_ALARM = 1e-9
_WORDS = 200_000


@pytest.mark.parametrize("source", [SecureNoise(), SeededNoise(20_26)], ids=lambda s: type(s).__name__)
def test_every_byte_of_a_word_is_uniform(source):
    """χ² on 256 values of each of 8 bytes; false alarm 1e-9 in all.

    With 200,000 words a byte value that is 13 % too frequent, or a bit that is set with probability 0.51,
    is found with probability above 0.99.
    """
    seen = source.bits(_WORDS).view(np.uint8).reshape(_WORDS, 8)
    expected = _WORDS / 256
    limit = chi2.isf(_FALSE_ALARM / 8, df=255)
    for place in range(8):
        counts = np.bincount(seen[:, place], minlength=256)
        assert ((counts - expected) ** 2).sum() / expected < limit


@pytest.mark.parametrize("source", [SecureNoise(), SeededNoise(20_26)], ids=lambda s: type(s).__name__)
def test_neighbouring_bits_are_independent(source):
    """χ² of each of the 63 pairs of neighbouring bits; false alarm 1e-9 in all; finds a correlation of 0.02."""
    words = source.bits(_WORDS)
    bits = ((words[:, None] >> np.arange(64, dtype=np.uint64)) & np.uint64(1)).astype(np.int64)
    limit = chi2.isf(_FALSE_ALARM / 63, df=3)
    for place in range(63):
        counts = np.bincount(2 * bits[:, place] + bits[:, place + 1], minlength=4)
        assert ((counts - _WORDS / 4) ** 2).sum() / (_WORDS / 4) < limit


def test_the_byte_test_finds_a_bit_that_is_set_too_often():
    """The power that is claimed above: a bit set with probability 0.51."""
    biased = SeededNoise(1).bits(_WORDS)
    flips = np.random.default_rng(2).random(_WORDS) < 0.02
    biased = np.where(flips, biased | np.uint64(1), biased)
    counts = np.bincount(biased.view(np.uint8).reshape(_WORDS, 8)[:, 0], minlength=256)
    expected = _WORDS / 256
    assert ((counts - expected) ** 2).sum() / expected > chi2.isf(1e-2, df=255)
