"""One question of a plan, and its canonical text: the same question has the same text at every ε."""

import json
from dataclasses import dataclass
from typing import final

from privet.adjacency import Adjacency
from privet.releasing.contribution import Contribution
from privet.releasing.row_filters import RowCondition
from privet.releasing.statistics import Statistic

__all__ = ["Question", "question_key"]


@final
@dataclass(frozen=True)
class Question:
    """One labelled statistic of a plan, with everything public that its answer depends on."""

    label: str
    statistic: Statistic
    unit: str | None
    contribution: Contribution
    adjacency: Adjacency
    where: RowCondition | None = None


def question_key(question: Question, data_name: str) -> str:
    """The question as canonical JSON. The label, ε and δ are not in it.

    >>> from privet.adjacency import AddRemove
    >>> from privet.releasing.statistics import Count
    >>> question_key(Question("n", Count(), None, Contribution(), AddRemove()), "a.csv")[:40]
    '{"adjacency":"add-remove","contribution"'
    """
    plain = {
        "version": 1,
        "data": data_name,
        "statistic": question.statistic.to_plain(),
        "unit": question.unit,
        "contribution": {"rows": question.contribution.rows, "groups": question.contribution.groups},
        "adjacency": question.adjacency.relation,
        "privacy_unit": str(question.adjacency.unit),
    }
    if question.where is not None:
        plain["where"] = question.where.to_plain()
    return json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
