"""Parse the command line of ``privet release`` into statistics, budgets and bounds.

A list is written as a line of CSV, so ``"a,b",c`` has two members. If all members are whole numbers, they are read as
numbers; otherwise as text. ``01234`` is text, as a postcode should be.
"""

import argparse
import csv
from collections import Counter
from typing import Any

from privet.adjacency import Adjacency, adjacency_from_name
from privet.errors import InvalidArgument
from privet.releasing import (
    Budget,
    Contribution,
    Count,
    GroupBy,
    Histogram,
    Marginal,
    Mean,
    Plan,
    Quantile,
    Statistic,
    Sum,
    TopK,
    Variance,
)
from privet.releasing.statistics import Category, Key, Scalar

__all__ = ["budget_from", "budget_of", "key_text", "parse_list", "parse_real", "plan_of"]

_BOUNDED: dict[str, type[Sum] | type[Mean] | type[Variance]] = {
    "sum": Sum,
    "mean": Mean,
    "variance": Variance,
}


def plan_of(arguments: argparse.Namespace) -> Plan:
    """The plan that the command line describes."""
    if arguments.epsilon is None:
        raise InvalidArgument(
            "--epsilon must be given, because every answer costs some of it. Use --epsilon 1 to begin with."
        )
    if arguments.privacy_unit is None and (arguments.rows_per_person or arguments.groups_per_person):
        raise InvalidArgument(
            "--rows-per-person and --groups-per-person must be given with --privacy-unit, because without it every "
            "row is protected by itself. Name the column that says whose row it is."
        )
    return Plan(
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
    """What the ledger may reach at most; without a δ of its own it has that of the release."""
    if arguments.budget is None:
        return None
    if arguments.ledger is None:
        raise InvalidArgument(
            "--budget must be given with --ledger, which holds what was spent before. Name a ledger, such as "
            "--ledger ledger.json."
        )
    return budget_from("--budget", arguments.budget, arguments.delta or 0.0)


def budget_from(option: str, words: str, delta: float) -> Budget:
    """``ε`` or ``ε:δ`` as a budget; ``delta`` is the one that it has without a δ of its own."""
    epsilon, colon, own = words.partition(":")
    return Budget(epsilon=parse_real(option, epsilon), delta=parse_real(option, own) if colon else delta)


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
        kind, words = next(pair for pair in asked if asked.count(pair) > 1)
        raise InvalidArgument(
            f"Each statistic must be asked for once, got --{' '.join(filter(None, (kind, words)))} twice. "
            f"Leave one out: the same question has the same answer."
        )
    short = Counter(_label(kind, words) for kind, words in asked)
    found = []
    for kind, words in asked:
        label = _label(kind, words)
        if short[label] > 1:
            label = f"{kind} {words}".rstrip()  # the mean of one column with two pairs of bounds, say
        found.append(_apply_grouping(label, _statistic(kind, words), kind, arguments.group_by))
    return tuple(found)


def _label(kind: str, words: str) -> str:
    if kind == "marginal":
        return " ".join([kind, *(part.partition(":")[0] for part in words.split(";"))])
    if kind in _BOUNDED:
        return f"{kind} {words.rsplit(':', 2)[0]}"
    if kind == "quantile":
        column, *rest = words.rsplit(":", 3)
        return f"{kind} {rest[0] if rest else ''} {column}"
    return f"{kind} {words.partition(':')[0]}".rstrip()


def _apply_grouping(
    label: str, statistic: Statistic, kind: str, group_by: str | None
) -> tuple[str, Statistic]:
    if group_by is None:
        return label, statistic
    if not isinstance(statistic, Scalar):
        raise InvalidArgument(
            f"--group-by is for --count, --sum, --mean, --variance and --quantile, got it with --{kind}. "
            f"Ask for a --marginal, or for this one in a release of its own."
        )
    columns = _columns("--group-by", group_by)
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


def _statistic(kind: str, words: str) -> Statistic:
    option = f"--{kind}"
    if kind in _BOUNDED:
        column, lower, upper = _words(option, words.rsplit(":", 2), 3, "COL:LOW:HIGH, as in age:0:100")
        return _BOUNDED[kind](column, parse_real(option, lower), parse_real(option, upper))
    match kind:
        case "count":
            return Count()
        case "quantile":
            column, *parts = _words(option, words.rsplit(":", 3), 4, "COL:Q:LOW:HIGH, as in age:0.5:0:100")
            share, low, high = (parse_real(option, part) for part in parts)
            return Quantile(column, share, low, high)
        case "histogram":
            column, listed = _words(option, words.split(":", 1), 2, "COL:A,B,…, as in city:a,b,c")
            return Histogram(column, parse_list(option, listed))
        case "top-k":
            parts = words.split(":", 2)
            if len(parts) < 2:
                _words(option, parts, 3, "COL:K:A,B,… or COL:K, as in city:3:a,b,c,d,e")
            categories = parse_list(option, parts[2]) if len(parts) == 3 else None
            return TopK(parts[0], _whole(option, parts[1]), categories)
    columns = _columns(option, words)
    return Marginal(tuple((name, _require_list(option, name, values)) for name, values in columns))


def _columns(option: str, words: str) -> list[tuple[str, tuple[Any, ...] | None]]:
    """``city:a,b;sex:f,m`` as columns with what they hold, or with nothing where no list is given."""
    parts = [part.partition(":") for part in words.split(";")]
    return [(name, parse_list(option, listed) if colon else None) for name, colon, listed in parts]


def _require_list(option: str, name: str, values: tuple[Category, ...] | None) -> tuple[Category, ...]:
    if values is None:
        raise InvalidArgument(
            f"{option} must list the values of each column, got none for {name!r}. Write city:a,b;sex:f,m."
        )
    return values


def parse_list(option: str, words: str) -> tuple[Any, ...]:
    """``a,b,c`` as values: whole numbers if all of them are, else text."""
    try:
        values = next(csv.reader([words], strict=True), [])
    except csv.Error:
        values = []
    if any(value == "" for value in values) or not values:
        raise InvalidArgument(f"{option} must list values between its commas, got {words!r}. Write a,b,c.")
    if all(_is_whole(value) for value in values):
        return tuple(int(value) for value in values)
    return tuple(values)


def _is_whole(text: str) -> bool:
    digits = text.removeprefix("-")
    return digits.isascii() and digits.isdigit() and len(digits) < 19 and str(int(text)) == text


def _words(option: str, parts: list[str], count: int, form: str) -> list[str]:
    if len(parts) != count or not all(parts):
        raise InvalidArgument(f"{option} must be {form}, got {':'.join(parts)!r}. Write it in this way.")
    return parts


def parse_real(option: str, text: str) -> float:
    """A number, or an error that names the option."""
    try:
        return float(text)
    except ValueError:
        raise InvalidArgument(f"{option} must have a number here, got {text!r}. Write one.") from None


def _whole(option: str, text: str) -> int:
    if not _is_whole(text):
        raise InvalidArgument(f"{option} must have a whole number here, got {text!r}. Write one.")
    return int(text)


def _split(words: str | None) -> tuple[float, ...] | None:
    return None if words is None else tuple(parse_real("--split", word) for word in words.split(","))


def _text(value: Category) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _quote(text: str) -> str:
    return '"' + text.replace('"', '""') + '"' if set(text) & set(',"\n') else text
