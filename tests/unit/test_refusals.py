"""What no theorem covers gets a typed error with a fix, never a number."""

import math

import pytest

from privet.accounting import (
    Advanced,
    AdvantageTarget,
    Basic,
    Concentrated,
    EpsilonTarget,
    GaussianDP,
    Optimal,
    PosteriorTarget,
    Pure,
    Renyi,
    TprTarget,
    account,
    calibrate,
)
from privet.adjacency import AddRemove, ReplaceOne, ZeroOut
from privet.errors import InvalidArgument, NotProved, OutOfReach
from privet.events import (
    Compose,
    DiscreteGaussian,
    ExponentialMechanism,
    FixedSize,
    Gaussian,
    Laplace,
    Opaque,
    Parallel,
    Poisson,
    RandomizedResponse,
    Repeat,
    TreeNoise,
    dp_sgd,
)


def assert_not_proved(make, complaint):
    with pytest.raises(NotProved, match=complaint) as caught:
        make()
    assert str(caught.value).count(". ") >= 1, "no second sentence with the fix"
    assert str(caught.value).endswith(".")


@pytest.mark.parametrize(
    "inner",
    [
        Laplace(1.0),
        DiscreteGaussian(2.0),
        Opaque(epsilon=1.0),
        RandomizedResponse(0.75),
        TreeNoise(3.0, 16, 4, 3),
    ],
)
def test_poisson_under_replace_one_is_proved_for_gaussian_noise_only(inner):
    assert_not_proved(lambda: account(Poisson(0.1, inner), adjacency=ReplaceOne()), "replace-one")


@pytest.mark.parametrize("accountant", [Pure(), Basic(), Advanced(), Optimal()])
def test_amplified_claims_are_not_proved_under_replace_one(accountant):
    sampled = Poisson(0.1, Opaque(epsilon=1.0))
    assert_not_proved(lambda: account(sampled, adjacency=ReplaceOne(), accountant=accountant), "replace-one")


@pytest.mark.parametrize(
    "event",
    [
        Gaussian(1.0),
        Poisson(0.1, Gaussian(1.0)),
        DiscreteGaussian(2.0),
        Compose((Laplace(1.0), Gaussian(1.0))),
    ],
)
def test_gaussian_noise_has_no_pure_epsilon(event):
    claim = account(event, adjacency=AddRemove())
    assert_not_proved(lambda: claim.epsilon(delta=0.0), "'delta' must be above 0")


@pytest.mark.parametrize("accountant", [Renyi(), Concentrated(), GaussianDP()])
def test_moments_prove_nothing_at_delta_zero(accountant):
    claim = account(Gaussian(1.0), adjacency=AddRemove(), accountant=accountant)
    assert_not_proved(lambda: claim.epsilon(delta=0.0), "'delta' must be above 0")


def test_randomised_response_shows_who_answered():
    assert_not_proved(lambda: account(RandomizedResponse(0.75), adjacency=AddRemove()), "add-remove")


@pytest.mark.parametrize("inner", [RandomizedResponse(0.75), Poisson(0.5, RandomizedResponse(0.75))])
def test_randomised_response_inside_anything(inner):
    assert_not_proved(lambda: account(Repeat(inner, 2), adjacency=AddRemove()), "add-remove")


@pytest.mark.parametrize("accountant", [None, Pure(), Basic(), Concentrated()])
def test_a_replacement_may_touch_two_parts(accountant):
    parts = Parallel((Laplace(1.0), Laplace(2.0)))
    assert_not_proved(lambda: account(parts, adjacency=ReplaceOne(), accountant=accountant), "Parallel")


def test_one_part_is_not_split():
    alone = account(Parallel((Laplace(1.0),)), adjacency=ReplaceOne())
    assert alone.epsilon(delta=0.0) == pytest.approx(2.0)


@pytest.mark.parametrize("accountant", [Pure(), Basic(), Advanced(), Optimal()])
@pytest.mark.parametrize(
    "event", [Gaussian(1.0), Poisson(0.1, Gaussian(1.0)), FixedSize(1, 10, Gaussian(1.0))]
)
def test_theorems_about_epsilon_do_not_take_gaussian_noise(accountant, event):
    assert_not_proved(lambda: account(event, adjacency=AddRemove(), accountant=accountant), "not ε-DP")


def test_pure_dp_takes_no_delta():
    event = Opaque(epsilon=1.0, delta=1e-9)
    assert_not_proved(lambda: account(event, adjacency=AddRemove(), accountant=Pure()), "not pure DP")


@pytest.mark.parametrize(
    "event", [Laplace(1.0), DiscreteGaussian(1.0), Opaque(epsilon=1.0), Poisson(0.1, Gaussian(1.0))]
)
def test_gaussian_dp_takes_gaussian_noise_only(event):
    refused = lambda: account(event, adjacency=AddRemove(), accountant=GaussianDP())  # noqa: E731
    assert_not_proved(refused, "not exactly Gaussian DP")


def test_concentrated_dp_is_not_amplified():
    event = Poisson(0.1, Gaussian(1.0))
    assert_not_proved(
        lambda: account(event, adjacency=AddRemove(), accountant=Concentrated()), "not amplified"
    )


def test_concentrated_dp_takes_no_delta():
    event = Opaque(epsilon=1.0, delta=1e-9)
    assert_not_proved(
        lambda: account(event, adjacency=AddRemove(), accountant=Concentrated()), "not concentrated"
    )


def test_deltas_that_add_up_to_one_are_refused():
    event = Repeat(Opaque(epsilon=1.0, delta=0.2), 5)
    assert_not_proved(lambda: account(event, adjacency=AddRemove(), accountant=Basic()), "add up to 1")


@pytest.mark.parametrize("accountant", [None, Basic(), Advanced(), Optimal()])
def test_delta_below_what_was_spent(accountant):
    claim = account(Opaque(epsilon=1.0, delta=1e-5), adjacency=AddRemove(), accountant=accountant)
    assert_not_proved(lambda: claim.epsilon(delta=1e-6), "'delta' must be")


@pytest.mark.parametrize("spent", [None, 1.0, "ledger"])
def test_only_events_and_ledgers_are_accounted(spent):
    with pytest.raises(InvalidArgument, match=r"'spent' must be a Ledger or an Event.*Write"):
        account(spent, adjacency=AddRemove())


@pytest.mark.parametrize("adjacency", [None, "add-remove", AddRemove])
def test_an_event_needs_an_adjacency(adjacency):
    with pytest.raises(
        InvalidArgument, match=r"'adjacency' must be (given.*Use|an Adjacency.*Write.* AddRemove\()"
    ):
        account(Gaussian(1.0), adjacency=adjacency)


@pytest.mark.parametrize(
    ("event", "delta"),
    [
        (Gaussian(1e-160), 1e-5),
        (Gaussian(1e160), 1e-5),
        (Repeat(Gaussian(1.0), 10**15), 1e-5),
        (Laplace(1e-160), 1e-5),
        (Opaque(epsilon=1e6), 1e-5),
        (ExponentialMechanism(epsilon=1e6), 1e-5),
        (dp_sgd(noise_multiplier=0.01, sampling_rate=0.5, steps=100), 1e-5),
        (dp_sgd(noise_multiplier=1e6, sampling_rate=1e-9, steps=1), 1e-5),
        (dp_sgd(noise_multiplier=1.0, sampling_rate=1e-3, steps=10**12), 1e-5),
        (Gaussian(1.0), 5e-324),
        (Gaussian(1.0), 1 - 1e-16),
    ],
    ids=lambda v: str(v)[:60],
)
def test_extremes_get_a_finite_number_or_a_typed_error(event, delta):
    try:
        found = account(event, adjacency=AddRemove()).epsilon_bounds(delta=delta)
    except (NotProved, OutOfReach, InvalidArgument) as refused:
        assert str(refused).endswith(".")
        return
    assert 0 <= found.lower <= found.upper < math.inf


@pytest.mark.parametrize(
    "make",
    [
        lambda: EpsilonTarget(epsilon=0.0, delta=1e-5),
        lambda: EpsilonTarget(epsilon=1.0, delta=1.0),
        lambda: EpsilonTarget(epsilon=math.nan, delta=1e-5),
        lambda: TprTarget(tpr=0.01, fpr=0.01),
        lambda: TprTarget(tpr=1.5, fpr=0.01),
        lambda: AdvantageTarget(advantage=0.0),
        lambda: PosteriorTarget(prior=0.5, posterior=0.4, delta=1e-5),
        lambda: PosteriorTarget(prior=0.5, posterior=0.6, delta=2.0),
    ],
)
def test_targets_are_checked(make):
    with pytest.raises(InvalidArgument, match=r"'\w+' must .*\. \w"):
        make()


def test_a_target_out_of_the_limits_is_refused():
    target = EpsilonTarget(epsilon=1e-4, delta=1e-9)
    with pytest.raises(NotProved, match=r"No value between .* Widen"):
        calibrate(Gaussian, target, adjacency=AddRemove(), between=(0.1, 10.0))


@pytest.mark.parametrize("between", [(2.0, 1.0), (1.0, 1.0), (0.0, 1.0), (-1.0, 1.0), (1.0, math.inf)])
def test_limits_are_a_rising_pair(between):
    with pytest.raises(InvalidArgument, match=r"'between"):
        calibrate(Gaussian, EpsilonTarget(epsilon=1.0, delta=1e-5), adjacency=AddRemove(), between=between)


@pytest.mark.parametrize("adjacency", [AddRemove(), ReplaceOne(), ZeroOut()])
def test_a_discrete_gaussian_that_does_not_fit_in_memory_goes_to_concentrated_dp(adjacency):
    claim = account(DiscreteGaussian(1e7, 1000), adjacency=adjacency)
    assert claim.accountant == "zero-concentrated"
    assert 0 < claim.epsilon(delta=1e-6) < 1


def test_a_sample_of_nothing_costs_nothing():
    for event in (Poisson(0.5, Compose(())), FixedSize(1, 2, Compose(())), Parallel((Compose(()),))):
        assert account(event, adjacency=AddRemove()).epsilon(delta=1e-5) == 0
