"""Reconstruction of bits and numbers from published answers."""

import numpy as np
import pytest

from privet.attacks.reconstruction import (
    Averaging,
    Differencing,
    KnownOthers,
    LeastSquares,
    LinearProgram,
    SecretNumber,
    SubsetSums,
)
from privet.attacks.reconstruction import least_squares as module
from privet.auditing import measure_recoveries
from privet.errors import InvalidArgument


def subset_sums(generator, people, error, *, share=0.55, wild=0.0, times=4):
    """Random bits, and answers to random subsets of which each is off by up to error · √people."""
    bits = (generator.random(people) < share).astype(int)
    queries = generator.random((times * people, people)) < 0.5
    answers = queries.astype(float) @ bits + generator.uniform(-1, 1, len(queries)) * error * np.sqrt(people)
    spoilt = generator.random(len(queries)) < wild
    answers[spoilt] = generator.uniform(0, people, spoilt.sum())
    return SubsetSums(queries, answers), bits


@pytest.mark.parametrize(
    ("error", "least", "most"), [(0.25, 0.995, 1.0), (0.5, 0.90, 0.97), (1.0, 0.75, 0.84), (2.0, 0.62, 0.72)]
)
def test_least_squares_recovers_as_much_as_the_errors_allow(error, least, most):
    """At error E√n the estimate of a bit has a standard deviation of 2E/3, whatever n is: with σ = E√(n/3)
    it is σ·√(4/(m − n)). 400 people, three draws; a share is off by 0.04 in one of 10⁶ runs."""
    generator = np.random.default_rng(0)
    shares = []
    for _ in range(3):
        sums, bits = subset_sums(generator, 400, error)
        shares.append(LeastSquares(prior=0.55).run(sums, bits).hits.mean())
    assert least <= np.mean(shares) <= most


def test_answers_that_say_nothing_leave_the_blind_guess():
    sums, bits = subset_sums(np.random.default_rng(1), 60, 1e4)
    found = LeastSquares(prior=0.7).run(SubsetSums(sums.queries, sums.answers, noise=1e6), bits)
    assert np.array_equal(found.hits, found.blind_hits)
    assert measure_recoveries(found).leak.value == 0


def test_the_ways_of_solving_agree(monkeypatch):
    sums, _ = subset_sums(np.random.default_rng(2), 80, 0.7)
    single = LeastSquares().estimate(sums)
    double = LeastSquares().estimate(SubsetSums(sums.queries.astype(float) * 1.5, sums.answers * 1.5))
    monkeypatch.setattr(module, "_MOST_PEOPLE", 10)
    iterated = LeastSquares().estimate(sums)
    assert np.abs(single - double).max() < 1e-8
    assert np.abs(single - iterated).max() < 1e-4


@pytest.mark.parametrize("noise", [None, 0.8])
def test_estimates_are_the_best_linear_ones(noise):
    """p + (AᵀA + λI)⁻¹Aᵀ(a − pA1), λ = σ²/(p(1 − p)); without σ it is that of the residuals, over m − n."""
    sums, _ = subset_sums(np.random.default_rng(12), 20, 0.6)
    weights, prior = sums.queries.astype(float), 0.7
    plain = np.linalg.lstsq(weights, sums.answers, rcond=None)[0]
    residual = ((sums.answers - weights @ plain) ** 2).sum() / (80 - 20)
    damping = (residual if noise is None else noise**2) / (prior * (1 - prior))
    rest = sums.answers - prior * weights.sum(axis=1)
    expected = prior + np.linalg.solve(weights.T @ weights + damping * np.eye(20), weights.T @ rest)
    found = LeastSquares(prior=prior).estimate(SubsetSums(weights, sums.answers, noise=noise))
    assert found == pytest.approx(np.clip(expected, 0, 1), abs=1e-4)


def test_fewer_answers_than_people():
    sums, bits = subset_sums(np.random.default_rng(3), 40, 0.0, times=1)
    few = SubsetSums(sums.queries[:20], sums.answers[:20])
    assert 0.5 < LeastSquares().run(few, bits).hits.mean() <= 1


def test_linear_programming_is_robust_against_wild_answers():
    generator = np.random.default_rng(4)
    robust, plain = [], []
    for _ in range(4):
        sums, bits = subset_sums(generator, 60, 0.2, wild=0.1)
        robust.append(LinearProgram(prior=0.55).run(sums, bits).hits.mean())
        plain.append(LeastSquares(prior=0.55).run(sums, bits).hits.mean())
    assert np.mean(robust) > 0.93
    assert np.mean(plain) < 0.85


def test_attacks_see_people_in_any_order():
    sums, _ = subset_sums(np.random.default_rng(5), 30, 0.4)
    order = np.random.default_rng(6).permutation(30)
    turned = SubsetSums(sums.queries[:, order], sums.answers)
    for attack in (LeastSquares(), LinearProgram()):
        assert np.array_equal(attack.recover(sums)[order], attack.recover(turned))


def test_a_difference_of_two_exact_answers_is_the_value():
    salaries = np.array([3100.0, 5200.0, 12_000.0])
    rest = np.array([90_000.0, 87_000.0, 81_500.0])
    secret = SecretNumber(lower=0, upper=20_000, tolerance=1)
    found = Differencing(secret).run(rest + salaries, rest, salaries, blind=np.full(3, 4000.0))
    assert found.hits.all()
    assert not found.blind_hits.any()
    means = Differencing(secret, people=20).run(
        (rest + salaries) / 20, rest / 19, salaries, blind=[4000.0] * 3
    )
    assert means.hits.all()


def test_noise_on_both_answers_adds_up():
    """The difference has √2 times the standard deviation; the estimate of it is off by 3 % at most in one of
    10⁵ runs."""
    generator = np.random.default_rng(7)
    noisy = generator.normal(0, 10, (2, 20_000))
    estimates = Differencing().estimate(50 + noisy[0], noisy[1])
    assert estimates.std() == pytest.approx(10 * np.sqrt(2), rel=0.03)


@pytest.mark.parametrize("repeats", [1, 16, 256])
def test_the_mean_of_fresh_answers_nears_the_truth_as_one_over_the_root(repeats):
    generator = np.random.default_rng(8)
    answers = 100 + generator.laplace(0, 10, (2000, repeats))
    error = Averaging().estimate(answers) - 100
    assert error.std() == pytest.approx(10 * np.sqrt(2 / repeats), rel=0.1)


def test_stored_answers_do_not_get_better():
    generator = np.random.default_rng(9)
    stored = np.repeat(100 + generator.laplace(0, 10, (2000, 1)), 256, axis=1)
    for attack in (Averaging(), Averaging(by_median=True)):
        assert attack.estimate(stored) == pytest.approx(stored[:, 0])


def test_the_median_is_better_against_laplace_noise():
    answers = np.random.default_rng(10).laplace(0, 10, (2000, 101))
    mean, median = (Averaging(by_median=by).estimate(answers).std() for by in (False, True))
    assert median < 0.85 * mean


def test_an_adversary_who_knows_the_others_reaches_the_best_guess():
    """One Laplace answer, two values that are one sensitivity apart: the best guess is right with 1 −
    ½e^{−ε/2}. 20,000 releases, within five standard deviations."""
    generator = np.random.default_rng(11)
    truths = generator.integers(0, 2, 20_000)
    answers = (truths + generator.laplace(0, 1.0, truths.shape))[:, None]
    found = KnownOthers().run(answers, np.array([[0.0], [1.0]]), np.array([1.0]), truths)
    assert found.hits.mean() == pytest.approx(1 - 0.5 * np.exp(-0.5), abs=5 * 0.5 / np.sqrt(20_000))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: SubsetSums(np.ones((3, 2)), np.ones(2)), "'queries' must be queries × people"),
        (lambda: SubsetSums(np.ones((1, 2)), np.array([np.nan])), "must be finite"),
        (lambda: SubsetSums(np.ones((1, 2)), np.ones(1), noise=0.0), "'noise'"),
        (lambda: LeastSquares(prior=1.0), "'prior'"),
        (lambda: LeastSquares().run(SubsetSums(np.ones((1, 2)), np.ones(1)), np.array([0, 2])), "'secrets'"),
        (lambda: SecretNumber(lower=2, upper=1), "'lower' must be below 'upper'"),
        (lambda: SecretNumber(values=(1.0,)), "'values' must be at least two"),
        (lambda: Differencing(people=1), "'people'"),
        (lambda: Differencing().estimate(np.ones(2), np.ones(3)), "'without_target'"),
        (lambda: Averaging(repeats=5).estimate(np.ones((2, 3))), "'answers' must have 5 repeats"),
        (
            lambda: KnownOthers().pick(np.ones((1, 1)), np.ones((2, 1)), np.zeros(1)),
            "'scales' must be above 0",
        ),
    ],
)
def test_bad_arguments(call, words):
    with pytest.raises(InvalidArgument, match=words):
        call()
