"""One question of a plan, and its canonical text: the same question is the same text, whatever ε it is asked at."""

import json
from dataclasses import dataclass, fields
from typing import final

from privet.adjacency import Adjacency
from privet.releasing.contribution import Contribution
from privet.releasing.statistics import Statistic

__all__ = ["Part", "question_key"]


@final
@dataclass(frozen=True)
class Part:
    """One labelled statistic of a plan with everything public that its answer depends on, but for the noise."""

    label: str
    statistic: Statistic
    unit: str | None
    contribution: Contribution
    adjacency: Adjacency


def question_key(part: Part, data_name: str) -> str:
    """The question as canonical JSON. The label, ε and δ are no part of it.

    >>> from privet.adjacency import AddRemove
    >>> from privet.releasing.statistics import Count
    >>> question_key(Part("n", Count(), None, Contribution(), AddRemove()), "a.csv")[:40]
    '{"adjacency":"add-remove","contribution"'
    """
    question = {
        "version": 1,
        "data": data_name,
        "statistic": _plain(part.statistic),
        "unit": part.unit,
        "contribution": {"rows": part.contribution.rows, "groups": part.contribution.groups},
        "adjacency": part.adjacency.relation,
        "privacy_unit": str(part.adjacency.unit),
    }
    return json.dumps(question, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def _plain(value: object) -> object:
    match value:
        case Statistic():
            parts = {field.name: _plain(getattr(value, field.name)) for field in fields(value)}  # type: ignore[arg-type]
            return {"kind": type(value).__name__, **parts}
        case tuple():
            return [_plain(item) for item in value]
    return value
