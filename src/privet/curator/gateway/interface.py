"""The JSON interface, ``/api/v1``. A key shows who asks; a cookie does not, so no browser can be led here."""

from typing import Annotated, Any

from fastapi import APIRouter, Header, Path, Query, Request
from starlette.responses import Response

from privet.curator.gateway.authentication import Program, require_role
from privet.curator.gateway.bodies import (
    AnswerBody,
    BudgetsBody,
    DatasetBody,
    DatasetsBody,
    ErrorBody,
    HistoryBody,
    PersonBody,
    QuestionBody,
    QuoteBody,
    WantedBudgetBody,
    answer_body,
    budget_body,
    dataset_body,
    quote_body,
)
from privet.curator.gateway.parts import parts_of
from privet.curator.gateway.plain_json import json_response
from privet.curator.gateway.refusals_http import NOT_FOUND, HttpRefusal
from privet.curator.principals import Role
from privet.curator.service import DatasetCard

__all__ = ["router"]

_REFUSALS: dict[int | str, dict[str, Any]] = {
    401: {"model": ErrorBody, "description": "No valid key was sent."},
    403: {"model": ErrorBody, "description": "The role of the account may not do this."},
    404: {"model": ErrorBody, "description": "There is nothing here that the account may see."},
    408: {"model": ErrorBody, "description": "The request came too slowly."},
    409: {
        "model": ErrorBody,
        "description": "A cap would be exceeded, or the curator is read-only. Nothing was spent.",
    },
    413: {"model": ErrorBody, "description": "The request is too large."},
    422: {"model": ErrorBody, "description": "Refused from public metadata alone. Nothing was spent."},
    429: {"model": ErrorBody, "description": "Too many requests."},
    503: {"model": ErrorBody, "description": "Not ready. Ask again, with the same idempotency key."},
}
router = APIRouter(prefix="/api/v1", responses=_REFUSALS)

DatasetName = Annotated[str, Path(min_length=1, max_length=200, description="The name of a dataset.")]
RecordId = Annotated[str, Path(min_length=1, max_length=200, description="The id of a record.")]
IdempotencyKey = Annotated[
    str,
    Header(
        alias="Idempotency-Key",
        min_length=8,
        max_length=100,
        pattern=r"^[A-Za-z0-9_-]+$",
        description="Drawn by the caller for each question. The same key gives the same record, "
        "and is charged once.",
    ),
]


@router.get("/me", response_model=PersonBody, summary="Who the key belongs to")
async def show_me(who: Program) -> Response:
    """The account of the key."""
    return json_response({"name": who.name, "role": str(who.role)})


@router.get("/datasets", response_model=DatasetsBody, summary="The datasets that may be asked")
async def list_datasets(request: Request, who: Program) -> Response:
    """All datasets of the account, with their public metadata and caps."""
    parts = parts_of(request)
    cards = await parts.call(lambda: parts.service.datasets(who))
    return json_response({"datasets": [dataset_body(card) for card in cards]})


@router.get("/datasets/{dataset}", response_model=DatasetBody, summary="One dataset")
async def show_dataset(request: Request, who: Program, dataset: DatasetName) -> Response:
    """Its public metadata and caps."""
    parts = parts_of(request)
    cards = await parts.call(lambda: parts.service.datasets(who))
    return json_response(dataset_body(find_dataset(cards, dataset)))


@router.post("/datasets/{dataset}/quote", response_model=QuoteBody, summary="What a question would cost")
async def quote_question(
    request: Request, who: Program, dataset: DatasetName, body: QuestionBody
) -> Response:
    """Cost, expected error and the budget that would be left. Nothing is spent and no data are read."""
    require_role(who, Role.ANALYST)
    parts = parts_of(request)
    find_dataset(await parts.call(lambda: parts.service.datasets(who)), dataset)
    return json_response(
        quote_body(await parts.call(lambda: parts.service.quote(who, dataset, body.question)))
    )


@router.post("/datasets/{dataset}/ask", response_model=AnswerBody, summary="Charge and answer")
async def ask_question(
    request: Request, who: Program, dataset: DatasetName, body: QuestionBody, idempotency_key: IdempotencyKey
) -> Response:
    """The answer, charged before a row is read. ``failed`` means: failed; charged, whatever the cause."""
    require_role(who, Role.ANALYST)
    parts = parts_of(request)
    find_dataset(await parts.call(lambda: parts.service.datasets(who)), dataset)
    record = await parts.call(
        lambda: parts.service.ask(who, dataset, body.question, idempotency_key=idempotency_key)
    )
    return json_response(answer_body(record))


@router.get(
    "/datasets/{dataset}/budgets", response_model=BudgetsBody, summary="Caps, and how far they are used"
)
async def list_budgets(request: Request, who: Program, dataset: DatasetName) -> Response:
    """All caps for stewards and auditors; those that bind the account otherwise."""
    parts = parts_of(request)
    find_dataset(await parts.call(lambda: parts.service.datasets(who)), dataset)
    states = await parts.call(lambda: parts.service.budgets(who, dataset))
    return json_response({"budgets": [budget_body(state) for state in states]})


@router.get("/datasets/{dataset}/evidence", response_model=dict[str, Any], summary="The evidence")
async def export_evidence(request: Request, who: Program, dataset: DatasetName) -> Response:
    """Ledger, caps, head of the chain and certified ε: for stewards and auditors."""
    require_role(who, Role.STEWARD, Role.AUDITOR)
    parts = parts_of(request)
    find_dataset(await parts.call(lambda: parts.service.datasets(who)), dataset)
    return json_response(dict(await parts.call(lambda: parts.service.export(who, dataset))))


@router.post(
    "/datasets/{dataset}/requests", response_model=PersonBody, status_code=202, summary="Ask for more budget"
)
async def request_budget(
    request: Request, who: Program, dataset: DatasetName, body: WantedBudgetBody
) -> Response:
    """A steward sees it and decides."""
    require_role(who, Role.ANALYST)
    parts = parts_of(request)
    find_dataset(await parts.call(lambda: parts.service.datasets(who)), dataset)
    await parts.call(lambda: parts.requests.add(who, dataset, epsilon=body.epsilon, reason=body.reason))
    return json_response({"name": who.name, "role": str(who.role)}, 202)


@router.get("/records", response_model=HistoryBody, summary="What was asked")
async def list_records(
    request: Request,
    who: Program,
    dataset: Annotated[str | None, Query(min_length=1, max_length=200)] = None,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
    before: Annotated[
        str | None, Query(min_length=1, max_length=200, description="The id of a record.")
    ] = None,
) -> Response:
    """Records, the newest first: the account's own, or everybody's for stewards and auditors."""
    parts = parts_of(request)
    records = await parts.call(
        lambda: parts.service.history(who, dataset=dataset, limit=limit, before=before)
    )
    return json_response({"records": [answer_body(record) for record in records]})


@router.get("/records/{record_id}", response_model=AnswerBody, summary="One record")
async def show_record(request: Request, who: Program, record_id: RecordId) -> Response:
    """The question, its cost and its answer."""
    parts = parts_of(request)
    return json_response(answer_body(await parts.call(lambda: parts.service.record(who, record_id))))


def find_dataset(cards: tuple[DatasetCard, ...], name: str) -> DatasetCard:
    """The dataset of this name. One that is hidden and one that does not exist are refused alike."""
    for card in cards:
        if card.name == name:
            return card
    raise HttpRefusal(NOT_FOUND)
