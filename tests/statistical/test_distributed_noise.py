"""Noise that clients add in shares: the sum has the noise that its event states, and mistakes are found.

Variances are compared by a chi-squared law with a false-alarm rate of 1e-8. Each test says what it finds.
"""

import math

import numpy as np
import pytest
from scipy.stats import chi2

pytest.importorskip("cryptography", reason="secure aggregation needs the package cryptography")

from privet.accounting import account
from privet.adjacency import Unit, ZeroOut
from privet.caveats import Caveat
from privet.errors import InvalidArgument
from privet.events import Gaussian
from privet.federated.sum_protocols import MessageRefused
from privet.federated.sums import (
    DistributedGaussian,
    DistributedSum,
    FixedPoint,
    HonestServer,
    SecureSum,
    distributed_gaussian,
    sum_in_process,
)
from privet.federated.sums.rotation import PublicRotation
from privet.ledger import Ledger
from privet.randomness import SeededNoise

FALSE_ALARM = 1e-8
CLIENTS, LENGTH = 12, 4_000
CURIOUS = HonestServer(colluding=0.2, dropouts=0.25)
TOGETHER = CURIOUS.plan(CLIENTS).together


def encoding(**changed):
    fields = {"clip": 1.0, "noise_multiplier": 1.5, "clients": CLIENTS, "shares": TOGETHER, "length": LENGTH}
    return DistributedGaussian.fit(**{**fields, **changed})


def secure(encoding):
    return SecureSum.for_one_process(range(CLIENTS), encoding=encoding, threat=CURIOUS)


def has_its_noise(made, leaving=None):
    """Whether the sum has the noise of the clients that stayed, and at least the noise of its event.

    With 4,000 numbers a standard deviation that is 8 % off is found with probability above 0.99.
    """
    generator = np.random.default_rng(0)
    numbers = {client: generator.normal(size=LENGTH) for client in range(CLIENTS)}
    clipped = {client: vector / np.linalg.norm(vector) for client, vector in numbers.items()}
    result = sum_in_process(secure(made), numbers, leaving=leaving)
    event = result.event
    rest = result.total - sum(clipped[client] for client in result.contributors)
    share = made.noise_multiplier * made.clip / math.sqrt(made.shares)
    variance = len(result.contributors) * (share**2 + 0.25 * made.granularity**2)
    square = float(np.square(rest).sum())
    low, high = chi2.isf([1 - FALSE_ALARM / 2, FALSE_ALARM / 2], LENGTH)
    stated = event.shares * (event.scale * made.granularity) ** 2
    return low <= square / variance <= high and square >= stated * low and event.shares == TOGETHER


@pytest.mark.parametrize("bits", [16, 32, 64])
def test_the_sum_has_the_noise_of_those_who_stayed(bits):
    assert has_its_noise(encoding(bits=bits))
    assert has_its_noise(encoding(bits=bits), leaving={2: {1, 5}, 4: {7}})


def test_a_round_costs_what_its_event_says_and_hardly_more_than_one_gaussian():
    result = sum_in_process(secure(encoding()), {client: np.zeros(LENGTH) for client in range(CLIENTS)})
    ledger = Ledger(ZeroOut(Unit.CLIENT)).spend("round 1", result.event)
    found = account(ledger).epsilon(delta=1e-6)
    central = account(Gaussian(1.5), adjacency=ZeroOut(Unit.CLIENT)).epsilon(delta=1e-6)
    assert central < found < 1.0001 * central
    assert result.caveats == frozenset()


def test_seeded_noise_is_marked():
    result = sum_in_process(
        secure(encoding(source=SeededNoise(1))), {client: np.zeros(LENGTH) for client in range(CLIENTS)}
    )
    assert result.caveats == {Caveat.SEEDED_NOISE}


@pytest.mark.parametrize("size", [1, 2, 100, 513])
def test_the_norm_is_that_of_the_event_whatever_the_vector_is(size):
    made = encoding(length=size, bits=16, noise_multiplier=1e-3)
    generator = np.random.default_rng(1)
    vectors = [np.full(size, 1e6), np.zeros(size), generator.normal(size=size), np.eye(1, size)[0] * -3]
    for number, vector in enumerate(vectors, start=1):
        rotation = PublicRotation(size, seed=made.seed, round_number=number)
        norm = max(float(np.linalg.norm(vector)), 1.0)
        rounded = made._round(rotation.turn(vector / norm) / made.granularity, made._largest_square(size))
        assert math.sqrt(int(rounded @ rounded)) <= made.describe_noise(size).contribution


def test_a_coarse_grid_rounds_without_bias_and_within_its_bound():
    """The mean of 300 roundings of one number is right within 5.8 standard deviations (1e-8)."""
    made = DistributedGaussian(clip=1.0, noise_multiplier=1.0, shares=10, granularity=0.05, bits=16)
    numbers = np.full(64, 0.3)
    rounded = np.array([made._round(numbers, made._largest_square(64)) for _ in range(300)])
    assert abs(rounded.mean() - 0.3) < 5.8 * math.sqrt(0.21 / rounded.size) + 0.01
    tight = np.array([made._round(numbers, int(64 * 0.3)) for _ in range(20)])
    assert (np.square(tight).sum(axis=1) <= int(64 * 0.3)).all()


def test_where_no_rounding_fits_the_vector_is_rounded_towards_zero():
    made = DistributedGaussian(clip=1.0, noise_multiplier=1.0, shares=10, granularity=0.05, bits=16)
    assert (made._round(np.full(64, 0.9), 0) == 0).all()


def test_rotation_is_undone_and_keeps_norms():
    for size in (1, 3, 64, 1000):
        vector = np.random.default_rng(size).normal(size=size)
        rotation = PublicRotation(size, seed=3, round_number=2)
        turned = rotation.turn(vector)
        assert np.linalg.norm(turned) == pytest.approx(np.linalg.norm(vector))
        assert np.allclose(rotation.turn_back(turned), vector)
    spike = np.eye(1, 1024)[0]
    assert np.abs(PublicRotation(1024, seed=1, round_number=1).turn(spike)).max() == pytest.approx(1 / 32)


def test_what_does_not_fit_is_refused():
    with pytest.raises(InvalidArgument, match="would leave words of 16 bits"):
        DistributedGaussian(clip=1.0, noise_multiplier=1.0, shares=5, granularity=1e-6, bits=16).check_cohort(
            10, 100
        )
    with pytest.raises(InvalidArgument, match="is too few for the sum"):
        encoding(clients=40_000, bits=16)
    with pytest.raises(InvalidArgument, match="too fine"):
        DistributedGaussian(
            clip=1.0, noise_multiplier=1.0, shares=5, granularity=1e-11, bits=64
        ).check_cohort(3, 9)


# Mutations


def test_half_of_the_noise_is_found(monkeypatch):
    real = distributed_gaussian.discrete_gaussian
    monkeypatch.setattr(
        distributed_gaussian,
        "discrete_gaussian",
        lambda scale, size, source: real(scale / math.sqrt(2), size, source),
    )
    assert not has_its_noise(encoding())


def test_noise_by_no_one_is_found(monkeypatch):
    monkeypatch.setattr(
        distributed_gaussian, "discrete_gaussian", lambda scale, size, source: np.zeros(size, np.int64)
    )
    assert not has_its_noise(encoding())


def test_noise_by_half_of_the_clients_is_found(monkeypatch):
    real, turn = distributed_gaussian.discrete_gaussian, iter(range(10**6))
    monkeypatch.setattr(
        distributed_gaussian,
        "discrete_gaussian",
        lambda scale, size, source: real(scale, size, source) * (next(turn) % 2),
    )
    assert not has_its_noise(encoding())


def test_noise_that_is_added_twice_is_found(monkeypatch):
    real = distributed_gaussian.discrete_gaussian
    monkeypatch.setattr(
        distributed_gaussian,
        "discrete_gaussian",
        lambda scale, size, source: real(scale, size, source) + real(scale, size, source),
    )
    assert not has_its_noise(encoding())


def test_noise_that_counts_on_dropped_or_colluding_clients_is_refused():
    """A share of everybody who was invited would be more noise than a sum over those who stay has."""
    numbers = {client: np.zeros(LENGTH) for client in range(CLIENTS)}
    with pytest.raises(InvalidArgument, match=f"planned for sums over {CLIENTS} honest clients"):
        sum_in_process(secure(encoding(shares=CLIENTS)), numbers)
    lenient, strict = secure(encoding()), secure(encoding(shares=CLIENTS))
    invitation = next(lenient.serve(round_number=1, clients=list(range(CLIENTS)), length=LENGTH))[0]
    with pytest.raises(MessageRefused, match="the protocol guarantees 7"):
        strict.answer(client=0, message=invitation, state=b"", vector=lambda: numbers[0])
    made = DistributedSum(lenient).with_noise(3.0)
    assert made.inner.encoding.noise_multiplier == 3.0
    assert made.event(length=LENGTH, contributors=99).shares == TOGETHER
    with pytest.raises(InvalidArgument, match="which adds no noise"):
        DistributedSum(secure(FixedPoint(largest=1.0)))
