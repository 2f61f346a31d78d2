"""Tables → bounded contributions → several statistics under one ledger."""

from privet.public_calls import check_public_calls
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
from privet.releasing.engine import Engine, engine_for
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
    "Engine",
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
    "TopK",
    "Variance",
    "answer_from_plain",
    "answer_to_plain",
    "engine_for",
    "filter_state",
    "question_key",
]


check_public_calls(__name__)
