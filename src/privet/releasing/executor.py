"""Private sums in, answers out: the only place where noise meets data."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np
from numpy.typing import NDArray

from privet.randomness import NoiseSource
from privet.releasing.answers import Answer, ErrorKind, Quote
from privet.releasing.budget_split import CalibratedStatistic, NoisyQuery
from privet.releasing.engines.aggregates import (
    Aggregate,
    AggregateRequest,
    CellCountRequest,
    Grouping,
    RowCount,
    Totals,
    UnitCount,
)
from privet.releasing.engines.engine import TableEngine
from privet.releasing.keys import Category, Number, Values
from privet.releasing.postprocessing import Estimates, NoisySum
from privet.releasing.quantiles import CellChooser
from privet.releasing.queries import LinearCombination, SumQuery

__all__ = ["Executor", "quote_statistic"]

_SAFE = 2**55  # sums up to this stay within 64 bits when they are combined
_Keys = tuple[tuple[Category, ...], ...]


def quote_statistic(statistic: CalibratedStatistic, confidence: float) -> Quote:
    """What a statistic costs and how far it may be off, from its noise alone."""
    if statistic.chooser is not None:
        error, kind = statistic.chooser.half_width(confidence), ErrorKind.RANK
    else:
        postprocessing = statistic.compiled.queries.postprocessing
        error, kind = postprocessing.expected_error(_half_widths(statistic, confidence))
    return Quote(
        label=statistic.compiled.question.label,
        event=statistic.event,
        cost=statistic.cost,
        error=error,
        error_kind=kind,
        confidence=confidence,
        threshold=_whole_threshold(statistic),
    )


@final
@dataclass(frozen=True)
class _DiscoveredKeys:
    """Keys that passed their threshold, and their noisy numbers of units."""

    keys: _Keys
    counts: NDArray[np.float64]


@final
class Executor:
    """One pass of a plan over one table. ``salt`` keys the choice of groups for all of its statistics."""

    def __init__(self, engine: TableEngine, noise: NoiseSource, confidence: float) -> None:
        self._engine = engine
        self._noise = noise
        self._confidence = confidence
        self._salt = int(noise.bits(1)[0])

    def answer(self, plan: tuple[CalibratedStatistic, ...]) -> tuple[Answer, ...]:
        """All answers, with one aggregation for all statistics of one grouping."""
        discovered = self._discover_keys(plan)
        groupings = [_answered_grouping(*pair) for pair in zip(plan, discovered, strict=True)]
        totals = self._sum(plan, groupings)
        return tuple(
            self._answer_one(
                statistic, keys, grouping, totals.get(_identity(grouping)) if grouping is not None else None
            )
            for statistic, keys, grouping in zip(plan, discovered, groupings, strict=True)
        )

    def repeat(self, plan: tuple[CalibratedStatistic, ...], times: int) -> dict[str, NDArray[np.float64]]:
        """The numbers of so many releases of the same sums, each with its own noise: releases × keys, by
        label. No statistic may have to find its keys."""
        summed = [statistic for statistic in plan if statistic.chooser is None]
        totals = self._sum(summed, [statistic.compiled.grouping for statistic in summed])
        repeated = {}
        for statistic in plan:
            grouping, label = statistic.compiled.grouping, statistic.compiled.question.label
            if statistic.chooser is not None:
                chooser, cells = statistic.chooser, self._count_cells(statistic, statistic.chooser, grouping)
                chosen = [[chooser.choose(line, self._noise) for line in cells] for _ in range(times)]
                repeated[label] = np.array(chosen)
                continue
            once = totals[_identity(grouping)]
            needed = _aggregates(tuple(noisy.query for noisy in statistic.queries))
            sums = {aggregate: np.tile(once.sums[aggregate], times) for aggregate in needed}
            numbers = self._estimate(statistic, None, grouping, Totals(once.keys * times, sums)).values
            rounded = np.round(numbers) if _is_count(statistic) else numbers
            repeated[label] = rounded.reshape(times, len(once.keys))
        return repeated

    def _sum(
        self, plan: Sequence[CalibratedStatistic], groupings: Sequence[Grouping | None]
    ) -> dict[tuple[str, Grouping], Totals]:
        """The sums of all statistics, with one aggregation for each grouping."""
        aggregates: dict[tuple[str, Grouping], dict[Aggregate, None]] = {}
        for statistic, grouping in zip(plan, groupings, strict=True):
            if grouping is not None and statistic.queries:
                needed = _aggregates(tuple(noisy.query for noisy in statistic.queries))
                aggregates.setdefault(_identity(grouping), {}).update(dict.fromkeys(needed))
        return {key: self._totals(plan[0], key[1], tuple(needed)) for key, needed in aggregates.items()}

    def _discover_keys(self, plan: tuple[CalibratedStatistic, ...]) -> tuple[_DiscoveredKeys | None, ...]:
        """Which keys are shown, for each statistic that has to find them."""
        hidden = dict.fromkeys(
            _identity(statistic.compiled.grouping) for statistic in plan if statistic.discovery is not None
        )
        totals = {identity: self._totals(plan[0], identity[1], (UnitCount(),)) for identity in hidden}
        discovered: list[_DiscoveredKeys | None] = []
        for statistic in plan:
            if statistic.discovery is None or statistic.threshold is None:
                discovered.append(None)
                continue
            units = totals[_identity(statistic.compiled.grouping)]
            (counts,) = self._add_noise(statistic.discovery, units)
            # A key without units must not even get noise. Engines leave it out, and this does not rely on it.
            passed = np.flatnonzero((counts >= statistic.threshold) & (units.sums[UnitCount()] > 0))
            discovered.append(_DiscoveredKeys(tuple(units.keys[index] for index in passed), counts[passed]))
        return tuple(discovered)

    def _totals(
        self, statistic: CalibratedStatistic, grouping: Grouping, aggregates: tuple[Aggregate, ...]
    ) -> Totals:
        question = statistic.compiled.question
        return self._engine.totals(
            AggregateRequest(
                question.unit, grouping, aggregates, question.contribution, self._salt, question.where
            )
        )

    def _add_noise(self, noisy: NoisyQuery, totals: Totals) -> tuple[NDArray[np.float64], ...]:
        """Each number of a query, in its own unit: exact sum, rounded to the grid, plus noise."""
        released = []
        for combination in noisy.query.numbers:
            steps = _round_to_grid(_combine(combination, totals.sums), noisy)
            noise = noisy.noise.draw(len(totals.keys), self._noise)
            # One product of whole steps with a public number: its rounding tells nothing.
            released.append((steps + noise).astype(np.float64) * noisy.step)
        return tuple(released)

    def _answer_one(
        self,
        statistic: CalibratedStatistic,
        discovered: _DiscoveredKeys | None,
        grouping: Grouping | None,
        totals: Totals | None,
    ) -> Answer:
        keys: _Keys = () if grouping is None else (grouping.keys or ())
        kind = quote_statistic(statistic, self._confidence).error_kind
        estimates = self._estimate(statistic, discovered, grouping, totals)
        return Answer(
            label=statistic.compiled.question.label,
            value=_arrange(statistic, keys, estimates.values, estimates.values),
            error=_arrange(statistic, keys, _widen(statistic, estimates.errors), estimates.values),
            error_kind=ErrorKind.CONSERVATIVE if kind is ErrorKind.OVER_COUNT else kind,
            confidence=self._confidence,
            event=statistic.event,
            cost=statistic.cost,
            accuracy=quote_statistic(statistic, 0.95).error,
            threshold=_whole_threshold(statistic),
        )

    def _estimate(
        self,
        statistic: CalibratedStatistic,
        discovered: _DiscoveredKeys | None,
        grouping: Grouping | None,
        totals: Totals | None,
    ) -> Estimates:
        if grouping is None:
            return Estimates(np.zeros(0), np.zeros(0))
        if statistic.chooser is not None:
            values = self._choose_cells(statistic, statistic.chooser, grouping)
            return Estimates(values, np.full_like(values, statistic.chooser.half_width(self._confidence)))
        numbers: tuple[NDArray[np.float64], ...] = ()
        if statistic.queries and totals is not None:  # another statistic may have asked for these keys too
            numbers = tuple(
                values for noisy in statistic.queries for values in self._add_noise(noisy, totals)
            )
        elif discovered is not None:
            numbers = (discovered.counts,)
        half_widths = _half_widths(statistic, self._confidence)
        return statistic.compiled.queries.postprocessing.estimate(
            tuple(NoisySum(values, width) for values, width in zip(numbers, half_widths, strict=True))
        )

    def _choose_cells(
        self, statistic: CalibratedStatistic, chooser: CellChooser, grouping: Grouping
    ) -> NDArray[np.float64]:
        counts = self._count_cells(statistic, chooser, grouping)
        return np.array([chooser.choose(line, self._noise) for line in counts])

    def _count_cells(
        self, statistic: CalibratedStatistic, chooser: CellChooser, grouping: Grouping
    ) -> NDArray[np.int64]:
        question = statistic.compiled.question
        return self._engine.cells(
            CellCountRequest(
                question.unit,
                grouping,
                chooser.choice.cells,
                question.contribution,
                self._salt,
                question.where,
            )
        )


def _answered_grouping(statistic: CalibratedStatistic, discovered: _DiscoveredKeys | None) -> Grouping | None:
    """The groups that are answered; None where no key is shown. Discovered keys are public from here on."""
    grouping = statistic.compiled.grouping
    if discovered is None:
        return grouping
    return replace(grouping, keys=discovered.keys) if discovered.keys else None


def _whole_threshold(statistic: CalibratedStatistic) -> int | None:
    return None if statistic.threshold is None else math.ceil(statistic.threshold)


def _identity(grouping: Grouping) -> tuple[str, Grouping]:
    """Equal for equal groupings only. In Python 1 == True, so groupings are compared by their text, too."""
    untyped = grouping.keys is not None and any(column.kind is None for column in grouping.columns)
    return repr(grouping if untyped else grouping.columns), grouping


def _aggregates(queries: tuple[SumQuery, ...]) -> tuple[Aggregate, ...]:
    return tuple(
        dict.fromkeys(
            aggregate
            for query in queries
            for combination in query.numbers
            for aggregate, _ in combination.terms
        )
    )


def _combine(
    combination: LinearCombination, sums: Mapping[Aggregate, NDArray[np.int64]]
) -> NDArray[np.int64]:
    largest = sum(
        abs(factor) * int(np.abs(sums[aggregate]).max(initial=0)) for aggregate, factor in combination.terms
    )
    total = np.zeros_like(sums[combination.terms[0][0]], dtype=object if largest > _SAFE else None)
    for aggregate, factor in combination.terms:
        total = total + (sums[aggregate].astype(object) if largest > _SAFE else sums[aggregate]) * factor
    return total


def _round_to_grid(exact: NDArray[np.int64], noisy: NoisyQuery) -> NDArray[np.int64]:
    """⌊exact · grid/distance + ½⌋, in whole numbers, and in parts so that nothing overflows."""
    if noisy.exact:
        return exact
    distance, grid = noisy.query.sensitivity.distance, noisy.grid
    furthest = int(np.abs(exact).max(initial=0)) // distance + 1
    # Below, |whole| ≤ furthest and 0 ≤ rest < distance: the products are the largest numbers that occur.
    if max(2 * distance * grid + distance, furthest * grid) >= 2**61:
        exact = exact.astype(object)
    whole = exact // distance
    return whole * grid + (2 * grid * (exact - whole * distance) + distance) // (2 * distance)


def _half_widths(statistic: CalibratedStatistic, confidence: float) -> tuple[float, ...]:
    """What each number's noise stays within, so that all of them do at once with this confidence."""
    single = 1 - (1 - confidence) / statistic.compiled.simultaneous_noises
    return tuple(noisy.half_width(single) for noisy in statistic.answer_queries for _ in noisy.query.numbers)


def _is_count(statistic: CalibratedStatistic) -> bool:
    """Whether the answer is a count, which is shown as a whole number."""
    discovery = () if statistic.discovery is None else (statistic.discovery,)
    aggregates = _aggregates(tuple(noisy.query for noisy in (*statistic.queries, *discovery)))
    return statistic.chooser is None and set(aggregates) <= {RowCount(), UnitCount()}


def _widen(statistic: CalibratedStatistic, errors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Errors of counts with room for the rounding to a whole number, where the noise was on a finer grid."""
    finer = any(not noisy.exact for noisy in statistic.answer_queries)
    return np.ceil(errors + 0.5) if _is_count(statistic) and finer else errors


def _arrange(
    statistic: CalibratedStatistic, keys: _Keys, numbers: NDArray[np.float64], answers: NDArray[np.float64]
) -> Values:
    rounded = _is_count(statistic)
    plain: list[Number] = [round(number) if rounded else number for number in numbers.tolist()]
    return statistic.compiled.question.statistic.arrange(keys, plain, answers)
