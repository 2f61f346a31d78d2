"""The forms of requests and answers, for the OpenAPI description."""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from privet.curator.gateway.plain_json import check_plain
from privet.curator.service import AnswerRecord, BudgetState, DatasetCard, QuoteCard

__all__ = [
    "AnswerBody",
    "BudgetBody",
    "BudgetsBody",
    "DatasetBody",
    "DatasetsBody",
    "ErrorBody",
    "HistoryBody",
    "PersonBody",
    "QuestionBody",
    "QuoteBody",
    "WantedBudgetBody",
    "answer_body",
    "budget_body",
    "dataset_body",
    "quote_body",
]

Plain = Annotated[dict[str, Any], AfterValidator(check_plain)]
Figure = float | Literal["Infinity", "-Infinity"]  # JSON has no infinite number


class QuestionBody(BaseModel):
    """A question: of the JSON form, or SQL in ``{"sql": "SELECT …"}``."""

    model_config = ConfigDict(extra="forbid")
    question: Plain = Field(description="See docs/curator.md for what a question may be.")


class WantedBudgetBody(BaseModel):
    """A request for more budget."""

    model_config = ConfigDict(extra="forbid")
    epsilon: float = Field(gt=0, le=1000, allow_inf_nan=False, description="The cap that is asked for.")
    reason: Annotated[str, AfterValidator(check_plain)] = Field(min_length=1, max_length=1000)


class RefusalBody(BaseModel):
    """What was refused: a word for programs, and sentences for people."""

    code: str
    message: str


class ErrorBody(BaseModel):
    """Every answer that is no answer."""

    error: RefusalBody


class PersonBody(BaseModel):
    """Who asks."""

    name: str
    role: str


class BudgetBody(BaseModel):
    """How far a cap is used."""

    scope: str
    name: str
    epsilon: Figure
    delta: float
    reached: Figure
    remaining: Figure
    filter_name: str


class BudgetsBody(BaseModel):
    """All caps that the account may see."""

    budgets: list[BudgetBody]


class DatasetBody(BaseModel):
    """A dataset: public metadata, and the caps that bind the account."""

    name: str
    description: str
    metadata: dict[str, Any]
    budgets: list[BudgetBody]
    read_only: bool


class DatasetsBody(BaseModel):
    """The datasets that the account may ask."""

    datasets: list[DatasetBody]


class QuoteBody(BaseModel):
    """What a question would cost, and how accurate its answers would be. No row was read."""

    dataset: str
    question: dict[str, Any]
    epsilon: Figure
    delta: float
    answers: list[dict[str, Any]]
    stored: bool
    affordable: bool
    budgets: list[BudgetBody]
    caveats: list[str]


class AnswerBody(BaseModel):
    """One question of the history, with its answer. ``status`` failed means: failed; charged."""

    id: str
    dataset: str
    analyst: str
    question: dict[str, Any]
    asked_at: str
    status: Literal["reserved", "answered", "failed"]
    epsilon: Figure
    delta: float
    answer: dict[str, Any] | None
    stored: bool
    chain_position: int
    caveats: list[str]
    labels: list[str]
    filter_name: str


class HistoryBody(BaseModel):
    """Records, the newest first."""

    records: list[AnswerBody]


def budget_body(state: BudgetState) -> dict[str, Any]:
    """A cap as plain data."""
    return {
        "scope": str(state.scope),
        "name": state.name,
        "epsilon": state.epsilon,
        "delta": state.delta,
        "reached": state.reached,
        "remaining": state.remaining,
        "filter_name": state.filter_name,
    }


def dataset_body(card: DatasetCard) -> dict[str, Any]:
    """A dataset as plain data."""
    return {
        "name": card.name,
        "description": card.description,
        "metadata": dict(card.metadata),
        "budgets": [budget_body(state) for state in card.budgets],
        "read_only": card.read_only,
    }


def quote_body(card: QuoteCard) -> dict[str, Any]:
    """A quote as plain data."""
    return {
        "dataset": card.dataset,
        "question": dict(card.question),
        "epsilon": card.epsilon,
        "delta": card.delta,
        "answers": [dict(answer) for answer in card.answers],
        "stored": card.stored,
        "affordable": card.affordable,
        "budgets": [budget_body(state) for state in card.budgets],
        "caveats": list(card.caveats),
    }


def answer_body(record: AnswerRecord) -> dict[str, Any]:
    """A record as plain data. The fields are the same whatever became of the question."""
    return {
        "id": record.id,
        "dataset": record.dataset,
        "analyst": record.analyst,
        "question": dict(record.question),
        "asked_at": record.asked_at.isoformat(timespec="seconds"),
        "status": str(record.status),
        "epsilon": record.epsilon,
        "delta": record.delta,
        "answer": None if record.answer is None else dict(record.answer),
        "stored": record.stored,
        "chain_position": record.chain_position,
        "caveats": list(record.caveats),
        "labels": list(record.labels),
        "filter_name": record.filter_name,
    }
