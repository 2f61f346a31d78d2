"""Parse the command line of ``privet release`` into statistics, budgets and bounds.

Each statistic reads its own words (``privet.releasing.statistics``).
"""

import argparse

from privet.adjacency import Adjacency, adjacency_from_name
from privet.errors import InvalidArgument
from privet.releasing import Budget, Contribution, GroupBy, Marginal, ReleasePlan, Statistic
from privet.releasing.keys import Category, Key
from privet.releasing.statistics import NAMED_STATISTICS, NamedStatistic, Scalar
from privet.releasing.statistics.option_words import read_columns, read_number

__all__ = ["budget_from", "budget_of", "key_text", "plan_of"]


def plan_of(arguments: argparse.Namespace) -> ReleasePlan:
    """The plan that the command line describes."""
    if arguments.epsilon is None:
        raise InvalidArgument(
            "--epsilon must be given, because every answer costs some of it. Use --epsilon 1 to begin with."
        )
    if arguments.privacy_unit is None and (arguments.rows_per_person or arguments.groups_per_person):
        raise InvalidArgument(
            "--rows-per-person and --groups-per-person must be given with --privacy-unit, because without "
            "it every row is protected by itself. Name the column that says whose row it is."
        )
    return ReleasePlan(
        statistics=_statistics(arguments),
        unit=arguments.privacy_unit,
        budget=Budget(epsilon=arguments.epsilon, delta=arguments.delta or 0.0),
        split=_split(arguments.split),
        contribution=Contribution(
            rows=arguments.rows_per_person or 1, groups=arguments.groups_per_person or 1
        ),
        adjacency=_adjacency(arguments),
        confidence=0.95 if arguments.confidence is None else arguments.confidence,
    )


def budget_of(arguments: argparse.Namespace) -> Budget | None:
    """The budget of the ledger. Without a δ of its own it has the δ of the release."""
    if arguments.budget is None:
        return None
    if arguments.ledger is None:
        raise InvalidArgument(
            "--budget must be given with --ledger, which holds what was spent before. Name a ledger, such as "
            "--ledger ledger.json."
        )
    return budget_from("--budget", arguments.budget, arguments.delta or 0.0)


def budget_from(option: str, words: str, delta: float) -> Budget:
    """``ε`` or ``ε:δ`` as a budget; ``delta`` is its δ if the text has none."""
    epsilon, colon, own = words.partition(":")
    return Budget(epsilon=read_number(option, epsilon), delta=read_number(option, own) if colon else delta)


def key_text(key: Key) -> str:
    """A key in one word: a combination as a line of CSV.

    >>> key_text("a,b"), key_text(True), key_text(("a,b", 3))
    ('a,b', 'true', '"a,b",3')
    """
    return ",".join(_quote(_text(part)) for part in key) if isinstance(key, tuple) else _text(key)


def _adjacency(arguments: argparse.Namespace) -> Adjacency:
    return adjacency_from_name(
        arguments.adjacency or "add-remove", "record" if arguments.privacy_unit is None else "user"
    )


def _statistics(arguments: argparse.Namespace) -> tuple[tuple[str, Statistic], ...]:
    asked: list[tuple[str, str]] = arguments.statistics or []
    if not asked:
        raise InvalidArgument(
            "A statistic must be asked for, got none. Give --count, --mean age:0:100 or another of them."
        )
    if len(set(asked)) < len(asked):
        option, words = next(pair for pair in asked if asked.count(pair) > 1)
        raise InvalidArgument(
            f"Each statistic must be asked for once, got --{' '.join(filter(None, (option, words)))} twice. "
            f"Leave one out: the same question has the same answer."
        )
    statistics = [NAMED_STATISTICS[option].from_words(f"--{option}", words) for option, words in asked]
    short = [f"{statistic.option} {statistic.subject}".rstrip() for statistic in statistics]
    full = [f"{option} {words}".rstrip() for option, words in asked]
    # The mean of one column with two pairs of bounds has one short label twice.
    labels = [own if short.count(own) == 1 else words for own, words in zip(short, full, strict=True)]
    return tuple(
        _apply_grouping(label, statistic, arguments.group_by)
        for label, statistic in zip(labels, statistics, strict=True)
    )


def _apply_grouping(label: str, statistic: NamedStatistic, group_by: str | None) -> tuple[str, Statistic]:
    if group_by is None:
        return label, statistic
    if not isinstance(statistic, Scalar):
        raise InvalidArgument(
            f"--group-by is for {_scalar_options()}, got it with --{statistic.option}. "
            f"Ask for a --marginal, or for this one in a release of its own."
        )
    columns = read_columns("--group-by", group_by)
    names = tuple(name for name, _ in columns)
    lists = [values for _, values in columns if values is not None]
    if lists and len(lists) < len(names):
        raise InvalidArgument(
            f"--group-by must list the keys of every column or of none, got {group_by!r}. "
            f"Write city:a,b;sex:f,m or city;sex."
        )
    by: str | tuple[str, ...] = names[0] if len(names) == 1 else names
    keys: tuple[Key, ...] | None = None
    if lists:
        keys = lists[0] if len(names) == 1 else Marginal(tuple(zip(names, lists, strict=True))).keys
    return f"{label} by {', '.join(names)}", GroupBy(by, statistic, keys)


def _scalar_options() -> str:
    options = [f"--{option}" for option, kind in NAMED_STATISTICS.items() if issubclass(kind, Scalar)]
    return f"{', '.join(options[:-1])} and {options[-1]}"


def _split(words: str | None) -> tuple[float, ...] | None:
    return None if words is None else tuple(read_number("--split", word) for word in words.split(","))


def _text(value: Category) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _quote(text: str) -> str:
    return '"' + text.replace('"', '""') + '"' if set(text) & set(',"\n') else text
