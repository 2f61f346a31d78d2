"""What a question is and costs, from metadata alone: no data file is opened here, and no server is asked.

Every refusal is one ``InvalidArgument``, which may be shown. A plan is a function of the question and of the
metadata: so it is kept, and asking for its price again is quick.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeAlias, final

from privet.curator.plans import PlannedQuestion, QuestionPlanner
from privet.curator.questions.accuracy import choose_epsilon
from privet.curator.questions.fields import Fields
from privet.curator.questions.metadata import DatasetMetadata, StewardFile
from privet.curator.questions.question import TableQuestion, check_size, read_question
from privet.curator.questions.statistics_json import columns_of
from privet.curator.questions.steward_file import read_steward_file
from privet.errors import InvalidArgument, NotProved, OutOfReach
from privet.ledger import Entry
from privet.lineage import canonical
from privet.releasing import ErrorKind, Quote

if TYPE_CHECKING:
    from privet.curator.questions.model_question import ModelQuestion
    from privet.curator.questions.synthetic_question import SyntheticQuestion

__all__ = ["AnyQuestion", "MetadataPlanner", "read_canonical"]

AnyQuestion: TypeAlias = "TableQuestion | ModelQuestion | SyntheticQuestion"

_KEPT = 2048  # plans in memory


@final
class MetadataPlanner(QuestionPlanner):
    """Plans by the steward's metadata.

    >>> planner = MetadataPlanner(StewardFile({}))
    >>> planner.describe("visits")
    Traceback (most recent call last):
        ...
    privet.errors.InvalidArgument: There is no dataset 'visits'. Choose one that you may ask.
    """

    def __init__(self, stewardship: StewardFile) -> None:
        self._stewardship = stewardship
        self._plans: OrderedDict[str, PlannedQuestion] = OrderedDict()
        self._lock = Lock()

    @staticmethod
    def of_file(path: Path) -> "MetadataPlanner":
        """By a steward's file."""
        return MetadataPlanner(read_steward_file(path))

    @property
    def stewardship(self) -> StewardFile:
        """The datasets and their metadata."""
        return self._stewardship

    def plan(self, dataset: str, question: Mapping[str, Any]) -> PlannedQuestion:
        metadata = self._stewardship.find(dataset)
        check_size(question)
        asked = canonical([dataset, question])
        with self._lock:
            if asked in self._plans:
                self._plans.move_to_end(asked)
                return self._plans[asked]
        try:
            planned = _plan(metadata, question)
        except (NotProved, OutOfReach) as unknown:
            raise InvalidArgument(
                f"This question cannot be priced: {unknown} Change the budget or the question."
            ) from None
        with self._lock:
            self._plans[asked] = planned
            while len(self._plans) > _KEPT:
                self._plans.popitem(last=False)
        return planned

    def describe(self, dataset: str) -> Mapping[str, Any]:
        return self._stewardship.find(dataset).to_plain()


def read_canonical(metadata: DatasetMetadata, question: object) -> AnyQuestion:
    """A question in its canonical form; an accuracy is not turned into an ε."""
    return _read(metadata, question)[1]


def _read(metadata: DatasetMetadata, question: object) -> tuple[AnyQuestion, AnyQuestion]:
    """The question as it was asked, and its canonical form."""
    given = question if isinstance(question, Mapping) else {}
    kinds = [kind for kind in ("model", "synthetic") if kind in given]
    if not kinds:
        asked = read_question(question, metadata)
        return asked, asked.normalize()
    # Loaded where they are asked for: estimators need scikit-learn.
    if kinds == ["model"]:
        from privet.curator.questions.model_question import read_model_question

        model = read_model_question(question, metadata)
        return model, model
    from privet.curator.questions.synthetic_question import read_synthetic_question

    synthetic = read_synthetic_question(question, metadata)
    return synthetic, synthetic


def _plan(metadata: DatasetMetadata, question: Mapping[str, Any]) -> PlannedQuestion:
    asked, normal = _read(metadata, _expand_sql(question, metadata))
    if not isinstance(asked, TableQuestion) or not isinstance(normal, TableQuestion):
        _require_canonical(metadata, normal)
        return _price_rows(normal)
    if normal.epsilon is None:
        normal = choose_epsilon(normal).normalize()
    _require_canonical(metadata, normal)
    plain, plan = normal.to_plain(), normal.plan()
    quotes = plan.quote()
    return PlannedQuestion(
        key=_hash(plain),
        canonical=plain,
        adjacency=plan.relation,
        entries=tuple(Entry(quote.label, quote.event) for quote in quotes),
        epsilon=plan.budget.epsilon,
        delta=plan.budget.delta,
        answers=tuple(
            _describe(quote, statistic.statistic, asked.assuming_rows)
            for quote, statistic in zip(quotes, normal.statistics, strict=True)
        ),
        labels=asked.names(),
    )


def _require_canonical(metadata: DatasetMetadata, normal: AnyQuestion) -> None:
    """Refuse a question whose canonical form is no question: a worker, which reads that form, would fail on
    it after the charge.
    """
    plain = normal.to_plain()
    if read_canonical(metadata, plain).to_plain() != plain:
        raise InvalidArgument(
            "The question has no canonical form. Write weights and bounds with fewer digits."
        )


def _price_rows(question: Any) -> PlannedQuestion:  # noqa: ANN401 - a model, or a synthetic table
    """The price of a model or of a synthetic table. How good it will be is not known beforehand."""
    plain = question.to_plain()
    label, epsilon, delta = question.label, question.epsilon, question.delta
    unknown = {"error": None, "error_kind": None, "error_at_assumed_rows": None, "confidence": None}
    return PlannedQuestion(
        key=_hash(plain),
        canonical=plain,
        adjacency=question.dataset.adjacency,
        entries=(Entry(label, question.event),),
        epsilon=epsilon,
        delta=delta,
        answers=(
            {"label": label, "by": [], **unknown, "epsilon": epsilon, "delta": delta, "threshold": None},
        ),
        labels=(label,),
    )


def _hash(plain: Mapping[str, Any]) -> str:
    return hashlib.sha256(canonical(plain).encode()).hexdigest()


def _expand_sql(question: Mapping[str, Any], metadata: DatasetMetadata) -> Mapping[str, Any]:
    """The question with the statistics, condition and joins of its SQL in the place of it."""
    if not isinstance(question, Mapping) or "sql" not in question:
        return question
    from privet.curator.questions.sql import read_sql

    given = Fields(question, "The question")
    text = given.text("sql")
    for name in ("statistics", "where", "join"):
        if name in given:
            raise InvalidArgument(
                f"A question must have 'sql' or '{name}', and has both. Write all of it in one of them."
            )
    rest = {name: value for name, value in question.items() if name not in ("sql", "within")}
    read = read_sql(text, metadata)
    if "within" in given:
        within = given.number("within")
        read["statistics"] = [{**one, "within": within} for one in read["statistics"]]
    return {**rest, **read}


def _describe(quote: Quote, statistic: Any, rows: int | None) -> dict[str, Any]:  # noqa: ANN401
    over_rows = quote.error_kind is ErrorKind.OVER_COUNT
    return {
        "label": quote.label,
        "by": list(columns_of(statistic)),
        "error": quote.error,
        "error_kind": str(quote.error_kind),
        "error_at_assumed_rows": quote.error / rows if over_rows and rows else None,
        "confidence": quote.confidence,
        "epsilon": quote.cost.epsilon,
        "delta": quote.cost.delta,
        "threshold": quote.threshold,
    }
