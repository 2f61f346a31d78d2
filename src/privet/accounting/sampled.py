"""Pairs of mechanisms that saw a random sample.

With a base pair (P, Q), P the side that holds the unit, and a sampling rate q:

* ``SampledPair``     (1 − q) Q + q P  against  Q: the unit is removed.
* ``SampledSwapped``  Q  against  (1 − q) Q + q P: the unit is added.
* ``FixedSizePair``   the profile of the first for ε ≥ 0 and of the swapped second for ε < 0: a fixed-size
  sample under replace-one adjacency, with (P, Q) dominating the base under replace-one.
* ``ReplacedGaussianPair``  (1 − q) N(0) + q N(μ)  against  (1 − q) N(0) + q N(−μ): a Poisson sample of
  a Gaussian sum under replace-one adjacency.

Reference: Zhu, Dong & Wang 2022, Theorem 11 (Poisson add/remove) and its fixed-size form (Proposition 30);
Lebeda, Regehr, Kamath & Steinke 2024 (both directions are needed; Poisson under substitution).
"""

from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, ndtr, ndtri

from privet.accounting.pairs import (
    GaussianPair,
    LaplacePair,
    Lattice,
    Nodes,
    Pair,
    Reals,
    gaussian_nodes,
    legendre,
)
from privet.errors import OutOfReach

__all__ = ["FixedSizePair", "ReplacedGaussianPair", "SampledPair", "SampledSwapped"]


@final
@dataclass(frozen=True)
class SampledPair(Pair):
    """(1 − q) Q + q P against Q."""

    base: Pair
    rate: float
    cut: "Cut | None" = None  # Gaussian base: outcomes beyond it count as an infinite loss

    @property
    def infinity(self) -> float:
        beyond = 0.0
        if isinstance(self.base, GaussianPair) and self.cut is not None:
            beyond = _mixture(self.cut.beyond(), self.cut.beyond(self.base.mu), self.rate)
        return self.rate * self.base.infinity + beyond

    @property
    def lattice(self) -> Lattice | None:
        return _mixed_lattice(self.base, self.rate, 1)

    @property
    def largest_loss(self) -> float | None:
        return _mixed_bound(self.base.largest_loss, self.rate)

    @property
    def smooth(self) -> bool:
        return self.base.smooth

    def delta(self, epsilon: Reals) -> Reals:
        """q δ_base(ln(1 + (exp ε − 1)/q)) where that is defined, else 1 − exp ε (Balle et al. 2018)."""
        inner, covered = _unmix_loss(epsilon, self.rate)
        value = self.rate * self.base.delta(inner)
        # Without the base's mass at infinity P has 1 − q·lost in all.
        rest = -np.expm1(np.minimum(epsilon, 0.0)) - self.infinity
        return np.where(covered, value, np.maximum(rest, 0.0))

    def tail(self, epsilon: Reals) -> Reals:
        inner, covered = _unmix_loss(epsilon, self.rate)
        return np.where(covered, self.base.tail(inner), 1.0)

    def nodes(self, tilt: float, frequency: float, digits: float) -> Nodes | None:
        if isinstance(self.base, GaussianPair):
            rule = _gaussian_mixture_nodes(self.base.mu, self.rate, tilt + 1, frequency, digits, self.cut)
            if rule is None:
                return None
            left_out = 0.0 if self.cut is None else self.cut.beyond()
            return rule._replace(missing_q=left_out, missing_p=self.infinity)
        return _remix(self.base.nodes(tilt, frequency, digits), self.rate)

    def cap(self, mass: float, edge: float) -> "SampledPair":
        if not isinstance(self.base, GaussianPair):
            return self
        return SampledPair(self.base, self.rate, _cut(self.base.mu, self.rate, mass, edge))

    def swap(self) -> "SampledSwapped":
        return SampledSwapped(self.base, self.rate)


@final
@dataclass(frozen=True)
class SampledSwapped(Pair):
    """Q against (1 − q) Q + q P; its loss is at most −ln(1 − q)."""

    base: Pair
    rate: float

    @property
    def lattice(self) -> Lattice | None:
        return _mixed_lattice(self.base, self.rate, -1)

    @property
    def largest_loss(self) -> float | None:
        lowest = self.base.swap().largest_loss
        if lowest is None:
            return -float(np.log1p(-self.rate)) if self.rate < 1 else None
        return -_mixed_at(-lowest, self.rate)

    @property
    def smooth(self) -> bool:
        return self.base.smooth

    def delta(self, epsilon: Reals) -> Reals:
        """(1 − exp(ε)(1 − q)) H_β(Q ‖ P) with β = q exp(ε) / (1 − exp(ε)(1 − q))."""
        if self.rate == 1:
            return self.base.swap().delta(epsilon) + self.base.swap().infinity
        # ln of exp(−ε) − (1 − q) over q, which is the base's loss at which the sign changes
        inner, covered = _unmix_loss(-epsilon, self.rate)
        factor = self.rate * np.exp(np.minimum(epsilon + inner, 700.0))
        swapped = self.base.swap()
        value = factor * (swapped.delta(-inner) + swapped.infinity)
        return np.where(covered, value, 0.0)

    def tail(self, epsilon: Reals) -> Reals:
        """((1 − q) Q + q P)[ℓ < ℓ*], ℓ* being where the mixture's loss is −ε."""
        inner, covered = _unmix_loss(-epsilon, self.rate)
        swapped = self.base.swap()
        held = swapped.tail(-inner)
        other = swapped.delta(-inner) + swapped.infinity + np.exp(np.minimum(-inner, 700.0)) * held
        return np.where(covered, (1 - self.rate) * other + self.rate * held, 0.0)

    def nodes(self, tilt: float, frequency: float, digits: float) -> Nodes | None:
        if isinstance(self.base, GaussianPair):
            rule = _gaussian_mixture_nodes(self.base.mu, self.rate, -tilt, frequency, digits, None)
        else:
            rule = _remix(self.base.nodes(tilt, frequency, digits), self.rate)
        return None if rule is None else _turn_rule(rule)

    def swap(self) -> SampledPair:
        return SampledPair(self.base, self.rate)


@final
@dataclass(frozen=True)
class FixedSizePair(Pair):
    """A fixed-size sample under replace-one adjacency; symmetric, with an atom at 0."""

    base: Pair
    rate: float
    cut: float = np.inf  # Gaussian base: outcomes beyond it count as an infinite loss

    @property
    def infinity(self) -> float:
        beyond = 0.0
        if isinstance(self.base, GaussianPair) and self.cut < np.inf:
            beyond = _mixture(float(ndtr(-self.cut)), float(ndtr(self.base.mu - self.cut)), self.rate)
        return self.rate * self.base.infinity + beyond

    @property
    def lattice(self) -> Lattice:
        return Lattice(0.0)

    @property
    def largest_loss(self) -> float | None:
        return _mixed_bound(self.base.largest_loss, self.rate)

    @property
    def smooth(self) -> bool:
        return self.base.smooth

    def delta(self, epsilon: Reals) -> Reals:
        gained = SampledPair(self.base, self.rate).delta(np.maximum(epsilon, 0.0))
        # H_y(P‖Q) = 1 − y + y H_{1/y}(Q‖P) carries the profile to ε < 0.
        mirrored = SampledPair(self.base, self.rate).delta(np.maximum(-epsilon, 0.0))
        low = np.exp(np.minimum(epsilon, 0.0))
        lost = self.infinity
        below = -np.expm1(np.minimum(epsilon, 0.0)) - lost + low * (mirrored + lost)
        return np.where(epsilon >= 0, gained, np.maximum(below, 0.0))

    def tail(self, epsilon: Reals) -> Reals:
        size = np.abs(epsilon)
        pair = SampledPair(self.base, self.rate)
        above = pair.tail(size)
        mirrored = 1.0 - pair.delta(size) - pair.infinity - np.exp(np.minimum(size, 700.0)) * above
        return np.where(epsilon >= 0, above, mirrored)

    def nodes(self, tilt: float, frequency: float, digits: float) -> Nodes | None:
        """The losses above 0 of the sampled pair, the same losses below 0, and the rest at 0."""
        if not isinstance(self.base, GaussianPair) or self.rate == 1:
            return None
        mu, reach = self.base.mu, np.sqrt(2 * digits)
        start, stop = 0.5 * mu, min(max((tilt + 1) * mu, 0.5 * mu) + reach + mu, self.cut)
        count = (stop - start) * (6 + frequency * mu) * 1.5
        if count > 40_000:
            return None
        points, weights = legendre(int(64 + count))
        z = start + 0.5 * (stop - start) * (points + 1)
        rule = gaussian_nodes(z, 1.0, mu)
        log_weights = rule.log_weights + np.log(0.5 * (stop - start) * weights)
        up = _mix_loss(rule.losses, self.rate)
        # Under the mirrored branch P and Q change places: Q's weight there is P's weight here.
        log_weights = np.concatenate([log_weights, log_weights + up])
        losses = np.concatenate([up, -up])
        # The rest is the atom at 0. The part that is cut off is missing at both ends of P and of Q.
        far_p, far_q = self.infinity, float(ndtr(-self.cut))
        rest = max(1.0 - float(np.exp(log_weights).sum()) - far_q - far_p, 1e-300)
        return Nodes(
            np.append(log_weights, np.log(rest)), np.append(losses, 0.0), far_q + far_p, far_p + far_q
        )

    def cap(self, mass: float, edge: float) -> "FixedSizePair":
        if not isinstance(self.base, GaussianPair):
            return self
        return FixedSizePair(self.base, self.rate, _cut(self.base.mu, self.rate, mass, edge).place)

    def swap(self) -> "FixedSizePair":
        return self


@final
@dataclass(frozen=True)
class ReplacedGaussianPair(Pair):
    """(1 − q) N(0, 1) + q N(μ, 1) against (1 − q) N(0, 1) + q N(−μ, 1); symmetric."""

    mu: float
    rate: float
    cut: "Cut | None" = None  # outcomes beyond it count as an infinite loss

    @property
    def infinity(self) -> float:
        if self.cut is None:
            return 0.0
        return _mixture(self.cut.beyond(), self.cut.beyond(self.mu), self.rate)

    @property
    def smooth(self) -> bool:
        return True

    def delta(self, epsilon: Reals) -> Reals:
        """The loss rises in x, so the sign of dP − exp(ε) dQ changes at the root of a quadratic."""
        if self.rate == 1:
            return GaussianPair(2 * self.mu).delta(epsilon)
        size = np.abs(epsilon)
        x = self._place(size)
        above = self._delta_at(x, size)
        low = np.exp(-size)
        return np.where(epsilon >= 0, above, -np.expm1(-size) + low * above)

    def tail(self, epsilon: Reals) -> Reals:
        if self.rate == 1:
            return GaussianPair(2 * self.mu).tail(epsilon)
        size = np.abs(epsilon)
        x = self._place(size)
        above = (1 - self.rate) * ndtr(-x) + self.rate * ndtr(-self.mu - x)
        mirrored = 1.0 - self._delta_at(x, size) - np.exp(np.minimum(size, 700.0)) * above
        return np.where(epsilon >= 0, above, mirrored)

    def _place(self, epsilon: Reals) -> Reals:
        """Where the loss is ε ≥ 0: (1−q) + q a E = y ((1−q) + q a / E), E = exp(μ x), a = exp(−μ²/2)."""
        log_a = np.log(self.rate) - 0.5 * self.mu**2 - np.log1p(-self.rate)
        y = np.exp(np.minimum(epsilon, 600.0))
        half = 0.5 * y * np.exp(-log_a) * -np.expm1(-epsilon)
        return np.asarray(np.log(half + np.hypot(half, np.sqrt(y))) / self.mu)

    def _delta_at(self, x: Reals, epsilon: Reals) -> Reals:
        """H = Σ over the mixture parts of the normal tails beyond x, paired so that little cancels."""
        plus, zero, minus = ndtr(self.mu - x), ndtr(-x), ndtr(-self.mu - x)
        with np.errstate(over="ignore", invalid="ignore"):
            value = self.rate * (plus - np.exp(epsilon) * minus) - (1 - self.rate) * np.expm1(epsilon) * zero
        return np.maximum(np.nan_to_num(value), 0.0)

    def nodes(self, tilt: float, frequency: float, digits: float) -> Nodes:
        """Trapezoid rule in x, with Q's density (1 − q) φ(x) + q φ(x + μ)."""
        reach = np.sqrt(2 * digits)
        top = max((tilt + 1) * self.mu, self.mu) + reach + self.mu
        top = top if self.cut is None else min(top, self.cut.place + 2 * reach)
        step = _step(self.mu, 2 * self.mu, frequency, digits, cut=self.cut)
        x = np.arange(-self.mu - reach - (tilt + 1) * self.mu, top, step)
        up = _mix_loss(self.mu * (x - 0.5 * self.mu), self.rate)
        down = _mix_loss(-self.mu * (x + 0.5 * self.mu), self.rate)
        log_weights = -0.5 * x * x + np.log(step / np.sqrt(2 * np.pi)) + down + _log_kept(x, self.cut)
        far_q = 0.0
        if self.cut is not None:
            far_q = _mixture(self.cut.beyond(), self.cut.beyond(-self.mu), self.rate)
        return Nodes(log_weights, up - down, far_q, self.infinity)

    def cap(self, mass: float, edge: float) -> "ReplacedGaussianPair":
        return ReplacedGaussianPair(self.mu, self.rate, _cut(self.mu, self.rate, mass, edge))

    def swap(self) -> "ReplacedGaussianPair":
        return self


def _mixed_bound(loss: float | None, rate: float) -> float | None:
    return None if loss is None else _mixed_at(loss, rate)


def _mixed_lattice(base: Pair, rate: float, sign: int) -> Lattice | None:
    """Both atoms of a sampled Laplace pair; other bases have none, or are atomic themselves."""
    if not isinstance(base, LaplacePair):
        return None
    low, high = _mixed_at(-base.epsilon, rate), _mixed_at(base.epsilon, rate)
    return Lattice(sign * high, high - low)


def _mix_loss(loss: Reals, rate: float) -> Reals:
    """ln(1 − q + q exp ℓ) without loss of digits at either end."""
    if rate == 1:
        return np.asarray(loss)
    even = -np.log(rate)  # where q exp ℓ = 1
    small = np.log1p(rate * np.expm1(np.minimum(loss, even)))
    large = loss - even + np.log1p((1 - rate) * np.exp(even - np.maximum(loss, even)))
    return np.asarray(np.where(loss > even, large, small))


def _mixed_at(loss: float, rate: float) -> float:
    return float(_mix_loss(np.array(loss), rate))


def _unmix_loss(epsilon: Reals, rate: float) -> tuple[Reals, NDArray[np.bool_]]:
    """The ℓ with ln(1 − q + q exp ℓ) = ε, and where there is one."""
    ratio = np.expm1(np.minimum(epsilon, 1.0)) / rate
    covered = ratio > -1.0
    small = np.log1p(np.where(covered, ratio, 0.0))
    if rate == 1:
        return np.asarray(epsilon), np.ones(np.shape(epsilon), dtype=bool)
    large = epsilon - np.log(rate) + np.log1p(-(1 - rate) * np.exp(-np.maximum(epsilon, 1.0)))
    return np.where(epsilon > 1.0, large, small), covered


def _remix(rule: Nodes | None, rate: float) -> Nodes | None:
    return None if rule is None else rule._replace(losses=_mix_loss(rule.losses, rate))


def _turn_rule(rule: Nodes) -> Nodes:
    """The rule of (Q, P) from that of (P, Q)."""
    return Nodes(rule.log_weights + rule.losses, -rule.losses, rule.missing_p, rule.missing_q)


class Cut(NamedTuple):
    """A soft cut: an outcome z is kept with probability Φ((place − z)/edge).

    A soft edge keeps the trapezoid rule exact; a narrow one also stops very large losses behind it.
    """

    place: float
    edge: float

    def beyond(self, mean: float = 0.0) -> float:
        """The mass of N(mean, 1) that is not kept."""
        return float(ndtr((mean - self.place) / np.sqrt(1 + self.edge**2)))


def _log_kept(z: Reals, cut: Cut | None) -> Reals:
    """ln of the share of an outcome that is kept."""
    return np.zeros_like(z) if cut is None else np.asarray(log_ndtr((cut.place - z) / cut.edge))


def _cut(mu: float, rate: float, mass: float, edge: float) -> Cut:
    """Where to cut so that at most ``mass`` of (1 − q) N(0, 1) + q N(μ, 1) is beyond."""
    mass = max(mass, 1e-300)
    spread = np.sqrt(1 + edge**2)
    in_sample = mu - ndtri(min(0.5 * mass / rate, 0.5)) * spread
    return Cut(float(max(in_sample, -ndtri(min(0.5 * mass, 0.5)) * spread)), edge)


def _mixture(outside: float, inside: float, rate: float) -> float:
    return float((1 - rate) * outside + rate * inside)


def _step(
    mu: float, slope: float, frequency: float, digits: float, power: float = 1.0, cut: Cut | None = None
) -> float:
    """A trapezoid step whose error is at most exp(−digits) · E_Q Λ^power.

    Moving the path by i·a multiplies the normal density by exp(a²/2), and the edge of a cut of width w by at
    most exp(a²/2w²), and turns Λ by at most a·slope, as long as θ = a·μ < π, where Λ has its nearest zero.
    |Λ| becomes no larger, and no smaller than Λ cos(θ/2) ≥ Λ exp(−0.15 θ²) for θ ≤ π/2, which matters for
    negative powers. The error is then at most 2 exp(v a²/2 + a·slope·frequency − 2πa/step), with
    v = 1 [+ 0.3 |power| μ²] [+ 1/w²]. The best a is taken.
    """
    strip, spread = (0.9 * np.pi / mu, 1.0) if power >= 0 else (0.5 * np.pi / mu, 1 - 0.3 * power * mu**2)
    spread += 0.0 if cut is None else max(cut.edge, 0.03) ** -2  # sharper edges serve searches only
    free = np.sqrt(2 * digits / spread)
    room = free * spread if free <= strip else digits / strip + 0.5 * spread * strip
    return float(2 * np.pi / (slope * frequency + room))


def _gaussian_mixture_nodes(
    mu: float, rate: float, power: float, frequency: float, digits: float, cut: Cut | None
) -> Nodes | None:
    """A rule for E_Q Λ^(power + it), Λ = 1 − q + q exp(μ z − μ²/2), z ~ N(0, 1), |t| ≤ frequency."""
    low, high = _support(mu, rate, power, digits, cut)
    # |dL/dz| at the far end bounds how fast exp(itL) turns; a factor 2 covers the shifted path.
    loss = mu * (high - 0.5 * mu)
    share = np.exp(np.log(rate) + loss - _mixed_at(loss, rate))
    step = _step(mu, float(min(mu, 2 * mu * share)), frequency, digits, power, cut)
    if (high - low) / step > 200_000:
        return None
    z = np.arange(low, high + step, step)
    base = gaussian_nodes(z, step, mu)
    return Nodes(base.log_weights + _log_kept(z, cut), _mix_loss(base.losses, rate))


def _support(mu: float, rate: float, power: float, digits: float, cut: Cut | None) -> tuple[float, float]:
    """Where φ(z) Λ(z)^power is above exp(−digits) of its maximum, and all of P and Q.

    The weight can have two humps, one near 0 (the unit was not sampled) and one near power · μ (it was).
    P and Q must be inside as well, for E_Q Λ = 1 to hold for the rule.
    """
    reach, far = np.sqrt(2 * digits), abs(power) * mu
    spread = np.sinh(np.linspace(0.0, np.arcsinh(far + reach), 64))
    near = np.linspace(-2 * reach, 2 * reach, 33)
    z = np.sort(np.concatenate([near, np.copysign(spread, power), power * mu + near]))
    height = -0.5 * z * z + power * _mix_loss(mu * (z - 0.5 * mu), rate) + _log_kept(z, cut)
    height = np.nan_to_num(height, nan=-np.inf)
    kept = np.flatnonzero(height >= height.max() - digits)
    if kept.size == 0:
        raise OutOfReach(
            "The losses of one step must stay within float64, and do not. Give less extreme parameters."
        )
    first, last = max(kept[0] - 1, 0), min(kept[-1] + 1, z.size - 1)
    return min(float(z[first]), -reach), max(float(z[last]), mu + reach)
