"""The attack of Mironov (2012): the textbook's float sampler fails it, and the samplers of Privet pass it."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from privet.mechanisms.sampling import discrete_gaussian, discrete_laplace
from privet.mechanisms.sampling.noise import _gaussian_sampler, _laplace_sampler
from privet.randomness import NoiseSource, SecureNoise

_SPEC = importlib.util.spec_from_file_location(
    "precision_attack", Path(__file__).with_name("precision_attack.py")
)
attack = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(attack)

SIZE = 100_000
FALSE_ALARM = 1e-9
STEP = 2.0**-20  # of the lattice on which Privet's answers live


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 1.0])
def test_the_textbook_sampler_fails(epsilon):
    """More than half of the outputs that came from 1 cannot have come from 0; none that came from 0 is accused.

    The first fails with probability below 1e-100; the second cannot fail.
    """
    scale = 1 / epsilon
    source = SecureNoise()
    zero = attack.textbook_laplace(0.0, scale, source.bits(SIZE))
    one = attack.textbook_laplace(1.0, scale, source.bits(SIZE))

    def excluded(outputs):
        return attack.cannot_come_from_zero(outputs, scale)

    assert excluded(zero).sum() == 0
    assert excluded(one).mean() > 0.5
    assert attack.largest_epsilon(one, zero, excluded, FALSE_ALARM) > 5 > epsilon


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 1.0])
def test_ours_passes(epsilon):
    """The same attack, and 30 of its kind: the last bits of the answer as a float, and of its lattice number.

    False alarm 1e-9 for each event. With 10⁵ outputs, an event that has probability 0.3 under one neighbour and
    0.3 e^{ε + 0.1} under the other would be found with probability above 0.99.
    """
    steps = int(1 / STEP)
    scale = steps / epsilon  # a unit moves the value from 0 to 1, so by this many steps
    source = SecureNoise()
    zero = discrete_laplace(scale, SIZE, source) * STEP
    one = (discrete_laplace(scale, SIZE, source) + steps) * STEP

    def excluded(outputs):
        return attack.cannot_come_from_zero(outputs, 1 / epsilon)

    assert attack.largest_epsilon(one, zero, excluded, FALSE_ALARM) <= epsilon
    for place in range(15):

        def float_bit(outputs, place=place):
            return (np.ascontiguousarray(outputs).view(np.uint64) >> np.uint64(30 + place)) & np.uint64(
                1
            ) == 1

        def lattice_bit(outputs, place=place):
            return (outputs / STEP).astype(np.int64) >> place & 1 == 1

        for event in (float_bit, lattice_bit):
            assert attack.largest_epsilon(one, zero, event, FALSE_ALARM) <= epsilon


class Scripted(NoiseSource):
    """A source that hands out the words that it was given."""

    def __init__(self, *words):
        self.words = np.array(words, dtype=np.uint64)

    @property
    def caveats(self):
        return frozenset()

    def bits(self, words):
        given, self.words = self.words[:words], self.words[words:]
        assert given.size == words
        return given


@pytest.mark.parametrize(
    ("noise", "law"), [(discrete_laplace, _laplace_sampler), (discrete_gaussian, _gaussian_sampler)]
)
@pytest.mark.parametrize("scale", [5.0, 1e3])
def test_every_answer_can_come_from_every_value(noise, law, scale):
    """Whatever the answer, there are bits that give it from 0, and bits that give it from 1: there are no gaps."""
    lattice = law(scale, False)
    places = 0 if scale < 30 else lattice.places
    edges = [0, *lattice.table.edges.tolist()]

    def words(number):
        """The middle of the words that give this number."""
        sign = number < 0
        block, place = divmod(abs(number) - (sign if places else 0), 2**places)
        return ((edges[block] + edges[block + 1]) // 2 << 1) | sign, place

    for answer in range(-200, 201, 7 if places else 1):
        if not places and abs(answer) > 30:
            continue
        for value in (0, 1):
            script = Scripted(*words(answer - value)[: 2 if places else 1])
            assert (value + noise(scale, 1, script)).tolist() == [answer]
