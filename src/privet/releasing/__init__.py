"""Tables → bounded contributions → several statistics under one ledger.

*What is in it*: ``statistics/`` (what can be asked), ``tables/`` and ``engines/`` (where rows come from, and
how they are summed), ``synthetic/`` (synthetic tables), and the path of a release.

*How data flow*: ``plan`` holds the statistics and the budget. ``compiled_statistics`` turns each into queries
with their sensitivity; ``budget_split`` chooses the noise of each; ``store`` writes the cost down;
``executor`` asks the engine for sums, adds the noise, and lets ``postprocessing`` make answers of them.

*Where to add*: a statistic in ``statistics/``, an engine in ``engines/``, a kind of noise in
``noise_distributions``.
"""

from privet.public_calls import check_public_calls
from privet.releasing.answers import (
    Answer,
    ErrorKind,
    Quote,
    Released,
    answer_from_plain,
    answer_to_plain,
)
from privet.releasing.budget import Budget, FilterState, PrivacyCost, filter_state
from privet.releasing.contribution import Contribution
from privet.releasing.engines.choice import choose_engine
from privet.releasing.engines.engine import TableEngine
from privet.releasing.failure import ReleaseFailed
from privet.releasing.plan import ReleasePlan
from privet.releasing.questions import Question, question_key
from privet.releasing.row_filters import (
    Above,
    AllHold,
    AnyHold,
    AtLeast,
    AtMost,
    Below,
    IsIn,
    IsMissing,
    Negated,
    RowCondition,
)
from privet.releasing.statistics import (
    Count,
    Covariance,
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
from privet.releasing.tables.postgres_table import PostgresTable

__all__ = [
    "Above",
    "AllHold",
    "Answer",
    "AnyHold",
    "AtLeast",
    "AtMost",
    "Below",
    "Budget",
    "Contribution",
    "Count",
    "Covariance",
    "ErrorKind",
    "FilterState",
    "GroupBy",
    "Histogram",
    "IsIn",
    "IsMissing",
    "Marginal",
    "Mean",
    "MemoryStore",
    "Negated",
    "PostgresTable",
    "PrivacyCost",
    "Quantile",
    "Question",
    "Quote",
    "ReleaseFailed",
    "ReleasePlan",
    "Released",
    "RowCondition",
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


check_public_calls(__name__)
