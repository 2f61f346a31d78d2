"""Dominating pairs: one look at the data, reduced to two distributions P and Q.

A pair (P, Q) *dominates* a mechanism when H_y(M(D) ‖ M(D′)) ≤ H_y(P ‖ Q) for every y ≥ 0 and every two
neighbours in that order, with the hockey-stick divergence H_y(P ‖ Q) = ∫ (dP − y dQ)₊. Products of
dominating pairs dominate adaptive compositions, and a pair enters a composition only through its
*profile* δ(ε) = H_{exp ε}(P ‖ Q), ε ∈ ℝ, or equally through the law of the loss L = ln dP/dQ.

Reference: Zhu, Dong & Wang 2022, Definition 7 and Theorem 10.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple, TypeAlias, final

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from privet.accounting.normal import gaussian_delta

__all__ = [
    "AtomicPair",
    "DiscreteGaussianPair",
    "DiscreteLaplacePair",
    "FinitePair",
    "GaussianPair",
    "LaplacePair",
    "Lattice",
    "Nodes",
    "Pair",
    "Reals",
    "randomized_response",
]

Reals: TypeAlias = NDArray[Any]  # of float64; scipy's functions do not say so


class Nodes(NamedTuple):
    """A quadrature rule for E_Q f(L): Σ exp(log_weights) · f(losses).

    ``missing_q`` and ``missing_p`` are the masses of Q and of P that it leaves out: 1 − E_Q 1 and 1 − E_Q Λ.
    """

    log_weights: Reals
    losses: Reals
    missing_q: float = 0.0
    missing_p: float = 0.0


class Lattice(NamedTuple):
    """The losses anchor + k · unit; without a unit, the anchor alone."""

    anchor: float
    unit: float | None = None


class Pair(ABC):
    """One ordered pair (P, Q); P-mass where Q has none is ``infinity``."""

    @property
    def infinity(self) -> float:
        """The probability under P that the loss is +∞."""
        return 0.0

    @property
    def lattice(self) -> "Lattice | None":
        """A grid that holds all point masses of the loss."""
        return None

    @property
    def largest_loss(self) -> float | None:
        """The largest finite loss under P, if there is one. Without mass at infinity this is pure DP."""
        return None

    @property
    def smooth(self) -> bool:
        """Whether the loss has a density, so that its Fourier transform dies out."""
        return False

    def cap(self, mass: float, edge: float) -> "Pair":
        """The same pair with its largest losses moved to infinity: at most ``mass`` of P.

        Large losses that hardly ever occur dominate high moments. Without them the moments give useful
        bounds.
        """
        return self

    @abstractmethod
    def delta(self, epsilon: Reals) -> Reals:
        """The profile H_{exp ε}(P ‖ Q), without the mass at infinity, at every real ε."""

    @abstractmethod
    def tail(self, epsilon: Reals) -> Reals:
        """Q[L > ε], which is minus the slope of the profile in y = exp ε."""

    @abstractmethod
    def nodes(self, tilt: float, frequency: float, digits: float) -> Nodes | None:
        """A rule that is exact to exp(−digits) for Λ^(1+s), Re s = tilt and |Im s| ≤ frequency."""

    @abstractmethod
    def swap(self) -> "Pair":
        """(Q, P)."""


@final
@dataclass(frozen=True)
class GaussianPair(Pair):
    """N(μ, 1) against N(0, 1): the Gaussian mechanism, and exactly Gaussian differential privacy."""

    mu: float

    @property
    def smooth(self) -> bool:
        return True

    def delta(self, epsilon: Reals) -> Reals:
        return gaussian_delta(self.mu, epsilon)

    def tail(self, epsilon: Reals) -> Reals:
        return np.asarray(ndtr(-epsilon / self.mu - 0.5 * self.mu))

    def nodes(self, tilt: float, frequency: float, digits: float) -> Nodes:
        """Trapezoid rule in z ~ N(0, 1); entire integrand, so no strip limits its convergence."""
        centre, reach = (tilt + 1) * self.mu, np.sqrt(2 * digits)
        step = 2 * np.pi / (frequency * self.mu + reach)
        z = np.arange(min(0.0, centre) - reach, max(0.0, centre) + reach + step, step)
        return gaussian_nodes(z, step, self.mu)

    def swap(self) -> "GaussianPair":
        return self


def gaussian_nodes(z: Reals, step: float, mu: float) -> Nodes:
    """The rule on equally spaced z ~ N(0, 1), with the loss of N(μ, 1) against N(0, 1) there."""
    return Nodes(-0.5 * z * z + np.log(step / np.sqrt(2 * np.pi)), mu * (z - 0.5 * mu))


@final
@dataclass(frozen=True)
class LaplacePair(Pair):
    """Laplace(1, b) against Laplace(0, b) with 1/b = ``epsilon``; symmetric.

    Half of P sits at loss +ε₀, exp(−ε₀)/2 of it at −ε₀, and the loss is spread in between.
    """

    epsilon: float

    @property
    def lattice(self) -> Lattice:
        return Lattice(self.epsilon, 2 * self.epsilon)

    @property
    def largest_loss(self) -> float:
        return self.epsilon

    def delta(self, epsilon: Reals) -> Reals:
        inside = -np.expm1(0.5 * (np.clip(epsilon, -self.epsilon, self.epsilon) - self.epsilon))
        return np.where(epsilon > -self.epsilon, inside, -np.expm1(np.minimum(epsilon, 0.0)))

    def tail(self, epsilon: Reals) -> Reals:
        inside = 0.5 * np.exp(-0.5 * (np.clip(epsilon, -self.epsilon, self.epsilon) + self.epsilon))
        return np.where(epsilon < -self.epsilon, 1.0, np.where(epsilon < self.epsilon, inside, 0.0))

    def nodes(self, tilt: float, frequency: float, digits: float) -> Nodes:
        """Gauss–Legendre on the spread part, where Q has density exp(−(ℓ + ε₀)/2)/4 in ℓ."""
        turns = self.epsilon * (frequency + tilt + 1)
        points, weights = legendre(int(24 + 1.1 * turns))
        spread = self.epsilon * points
        log_weights = np.log(0.25 * self.epsilon * weights) - 0.5 * (spread + self.epsilon)
        ends = np.array([-self.epsilon, self.epsilon])
        return Nodes(
            np.concatenate([log_weights, [np.log(0.5), np.log(0.5) - self.epsilon]]),
            np.concatenate([spread, ends]),
        )

    def swap(self) -> "LaplacePair":
        return self


def legendre(count: int) -> tuple[Reals, Reals]:
    """Gauss–Legendre points and weights on [−1, 1]: panels of 32 points, as many as needed."""
    points, weights = np.polynomial.legendre.leggauss(32)
    panels = max(1, -(-count // 32))
    left = np.linspace(-1, 1, panels + 1)[:-1, None]
    return (left + (points + 1) / panels).ravel(), np.tile(weights / panels, panels)


class AtomicPair(Pair):
    """A pair whose loss has countably many values, cut off to finitely many."""

    @property
    @abstractmethod
    def unmet(self) -> float:
        """Q's mass where P has none: 1 minus Q's mass at the atoms."""

    @abstractmethod
    def law(self) -> tuple[Reals, Reals]:
        """The losses in rising order, and P's mass at each."""

    def delta(self, epsilon: Reals) -> Reals:
        """Between two losses the profile is linear in y, with slope −Q[L > ε]: added up from the largest loss
        down.

        Every term is positive, so nothing cancels.
        """
        losses, _ = self.law()
        if losses.size == 0:
            return np.zeros(np.shape(epsilon))
        steep, knots = self._polygon
        after = np.searchsorted(losses, epsilon, side="right")
        place = np.minimum(after, losses.size - 1)
        value = knots[place] - steep[place] * np.expm1(np.minimum(epsilon - losses[place], 0.0))
        return np.where(after < losses.size, value, 0.0)

    @cached_property
    def _polygon(self) -> tuple[Reals, Reals]:
        """At every loss: Q[L ≥ ℓ] exp(ℓ), by which the profile rises per relative step down, and the
        profile.
        """
        losses, masses = self.law()
        steep = np.exp(np.logaddexp.accumulate((np.log(masses) - losses)[::-1])[::-1] + losses)
        falls = np.append(steep[1:] * -np.expm1(-np.diff(losses)), 0.0)
        return steep, np.cumsum(falls[::-1])[::-1]

    def tail(self, epsilon: Reals) -> Reals:
        losses, masses = self.law()
        above = np.append(np.cumsum(_reversed_masses(losses, masses)[::-1])[::-1], 0.0)
        return np.asarray(above[np.searchsorted(losses, epsilon, side="right")])

    def nodes(self, tilt: float, frequency: float, digits: float) -> Nodes:
        losses, masses = self.law()
        return Nodes(np.log(masses) - losses, losses, self.unmet, self.infinity)


@final
@dataclass(frozen=True)
class FinitePair(AtomicPair):
    """A loss with finitely many values: randomised response, and all that it dominates.

    ``masses`` are those of P; their difference to 1 is ``lost``, P's mass where Q has none. ``lost_q`` is Q's
    mass where P has none. The caller gives it, because for large losses a difference to 1 would be round-off.
    """

    losses: tuple[float, ...]
    masses: tuple[float, ...]
    lost: float = 0.0
    lost_q: float | None = None

    @property
    def unmet(self) -> float:
        if self.lost_q is not None:
            return self.lost_q
        losses, masses = self.law()
        return float(max(0.0, 1.0 - _reversed_masses(losses, masses).sum()))

    @property
    def infinity(self) -> float:
        return self.lost

    @property
    def largest_loss(self) -> float:
        return float(self.law()[0][-1]) if self.law()[0].size else 0.0

    @property
    def lattice(self) -> Lattice:
        losses, _ = self.law()
        if losses.size == 1:
            return Lattice(float(losses[0]))
        gaps = np.diff(losses)
        turns = gaps / gaps.min()
        fits = np.allclose(turns, np.round(turns), rtol=0, atol=1e-9)
        return Lattice(float(losses[0]), float(gaps.min()) if fits else None)

    def law(self) -> tuple[Reals, Reals]:
        return self._law

    @cached_property
    def _law(self) -> tuple[Reals, Reals]:
        masses = np.array(self.masses, dtype=float)
        losses, places = np.unique(np.array(self.losses, dtype=float)[masses > 0], return_inverse=True)
        return losses, np.bincount(places, masses[masses > 0], minlength=losses.size)

    def swap(self) -> "FinitePair":
        """(Q, P). Where P has mass and Q has none, the swapped loss is −∞, which needs no atom."""
        losses, masses = self.law()
        reverse = _reversed_masses(losses, masses)
        if self.lost == self.lost_q and _alike(losses, masses, reverse):
            return self
        kept = reverse > 0
        return FinitePair(_floats(-losses[kept]), _floats(reverse[kept]), self.unmet, self.lost)

    def subsample(self, rate: float) -> "FinitePair":
        """(1 − q) Q + q P against Q; where P has no mass the loss becomes ln(1 − q)."""
        if rate == 1:
            return self
        losses, masses = self.law()
        mixed = _mix_loss(losses, rate)
        joined = (1 - rate) * _reversed_masses(losses, masses) + rate * masses
        if self.unmet > 0:
            mixed = np.append(np.log1p(-rate), mixed)
            joined = np.append(self.unmet * (1 - rate), joined)
        return FinitePair(_floats(mixed), _floats(joined), rate * self.lost, 0.0)


def _floats(values: Reals) -> tuple[float, ...]:
    return tuple(values.tolist())


def _reversed_masses(losses: Reals, masses: Reals) -> Reals:
    """Q's masses, P[ℓ] exp(−ℓ), by a product where exp is a float."""
    plain = np.abs(losses) < 700
    product = masses * np.exp(np.where(plain, -losses, 0.0))
    return np.asarray(np.where(plain, product, np.exp(np.minimum(np.log(masses) - losses, 0.0))))


def _alike(losses: Reals, masses: Reals, reverse: Reals) -> bool:
    """Whether a law is its own mirror image, up to the round-off of exp."""
    unsure = 4 * np.finfo(float).eps * (1 + np.abs(losses).max(initial=0.0))
    return bool(
        np.all(np.abs(losses + losses[::-1]) <= unsure * np.abs(losses))
        and np.all(np.abs(masses - reverse[::-1]) <= unsure * reverse[::-1])
    )


def _mix_loss(loss: Reals, rate: float) -> Reals:
    """ln(1 − q + q exp ℓ) without loss of digits at either end."""
    even = -np.log(rate)  # where q exp ℓ = 1
    small = np.log1p(rate * np.expm1(np.minimum(loss, even)))
    large = loss - even + np.log1p((1 - rate) * np.exp(even - np.maximum(loss, even)))
    return np.asarray(np.where(loss > even, large, small))


@final
@dataclass(frozen=True)
class DiscreteGaussianPair(AtomicPair):
    """The discrete Gaussian around ``shift`` against that around 0; symmetric.

    The loss (2x − shift)·shift/(2σ²) is linear in x, so it lies on a grid. Tails below 1e-300 are cut off.
    """

    scale: float
    shift: int

    @property
    def lattice(self) -> Lattice:
        return Lattice(-0.5 * (self.shift / self.scale) ** 2, self.shift / self.scale**2)

    @property
    def unmet(self) -> float:
        return _discrete_gaussian(self.scale, self.shift)[2]

    def law(self) -> tuple[Reals, Reals]:
        losses, masses, _ = _discrete_gaussian(self.scale, self.shift)
        return losses, masses

    def nodes(self, tilt: float, frequency: float, digits: float) -> Nodes:
        """Every k-th atom, k times as heavy, where the sum over the atoms is itself a fine trapezoid rule.

        By Poisson summation both sums differ from the integral by less than the rule's accuracy.
        """
        losses, masses = self.law()
        stride = int(2 * np.pi * self.scale / (frequency * self.shift / self.scale + np.sqrt(2 * digits)))
        if stride < 2:
            return super().nodes(tilt, frequency, digits)
        losses, masses = losses[::stride], masses[::stride]
        return Nodes(np.log(masses) - losses + np.log(stride), losses, self.unmet, self.infinity)

    def swap(self) -> "DiscreteGaussianPair":
        return self


@lru_cache(maxsize=8)
def _discrete_gaussian(scale: float, shift: int) -> tuple[Reals, Reals, float]:
    """The losses, P's masses, and Q's mass left of them, where P's is below 1e-300."""
    reach = int(37.1 * scale)
    x = np.arange(-reach, reach + 1)
    heights = np.exp(-0.5 * (x / scale) ** 2)
    total = heights.sum()
    unmet = float(heights[x < shift - reach].sum() / total)
    return (2 * x + shift) * (0.5 * shift / scale**2), heights / total, unmet


@final
@dataclass(frozen=True)
class DiscreteLaplacePair(AtomicPair):
    """The two-sided geometric law around ``shift`` against that around 0; symmetric.

    The loss is (|x| − |x − shift|)/scale: ± shift/scale in the tails, and in steps of 2/scale between.
    """

    scale: float
    shift: int

    @property
    def lattice(self) -> Lattice:
        return Lattice(-self.largest_loss, 2 / self.scale)

    @property
    def largest_loss(self) -> float:
        return self.shift / self.scale

    @property
    def unmet(self) -> float:
        return 0.0

    def law(self) -> tuple[Reals, Reals]:
        return self._law

    @cached_property
    def _law(self) -> tuple[Reals, Reals]:
        steps = np.arange(self.shift + 1)
        masses = np.exp(-(self.shift - steps) / self.scale) / (1 + np.exp(-1 / self.scale))
        masses[1:-1] *= -np.expm1(-1 / self.scale)
        held = masses > 0
        return ((2 * steps - self.shift) / self.scale)[held], masses[held]

    def swap(self) -> "DiscreteLaplacePair":
        return self


def randomized_response(epsilon: float, delta: float = 0.0) -> FinitePair:
    """The pair that dominates every (ε, δ)-DP mechanism, and is dominated by none of them.

    Reference: Kairouz, Oh & Viswanath 2015, Section 3 (the mechanism "M̃").
    """
    if epsilon == 0:
        return FinitePair((0.0,), (1 - delta,), delta, delta)
    high = (1 - delta) / (1 + math.exp(-epsilon))
    return FinitePair((epsilon, -epsilon), (high, high * math.exp(-epsilon)), delta, delta)
