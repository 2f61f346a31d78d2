import inspect

import numpy as np
import pytest

from privet.caveats import Caveat
from privet.errors import InvalidArgument
from privet.randomness import SecureNoise, SeededNoise, experiment


def test_secure_noise_cannot_be_seeded():
    assert not inspect.signature(SecureNoise).parameters
    with pytest.raises(TypeError):
        SecureNoise(7)


def test_secure_noise_does_not_repeat_and_ignores_global_state():
    """False alarm: two draws of 256 bits agree with probability 2⁻²⁵⁶."""
    assert (SecureNoise().bits(4) != SecureNoise().bits(4)).any()


def test_global_random_state_is_never_touched():
    before = np.random.get_state()[1].copy()
    SecureNoise().bits(10)
    SeededNoise(1).bits(10)
    experiment(1).normal(size=10)
    assert (np.random.get_state()[1] == before).all()


def test_seeded_noise_repeats_and_says_so():
    assert (SeededNoise(7).bits(5) == SeededNoise(7).bits(5)).all()
    assert (SeededNoise(7).bits(5) != SeededNoise(8).bits(5)).any()
    assert SeededNoise(7).caveats == {Caveat.SEEDED_NOISE}
    assert SecureNoise().caveats == frozenset()


def test_seeded_noise_moves_on():
    source = SeededNoise(7)
    assert (source.bits(5) != source.bits(5)).any()


@pytest.mark.parametrize("source", [SecureNoise(), SeededNoise(3)], ids=repr)
def test_bits_are_64_bit_words(source):
    words = source.bits(3)
    assert words.dtype == np.uint64
    assert words.shape == (3,)
    assert source.bits(0).size == 0
    for wrong in (-1, 1.5, True, None):
        with pytest.raises(InvalidArgument, match=r"'words'"):
            source.bits(wrong)


@pytest.mark.parametrize("seed", [-1, 1.5, None, True, "7"])
def test_seeds_are_whole_numbers(seed):
    with pytest.raises(InvalidArgument, match=r"'seed'"):
        SeededNoise(seed)
    with pytest.raises(InvalidArgument, match=r"'seed'"):
        experiment(seed)


def test_experiments_repeat():
    assert experiment(5).normal() == experiment(5).normal()
