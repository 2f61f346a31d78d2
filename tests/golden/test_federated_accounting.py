"""What federated runs cost, in numbers: the errors of engines that each give another number."""

import math

import pytest
from scipy.stats import norm

from privet.accounting import Renyi, account
from privet.adjacency import AddRemove, ReplaceOne, Unit, ZeroOut
from privet.errors import InvalidArgument, NotProved
from privet.events import Gaussian, Poisson, Repeat, classic_gaussian
from privet.federated.plain_sum import PlainSum
from privet.federated.privacy import CentralNoise, LocalNoise, RunSize
from privet.federated.terms import CentralTerms
from privet.training import Flat, TrainingPlan
from privet.training.sampling.schemes import (
    CyclicSampling,
    FixedSizeSampling,
    PoissonSampling,
    ShuffledSampling,
)

CLIENT = ZeroOut(Unit.CLIENT)
EXACT = 2.12451517112012


def terms_of(sampling, *, adjacency=CLIENT, rounds=1000, noise=1.0, population=10_000):
    plan = TrainingPlan(
        population=population,
        sampling=sampling,
        steps=rounds,
        noise_multiplier=noise,
        clip_bound=1.0,
        adjacency=adjacency,
    )
    return CentralTerms(plan, Flat(1.0))


def epsilon_of(terms, delta, rounds=1000):
    return account(terms.ledger(rounds)).epsilon(delta=delta)


@pytest.mark.parametrize("adjacency", [CLIENT, AddRemove(Unit.CLIENT)])
def test_a_thousand_poisson_rounds_of_a_hundredth_cost_2_12(adjacency):
    """z = 1, q = 0.01, T = 1000. Adding up the (ε, δ) of the rounds, as an engine does, gives several hundred.

    Source: tests/oracle/poisson_gaussian.py to 14 digits. ε = 2.12 belongs to δ = 10⁻⁶.
    """
    terms = terms_of(PoissonSampling(0.01), adjacency=adjacency)
    assert epsilon_of(terms, 1e-6) == pytest.approx(EXACT, rel=1e-6)
    assert f"{epsilon_of(terms, 1e-6):.2f}" == "2.12"


@pytest.mark.slow
def test_the_oracle_says_so(oracle):
    found = oracle.epsilon(rate=0.01, noise_multiplier=1.0, steps=1000, delta=1e-6, digits=8)
    assert float(found) == pytest.approx(EXACT, abs=1e-7)


def test_the_same_noise_costs_more_where_cohorts_are_not_poisson():
    poisson = epsilon_of(terms_of(PoissonSampling(0.01)), 1e-6)
    fixed = epsilon_of(terms_of(FixedSizeSampling(100)), 1e-6)
    shuffled = epsilon_of(terms_of(ShuffledSampling(100)), 1e-6)
    cyclic = epsilon_of(terms_of(CyclicSampling(100)), 1e-6)
    everybody = epsilon_of(terms_of(PoissonSampling(1.0)), 1e-6)
    assert poisson <= fixed < shuffled
    assert shuffled == pytest.approx(cyclic)  # one Gaussian for each of the ten epochs, without amplification
    assert shuffled == pytest.approx(account(Repeat(Gaussian(1.0), 10), adjacency=CLIENT).epsilon(delta=1e-6))
    assert everybody > 100


def test_shuffled_cohorts_have_no_epsilon_where_places_move():
    with pytest.raises(NotProved, match="Shuffled epochs have no proved ε under add-remove"):
        terms_of(ShuffledSampling(100), adjacency=AddRemove(Unit.CLIENT))


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0, 8.0])
def test_the_noise_is_that_of_the_exact_gaussian_and_not_of_the_classic_one(epsilon):
    """One round of everybody. δ of a Gaussian is known in closed form (Balle & Wang 2018, Theorem 8)."""
    size = RunSize(population=50, rounds=1, length=3, epsilon=epsilon, delta=1e-5)
    noise = (
        CentralNoise(clip=1.0, sampling=PoissonSampling(1.0)).settle(size, PlainSum()).plan.noise_multiplier
    )

    def delta_of(sigma):
        return norm.cdf(0.5 / sigma - epsilon * sigma) - math.exp(epsilon) * norm.cdf(
            -0.5 / sigma - epsilon * sigma
        )

    assert delta_of(noise) <= 1e-5 * (1 + 1e-9)
    assert delta_of(noise * 0.999) > 1e-5
    classic = math.sqrt(2 * math.log(1.25 / 1e-5)) / epsilon
    assert noise < classic
    if epsilon >= 1:
        with pytest.raises(InvalidArgument, match="must be below 1"):
            classic_gaussian(epsilon=epsilon, delta=1e-5)


def test_local_noise_hides_any_other_data_of_a_client():
    """A clipped update moves by 2C when the data are replaced, so the noise is twice that of a zeroed client."""
    size = RunSize(population=50, rounds=3, length=3, epsilon=2.0, delta=1e-5)
    local = LocalNoise(clip=1.0).settle(size, PlainSum())
    central = CentralNoise(clip=1.0, sampling=PoissonSampling(1.0)).settle(size, PlainSum())
    assert local.local_deviation == pytest.approx(2 * central.plan.noise_multiplier, rel=1e-3)
    assert local.plan.adjacency == ReplaceOne(Unit.CLIENT)


def test_the_tight_accountant_is_below_the_renyi_one():
    ledger = terms_of(PoissonSampling(0.01)).ledger(1000)
    assert account(ledger).epsilon(delta=1e-6) < account(ledger, accountant=Renyi()).epsilon(delta=1e-6)


def test_the_adaptive_clip_pays_for_its_count():
    """1/z² = 1/z_Δ² + 1/(2σ_b)² (Andrew et al. 2021, Theorem 1): the updates get more noise, the event the same."""
    size = RunSize(population=400, rounds=10, length=3, epsilon=2.0, delta=1e-5)
    flat = CentralNoise(clip=0.5).settle(size, PlainSum()).plan
    adaptive = CentralNoise().settle(size, PlainSum()).plan
    assert adaptive.noise_multiplier == flat.noise_multiplier
    count = 1 / (2 * adaptive.adaptive.count_deviation)
    assert adaptive.gradient_multiplier**-2 + count**2 == pytest.approx(flat.noise_multiplier**-2)
    assert adaptive.event == flat.event == Repeat(Poisson(0.25, Gaussian(flat.noise_multiplier)), 10)
