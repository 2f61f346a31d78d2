"""Tables → bounded contributions → several statistics under one ledger."""

from privet.releasing.answers import (
    Answer,
    ErrorKind,
    Quote,
    Released,
    answer_from_plain,
    answer_to_plain,
)
from privet.releasing.budget import Budget, Cost, FilterState, filter_state
from privet.releasing.contribution import Contribution
from privet.releasing.engines.choice import choose_engine
from privet.releasing.engines.engine import TableEngine
from privet.releasing.failure import ReleaseFailed
from privet.releasing.plan import Plan
from privet.releasing.questions import Part, question_key
from privet.releasing.statistics import (
    Count,
    GroupBy,
    Histogram,
    Marginal,
    Mean,
    Quantile,
    Statistic,
    Sum,
    TopK,
    Variance,
)
from privet.releasing.store import MemoryStore, Store

__all__ = [
    "Answer",
    "Budget",
    "Contribution",
    "Cost",
    "Count",
    "ErrorKind",
    "FilterState",
    "GroupBy",
    "Histogram",
    "Marginal",
    "Mean",
    "MemoryStore",
    "Part",
    "Plan",
    "Quantile",
    "Quote",
    "ReleaseFailed",
    "Released",
    "Statistic",
    "Store",
    "Sum",
    "TableEngine",
    "TopK",
    "Variance",
    "answer_from_plain",
    "answer_to_plain",
    "choose_engine",
    "filter_state",
    "question_key",
]
