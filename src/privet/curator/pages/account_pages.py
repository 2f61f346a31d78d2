"""One's own account: the password, and keys for programs."""

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response

from privet.curator.accounts.sessions import LoginSession
from privet.curator.gateway.parts import parts_of
from privet.curator.pages.browsers import LoggedIn, check_form, drop_cookie
from privet.curator.pages.rendering import render
from privet.errors import PrivetError

__all__ = ["router"]

router = APIRouter(prefix="/account")
_MOST_DAYS = 730


@router.get("")
async def show_account(request: Request, session: LoggedIn) -> Response:
    """Name, role, keys and the form for the password."""
    return await _show(request, session)


@router.post("/keys")
async def issue_key(request: Request, session: LoggedIn) -> Response:
    """A new key, shown on this page only."""
    parts, fields = parts_of(request), await check_form(request, session)
    words = fields.get("days", "90")[:6]
    days = min(int(words), _MOST_DAYS) if words.isascii() and words.isdigit() and int(words) > 0 else 90
    label = fields.get("label", "").strip() or "a key"
    try:
        key = await parts.call(lambda: parts.keys.issue(session.principal.account, label=label, days=days))
    except PrivetError as refused:
        return await _show(request, session, message=str(refused), status=422)
    await parts.call(lambda: parts.actions.note(session.principal, "key issued", {"label": label[:100]}))
    return await _show(request, session, key=key)


@router.post("/keys/revoke")
async def revoke_key(request: Request, session: LoggedIn) -> Response:
    """End a key."""
    parts, fields = parts_of(request), await check_form(request, session)
    await parts.call(lambda: parts.keys.revoke(session.principal.account, fields.get("id", "")[:16]))
    await parts.call(lambda: parts.actions.note(session.principal, "key revoked", {}))
    return RedirectResponse("/account", status_code=303)


@router.post("/password")
async def change_password(request: Request, session: LoggedIn) -> Response:
    """Set a new password by the old one. All sessions end."""
    parts, fields = parts_of(request), await check_form(request, session)
    who = session.principal
    parts.count_login(f"name {who.name}")
    old, new = fields.get("old", ""), fields.get("new", "")
    if await parts.call(lambda: parts.credentials.verify_password(who.name, old)) is None:
        return await _show(request, session, message="The old password is not right. Try again.", status=403)
    try:
        await parts.call(lambda: parts.credentials.set_password(who.account, new))
    except PrivetError as refused:
        return await _show(request, session, message=str(refused), status=422)
    await parts.call(lambda: parts.actions.note(who, "password changed", {}))
    response = RedirectResponse("/login", status_code=303)
    drop_cookie(request, response)
    return response


async def _show(
    request: Request, session: LoginSession, *, key: str = "", message: str = "", status: int = 200
) -> Response:
    parts = parts_of(request)
    cards = await parts.call(lambda: parts.keys.list_cards(session.principal.account))
    values = {"cards": cards, "key": key, "message": message, "address": parts.settings.address}
    return render("account.html", values, who=session.principal, csrf=session.csrf, status=status)
