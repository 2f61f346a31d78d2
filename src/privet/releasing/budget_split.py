"""One budget for all queries of a plan: who gets how much, by which law, on which grid.

*Pure* (δ = 0): discrete Laplace noise; a statistic gets ε times its weight, and ε adds up.
*Approximate* (δ > 0): the same, or discrete Gaussian noise on all sums. Those are calibrated together: with
precisions in the ratio of the weights they are one Gaussian of the whole ε, and √T takes the place of T. Choices
and thresholds are added to either by basic composition. What has the smaller errors is taken, and for the Gaussian
the accountant has the last word.

*Grids.* Sums are exact on a fine grid. Before noise they are rounded to a coarser one, once: what one unit can move is
cut into ``grid`` equal steps, so many that the noise is far wider than a step. Rounding is monotone, and a sum that
moves by the whole distance moves by ``grid`` steps, so no smaller move is more. All Gaussian queries of one
multiplier are thus one and the same pair to the accountant.
"""

import math
from dataclasses import dataclass, replace
from typing import final

from privet.accounting import EpsilonTarget, PrivacyLoss, account, calibrate
from privet.accounting.renyi import Concentrated
from privet.adjacency import AddRemove, Adjacency
from privet.errors import InvalidArgument, NotProved, OutOfReach
from privet.events import Compose, Event, Gaussian, Opaque
from privet.releasing.budget import Budget, Cost
from privet.releasing.noise_distributions import GaussianLaw, LaplaceLaw, Law
from privet.releasing.quantiles import Chooser
from privet.releasing.queries import Compiled, NoiseKind, Query, compiled
from privet.releasing.questions import Part
from privet.releasing.thresholds import threshold

__all__ = ["Allotted", "Noised", "allot"]

_UP = 1 + 1e-9  # noise is a little more than enough, so that sums of rounded shares stay within the budget
_UPS_GAUSSIAN = (1 + 1e-4, 1 + 1e-3, 1 + 1e-2)  # over the real Gaussian, until the accountant has proved it
_LEAST_SCALE = 64.0  # of the noise, in steps
_LEAST_GRID, _LEAST_JOINT_GRID = 32, 512  # each number after the first costs one step
_LARGEST_GAUSSIAN = 5e4  # beyond, only moments account for it
_LARGEST_LAPLACE = 2.0**48  # beyond, it does not fit into 64 bits
_THRESHOLD_SHARE = 0.5  # of δ, where Gaussian noise needs the rest
_ALMOST_ALL = 0.9999  # of δ, where nothing else needs it


@final
@dataclass(frozen=True)
class Noised:
    """A query with its law, on a grid of that many steps for the distance that one unit moves a group by."""

    query: Query
    law: Law
    grid: int

    @property
    def exact(self) -> bool:
        """Whether the grid is that of the sums."""
        return self.grid == self.query.reach.distance and len(self.query.parts) == 1

    @property
    def distance(self) -> int:
        """In steps; each of several numbers of a group is rounded, which adds one for each after the first.

        Where one declared group stands for two that an exchange moves, both are rounded.
        """
        rounded = self.query.reach.stands_for * (len(self.query.parts) - 1)
        return self.grid if self.exact else self.grid + rounded

    @property
    def step(self) -> float:
        """What one step is worth."""
        return self.query.reach.distance * self.query.step / self.grid

    def event(self, adjacency: Adjacency) -> Event:
        """What it spends."""
        return self.law.event(self.distance, self.query.reach.coordinates, adjacency)

    def half_width(self, confidence: float) -> float:
        """How far one number may be off, the grid's own rounding included."""
        return (self.law.half_width(confidence) + (0.0 if self.exact else 0.5)) * self.step


@final
@dataclass(frozen=True)
class Allotted:
    """A statistic with all that its release needs."""

    compiled: Compiled
    queries: tuple[Noised, ...]
    chooser: Chooser | None
    discovery: Noised | None
    threshold: float | None
    event: Event
    cost: Cost


def allot(parts: tuple[Part, ...], weights: tuple[float, ...], budget: Budget) -> tuple[Allotted, ...]:
    """The statistics, each with its share of the budget; ``weights`` add up to 1."""
    plain = tuple(compiled(part, NoiseKind.LAPLACE) for part in parts)
    if budget.delta == 0:
        hidden = next((one.part.label for one in plain if one.discovery is not None), None)
        if hidden is not None:
            raise InvalidArgument(
                f"'delta' must be above 0 for {hidden!r}, whose keys are not listed, because a rare key shows that "
                f"somebody has it. List the keys, or give a δ far below 1/n."
            )
        return _laplace(plain, weights, budget)
    first = _laplace(plain, weights, budget)
    second = _gaussian(
        tuple(compiled(part, NoiseKind.GAUSSIAN) for part in parts), weights, budget, parts[0].adjacency
    )
    if second is None or _size(second) >= _size(first):
        return first
    return second


def _laplace(plan: tuple[Compiled, ...], weights: tuple[float, ...], budget: Budget) -> tuple[Allotted, ...]:
    hidden = sum(one.discovery is not None for one in plan)
    delta = _ALMOST_ALL * budget.delta / max(hidden, 1)
    found = []
    for one, weight in zip(plan, weights, strict=True):
        share = budget.epsilon * weight / _UP
        noised = [_laplace_noised(query, share * query.fraction) for query in _sums(one)]
        chosen = _chooser(one, share)
        found.append(_allotted(one, noised, chosen, delta, Cost(epsilon=budget.epsilon * weight, delta=0.0)))
    return tuple(found)


def _laplace_noised(query: Query, epsilon: float) -> Noised:
    wide = query.reach.coordinates / epsilon * _UP
    grid = query.reach.distance if query.counts else _grid(query, wide)
    found = Noised(query, LaplaceLaw(1.0), grid)
    scale = wide * found.distance
    if scale > _LARGEST_LAPLACE:
        raise InvalidArgument(
            f"'epsilon' must leave noise below 2^48 steps, and a share of {epsilon:.3g} does not. Give a larger budget, "
            f"or a smaller contribution."
        )
    return replace(found, law=LaplaceLaw(scale))


def _gaussian(
    plan: tuple[Compiled, ...], weights: tuple[float, ...], budget: Budget, adjacency: Adjacency
) -> tuple[Allotted, ...] | None:
    """Gaussian noise on all sums, or nothing where that cannot be proved."""
    chosen = sum(weight * _chosen_share(one) for one, weight in zip(plan, weights, strict=True))
    shares = {
        (place, number): weight * math.sqrt(query.fraction)
        for place, (one, weight) in enumerate(zip(plan, weights, strict=True))
        for number, query in enumerate(_sums(one))
    }
    if not shares:
        return None
    hidden = sum(one.discovery is not None for one in plan)
    delta = _THRESHOLD_SHARE * budget.delta / hidden if hidden else 0.0
    left = Budget(epsilon=budget.epsilon * (1 - chosen) / _UP, delta=budget.delta - hidden * delta)
    try:
        multiplier = calibrate(
            Gaussian, EpsilonTarget(epsilon=left.epsilon, delta=left.delta), adjacency=AddRemove()
        ).value
    except (NotProved, OutOfReach):
        return None
    norm = math.sqrt(sum(share * share for share in shares.values()))
    for slack in _UPS_GAUSSIAN:
        found = []
        for place, (one, weight) in enumerate(zip(plan, weights, strict=True)):
            noised = [
                _gaussian_noised(query, multiplier * slack * norm / shares[place, number])
                for number, query in enumerate(_sums(one))
            ]
            if any(query.law.scale > _LARGEST_GAUSSIAN for query in noised):
                return None
            chooser = _chooser(one, budget.epsilon * weight / _UP)
            pure = Cost(epsilon=budget.epsilon * weight * _chosen_share(one), delta=budget.delta)
            allotted = _allotted(one, noised, chooser, delta, pure)
            found.append(replace(allotted, cost=_gaussian_cost(allotted, pure, budget, adjacency)))
        if _proved(found, budget, adjacency):
            return tuple(found)
    return None


def _gaussian_noised(query: Query, multiplier: float) -> Noised:
    wide = multiplier * math.sqrt(query.reach.coordinates)
    grid = _grid(query, wide)
    while grid > 1 and grid * wide > _LARGEST_GAUSSIAN:
        grid //= 2
    return Noised(query, GaussianLaw(wide * grid), grid)


def _grid(query: Query, wide: float) -> int:
    """A power of two; ``wide`` is the noise's scale relative to the distance."""
    least = _LEAST_GRID if len(query.parts) == 1 else _LEAST_JOINT_GRID
    return 1 << math.ceil(math.log2(max(least, _LEAST_SCALE / wide)))


def _proved(found: list[Allotted], budget: Budget, adjacency: Adjacency) -> bool:
    """Whether the accountant agrees. A sketch of its curve is an upper bound too, and comes at once."""
    spent = Compose(tuple(one.event for one in found))
    try:
        claim = account(spent, adjacency=adjacency, accountant=PrivacyLoss())
        return claim.curve.sketch(budget.epsilon).upper <= budget.delta
    except (NotProved, OutOfReach):
        return False


def _gaussian_cost(one: Allotted, pure: Cost, budget: Budget, adjacency: Adjacency) -> Cost:
    """What it costs by itself: by moments, which is quick, and never more than the whole plan costs."""
    sums = [query.event(adjacency) for query in (*one.queries, *([one.discovery] if one.discovery else []))]
    if not sums:
        return Cost(epsilon=pure.epsilon, delta=0.0)
    hidden = _opaque_delta(one.event)
    claim = account(Compose(tuple(sums)), adjacency=adjacency, accountant=Concentrated())
    spent = claim.epsilon(delta=budget.delta - hidden) + pure.epsilon
    return Cost(epsilon=min(spent, budget.epsilon), delta=budget.delta)


def _allotted(
    one: Compiled, noised: list[Noised], chooser: Chooser | None, delta: float, cost: Cost
) -> Allotted:
    adjacency = one.part.adjacency
    events = [query.event(adjacency) for query in noised]
    if chooser is not None:
        events.append(chooser.event)
    if one.discovery is None:
        event = events[0] if len(events) == 1 else Compose(tuple(events))
        return Allotted(one, tuple(noised), chooser, None, None, event, cost)
    discovery = noised[0]
    keys = one.part.contribution.groups
    # A key of one unit has one unit, which is ``grid`` steps.
    least = 1 + threshold(discovery.law, groups=keys, delta=delta) * discovery.step
    event = Compose((*events, Opaque(epsilon=0.0, delta=delta)))
    return Allotted(
        one, tuple(noised[1:]), chooser, discovery, least, event, replace(cost, delta=max(cost.delta, delta))
    )


def _sums(one: Compiled) -> tuple[Query, ...]:
    """All that gets noise; what finds keys comes first."""
    return one.queries if one.discovery is None else (one.discovery, *one.queries)


def _chosen_share(one: Compiled) -> float:
    """How much of a statistic's share goes to a choice."""
    return 0.0 if one.choice is None else one.choice.fraction


def _chooser(one: Compiled, epsilon: float) -> Chooser | None:
    if one.choice is None:
        return None
    return Chooser(one.choice, one.part.contribution.rows, epsilon * _chosen_share(one))


def _opaque_delta(event: Event) -> float:
    parts = event.parts if isinstance(event, Compose) else ()
    return sum(part.delta for part in parts if isinstance(part, Opaque))


def _size(found: tuple[Allotted, ...]) -> float:
    """Errors on a logarithmic scale, to tell which of two allotments is the better one."""
    total = 0.0
    for one in found:
        # What finds keys counts where nothing else does; at a huge ε no noise is left, and its deviation is.
        queries = one.queries or (
            (one.discovery,) if one.discovery is not None and one.chooser is None else ()
        )
        halves = tuple(
            max(query.half_width(0.95), math.sqrt(query.law.variance) * query.step)
            for query in queries
            for _ in query.query.parts
        )
        if halves:
            total += math.log(one.compiled.finish.quote(halves)[0])
        if one.chooser is not None:
            total += math.log(one.chooser.half_width(0.95))
        if one.threshold is not None:
            total += math.log(one.threshold)
    return total
