"""Numbers of convex learning, each with its source."""

import math

import numpy as np
import pytest
from scipy.stats import norm

from privet.accounting import account
from privet.adjacency import AddRemove, ReplaceOne, ZeroOut
from privet.errors import InvalidArgument
from privet.learning.hyperparameters import (
    DescentPlan,
    least_strength,
    starting_radius,
    strength_for_noisy_weights,
)
from privet.learning.losses import LogisticLoss, SmoothedHingeLoss
from privet.learning.noisy_sgd import NoisySGD, descend, theory_event, theory_scale
from privet.learning.objective_perturbation import ObjectivePerturbation, profile
from privet.learning.output_perturbation import OutputPerturbation, classic_scale
from privet.learning.risk import Risk, minimize
from privet.learning.solver import Problem
from privet.randomness import SeededNoise


def terms(adjacency=ReplaceOne(), **changes):  # noqa: B008 - frozen
    given = {
        "loss": LogisticLoss(),
        "dimension": 10,
        "population": 1000,
        "regularization": 0.01,
        "adjacency": adjacency,
    }
    return Problem(**(given | changes))


def test_sensitivity_of_output_perturbation():
    """Chaudhuri, Monteleoni & Sarwate 2011, Corollary 8: 2/(nΛ) for a 1-Lipschitz loss; here 2/(1000 · 0.01) = 0.2."""
    prepared = OutputPerturbation().prepare(terms(), epsilon=0.5, delta=1e-5)
    assert prepared.sensitivity == pytest.approx(0.2, rel=2e-5)
    assert prepared.sensitivity > 0.2  # tolerance and grid are in it
    blank = OutputPerturbation().prepare(terms(ZeroOut()), epsilon=0.5, delta=1e-5)
    assert blank.sensitivity == pytest.approx(0.1, rel=3e-5)


def test_tolerance_of_the_solver_is_added():
    """Strong convexity: a gradient of at most τ is within τ/Λ, for both of two neighbours: (2 + 2 · 0.25)/10."""
    prepared = OutputPerturbation(tolerance=0.25).prepare(terms(), epsilon=0.5, delta=1e-5)
    assert prepared.sensitivity == pytest.approx(0.25, rel=1e-7)


def test_classic_noise_of_output_perturbation():
    """2√(2 ln(1.25/δ))/(nλε) by hand: 2 · √(2 · 11.7361) / (1000 · 0.01 · 0.5) = 2 · 4.84481 / 5."""
    scale = classic_scale(population=1000, regularization=0.01, epsilon=0.5, delta=1e-5)
    assert scale == pytest.approx(1.937923, rel=1e-6)
    with pytest.raises(InvalidArgument, match="Use OutputPerturbation"):
        classic_scale(population=1000, regularization=0.01, epsilon=1.0, delta=1e-5)


def test_analytic_noise_is_less_than_classic():
    """Balle & Wang 2018, Theorem 8, solved here with scipy: Φ(Δ/2σ − εσ/Δ) − e^ε Φ(−Δ/2σ − εσ/Δ) = δ."""
    epsilon, delta = 0.5, 1e-5
    prepared = OutputPerturbation().prepare(terms(), epsilon=epsilon, delta=delta)
    a = prepared.sensitivity / prepared.scale
    found = norm.cdf(a / 2 - epsilon / a) - math.exp(epsilon) * norm.cdf(-a / 2 - epsilon / a)
    assert found == pytest.approx(delta, rel=1e-5)
    classic = classic_scale(population=1000, regularization=0.01, epsilon=epsilon, delta=delta)
    assert prepared.scale < 0.8 * classic


def test_noise_of_the_theory():
    """16 l √(T ln(2/δ) ln(2.5T/δn))/(nε) by hand: 16 √(10⁶ · 14.50866 · 21.63956)/1000."""
    scale = theory_scale(lipschitz=1.0, steps=10**6, population=1000, epsilon=1.0, delta=1e-6)
    assert scale == pytest.approx(16 * math.sqrt(14.508658 * 21.639557), rel=1e-6)
    twice = theory_scale(lipschitz=2.0, steps=10**6, population=1000, epsilon=0.5, delta=1e-6)
    assert twice == pytest.approx(4 * scale, rel=1e-12)


@pytest.mark.parametrize(("population", "steps", "epsilon"), [(1000, 10**6, 1.0), (500, 10**5, 0.5)])
def test_the_tight_accountant_beside_the_theory(population, steps, epsilon):
    """The theory claims (ε, δ); its event costs less than a third of that."""
    delta = 1e-6
    scale = theory_scale(lipschitz=1.0, steps=steps, population=population, epsilon=epsilon, delta=delta)
    event = theory_event(noise_multiplier=scale, steps=steps, population=population)
    tight = account(event, adjacency=ReplaceOne()).epsilon(delta=delta)
    assert tight < epsilon / 3


def test_too_few_steps_for_the_theory():
    with pytest.raises(InvalidArgument, match="Take more steps"):
        theory_scale(lipschitz=1.0, steps=100, population=1000, epsilon=1.0, delta=1e-6)


@pytest.mark.parametrize("steps", [16, 100, 1000])
def test_descent_without_noise(steps):
    """Bubeck 2015, Theorem 6.3 without noise, his R² our ½R²: η = 1/β leaves at most βR²/(2T)."""
    generator = np.random.default_rng(3)
    rows = generator.normal(size=(200, 5))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    targets = np.sign(rows @ generator.normal(size=5) + 0.3 * generator.normal(size=200))
    loss, radius = SmoothedHingeLoss(0.05), 2.0
    risk = Risk(loss, rows, targets, 0.0)
    found = descend(
        lambda weights: risk.loss_gradient(weights) / 200,
        dimension=5,
        steps=steps,
        radius=radius,
        step_size=1 / loss.smoothness,
    )
    best = min(
        risk.value(weights * min(1, radius / np.linalg.norm(weights)))
        for weights in (minimize(Risk(loss, rows, targets, s), 1e-6) for s in np.geomspace(1e-3, 100, 40))
    )
    assert (risk.value(found) - best) / 200 <= loss.smoothness * radius**2 / (2 * steps)


@pytest.mark.parametrize("steps", [20, 60, 120])
def test_momentum_without_noise(steps):
    """Nesterov 2004, Theorem 2.2.3 for a constant momentum: at most (f(0) − f* + ½λ‖θ*‖²)(1 − 1/√κ)^T above the minimum.

    The momentum grows to its constant over the first steps, for which the theorem does not speak; and without it the
    excess after 120 steps is above this bound by orders of magnitude.
    """
    generator = np.random.default_rng(5)
    rows = generator.normal(size=(300, 6)) * np.array([1.0, 0.5, 0.2, 0.1, 0.05, 0.02])
    rows /= np.linalg.norm(rows, axis=1).max()
    targets = np.sign(rows @ generator.normal(size=6) + 0.05 * generator.normal(size=300))
    public = terms(dimension=6, population=300, regularization=2e-4)
    risk = Risk(LogisticLoss(), rows, targets, public.strength)
    kappa = 1 + 0.25 / 2e-4
    constant = (math.sqrt(kappa) - 1) / (math.sqrt(kappa) + 1)

    def excess(momentum):
        found = descend(
            lambda weights: risk.gradient(weights) / 300,
            dimension=6,
            steps=steps,
            radius=1e3,
            step_size=1 / (0.25 + 2e-4),
            averaged_share=1e-9,
            momentum=momentum,
        )
        return (risk.value(found) - risk.value(best)) / 300

    best = minimize(risk, 1e-8)
    start = (risk.value(np.zeros(6)) - risk.value(best)) / 300 + 1e-4 * float(best @ best)
    bound = start * (1 - 1 / math.sqrt(kappa)) ** steps
    assert excess(constant) <= bound
    assert excess(0.0) > 2 * excess(constant)


def test_steps_and_regularization_by_hand():
    """Λ = σ/s = 8/4; √κ = √(1 + 0.25 · 10⁴/2); T = ½√κ ln(1 + 8Λn ln 2/(dσ²)), here ½ · 35.369 · ln(1 + 173.287)."""
    assert least_strength(LogisticLoss(), 8.0) == 2.0
    assert least_strength(LogisticLoss(), 1e-9) == 0.25 / 16
    # 3 (2 · ¼ · 64 · 10⁴/(16 · 10))^⅓ = 3 · 2000^⅓
    on_weights = strength_for_noisy_weights(LogisticLoss(), 8.0, population=10_000, dimension=10)
    assert on_weights == pytest.approx(3 * 12.59921, rel=1e-6)
    assert strength_for_noisy_weights(LogisticLoss(), 8.0, population=1, dimension=10**6) == 2.0
    public = {"strength": 2.0, "noise_multiplier": 8.0, "population": 10_000, "dimension": 10}
    pace = DescentPlan.choose(LogisticLoss(), **public, momentum=None)
    assert pace.steps == math.ceil(0.5 * 35.3695 * math.log(174.287)) == 92
    assert pace.momentum == pytest.approx(34.3695 / 36.3695, rel=1e-5)
    plain = DescentPlan.choose(LogisticLoss(), **public, momentum=0.0)
    assert plain.steps == 1000
    assert starting_radius(LogisticLoss(), strength=2.0, population=10_000) == pytest.approx(
        83.2555, rel=1e-5
    )


def test_excess_risk_with_noise():
    """Bubeck 2015, Theorem 6.3: the expected excess is at most Rv/√T + βR²/(2T), v with sampling and noise."""
    generator = np.random.default_rng(4)
    rows = generator.normal(size=(2000, 5))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    targets = np.sign(rows @ np.array([1.0, -1, 0, 0, 0.5]))
    public = terms(dimension=5, population=2000, regularization=0.0)
    solver = NoisySGD(steps=100, radius=2.0, sampling_rate=0.1, averaged_share=1.0)
    prepared = solver.prepare(public, epsilon=1.0, delta=1e-5)
    v = math.sqrt(prepared.gradient_variance)
    assert prepared.excess_bound == pytest.approx(2 * v / 10 + 0.25 * 4 / 200, rel=1e-12)
    risk = Risk(LogisticLoss(), rows, targets, 0.0)
    best = risk.value(minimize(Risk(LogisticLoss(), rows, targets, 150.0), 1e-3))
    risks = [risk.value(prepared.run(rows, targets, SeededNoise(seed))) for seed in range(5)]
    assert (np.mean(risks) - best) / 2000 <= prepared.excess_bound
    assert NoisySGD().prepare(public, epsilon=1.0, delta=1e-5).excess_bound == math.inf


def test_profile_of_objective_perturbation():
    """Redberg, Koskela & Wang 2023: 2 H at ε̃ = ε + ln(1 − β/Λ) for linear models, add-remove.

    H is Balle & Wang's profile. Ours is that with ln(1 + β/Λ) in place of −ln(1 − β/Λ), and for a loss that pulls one
    way only without the factor 2.
    """
    epsilon, sigma, strength, smoothness = 1.0, 4.0, 2.0, 0.25

    def gaussian(rest: float) -> float:
        a = 1 / sigma
        return norm.cdf(a / 2 - rest / a) - math.exp(rest) * norm.cdf(-a / 2 - rest / a)

    rest = epsilon - math.log1p(smoothness / strength)
    for monotone, factor in ((True, 1), (False, 2)):
        found = profile(
            epsilon=epsilon,
            noise_multiplier=sigma,
            strength=strength,
            smoothness=smoothness,
            monotone=monotone,
            adjacency=AddRemove(),
        )
        assert found == pytest.approx(factor * gaussian(rest), rel=1e-6)
        assert found <= 2 * gaussian(epsilon + math.log(1 - smoothness / strength))


def test_objective_perturbation_needs_less_than_half_the_noise_of_its_first_gaussian_analysis():
    """Kifer, Smith & Thakurta 2012, Algorithm 1: σ = √(8 ln(2/δ) + 4ε) L/ε; ours at the same ε and δ."""
    prepared = ObjectivePerturbation().prepare(
        terms(AddRemove(), regularization=1.0), epsilon=1.0, delta=1e-6
    )
    assert prepared.scale < 0.45 * math.sqrt(8 * math.log(2 / 1e-6) + 4)
