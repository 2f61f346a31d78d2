"""A question in words, for lists and headings."""

from collections.abc import Mapping
from typing import Any

__all__ = ["describe_question"]

_WORDS = {"top_k": "largest groups"}


def describe_question(question: Mapping[str, Any]) -> str:
    """One line.

    >>> statistics = [{"kind": "mean", "column": "age", "by": ["ward"]}]
    >>> describe_question({"statistics": statistics, "where": {"column": "sex", "in": ["f"]}})
    'mean of age by ward, where sex is f'
    """
    if isinstance(question.get("sql"), str):
        return " ".join(question["sql"].split())
    if "synthetic" in question:
        return "a synthetic table"
    if "model" in question:
        kind = question["model"].get("kind", "") if isinstance(question["model"], Mapping) else ""
        return f"a model{f': {kind}' if kind else ''}"
    parts = [_statistic(one) for one in question.get("statistics", ()) if isinstance(one, Mapping)]
    words = "; ".join(parts) or "a question"
    where = question.get("where")
    return f"{words}, where {_condition(where)}" if isinstance(where, Mapping) else words


def _statistic(one: Mapping[str, Any]) -> str:
    kind = str(one.get("kind", "statistic"))
    words = _WORDS.get(kind, kind)
    if kind == "quantile":
        words = "median" if one.get("probability") == 0.5 else f"quantile {one.get('probability')}"
    about = one.get("column") or " and ".join(str(one[name]) for name in ("x", "y") if name in one)
    if about:
        words = f"{words} of {about}"
    by = one.get("by")
    return f"{words} by {' and '.join(map(str, by))}" if by else words


def _condition(part: Mapping[str, Any]) -> str:
    if "all" in part or "any" in part:
        word, inside = (" and ", part["all"]) if "all" in part else (" or ", part["any"])
        return word.join(_condition(one) for one in inside)
    if "not" in part:
        return f"not ({_condition(part['not'])})"
    column = part.get("column", "")
    if "in" in part:
        values = [str(value) for value in part["in"]]
        return f"{column} is {' or '.join(values[:6])}{' …' if len(values) > 6 else ''}"
    for name, sign in (("at_least", "≥"), ("above", ">"), ("at_most", "≤"), ("below", "<")):
        if name in part:
            return f"{column} {sign} {part[name]}"
    return f"{column} is missing" if part.get("missing") else f"{column} is there"
