"""Pages of stewards and auditors: how far budgets are used, who asked what, requests, and the evidence."""

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response

from privet.adjacency import AddRemove, ReplaceOne, Unit
from privet.curator.accounts.sessions import LoginSession
from privet.curator.gateway.authentication import require_role
from privet.curator.gateway.interface import find_dataset
from privet.curator.gateway.parts import GatewayParts, parts_of
from privet.curator.gateway.plain_json import json_response
from privet.curator.gateway.refusals_http import NOT_FOUND, HttpRefusal
from privet.curator.pages.browsers import LoggedIn, check_form
from privet.curator.pages.meaning import explain_epsilon
from privet.curator.pages.rendering import render
from privet.curator.principals import Role
from privet.curator.service import AnswerRecord, BudgetState, DatasetCard, Scope
from privet.errors import PrivetError

__all__ = ["router"]

router = APIRouter(prefix="/steward")
_MOST_CHARGES, _A_PAGE = 1000, 200


@router.get("")
async def show_overview(request: Request, session: LoggedIn) -> Response:
    """All datasets with their caps, and the requests that wait."""
    require_role(session.principal, Role.STEWARD, Role.AUDITOR)
    parts = parts_of(request)
    cards = await parts.call(lambda: parts.service.datasets(session.principal))
    waiting = [one for one in await parts.call(parts.requests.list_requests) if one.decided_at is None]
    values = {"cards": [(card, _cap(card.budgets)) for card in cards], "waiting": waiting}
    return render("steward.html", values, who=session.principal, csrf=session.csrf)


@router.get("/datasets/{dataset}")
async def show_dataset(request: Request, session: LoggedIn, dataset: str) -> Response:
    """Burn-down, caps, meaning, requests, who asked what, and the evidence."""
    return await _show(request, session, dataset)


@router.post("/datasets/{dataset}/verify")
async def verify_chain(request: Request, session: LoggedIn, dataset: str) -> Response:
    """Recompute the chain and every spend."""
    require_role(session.principal, Role.STEWARD, Role.AUDITOR)
    await check_form(request, session)
    parts = parts_of(request)
    found = await parts.call(lambda: parts.actions.verify(session.principal))
    return await _show(request, session, dataset, verified=dict(found))


@router.post("/requests/{request_id}")
async def decide_request(request: Request, session: LoggedIn, request_id: str) -> Response:
    """Grant or decline. The grant is made first: what is written down as granted is granted."""
    require_role(session.principal, Role.STEWARD)
    fields = await check_form(request, session)
    parts, who = parts_of(request), session.principal
    wanted = await parts.call(lambda: parts.requests.find(request_id[:32]))
    if wanted is None:
        raise HttpRefusal(NOT_FOUND)
    granted = fields.get("decision") == "grant"
    if granted and wanted.decided_at is None:
        cap = _cap(await parts.call(lambda: parts.service.budgets(who, wanted.dataset)))
        delta = 0.0 if cap is None else cap.delta  # the δ of the dataset: a larger one would be worth nothing
        try:
            await parts.call(
                lambda: parts.actions.grant(
                    *(who, wanted.dataset, wanted.analyst),
                    epsilon=wanted.epsilon,
                    delta=delta,
                    reason=wanted.reason,
                )
            )
        except PrivetError as refused:
            return await _show(request, session, wanted.dataset, message=str(refused))
    await parts.call(lambda: parts.requests.decide(request_id[:32], who, granted=granted))
    return RedirectResponse(f"/steward/datasets/{wanted.dataset}", status_code=303)


@router.get("/datasets/{dataset}/{form}")
async def export_evidence(request: Request, session: LoggedIn, dataset: str, form: str) -> Response:
    """The evidence as a file: JSON, a page for a DPIA, or an entry for OpenDP's registry of deployments."""
    require_role(session.principal, Role.STEWARD, Role.AUDITOR)
    parts = parts_of(request)
    card = await _card(request, session, dataset)
    if form not in ("evidence.json", "dpia.html", "opendp.json"):
        raise HttpRefusal(NOT_FOUND)
    evidence = dict(await parts.call(lambda: parts.service.export(session.principal, dataset)))
    budgets = await parts.call(lambda: parts.service.budgets(session.principal, dataset))
    cap = _cap(budgets)
    if form == "dpia.html":
        values = {
            "card": card,
            "cap": cap,
            "budgets": budgets,
            "meaning": _meaning(card, cap),
            "evidence": evidence,
            "charges": len(await _charges(parts, session, dataset)),
        }
        return render("dpia.html", values, who=session.principal, csrf=session.csrf)
    document = evidence if form == "evidence.json" else evidence["registry_entry"]
    response = json_response(document)
    response.headers["content-disposition"] = f'attachment; filename="{form}"'
    return response


async def _show(
    request: Request,
    session: LoginSession,
    dataset: str,
    *,
    message: str = "",
    verified: dict[str, object] | None = None,
) -> Response:
    require_role(session.principal, Role.STEWARD, Role.AUDITOR)
    parts, who = parts_of(request), session.principal
    card = await _card(request, session, dataset)
    budgets = await parts.call(lambda: parts.service.budgets(who, dataset))
    charges = await _charges(parts, session, dataset)
    cap = _cap(budgets)
    values = {
        "card": card,
        "cap": cap,
        "budgets": budgets,
        "spends": [(record.asked_at, record.epsilon) for record in reversed(charges)],
        "is_cut": len(charges) >= _MOST_CHARGES,
        "recent": charges[:15],
        "meaning": _meaning(card, cap),
        "requests": await parts.call(lambda: parts.requests.list_requests(dataset=dataset)),
        "verified": verified,
        "message": message,
    }
    return render("steward_dataset.html", values, who=who, csrf=session.csrf, status=422 if message else 200)


async def _card(request: Request, session: LoginSession, dataset: str) -> DatasetCard:
    parts = parts_of(request)
    return find_dataset(await parts.call(lambda: parts.service.datasets(session.principal)), dataset)


async def _charges(parts: GatewayParts, session: LoginSession, dataset: str) -> list[AnswerRecord]:
    """What was charged, the newest first, up to a limit. Answers that were given again cost nothing."""
    charges: list[AnswerRecord] = []
    before: str | None = None
    while len(charges) < _MOST_CHARGES:
        page = await parts.call(
            lambda start=before: parts.service.history(  # type: ignore[misc]  # the default binds the loop's value
                session.principal, dataset=dataset, limit=_A_PAGE, before=start
            )
        )
        charges += [record for record in page if not record.stored]
        if len(page) < _A_PAGE:
            break
        before = page[-1].id
    return charges


def _cap(budgets: tuple[BudgetState, ...]) -> BudgetState | None:
    """The cap of the dataset: the true one."""
    return next((state for state in budgets if state.scope is Scope.DATASET), None)


def _meaning(card: DatasetCard, cap: BudgetState | None) -> tuple[str, ...]:
    if cap is None:
        return ()
    unit = Unit.RECORD if card.metadata.get("unit") is None else Unit.USER
    exchanges = "replace" in str(card.metadata.get("adjacency", "")).lower()
    return explain_epsilon(cap.reached, cap.delta, ReplaceOne(unit) if exchanges else AddRemove(unit))
