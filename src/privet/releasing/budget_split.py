"""One budget for all queries of a plan: how much each one gets, of which noise, on which grid.

*Pure* (δ = 0): discrete Laplace noise; a statistic gets ε times its weight, and ε adds up. *Approximate* (δ >
0): the same, or discrete Gaussian noise on all sums. The Gaussian sums are calibrated together: with
precisions in the ratio of the weights they are one Gaussian of the whole ε, so that their noise grows with √T
instead of T. Choices and thresholds are added to either by basic composition. The kind with the smaller
errors is taken. Gaussian noise is taken only if the accountant proves that it keeps to the budget.

*Grids.* Sums are exact on a fine grid. Before noise they are rounded to a coarser one, once: the distance
that one unit can move is cut into ``grid`` equal steps, so many that the noise is far wider than a step.
Rounding is monotone, and a sum that moves by the whole distance moves by ``grid`` steps, so a sum that moves
less moves by no more steps. So all Gaussian queries of one multiplier are the same pair of distributions to
the accountant.
"""

import math
from dataclasses import dataclass, replace
from typing import final

from privet.accounting import EpsilonTarget, PrivacyLoss, account, calibrate
from privet.accounting.renyi import Concentrated
from privet.adjacency import AddRemove, Adjacency
from privet.errors import InvalidArgument, NotProved, OutOfReach
from privet.events import Compose, Event, Gaussian, Opaque
from privet.releasing.budget import Budget, PrivacyCost
from privet.releasing.compiled_statistics import CompiledStatistic, compile_question
from privet.releasing.noise_distributions import DiscreteGaussianNoise, DiscreteLaplaceNoise, IntegerNoise
from privet.releasing.quantiles import CellChooser
from privet.releasing.queries import NoiseKind, SumQuery
from privet.releasing.questions import Question
from privet.releasing.thresholds import find_threshold

__all__ = ["CalibratedStatistic", "NoisyQuery", "split_budget"]

_UP = 1 + 1e-9  # a little more noise than enough, so that sums of rounded shares stay within the budget
_UPS_GAUSSIAN = (1 + 1e-4, 1 + 1e-3, 1 + 1e-2)  # over the real Gaussian, until the accountant has proved it
_LEAST_SCALE = 64.0  # of the noise, in steps
_LEAST_GRID, _LEAST_JOINT_GRID = 32, 512  # each number after the first costs one step
_LARGEST_GAUSSIAN = 5e4  # only moments can account for a larger scale
_LARGEST_LAPLACE = 2.0**48  # a larger scale does not fit into 64 bits
_THRESHOLD_SHARE = 0.5  # of δ, where Gaussian noise needs the rest
_ALMOST_ALL = 0.9999  # of δ, where nothing else needs it


@final
@dataclass(frozen=True)
class NoisyQuery:
    """A query with its noise.

    ``grid`` is the number of steps in the distance that one unit moves a group by.
    """

    query: SumQuery
    noise: IntegerNoise
    grid: int

    @property
    def exact(self) -> bool:
        """Whether the grid is that of the sums."""
        return self.grid == self.query.sensitivity.distance and len(self.query.numbers) == 1

    @property
    def distance(self) -> int:
        """The sensitivity in steps.

        Each of several numbers of a group is rounded, which adds one for each after the first.

        Where one declared group stands for two that an exchange moves, both are rounded.
        """
        rounded = self.query.sensitivity.stands_for * (len(self.query.numbers) - 1)
        return self.grid if self.exact else self.grid + rounded

    @property
    def step(self) -> float:
        """What one step is worth."""
        return self.query.sensitivity.distance * self.query.step / self.grid

    def event(self, adjacency: Adjacency) -> Event:
        """What it spends."""
        return self.noise.event(self.distance, self.query.sensitivity.coordinates, adjacency)

    def half_width(self, confidence: float) -> float:
        """How far one number may be off, including the rounding to the grid."""
        return (self.noise.half_width(confidence) + (0.0 if self.exact else 0.5)) * self.step


@final
@dataclass(frozen=True)
class CalibratedStatistic:
    """A statistic with everything that its release needs."""

    compiled: CompiledStatistic
    queries: tuple[NoisyQuery, ...]
    chooser: CellChooser | None
    discovery: NoisyQuery | None
    threshold: float | None
    event: Event
    cost: PrivacyCost

    @property
    def answer_queries(self) -> tuple[NoisyQuery, ...]:
        """The queries that make the answer: its own, or the one that found the keys."""
        if self.queries or self.discovery is None or self.chooser is not None:
            return self.queries
        return (self.discovery,)


def split_budget(
    questions: tuple[Question, ...], weights: tuple[float, ...], budget: Budget
) -> tuple[CalibratedStatistic, ...]:
    """The statistics, each with its share of the budget; ``weights`` add up to 1."""
    compiled = tuple(compile_question(question, NoiseKind.LAPLACE) for question in questions)
    if budget.delta == 0:
        label = next(
            (statistic.question.label for statistic in compiled if statistic.discovery is not None), None
        )
        if label is not None:
            raise InvalidArgument(
                f"'delta' must be above 0 for {label!r}, whose keys are not listed, because a rare key "
                f"shows that somebody has it. List the keys, or give a δ far below 1/n."
            )
        return _with_laplace(compiled, weights, budget)
    laplace = _with_laplace(compiled, weights, budget)
    gaussian = _with_gaussian(
        tuple(compile_question(question, NoiseKind.GAUSSIAN) for question in questions),
        weights,
        budget,
        questions[0].adjacency,
    )
    if gaussian is None or _log_errors(gaussian) >= _log_errors(laplace):
        return laplace
    return gaussian


def _with_laplace(
    statistics: tuple[CompiledStatistic, ...], weights: tuple[float, ...], budget: Budget
) -> tuple[CalibratedStatistic, ...]:
    hidden = sum(compiled.discovery is not None for compiled in statistics)
    delta = _ALMOST_ALL * budget.delta / max(hidden, 1)
    calibrated = []
    for compiled, weight in zip(statistics, weights, strict=True):
        epsilon = budget.epsilon * weight / _UP
        noisy = [_add_laplace(query, epsilon * query.fraction) for query in _all_sums(compiled)]
        cost = PrivacyCost(epsilon=budget.epsilon * weight, delta=0.0)
        calibrated.append(_calibrate(compiled, noisy, _chooser(compiled, epsilon), delta, cost))
    return tuple(calibrated)


def _add_laplace(query: SumQuery, epsilon: float) -> NoisyQuery:
    relative = query.sensitivity.coordinates / epsilon * _UP
    grid = query.sensitivity.distance if query.counts else _grid(query, relative)
    noisy = NoisyQuery(query, DiscreteLaplaceNoise(1.0), grid)
    scale = relative * noisy.distance
    if scale > _LARGEST_LAPLACE:
        raise InvalidArgument(
            f"'epsilon' must leave noise below 2^48 steps, and a share of {epsilon:.3g} does not. Give a "
            f"larger budget, or a smaller contribution."
        )
    return replace(noisy, noise=DiscreteLaplaceNoise(scale))


def _with_gaussian(
    statistics: tuple[CompiledStatistic, ...],
    weights: tuple[float, ...],
    budget: Budget,
    adjacency: Adjacency,
) -> tuple[CalibratedStatistic, ...] | None:
    """Gaussian noise on all sums, or None where that cannot be proved."""
    weighted = list(zip(statistics, weights, strict=True))
    chosen = sum(weight * _choice_share(compiled) for compiled, weight in weighted)
    shares = [
        [weight * math.sqrt(query.fraction) for query in _all_sums(compiled)] for compiled, weight in weighted
    ]
    norm = math.sqrt(sum(share * share for statistic in shares for share in statistic))
    if norm == 0:
        return None
    hidden = sum(compiled.discovery is not None for compiled in statistics)
    delta = _THRESHOLD_SHARE * budget.delta / hidden if hidden else 0.0
    left = Budget(epsilon=budget.epsilon * (1 - chosen) / _UP, delta=budget.delta - hidden * delta)
    try:
        multiplier = calibrate(
            Gaussian, EpsilonTarget(epsilon=left.epsilon, delta=left.delta), adjacency=AddRemove()
        ).value
    except (NotProved, OutOfReach):
        return None
    for slack in _UPS_GAUSSIAN:
        calibrated = []
        for (compiled, weight), own_shares in zip(weighted, shares, strict=True):
            noisy = [
                _add_gaussian(query, multiplier * slack * norm / share)
                for query, share in zip(_all_sums(compiled), own_shares, strict=True)
            ]
            if any(query.noise.scale > _LARGEST_GAUSSIAN for query in noisy):
                return None
            chooser = _chooser(compiled, budget.epsilon * weight / _UP)
            pure = PrivacyCost(epsilon=budget.epsilon * weight * _choice_share(compiled), delta=budget.delta)
            statistic = _calibrate(compiled, noisy, chooser, delta, pure)
            calibrated.append(replace(statistic, cost=_gaussian_cost(statistic, pure, budget, adjacency)))
        if _is_proved(calibrated, budget, adjacency):
            return tuple(calibrated)
    return None


def _add_gaussian(query: SumQuery, multiplier: float) -> NoisyQuery:
    relative = multiplier * math.sqrt(query.sensitivity.coordinates)
    grid = _grid(query, relative)
    while grid > 1 and grid * relative > _LARGEST_GAUSSIAN:
        grid //= 2
    return NoisyQuery(query, DiscreteGaussianNoise(relative * grid), grid)


def _grid(query: SumQuery, relative: float) -> int:
    """A power of two; ``relative`` is the noise's scale relative to the distance."""
    least = _LEAST_GRID if len(query.numbers) == 1 else _LEAST_JOINT_GRID
    return 1 << math.ceil(math.log2(max(least, _LEAST_SCALE / relative)))


def _is_proved(calibrated: list[CalibratedStatistic], budget: Budget, adjacency: Adjacency) -> bool:
    """Whether the accountant agrees. A sketch of its curve is an upper bound too, and is quick."""
    spent = Compose(tuple(statistic.event for statistic in calibrated))
    try:
        claim = account(spent, adjacency=adjacency, accountant=PrivacyLoss())
        return claim.curve.sketch(budget.epsilon).upper <= budget.delta
    except (NotProved, OutOfReach):
        return False


def _gaussian_cost(
    statistic: CalibratedStatistic, pure: PrivacyCost, budget: Budget, adjacency: Adjacency
) -> PrivacyCost:
    """What it costs by itself: by moments, which is quick, and never more than the whole plan costs."""
    discovery = () if statistic.discovery is None else (statistic.discovery,)
    sums = [query.event(adjacency) for query in (*statistic.queries, *discovery)]
    if not sums:
        return PrivacyCost(epsilon=pure.epsilon, delta=0.0)
    hidden = _opaque_delta(statistic.event)
    claim = account(Compose(tuple(sums)), adjacency=adjacency, accountant=Concentrated())
    spent = claim.epsilon(delta=budget.delta - hidden) + pure.epsilon
    return PrivacyCost(epsilon=min(spent, budget.epsilon), delta=budget.delta)


def _calibrate(
    compiled: CompiledStatistic,
    noisy: list[NoisyQuery],
    chooser: CellChooser | None,
    delta: float,
    cost: PrivacyCost,
) -> CalibratedStatistic:
    adjacency = compiled.question.adjacency
    events = [query.event(adjacency) for query in noisy]
    if chooser is not None:
        events.append(chooser.event)
    if compiled.discovery is None:
        event = events[0] if len(events) == 1 else Compose(tuple(events))
        return CalibratedStatistic(compiled, tuple(noisy), chooser, None, None, event, cost)
    discovery, *queries = noisy
    groups = compiled.question.contribution.groups
    # A key that one unit has is at ``grid`` steps, which are worth 1.
    least = 1 + find_threshold(discovery.noise, groups=groups, delta=delta) * discovery.step
    event = Compose((*events, Opaque(epsilon=0.0, delta=delta)))
    cost = replace(cost, delta=max(cost.delta, delta))
    return CalibratedStatistic(compiled, tuple(queries), chooser, discovery, least, event, cost)


def _all_sums(compiled: CompiledStatistic) -> tuple[SumQuery, ...]:
    """All queries that get noise; the query that finds keys comes first."""
    discovery = () if compiled.discovery is None else (compiled.discovery,)
    return (*discovery, *compiled.queries.sums)


def _choice_share(compiled: CompiledStatistic) -> float:
    """How much of a statistic's share goes to a choice."""
    choice = compiled.queries.choice
    return 0.0 if choice is None else choice.fraction


def _chooser(compiled: CompiledStatistic, epsilon: float) -> CellChooser | None:
    choice = compiled.queries.choice
    if choice is None:
        return None
    return CellChooser(choice, compiled.question.contribution.rows, epsilon * choice.fraction)


def _opaque_delta(event: Event) -> float:
    parts = event.parts if isinstance(event, Compose) else ()
    return sum(part.delta for part in parts if isinstance(part, Opaque))


def _log_errors(calibrated: tuple[CalibratedStatistic, ...]) -> float:
    """The sum of the logarithms of all errors: the smaller, the better."""
    total = 0.0
    for statistic in calibrated:
        # At a huge ε the half-width is 0, and the standard deviation is not.
        half_widths = tuple(
            max(noisy.half_width(0.95), math.sqrt(noisy.noise.variance) * noisy.step)
            for noisy in statistic.answer_queries
            for _ in noisy.query.numbers
        )
        if half_widths:
            total += math.log(statistic.compiled.queries.postprocessing.expected_error(half_widths)[0])
        if statistic.chooser is not None:
            total += math.log(statistic.chooser.half_width(0.95))
        if statistic.threshold is not None:
            total += math.log(statistic.threshold)
    return total
