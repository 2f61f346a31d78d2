"""Pages of an analyst: datasets, the form, the quote before spending, the answer, the history."""

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response

from privet.curator.accounts.secrets_of_login import draw_token
from privet.curator.accounts.sessions import LoginSession
from privet.curator.gateway.authentication import require_role
from privet.curator.gateway.bodies import answer_body
from privet.curator.gateway.interface import find_dataset
from privet.curator.gateway.parts import parts_of
from privet.curator.gateway.plain_json import json_response
from privet.curator.gateway.refusals_http import refusal_of
from privet.curator.pages.answer_rows import read_answers
from privet.curator.pages.browsers import LoggedIn, check_form
from privet.curator.pages.question_form import COMPARISONS, KINDS, QuestionForm, read_form
from privet.curator.pages.rendering import render
from privet.curator.principals import Role
from privet.curator.service import DatasetCard
from privet.errors import PrivetError

__all__ = ["router"]

router = APIRouter()
_A_PAGE = 30


@router.get("/")
async def show_home(request: Request, session: LoggedIn) -> Response:
    """The datasets of an analyst; the overview of a steward."""
    if session.principal.role is not Role.ANALYST:
        return RedirectResponse("/steward", status_code=303)
    parts = parts_of(request)
    cards = await parts.call(lambda: parts.service.datasets(session.principal))
    return render("datasets.html", {"cards": cards}, who=session.principal, csrf=session.csrf)


@router.get("/datasets/{dataset}")
async def show_form(request: Request, session: LoggedIn, dataset: str) -> Response:
    """The form that builds a question."""
    return _show_form(session, await _card(request, session, dataset), QuestionForm())


@router.post("/datasets/{dataset}")
async def use_form(request: Request, session: LoggedIn, dataset: str) -> Response:
    """One statistic more or less, or the quote. What is refused is said above the form, which keeps its
    fields.
    """
    require_role(session.principal, Role.ANALYST)
    fields = await check_form(request, session)
    card, form, parts = await _card(request, session, dataset), read_form(fields), parts_of(request)
    match fields.get("action"):
        case "add":
            return _show_form(session, card, form.add_statistic())
        case "drop":
            return _show_form(session, card, form.drop_statistic())
        case "edit":
            return _show_form(session, card, form)
    parts.count_question(session.principal)
    try:
        question = form.question(card.metadata)
        quote = await parts.call(lambda: parts.service.quote(session.principal, dataset, question))
    except PrivetError as refused:
        answer = refusal_of(refused)
        return _show_form(session, card, form, message=answer.message, status=answer.status)
    values = {"card": card, "quote": quote, "form": form, "key": draw_token()}
    return render("quote.html", values, who=session.principal, csrf=session.csrf)


@router.post("/datasets/{dataset}/ask")
async def ask_question(request: Request, session: LoggedIn, dataset: str) -> Response:
    """Charge and answer, then show the record. The key in the form makes a second click harmless."""
    require_role(session.principal, Role.ANALYST)
    fields = await check_form(request, session)
    card, form, parts = await _card(request, session, dataset), read_form(fields), parts_of(request)
    parts.count_question(session.principal)
    key = fields.get("key", "")[:100] or draw_token()
    try:
        question = form.question(card.metadata)
        record = await parts.call(
            lambda: parts.service.ask(session.principal, dataset, question, idempotency_key=key)
        )
    except PrivetError as refused:
        answer = refusal_of(refused)
        return _show_form(session, card, form, message=answer.message, status=answer.status)
    return RedirectResponse(f"/records/{record.id}", status_code=303)


@router.post("/datasets/{dataset}/requests")
async def request_budget(request: Request, session: LoggedIn, dataset: str) -> Response:
    """Ask a steward for more budget."""
    require_role(session.principal, Role.ANALYST)
    fields = await check_form(request, session)
    card, parts = await _card(request, session, dataset), parts_of(request)
    try:
        epsilon = float(fields.get("epsilon", "")[:40])
    except ValueError:
        epsilon = float("nan")
    try:
        await parts.call(
            lambda: parts.requests.add(
                session.principal, card.name, epsilon=epsilon, reason=fields.get("reason", "")
            )
        )
    except PrivetError as refused:
        return _show_form(session, card, QuestionForm(), message=refusal_of(refused).message, status=422)
    return _show_form(session, card, QuestionForm(), notice="Your request was sent. A steward decides.")


@router.get("/records")
async def show_history(request: Request, session: LoggedIn, dataset: str = "", before: str = "") -> Response:
    """What was asked, the newest first."""
    parts = parts_of(request)
    found = await parts.call(
        lambda: parts.service.history(
            session.principal, dataset=dataset or None, limit=_A_PAGE + 1, before=before[:200] or None
        )
    )
    values = {
        "records": found[:_A_PAGE],
        "dataset": dataset,
        "has_more": len(found) > _A_PAGE,
        "before": before,
    }
    return render("history.html", values, who=session.principal, csrf=session.csrf)


@router.get("/records/{record_id}")
async def show_record(request: Request, session: LoggedIn, record_id: str) -> Response:
    """The question, its price and its answer."""
    parts = parts_of(request)
    record = await parts.call(lambda: parts.service.record(session.principal, record_id))
    values = {"record": record, "answers": read_answers(record.answer, record.labels)}
    return render("record.html", values, who=session.principal, csrf=session.csrf)


@router.get("/records/{record_id}/answer.json")
async def download_record(request: Request, session: LoggedIn, record_id: str) -> Response:
    """The record as a file."""
    parts = parts_of(request)
    record = await parts.call(lambda: parts.service.record(session.principal, record_id))
    response = json_response(answer_body(record))
    response.headers["content-disposition"] = 'attachment; filename="answer.json"'
    return response


async def _card(request: Request, session: LoginSession, dataset: str) -> DatasetCard:
    parts = parts_of(request)
    return find_dataset(await parts.call(lambda: parts.service.datasets(session.principal)), dataset)


def _show_form(
    session: LoginSession,
    card: DatasetCard,
    form: QuestionForm,
    *,
    message: str = "",
    notice: str = "",
    status: int = 200,
) -> Response:
    columns: list[dict[str, Any]] = list(card.metadata.get("columns", ()))
    values = {
        "card": card,
        "form": form,
        "message": message,
        "notice": notice,
        "kinds": [(kind, words) for kind, words in KINDS if kind in card.metadata.get("kinds", dict(KINDS))],
        "comparisons": COMPARISONS,
        "columns": columns,
        "keyed": [column for column in columns if column.get("keys")],
        "filters": [column for column in columns if column.get("filter", True)],
        "limits": card.metadata.get("limits", {}),
        "contribution": card.metadata.get("contribution", {}),
    }
    return render("ask.html", values, who=session.principal, csrf=session.csrf, status=status)
