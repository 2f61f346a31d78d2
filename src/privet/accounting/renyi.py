"""Accountants that keep a bound on moments only: Rényi DP, zero-concentrated DP, and Gaussian DP.

They are never tighter than the privacy-loss distribution of the same pairs, with one exception: they can use
the bounded range of the exponential mechanism. Concentrated DP, and Rényi DP at *one* order, are also valid
if the *parameters* of later events depend on earlier answers (Feldman & Zrnic 2021), as long as the total
stays within a budget that was fixed in advance (``filtering``). The best order afterwards, which ``Renyi``
takes, is not valid then.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np
from scipy.optimize import minimize_scalar

from privet import events
from privet.accounting.atoms import gaussian_pair, lattice_shift, leaf
from privet.accounting.composed import delta_bounds, epsilon_bounds
from privet.accounting.contour import chernoff_peak, solve
from privet.accounting.cumulant import Composition, Derivatives, derivatives
from privet.accounting.fold import Accountant
from privet.accounting.gridded import loss_range
from privet.accounting.noise_shares import concentrate
from privet.accounting.pairs import GaussianPair, Pair
from privet.accounting.privacy_loss import PrivacyLoss, Spent
from privet.adjacency import Adjacency
from privet.bounds import Interval
from privet.caveats import Caveat
from privet.errors import NotProved, OutOfReach
from privet.events import Event
from privet.guarantees import Curve

__all__ = ["Concentrated", "GaussianDP", "Renyi", "RenyiCurve", "check_moments"]


@final
@dataclass(frozen=True)
class RenyiCurve(Curve):
    """min over orders α = 1 + c of the bound that a moment gives, over all real c > 0.

    ln δ ≤ K(c) − c ε + c ln c − (1 + c) ln(1 + c), K(c) = c · Σ RDP(1 + c).

    Reference: Canonne, Kamath & Steinke 2020, Proposition 12. The lower bound is 0: a moment proves none.
    """

    ways: tuple[Composition, ...]

    def delta(self, epsilon: float) -> Interval:
        return Interval(0.0, max(self._delta(way, epsilon) for way in self.ways))

    def epsilon(self, delta: float) -> Interval:
        if delta <= 0:
            raise NotProved(
                "'delta' must be above 0 for a bound from moments, got 0. Ask at a δ far below 1/n."
            )
        return Interval(0.0, max(self._epsilon(way, delta) for way in self.ways))

    def _delta(self, way: Composition, epsilon: float) -> float:
        if not way.parts:
            return 0.0

        def gradient(c: float, k: Derivatives) -> tuple[float, float]:
            slope = c * (k.slope - epsilon + np.log(c / (1 + c)))
            return slope, c * c * (k.curvature + 1 / (c * (1 + c))) + max(slope, 0.0)

        found = solve(way, gradient)
        if found is None:
            raise _no_moment()
        level = _least(way, found[0], lambda c, k: k.value - c * epsilon + chernoff_peak(c))
        return min(float(np.exp(min(level, 0.0))) + way.infinity, 1.0)

    def _epsilon(self, way: Composition, delta: float) -> float:
        if not way.parts:
            return 0.0
        if delta <= way.infinity:
            raise NotProved(
                f"'delta' must be above {way.infinity:.6g}, got {delta:g}, because with that probability the "
                f"losses have no bound. Ask at a larger δ."
            )
        wanted = -float(np.log(delta - way.infinity))

        def gradient(c: float, k: Derivatives) -> tuple[float, float]:
            slope = c * (k.slope + np.log(c / (1 + c))) - (k.value + chernoff_peak(c)) - wanted
            return slope, c * c * (k.curvature + 1 / (c * (1 + c)))

        found = solve(way, gradient)
        if found is None:
            raise _no_moment()
        return max(_least(way, found[0], lambda c, k: (k.value + chernoff_peak(c) + wanted) / c), 0.0)


_TOO_LARGE = 1e300  # for a moment that overflows; the search would divide by infinity


def _least(way: Composition, near: float, bound: Callable[[float, Derivatives], float]) -> float:
    """The smallest bound over orders close to the result of Newton's steps. Each of these bounds is valid.

    Where moments grow very fast just above the best order, an order that is off by three percent costs a
    percent of ε.
    """

    def at(position: float) -> float:
        k = derivatives(way, float(np.exp(position)))
        return _TOO_LARGE if k is None else bound(float(np.exp(position)), k)

    start = float(np.log(near))
    around = minimize_scalar(at, bounds=(start - 0.1, start + 0.1), method="bounded", options={"xatol": 1e-4})
    return float(min(at(start), around.fun))


@final
@dataclass(frozen=True)
class Renyi(Accountant[Spent]):
    """Rényi differential privacy at every real order (Mironov 2017), the moments accountant of DP-SGD."""

    name: ClassVar[str] = "Rényi"

    def zero(self) -> Spent:
        return Spent()

    def atom(self, event: Event, adjacency: Adjacency) -> Spent:
        if isinstance(event, events.ExponentialMechanism):
            # ε²/8-zCDP (Cesar & Rogers 2021, Theorem 1), which is a Gaussian pair with μ = ε/2
            return Spent({gaussian_pair(0.5 * event.epsilon): 1})
        if isinstance(event, events.DiscreteGaussianShares):
            # ρ-zCDP has the moments of a Gaussian pair with μ = √(2ρ)
            concentrated = gaussian_pair(math.sqrt(2 * concentrate(event, adjacency)))
            return Spent({concentrated: 1}, {}, frozenset({Caveat.LOOSE_LOWER_BOUND}))
        return PrivacyLoss().atom(event, adjacency)

    def join(self, first: Spent, second: Spent) -> Spent:
        return PrivacyLoss().join(first, second)

    def join_all(self, costs: Sequence[Spent]) -> Spent:
        return PrivacyLoss().join_all(costs)

    def power(self, cost: Spent, times: int) -> Spent:
        return PrivacyLoss().power(cost, times)

    def worst(self, first: Spent, second: Spent) -> Spent:
        return PrivacyLoss().worst(first, second)

    def worst_of(self, costs: Sequence[Spent]) -> Spent:
        return PrivacyLoss().worst_of(costs)

    def curve(self, cost: Spent) -> Curve:
        way = Composition.of(cost.upper)
        both = (way, way.swap())
        for pair in (pair for composition in both for pair, _ in composition.parts):
            check_moments(pair)
        return RenyiCurve(both)

    def caveats(self, cost: Spent) -> frozenset[Caveat]:
        # The best order is chosen afterwards, which is valid only for totals that were fixed before.
        return cost.caveats | {Caveat.LOOSE_LOWER_BOUND, Caveat.FIXED_PARAMETERS}


@final
@dataclass(frozen=True)
class Concentrated(Accountant[float]):
    """ρ-zero-concentrated DP (Bun & Steinke 2016): Gaussian μ²/2, ε-DP ε²/2, exponential mechanism ε²/8."""

    name: ClassVar[str] = "zero-concentrated"

    def zero(self) -> float:
        return 0.0

    def atom(self, event: Event, adjacency: Adjacency) -> float:
        match event:
            case events.ExponentialMechanism(epsilon=epsilon):
                return 0.5 * gaussian_pair(0.5 * epsilon).mu ** 2
            case events.DiscreteGaussian(scale, contribution):
                # Canonne, Kamath & Steinke 2020, Theorem 4
                return 0.5 * gaussian_pair(lattice_shift(contribution, adjacency) / scale).mu ** 2
            case events.DiscreteGaussianShares():
                return concentrate(event, adjacency)
            case events.Poisson() | events.FixedSize():
                raise NotProved(
                    "Concentrated DP is not amplified by sampling. Use the privacy-loss or the Rényi "
                    "accountant."
                )
        pair = leaf(event, adjacency).upper
        if isinstance(pair, GaussianPair):
            return 0.5 * pair.mu**2
        loss = pair.largest_loss
        other = pair.swap().largest_loss
        if loss is None or other is None or pair.infinity:
            raise NotProved(
                f"{type(event).__name__} is not concentrated DP. Use the privacy-loss accountant."
            )
        return 0.5 * max(loss, other) ** 2

    def join(self, first: float, second: float) -> float:
        return first + second

    def power(self, cost: float, times: int) -> float:
        return cost * times

    def worst(self, first: float, second: float) -> float:
        return max(first, second)

    def curve(self, cost: float) -> Curve:
        parts: Mapping[Pair, int] = {GaussianPair(float(np.sqrt(2.0 * cost))): 1} if cost else {}
        return RenyiCurve((Composition.of(parts),))

    def caveats(self, cost: float) -> frozenset[Caveat]:
        return frozenset({Caveat.LOOSE_LOWER_BOUND})


@final
@dataclass(frozen=True)
class GaussianDPCurve(Curve):
    """μ-GDP: the profile of N(μ, 1) against N(0, 1)."""

    way: Composition

    def delta(self, epsilon: float) -> Interval:
        return delta_bounds(self.way, epsilon)

    def epsilon(self, delta: float) -> Interval:
        if delta <= 0:
            raise NotProved(
                "'delta' must be above 0 for Gaussian noise, got 0, because its loss has no bound. "
                "Ask at a δ far below 1/n."
            )
        return epsilon_bounds(self.way, delta)


@final
@dataclass(frozen=True)
class GaussianDP(Accountant[float]):
    """μ-Gaussian DP (Dong, Roth & Su 2022): exact for Gaussian noise, refused for all else.

    The central limit theorem for sampled Gaussians is an approximation that can be too small; it is not used.
    """

    name: ClassVar[str] = "Gaussian DP"

    def zero(self) -> float:
        return 0.0

    def atom(self, event: Event, adjacency: Adjacency) -> float:
        if not isinstance(event, events.Gaussian | events.BandedNoise | events.TreeNoise):
            raise NotProved(
                f"{type(event).__name__} is not exactly Gaussian DP. Use the privacy-loss accountant."
            )
        pair = leaf(event, adjacency).upper
        return pair.mu**2 if isinstance(pair, GaussianPair) else 0.0

    def join(self, first: float, second: float) -> float:
        return first + second

    def power(self, cost: float, times: int) -> float:
        return cost * times

    def worst(self, first: float, second: float) -> float:
        return max(first, second)

    def curve(self, cost: float) -> Curve:
        parts: Mapping[Pair, int] = {GaussianPair(float(np.sqrt(cost))): 1} if cost else {}
        return GaussianDPCurve(Composition.of(parts))

    def caveats(self, cost: float) -> frozenset[Caveat]:
        return frozenset({Caveat.IDEALISED_REALS})


def check_moments(pair: Pair) -> None:
    """Refuse extreme losses of a pair that has only its profile: its moments come from its law on a grid,
    whose round-off grows as exp(−loss).
    """
    if isinstance(pair, GaussianPair) or pair.nodes(1.0, 0.0, 46.0) is not None:
        return
    low, high = loss_range(pair, 1e-40)
    if low < -16 or high > 300:
        raise NotProved(
            "Moments of parallel or sampled parts are certified for losses between −16 and 300, and these "
            f"reach from {low:.3g} to {high:.3g}. Use the privacy-loss accountant."
        )


def _no_moment() -> OutOfReach:
    return OutOfReach("No moment of these losses is finite in float64. Add noise, or ask at a larger δ.")
