"""A question about a table, as it is asked, and the one canonical form of all questions that mean the same.

Labels, order, aliases, repetitions, defaults that are written out, and the way in which accuracy or weights
are given are no part of it. So whoever asks again, in whatever words, gets the same answer, which costs
nothing.
"""

import json
from dataclasses import dataclass, replace
from typing import Any, final

from privet.arguments import format_value
from privet.curator.questions.conditions import normalize_condition, read_condition
from privet.curator.questions.fields import Fields
from privet.curator.questions.metadata import DatasetMetadata
from privet.curator.questions.statistics_json import (
    QuestionScope,
    describe_statistic,
    read_statistic,
    write_statistic,
)
from privet.errors import InvalidArgument
from privet.lineage import canonical
from privet.releasing import Budget, Contribution, ReleasePlan, RowCondition, Statistic

__all__ = [
    "VERSION",
    "AskedStatistic",
    "TableQuestion",
    "check_epsilon",
    "check_header",
    "check_size",
    "read_price",
    "read_question",
    "write_frame",
]

VERSION = 1
_LONGEST = 200_000  # characters of a question
_DIGITS = 9  # of a weight, so that 1/3 has one form


@final
@dataclass(frozen=True)
class AskedStatistic:
    """A statistic, how the analyst calls it, its weight in the budget, or the accuracy that is wanted."""

    label: str
    statistic: Statistic
    weight: float = 1.0
    within: float | None = None


@final
@dataclass(frozen=True, kw_only=True)
class TableQuestion:
    """Statistics of the rows that pass a condition, at one budget; without ``epsilon``, at an accuracy."""

    dataset: DatasetMetadata
    statistics: tuple[AskedStatistic, ...]
    where: RowCondition | None
    joins: tuple[str, ...]
    contribution: Contribution
    epsilon: float | None
    delta: float
    assuming_rows: int | None = None

    def normalize(self) -> "TableQuestion":
        """The canonical question: each statistic once, in an order and with labels of its own."""
        merged: dict[str, AskedStatistic] = {}
        for asked in self.statistics:
            text, same = _text(asked.statistic), merged.get(_text(asked.statistic))
            merged[text] = asked if same is None else _merge(same, asked)
        ordered = [merged[text] for text in sorted(merged)]
        largest = max(asked.weight for asked in ordered)
        counts: dict[str, int] = {}
        named = []
        for asked in ordered:
            label = describe_statistic(asked.statistic)
            counts[label] = counts.get(label, 0) + 1
            label = label if counts[label] == 1 else f"{label} ({counts[label]})"
            weight = round(asked.weight / largest, _DIGITS)  # the largest is 1: done twice, it stays the same
            named.append(replace(asked, label=label, weight=weight))
        return replace(
            self,
            statistics=tuple(named),
            where=normalize_condition(self.where),
            joins=tuple(sorted(self.joins)),
        )

    def names(self) -> tuple[str, ...]:
        """How this question calls each statistic of its canonical form, in the order of that form."""
        named: dict[str, str] = {}
        for asked in self.statistics:
            named.setdefault(_text(asked.statistic), asked.label)
        return tuple(named[text] for text in sorted(named))

    def plan(self) -> ReleasePlan:
        """The release that answers it; needs an ε."""
        if self.epsilon is None:
            raise AssertionError("accuracy is turned into ε first")
        weights = tuple(asked.weight for asked in self.statistics)
        return ReleasePlan(
            statistics=tuple((asked.label, asked.statistic) for asked in self.statistics),
            unit=self.dataset.unit,
            budget=Budget(epsilon=self.epsilon, delta=self.delta),
            split=None if len(set(weights)) == 1 else weights,
            contribution=self.contribution,
            adjacency=self.dataset.adjacency,
            where=self.where,
        )

    def to_plain(self) -> dict[str, Any]:
        """As JSON, readable as a question again. Labels are left out."""
        plain: dict[str, Any] = {
            **write_frame(self.dataset, self.where, self.joins),
            "statistics": [_write(asked) for asked in self.statistics],
            "contribution": {"rows": self.contribution.rows, "groups": self.contribution.groups},
            "delta": self.delta,
        }
        if self.epsilon is not None:
            plain["epsilon"] = self.epsilon
        return plain


def read_question(question: object, dataset: DatasetMetadata) -> TableQuestion:
    """The question that JSON describes, with the defaults of the metadata."""
    given = Fields(question, "The question")
    check_header(given, dataset)
    joins = given.texts("join") if "join" in given else ()
    for name in joins:
        dataset.find_table(name)
    scope = QuestionScope(dataset, joins)
    listed = given.read_list("statistics")
    if len(listed) > dataset.limits.statistics:
        raise InvalidArgument(
            f"A question must have at most {dataset.limits.statistics} statistics, got {len(listed)}. Ask "
            f"twice."
        )
    statistics: list[AskedStatistic] = []
    for place, one in enumerate(listed):
        statistics.append(_read_asked(Fields(one, f"statistics[{place}]"), scope, statistics))
    where = read_condition(given.inner("where"), dataset, joins) if "where" in given else None
    epsilon, delta = read_price(given, dataset, accuracy=all(one.within is not None for one in statistics))
    if epsilon is not None and any(one.within is not None for one in statistics):
        raise InvalidArgument(
            "A question must have an 'epsilon', or 'within' in every statistic, and has both. Leave one out."
        )
    read = TableQuestion(
        dataset=dataset,
        statistics=tuple(statistics),
        where=where,
        joins=joins,
        contribution=_read_bounds(given, dataset),
        epsilon=epsilon,
        delta=delta,
        assuming_rows=given.whole("assuming_rows") if "assuming_rows" in given else None,
    )
    given.close()
    return read


def check_header(given: Fields, dataset: DatasetMetadata) -> None:
    """Refuse a question of another version, or that was meant for another dataset or another unit."""
    version = given.whole("version")
    if version != VERSION:
        raise InvalidArgument(f"A question must have version {VERSION}, got {version}. Write it so.")
    meant = {"dataset": dataset.name, "unit": dataset.unit, "adjacency": dataset.adjacency.relation}
    for name, value in meant.items():
        if name in given and given.raw(name) != value:
            raise InvalidArgument(
                f"The question is for the {name} {format_value(given.raw(name))}, and the dataset's is "
                f"{format_value(value)}. Leave '{name}' out."
            )


def write_frame(
    dataset: DatasetMetadata, where: RowCondition | None, joins: tuple[str, ...]
) -> dict[str, Any]:
    """What every canonical question begins with: whom it is about, and which rows."""
    plain: dict[str, Any] = {
        "version": VERSION,
        "dataset": dataset.name,
        "unit": dataset.unit,
        "adjacency": dataset.adjacency.relation,
    }
    if where is not None:
        plain["where"] = where.to_plain()
    if joins:
        plain["join"] = list(joins)
    return plain


def check_size(question: object) -> None:
    """Refuse what is no JSON, or too long to be read, or has text that is no Unicode."""
    try:
        length = len(json.dumps(question, ensure_ascii=False, allow_nan=False).encode())
    except (TypeError, ValueError, RecursionError, OverflowError):
        raise InvalidArgument(
            "The question must be JSON with finite numbers and text in Unicode, and is not. Correct it."
        ) from None
    if length > _LONGEST:
        raise InvalidArgument(
            f"The question must be at most {_LONGEST} bytes long, got {length}. Ask for less at once."
        )


def read_price(given: Fields, dataset: DatasetMetadata, *, accuracy: bool) -> tuple[float | None, float]:
    """ε, or None where an accuracy is asked for; and δ, 0 where none is given."""
    delta = given.number("delta", 0.0)
    if not 0 <= delta < 1:
        raise InvalidArgument(
            f"'delta' must be at least 0 and below 1, got {delta:g}. Give 0 for pure noise."
        )
    if delta > dataset.limits.delta:
        raise InvalidArgument(
            f"'delta' must be at most {dataset.limits.delta:g}, which is this dataset's limit for one "
            f"question, "
            f"got {delta:g}. Give a smaller one."
        )
    if "epsilon" not in given:
        if not accuracy:
            raise InvalidArgument(
                "A question must have an 'epsilon', or 'within' in every statistic, and has neither. Add one."
            )
        return None, delta
    epsilon = given.number("epsilon")
    check_epsilon(epsilon, dataset)
    return epsilon, delta


def check_epsilon(epsilon: float, dataset: DatasetMetadata) -> None:
    """Refuse an ε that one question may not cost."""
    if not 0 < epsilon <= dataset.limits.epsilon:
        raise InvalidArgument(
            f"'epsilon' must be above 0 and at most {dataset.limits.epsilon:g}, which is this dataset's "
            f"limit "
            f"for one question, got {epsilon:.6g}. Ask for less accuracy."
        )


def _read_asked(given: Fields, scope: QuestionScope, before: list[AskedStatistic]) -> AskedStatistic:
    statistic = read_statistic(given, scope)
    weight = given.number("weight", 1.0)
    within = given.number("within") if "within" in given else None
    if not 1e-6 <= weight <= 1e6:
        raise InvalidArgument(
            f"{given.place}: 'weight' must be from 1e-6 to 1e6, got {weight:g}. Give relative weights."
        )
    if within is not None and within <= 0:
        raise InvalidArgument(f"{given.place}: 'within' must be above 0, got {within:g}. Give an error.")
    taken, label = {asked.label for asked in before}, describe_statistic(statistic)
    if "label" in given:
        label = given.text("label")
        if label in taken:
            raise InvalidArgument(f"{given.place}: another statistic has this label. Rename one.")
    while label in taken:
        label += " again"
    given.close()
    return AskedStatistic(label, statistic, weight, within)


def _read_bounds(given: Fields, dataset: DatasetMetadata) -> Contribution:
    """The contribution of one unit: at most that of the metadata."""
    if "contribution" not in given:
        return dataset.contribution
    asked, most = given.inner("contribution"), dataset.contribution
    read = Contribution(rows=asked.whole("rows", most.rows), groups=asked.whole("groups", most.groups))
    asked.close()
    if read.rows > most.rows or read.groups > most.groups:
        raise InvalidArgument(
            f"'contribution' must be at most rows {most.rows} and groups {most.groups}, as the steward "
            f"declared, "
            f"got {format_value((read.rows, read.groups))}. Leave it out."
        )
    return read


def _text(statistic: Statistic) -> str:
    return canonical(write_statistic(statistic))


def _write(asked: AskedStatistic) -> dict[str, Any]:
    plain = write_statistic(asked.statistic)
    if asked.weight != 1.0:
        plain["weight"] = asked.weight
    return plain


def _merge(first: AskedStatistic, second: AskedStatistic) -> AskedStatistic:
    """The same statistic asked twice gets both weights, or the smaller of both errors."""
    bounds = [asked.within for asked in (first, second) if asked.within is not None]
    return replace(first, weight=first.weight + second.weight, within=min(bounds, default=None))
