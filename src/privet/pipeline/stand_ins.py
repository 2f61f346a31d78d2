"""Stand-in people for a planned release: drawn from public bounds and keys, or from answers that were given.

A rehearsal needs people, and must not touch the real ones. So it draws numbers between the bounds of each
statistic and categories from its keys, which are public. With answers that were given already, numbers have
the answered mean, and categories the answered shares: whatever is computed from answers costs nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, final

import numpy as np

from privet.releasing import (
    Answer,
    Count,
    Covariance,
    GroupBy,
    Histogram,
    Marginal,
    Mean,
    Quantile,
    ReleasePlan,
    Statistic,
    Sum,
    TopK,
)
from privet.releasing.keys import Category
from privet.releasing.statistics.statistic import BoundedScalar

__all__ = ["SecretColumn", "StandIns", "secret_columns"]

_UNLISTED = ("a", "b", "c")  # stand-in keys of a column whose keys are not public
_LEAST_SHARE = 0.02  # noisy shares and means are held this far from the ends

Frame: TypeAlias = dict[str, list[Any]]


@final
@dataclass(frozen=True)
class SecretColumn:
    """A column of the stand-ins: its name, and the public values that a target may have.

    A column of numbers has its two bounds, which are the farthest apart; a category has its keys.
    """

    name: str
    values: tuple[Category, ...]
    numeric: bool
    mean: float | None = None  # as a share of the bounds, where it was answered
    shares: tuple[float, ...] | None = None

    @property
    def ends(self) -> tuple[Category, Category]:
        """Two values: the bounds, or the first two keys."""
        return self.values[0], self.values[-1]

    def draw(self, count: int, generator: np.random.Generator) -> list[Any]:
        """Values of so many people."""
        if not self.numeric:
            picked = generator.choice(len(self.values), count, p=self.shares)
            return [self.values[place] for place in picked.tolist()]
        low, high = float(self.values[0]), float(self.values[-1])
        share = 0.5 if self.mean is None else self.mean
        drawn: list[float] = (low + (high - low) * generator.beta(2 * share, 2 * (1 - share), count)).tolist()
        return drawn


def secret_columns(plan: ReleasePlan, answers: Sequence[Answer] = ()) -> tuple[SecretColumn, ...]:
    """The columns that the plan reads, each with what is public about it, or was answered."""
    bounds: dict[str, tuple[float, float]] = {}
    keys: dict[str, dict[Category, None]] = {}
    for _, statistic in plan.statistics:
        _collect(statistic, bounds, keys)
    given = {answer.label: answer for answer in answers}
    means, shares = _read_answers(plan, given)
    columns = [
        SecretColumn(name, ends, numeric=True, mean=means.get((name, *ends)))
        for name, ends in bounds.items()
        if name not in keys and name != plan.unit
    ]
    columns += [
        SecretColumn(name, values, numeric=False, shares=_fit_shares(values, shares.get(name)))
        for name, values in ((name, tuple(listed) or _UNLISTED) for name, listed in keys.items())
        if name != plan.unit
    ]
    return tuple(columns)


@final
@dataclass(frozen=True)
class StandIns:
    """People drawn for a plan, one row each, as columns of a table."""

    plan: ReleasePlan
    columns: tuple[SecretColumn, ...]
    people: int
    rows: Frame = field(repr=False)

    @classmethod
    def draw(
        cls, plan: ReleasePlan, columns: tuple[SecretColumn, ...], people: int, generator: np.random.Generator
    ) -> "StandIns":
        """So many people, every column by itself."""
        return cls(plan, columns, people, {column.name: column.draw(people, generator) for column in columns})

    def with_values(self, name: str, values: Sequence[Category]) -> object:
        """The table with these values of one column."""
        return self._frame({**self.rows, name: list(values)}, range(self.people))

    def with_target(self, target: dict[str, Category]) -> object:
        """The table with one person more, who has as many rows as count."""
        times = self.plan.contribution.rows
        rows = {name: [*values, *[target[name]] * times] for name, values in self.rows.items()}
        return self._frame(rows, [*range(self.people), *[self.people] * times])

    def without_target(self) -> object:
        """The table without anybody else."""
        return self._frame(self.rows, range(self.people))

    def farthest(self) -> dict[str, Category]:
        """A person who moves sums the farthest: in every column of numbers the bound farther from 0."""
        return {
            column.name: max(column.values, key=lambda value: abs(float(value)))
            if column.numeric
            else column.values[0]
            for column in self.columns
        }

    def target(self, **values: Category) -> dict[str, Category]:
        """A person with these values, and the first value of every other column."""
        return {column.name: column.values[0] for column in self.columns} | values

    def _frame(self, rows: Frame, owners: Sequence[int]) -> object:
        import polars

        whole = dict(rows)
        if self.plan.unit is not None:
            whole[self.plan.unit] = list(owners)
        return polars.DataFrame(whole) if whole else polars.DataFrame({"row": list(owners)})


def _collect(
    statistic: Statistic, bounds: dict[str, tuple[float, float]], keys: dict[str, dict[Category, None]]
) -> None:
    """Note the bounds and keys of a statistic; the widest bounds of a column count."""

    def note_bounds(name: str, low: float, high: float) -> None:
        before = bounds.get(name, (low, high))
        bounds[name] = (min(before[0], low), max(before[1], high))

    def note_keys(name: str, values: Sequence[Category] | None) -> None:
        keys.setdefault(name, {}).update(dict.fromkeys(values or ()))

    match statistic:
        case GroupBy():
            for place, name in enumerate(statistic.columns):
                grouping = statistic.grouping.keys
                note_keys(name, None if grouping is None else [key[place] for key in grouping])
            _collect(statistic.statistic, bounds, keys)
        case Histogram() | TopK():
            note_keys(statistic.column, statistic.categories)
        case Marginal():
            for name, values in statistic.columns:
                note_keys(name, values)
        case BoundedScalar() | Quantile():
            note_bounds(statistic.column, statistic.lower, statistic.upper)
        case Covariance():
            note_bounds(statistic.x, statistic.x_lower, statistic.x_upper)
            note_bounds(statistic.y, statistic.y_lower, statistic.y_upper)
        case _:
            pass


def _read_answers(
    plan: ReleasePlan, given: dict[str, Answer]
) -> tuple[dict[tuple[str, float, float], float], dict[str, dict[Category, float]]]:
    """Means as shares of their bounds, and counts by category, of the answers that were given."""
    means: dict[tuple[str, float, float], float] = {}
    shares: dict[str, dict[Category, float]] = {}
    counts = [
        given[label].value
        for label, statistic in plan.statistics
        if label in given and isinstance(statistic, Count)
    ]
    people = max(
        (float(count) for count in counts if not isinstance(count, tuple) and count > 0), default=None
    )
    for label, statistic in plan.statistics:
        if label not in given:
            continue
        value = given[label].value
        if isinstance(statistic, (Mean, Sum)) and not isinstance(value, tuple):
            if isinstance(statistic, Sum):
                if people is None:
                    continue
                value = float(value) / people
            width = statistic.upper - statistic.lower
            share = (float(value) - statistic.lower) / width
            held = float(np.clip(share, _LEAST_SHARE, 1 - _LEAST_SHARE))
            means[statistic.column, statistic.lower, statistic.upper] = held
        if isinstance(statistic, Histogram) and isinstance(value, tuple):
            shares[statistic.column] = {
                key: float(number) for key, number in value if not isinstance(key, tuple)
            }
    return means, shares


def _fit_shares(
    values: tuple[Category, ...], counts: dict[Category, float] | None
) -> tuple[float, ...] | None:
    if counts is None:
        return None
    held = np.maximum([counts.get(value, 0.0) for value in values], 0.0)
    held = np.maximum(held / max(held.sum(), 1.0), _LEAST_SHARE)
    return tuple((held / held.sum()).tolist())
