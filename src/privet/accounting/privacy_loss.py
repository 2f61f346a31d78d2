"""The accountant of privacy-loss distributions: exact up to a certified gap, for every event with a pair."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import ClassVar, final

import numpy as np

from privet.accounting.atoms import Atom, fixed_size, leaf, poisson, restate_for_exchange, visible_sample
from privet.accounting.best_of import best_of, law_of
from privet.accounting.collapsed import as_pair
from privet.accounting.composed import (
    chernoff_delta,
    delta_bounds,
    epsilon_bounds,
    largest_loss,
    sight_delta,
)
from privet.accounting.cumulant import Composition, derivatives
from privet.accounting.envelopes import largest
from privet.accounting.fold import Accountant, fold, require_costs
from privet.accounting.lattice import Grid, compose
from privet.accounting.noise_shares import dominate_shares
from privet.accounting.pairs import FinitePair, Pair
from privet.accounting.tabulated import TabulatedProfile
from privet.accounting.zeroed import adds_contributions, answers_each, shows_who, zeroed_is_absent
from privet.adjacency import AddRemove, Adjacency, ReplaceOne, ZeroOut
from privet.bounds import Interval, enclosure
from privet.caveats import Caveat
from privet.errors import NotProved
from privet.events import (
    BestOfNegativeBinomial,
    BestOfPoisson,
    DiscreteGaussianShares,
    Event,
    FixedSize,
    Poisson,
)
from privet.guarantees import Curve, LossHistogram

__all__ = ["PrivacyLoss", "PrivacyLossCurve", "Spent"]


@final
@dataclass(frozen=True)
class Spent:
    """How often each pair occurs, from above and from below."""

    upper: Mapping[Pair, int] = field(default_factory=lambda: MappingProxyType({}))
    lower: Mapping[Pair, int] = field(default_factory=lambda: MappingProxyType({}))
    caveats: frozenset[Caveat] = frozenset()


@final
@dataclass(frozen=True)
class PrivacyLoss(Accountant[Spent]):
    """Products of dominating pairs (Zhu, Dong & Wang 2022, Theorem 10), added up numerically."""

    name: ClassVar[str] = "privacy-loss distribution"

    def zero(self) -> Spent:
        return Spent()

    def atom(self, event: Event, adjacency: Adjacency) -> Spent:
        match event:
            case Poisson(1, inner):
                return fold(self, inner, adjacency)
            case Poisson(rate, inner):
                found = self._poisson(inner, rate, adjacency)
            case FixedSize(size, population, inner):
                found = self._fixed_size(inner, size, population, adjacency)
            case BestOfPoisson(candidates) | BestOfNegativeBinomial(candidates):
                runs = self.worst_of([fold(self, run, adjacency) for run in dict.fromkeys(candidates)])
                found = best_of(_as_atom(runs), law_of(event))
            case DiscreteGaussianShares():
                pairs = dominate_shares(event, adjacency)
                return Spent(dict.fromkeys(pairs, 1), {}, frozenset({Caveat.LOOSE_LOWER_BOUND}))
            case _:
                found = leaf(event, adjacency)
        return Spent({found.upper: 1}, {found.lower: 1}, found.caveats)

    def join(self, first: Spent, second: Spent) -> Spent:
        return self.join_all((first, second))

    def join_all(self, costs: Sequence[Spent]) -> Spent:
        upper: dict[Pair, int] = {}
        lower: dict[Pair, int] = {}
        caveats: set[Caveat] = set()
        for cost in costs:
            for total, counts in ((upper, cost.upper), (lower, cost.lower)):
                for pair, count in counts.items():
                    total[pair] = total.get(pair, 0) + count
            caveats |= cost.caveats
        return Spent(upper, lower, frozenset(caveats))

    def power(self, cost: Spent, times: int) -> Spent:
        return Spent(
            {pair: times * count for pair, count in cost.upper.items()},
            {pair: times * count for pair, count in cost.lower.items()},
            cost.caveats,
        )

    def worst(self, first: Spent, second: Spent) -> Spent:
        return self.worst_of((first, second))

    def worst_of(self, costs: Sequence[Spent]) -> Spent:
        parts = require_costs(costs)
        if len(parts) == 1:
            return parts[0]
        upper = largest(dict.fromkeys(_single(cost.upper, above=True) for cost in parts))
        lower = max({id(cost.lower): cost.lower for cost in parts}.values(), key=_weight)
        return Spent({upper: 1}, lower, frozenset[Caveat]().union(*(cost.caveats for cost in parts)))

    def curve(self, cost: Spent) -> Curve:
        return PrivacyLossCurve(Composition.of(cost.upper), Composition.of(cost.lower))

    def caveats(self, cost: Spent) -> frozenset[Caveat]:
        return cost.caveats | {Caveat.CHECKED_ROUND_OFF, Caveat.FIXED_PARAMETERS}

    def _poisson(self, inner: Event, rate: float, adjacency: Adjacency) -> Atom:
        own = self._one(inner, adjacency)
        if isinstance(adjacency, ZeroOut) and not zeroed_is_absent(inner):
            sums = adds_contributions(inner)
            return visible_sample(own, rate, sums=sums, sampling=Caveat.POISSON_SAMPLING)
        return poisson(own, rate, adjacency)

    def _fixed_size(self, inner: Event, size: int, population: int, adjacency: Adjacency) -> Atom:
        """A sample of everybody is the data itself; the smaller of two add-remove neighbours cannot fill it.

        The claims of ``replaced`` hold for one unit exchanged, and no mechanism needs to attain them. So the
        lower bound is that of a unit exchanged for one that has the effect of an absent one; for this the
        claims are those of the ledger. If each member of a sample gives an answer, it hides among the
        others' answers, so for several members no lower bound is known.
        """
        if shows_who(inner) and not isinstance(adjacency, ZeroOut):
            raise NotProved(
                "Noise in shares shows who contributed, so a fixed-size sample hides nobody under "
                f"{adjacency}. Account under zero-out adjacency, or without the sampling."
            )
        exchange = ReplaceOne(adjacency.unit)
        if isinstance(adjacency, ReplaceOne):
            own = replaced = self._one(inner, exchange)
        elif isinstance(adjacency, ZeroOut) and not adds_contributions(inner):
            own = self._one(inner, adjacency)
            if size < population:
                return visible_sample(own, size / population, sums=False, sampling=Caveat.FIXED_SIZE_SAMPLING)
            return own
        else:
            replaced = self._one(restate_for_exchange(inner), exchange)
            if inner != restate_for_exchange(inner):
                lower = self._one(inner, exchange).lower
                replaced = Atom(replaced.upper, lower, replaced.caveats | {Caveat.LOOSE_LOWER_BOUND})
            own = (
                self._one(inner, adjacency)
                if size == population or isinstance(adjacency, ZeroOut)
                else replaced
            )
        if size > 1 and answers_each(inner):
            nothing = FinitePair((0.0,), (1.0,), 0.0, 0.0)
            replaced = Atom(replaced.upper, nothing, replaced.caveats | {Caveat.LOOSE_LOWER_BOUND})
        if size == population:
            upper = replaced.upper if isinstance(adjacency, AddRemove) else own.upper
            return Atom(upper, own.lower, own.caveats | replaced.caveats)
        return fixed_size(own, replaced, size / population, adjacency)

    def _one(self, inner: Event, adjacency: Adjacency) -> Atom:
        """A whole event as one atom, so that it can be sampled."""
        return _as_atom(fold(self, inner, adjacency))


@final
@dataclass(frozen=True)
class PrivacyLossCurve(Curve):
    """The worse of both orders of neighbours, from above and from below."""

    upper: Composition
    lower: Composition

    def delta(self, epsilon: float) -> Interval:
        found = _worse(
            self.upper, lambda way: self._enclose(way, epsilon), lambda way: chernoff_delta(way, epsilon)
        )
        if self.lower == self.upper:
            return found
        return enclosure(self.attain(epsilon).lower, found.upper)

    def attain(self, epsilon: float) -> Interval:
        return _worse(self.lower, lambda way: self._enclose(way, epsilon), lambda way: 1.0)

    def kinks(self, fpr: float, *, above: bool) -> tuple[float, ...]:
        ways = _ways(self.upper if above else self.lower)
        found = (self._profile(way).lowest_knot(fpr) for way in ways)
        return tuple(epsilon for epsilon in found if epsilon is not None)

    def orders(self, epsilon: float) -> tuple[Interval, Interval] | None:
        ways = _ways(self.lower)
        if len(ways) == 1:
            return None
        return self._enclose(ways[0], epsilon), self._enclose(ways[1], epsilon)

    def sketch(self, epsilon: float) -> Interval:
        return _worse(
            self.upper,
            lambda way: delta_bounds(way, epsilon, tight=1e-5),
            lambda way: chernoff_delta(way, epsilon),
        )

    def steer(self, epsilon: float, delta: float) -> float:
        sightings = [(sight_delta(way, epsilon, delta), way) for way in _ways(self.upper)]
        worst = max(sighting.delta for sighting, _ in sightings)
        if worst > 3e3 * delta:
            return worst
        # Only the order that seems worse is computed here; the guarantee itself computes both.
        return max(
            sighting.delta
            if sighting.settled or sighting.delta < 0.7 * worst
            else delta_bounds(way, epsilon, likely=delta).upper
            for sighting, way in sightings
        )

    def epsilon(self, delta: float) -> Interval:
        lost = max(way.infinity for way in _ways(self.upper))
        if delta <= lost and not (delta == 0 and self._bound()):
            raise NotProved(
                f"'delta' must be above {lost:.6g}, got {delta:g}, because with that probability the "
                f"losses of these events have no bound. Ask at a larger δ."
                if lost
                else f"'delta' must be above 0, got {delta:g}, because the losses of these events have no "
                f"bound. Ask at a δ far below 1/n, such as 1e-9."
            )
        found = _worse(self.upper, lambda way: _epsilon(way, delta), largest_loss)
        if self.lower == self.upper:
            return found
        below = _worse(self.lower, lambda way: _epsilon(way, delta), largest_loss)
        return enclosure(below.lower, found.upper)

    @np.errstate(over="ignore", under="ignore", divide="ignore", invalid="ignore")
    def histogram(self, bins: int) -> LossHistogram:
        mean = derivatives(self.upper, 1e-6)
        if mean is None or not self.upper.parts:
            return super().histogram(bins)
        spread = 6 * np.sqrt(mean.curvature) + 1e-12
        start, width = mean.slope - spread, 2 * spread
        size = 1 << 14
        grid = Grid(4 * width / size, size, start - 1.5 * width, 1e-9, 0.0, 1e-6)
        law = compose(self.upper, grid, above=True, negligible=1e-12)
        edges = np.linspace(start, start + width, bins + 1)
        masses = np.maximum(law.weights, 0.0) * np.exp(
            law.level
        )  # weights add up to 1 without the infinite losses
        probability, _ = np.histogram(law.losses, edges, weights=masses)
        return LossHistogram(edges, probability, law.infinity)

    def _enclose(self, way: Composition, epsilon: float) -> Interval:
        """δ(ε) of one order. A ceiling needs the worse of both orders first, and then each of them."""
        if (way, epsilon) not in self._known:
            self._known[way, epsilon] = self._profile(way).delta(epsilon)
        return self._known[way, epsilon]

    def _profile(self, way: Composition) -> TabulatedProfile:
        if way not in self._profiles:
            self._profiles[way] = TabulatedProfile(way)
        return self._profiles[way]

    @cached_property
    def _known(self) -> dict[tuple[Composition, float], Interval]:
        return {}

    @cached_property
    def _profiles(self) -> dict[Composition, TabulatedProfile]:
        return {}

    def _bound(self) -> bool:
        return self.upper.infinity == 0 and all(pair.largest_loss is not None for pair, _ in self.upper.parts)


def _worse(
    composition: Composition,
    enclose: Callable[[Composition], Interval],
    ceiling: Callable[[Composition], float],
) -> Interval:
    """The worse of both orders of neighbours. The second is skipped if a cheap bound shows it is better."""
    first, *others = _ways(composition)
    found = enclose(first)
    for way in others:
        if ceiling(way) > found.lower:
            other = enclose(way)
            found = Interval(max(found.lower, other.lower), max(found.upper, other.upper))
    return enclosure(found.lower, found.upper)


def _epsilon(composition: Composition, delta: float) -> Interval:
    if delta > 0:
        if delta <= composition.infinity:  # only the upper bound's composition was checked
            return Interval(0.0, np.inf)
        return epsilon_bounds(composition, delta)
    total = largest_loss(composition)
    return Interval(total, total)


def _ways(composition: Composition) -> list[Composition]:
    """Both orders of neighbours, or one if they are equal."""
    other = composition.swap()
    return [composition] if other == composition else [composition, other]


def _as_atom(cost: Spent) -> Atom:
    return Atom(_single(cost.upper, above=True), _single(cost.lower, above=False), cost.caveats)


def _single(counts: Mapping[Pair, int], *, above: bool) -> Pair:
    return as_pair(Composition.of(counts), above=above)


@np.errstate(over="ignore", under="ignore", divide="ignore", invalid="ignore")
def _weight(counts: Mapping[Pair, int]) -> float:
    """The Rényi divergence of order 2, which ranks two lower bounds."""
    found = derivatives(Composition.of(counts), 1.0)
    return found.value if found is not None else np.inf
