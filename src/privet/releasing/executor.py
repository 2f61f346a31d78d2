"""Private sums in, answers out: the only place where noise meets data."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import final

import numpy as np
from numpy.typing import NDArray

from privet.randomness import NoiseSource
from privet.releasing.answers import Answer, ErrorKind, Number, Quote, Values
from privet.releasing.budget_split import Allotted, Noised
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
from privet.releasing.postprocessing import Finished, Noisy
from privet.releasing.queries import Linear, Query
from privet.releasing.statistics import Category, GroupBy, Key, Marginal, TopK

__all__ = ["Run", "quoted"]

_SAFE = 2**55  # sums up to this stay within 64 bits when they are combined
_Keys = tuple[tuple[Category, ...], ...]


def quoted(one: Allotted, confidence: float) -> Quote:
    """What a statistic costs and how far it may be off, from its noise alone."""
    part = one.compiled.part
    if one.chooser is not None:
        error, kind = one.chooser.half_width(confidence), ErrorKind.RANK
    else:
        error, kind = one.compiled.finish.quote(_halves(one, confidence))
    return Quote(
        label=part.label,
        event=one.event,
        cost=one.cost,
        error=error,
        error_kind=kind,
        confidence=confidence,
        threshold=_shown_threshold(one),
    )


@final
class Run:
    """One pass of a plan over one table. ``salt`` keys the choice of groups for all of its statistics."""

    def __init__(self, engine: TableEngine, noise: NoiseSource, confidence: float) -> None:
        self._engine = engine
        self._noise = noise
        self._confidence = confidence
        self._salt = int(noise.bits(1)[0])

    def answers(self, plan: tuple[Allotted, ...]) -> tuple[Answer, ...]:
        """Everything, with one aggregation for all statistics of one grouping."""
        found = self._discovered(plan)
        groupings = [self._grouping(one, keys) for one, keys in zip(plan, found, strict=True)]
        wanted: dict[tuple[str, Grouping], dict[Aggregate, None]] = {}
        for one, grouping in zip(plan, groupings, strict=True):
            if grouping is not None and one.queries:
                aggregates = _aggregates(tuple(noised.query for noised in one.queries))
                wanted.setdefault(_kind(grouping), {}).update(dict.fromkeys(aggregates))
        totals = {key: self._totals(plan[0], key[1], tuple(aggregates)) for key, aggregates in wanted.items()}
        return tuple(
            self._answer(one, shown, grouping, totals.get(_kind(grouping)) if grouping is not None else None)
            for one, shown, grouping in zip(plan, found, groupings, strict=True)
        )

    def _discovered(self, plan: tuple[Allotted, ...]) -> tuple["_Shown | None", ...]:
        """Which keys are shown, for each statistic that has to find them."""
        hidden = dict.fromkeys(_kind(one.compiled.grouping) for one in plan if one.discovery is not None)
        totals = {kind: self._totals(plan[0], kind[1], (UnitCount(),)) for kind in hidden}
        shown: list[_Shown | None] = []
        for one in plan:
            if one.discovery is None or one.threshold is None:
                shown.append(None)
                continue
            found = totals[_kind(one.compiled.grouping)]
            (counts,) = self._noisy(one.discovery, found)
            # A key without units must not even get noise; engines leave it out, and this does not rely on it.
            kept = np.flatnonzero((counts >= one.threshold) & (found.sums[UnitCount()] > 0))
            shown.append(_Shown(tuple(found.keys[place] for place in kept), counts[kept]))
        return tuple(shown)

    def _grouping(self, one: Allotted, shown: "_Shown | None") -> Grouping | None:
        """The groups that are answered; none where no key is shown. Keys that were shown are public from here on."""
        grouping = one.compiled.grouping
        if shown is None:
            return grouping
        return replace(grouping, keys=shown.keys) if shown.keys else None

    def _totals(self, one: Allotted, grouping: Grouping, aggregates: tuple[Aggregate, ...]) -> Totals:
        part = one.compiled.part
        return self._engine.totals(
            AggregateRequest(part.unit, grouping, aggregates, part.contribution, self._salt)
        )

    def _noisy(self, noised: Noised, totals: Totals) -> tuple[NDArray[np.float64], ...]:
        """Each number of a query, in its own unit: exact sum, rounded to the grid, plus noise."""
        released = []
        for linear in noised.query.parts:
            steps = _on_grid(_combined(linear, totals.sums), noised)
            noise = noised.law.draw(len(totals.keys), self._noise)
            # One product of whole steps with a public number: its rounding tells nothing.
            released.append((steps + noise).astype(np.float64) * noised.step)
        return tuple(released)

    def _answer(
        self, one: Allotted, shown: "_Shown | None", grouping: Grouping | None, totals: Totals | None
    ) -> Answer:
        keys: _Keys = () if grouping is None else (grouping.keys or ())
        halves = _halves(one, self._confidence)
        kind = quoted(one, self._confidence).error_kind
        if grouping is None:
            finished = Finished(np.zeros(0), np.zeros(0))
        elif one.chooser is not None:
            values = self._chosen(one, grouping)
            finished = Finished(values, np.full_like(values, one.chooser.half_width(self._confidence)))
        else:
            if one.queries and totals is not None:  # another statistic may have asked for these keys too
                parts = tuple(values for noised in one.queries for values in self._noisy(noised, totals))
            else:
                parts = (shown.counts,) if shown is not None else ()
            finished = one.compiled.finish.finish(
                tuple(Noisy(values, half) for values, half in zip(parts, halves, strict=True))
            )
        if kind is ErrorKind.OVER_COUNT:
            kind = ErrorKind.CONSERVATIVE
        return Answer(
            label=one.compiled.part.label,
            value=_values(one, keys, finished.values, finished.values),
            error=_values(one, keys, _widened(one, finished.errors), finished.values),
            error_kind=kind,
            confidence=self._confidence,
            event=one.event,
            cost=one.cost,
            accuracy=quoted(one, 0.95).error,
            threshold=_shown_threshold(one),
        )

    def _chosen(self, one: Allotted, grouping: Grouping) -> NDArray[np.float64]:
        part, chooser = one.compiled.part, one.chooser
        if chooser is None:
            raise AssertionError("nothing is to be chosen")
        request = CellCountRequest(part.unit, grouping, chooser.choice.cells, part.contribution, self._salt)
        counts = self._engine.cells(request)
        return np.array([chooser.choose(line, self._noise) for line in counts])


@final
class _Shown:
    """Keys that passed their threshold, and their noisy numbers of units."""

    def __init__(self, keys: _Keys, counts: NDArray[np.float64]) -> None:
        self.keys = keys
        self.counts = counts


def _shown_threshold(one: Allotted) -> int | None:
    return None if one.threshold is None else math.ceil(one.threshold)


def _kind(grouping: Grouping) -> tuple[str, Grouping]:
    """Equal for equal groupings only: the number 1 and the truth value are the same to Python."""
    found = grouping.keys is not None and any(column.kind is None for column in grouping.columns)
    return repr(grouping if found else grouping.columns), grouping


def _aggregates(queries: tuple[Query, ...]) -> tuple[Aggregate, ...]:
    return tuple(
        dict.fromkeys(
            aggregate for query in queries for linear in query.parts for aggregate, _ in linear.terms
        )
    )


def _combined(linear: Linear, sums: Mapping[Aggregate, NDArray[np.int64]]) -> NDArray[np.int64]:
    reach = sum(
        abs(factor) * int(np.abs(sums[aggregate]).max(initial=0)) for aggregate, factor in linear.terms
    )
    parts = [sums[m].astype(object) if reach > _SAFE else sums[m] for m, _ in linear.terms]
    total = np.zeros_like(parts[0])
    for part, (_, factor) in zip(parts, linear.terms, strict=True):
        total = total + part * factor
    return total


def _on_grid(exact: NDArray[np.int64], noised: Noised) -> NDArray[np.int64]:
    """⌊exact · grid/distance + ½⌋, in whole numbers, and in parts so that nothing overflows."""
    if noised.exact:
        return exact
    distance, grid = noised.query.reach.distance, noised.grid
    furthest = int(np.abs(exact).max(initial=0)) // distance + 1
    # Below, |whole| ≤ furthest and 0 ≤ rest < distance: the products are the largest numbers that occur.
    if max(2 * distance * grid + distance, furthest * grid) >= 2**61:
        exact = exact.astype(object)
    whole = exact // distance
    return whole * grid + (2 * grid * (exact - whole * distance) + distance) // (2 * distance)


def _halves(one: Allotted, confidence: float) -> tuple[float, ...]:
    """What each number's noise stays within, so that all of them do at once with this confidence."""
    each = 1 - (1 - confidence) / one.compiled.statements
    queries = one.queries or ((one.discovery,) if one.discovery is not None and one.chooser is None else ())
    return tuple(noised.half_width(each) for noised in queries for _ in noised.query.parts)


def _whole(one: Allotted) -> bool:
    """Whether the answer is a count, which is shown as a whole number."""
    queries = (*one.queries, *([one.discovery] if one.discovery is not None else []))
    aggregates = _aggregates(tuple(noised.query for noised in queries))
    return one.chooser is None and set(aggregates) <= {RowCount(), UnitCount()}


def _widened(one: Allotted, errors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Errors of counts with room for the rounding to a whole number, where the noise was on a finer grid."""
    noised = one.queries or (one.discovery,)
    finer = any(query is not None and not query.exact for query in noised)
    return np.ceil(errors + 0.5) if _whole(one) and finer else errors


def _values(one: Allotted, keys: _Keys, numbers: NDArray[np.float64], order: NDArray[np.float64]) -> Values:
    statistic = one.compiled.part.statistic
    whole = _whole(one)
    plain: list[Number] = [round(x) if whole else x for x in numbers.tolist()]
    if one.compiled.grouping.single:
        return plain[0]
    several = isinstance(statistic, Marginal) or (
        isinstance(statistic, GroupBy) and not isinstance(statistic.by, str)
    )
    shown: list[tuple[Key, Number]] = [
        (key if several else key[0], number) for key, number in zip(keys, plain, strict=True)
    ]
    if isinstance(statistic, TopK):
        best = np.argsort(-order, kind="stable")[: statistic.k]
        return tuple(shown[place] for place in best)
    return tuple(shown)
