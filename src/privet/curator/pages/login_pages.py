"""Logging in and out: by name and password, or through an OpenID Connect provider."""

import hmac

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response

from privet.curator.accounts.openid import LoginRefused
from privet.curator.accounts.secrets_of_login import draw_token
from privet.curator.gateway.authentication import client_of
from privet.curator.gateway.parts import parts_of
from privet.curator.gateway.refusals_http import NOT_FOUND, HttpRefusal
from privet.curator.pages.browsers import (
    LoggedIn,
    check_form,
    drop_cookie,
    read_cookie,
    read_fields,
    set_cookie,
)
from privet.curator.pages.rendering import render
from privet.curator.principals import Principal

__all__ = ["router"]

router = APIRouter()
_WRONG = (
    "This name and password do not belong together, or the account is closed. Try again, or ask a steward."
)
_UNKNOWN = "Your organisation knows you, but there is no account for you here. Ask a steward to add one."


@router.get("/login")
async def show_login(request: Request) -> Response:
    """The form. Its token is in a cookie of this browser, too, so that nobody is logged in by a foreign
    page.
    """
    return _form(request, "")


@router.post("/login")
async def log_in(request: Request) -> Response:
    """Check name and password. The same sentence and time for a wrong name and a wrong password."""
    parts, fields = parts_of(request), await read_fields(request)
    token = read_cookie(request, "login")
    if not token or not hmac.compare_digest(fields.get("csrf", "").encode(), token.encode()):
        return _form(request, "The form was too old. Try again.")
    name, password = fields.get("name", "")[:200], fields.get("password", "")
    parts.count_login(f"client {client_of(request)}", f"name {name}")
    found = await parts.call(lambda: parts.credentials.verify_password(name, password))
    if found is None:
        await parts.call(lambda: parts.actions.note(None, "login refused", {}))
        return _form(request, _WRONG, name=name)
    return await _start(request, found)


@router.post("/logout")
async def log_out(request: Request, session: LoggedIn) -> Response:
    """End the session."""
    parts = parts_of(request)
    await check_form(request, session)
    await parts.call(lambda: parts.sessions.end(read_cookie(request)))
    response = RedirectResponse("/login", status_code=303)
    drop_cookie(request, response)
    return response


@router.get("/login/openid")
async def begin_openid(request: Request) -> Response:
    """Send the browser to the provider."""
    parts = parts_of(request)
    login = parts.openid
    if login is None:
        raise HttpRefusal(NOT_FOUND)
    parts.count_login(f"client {client_of(request)}")
    browser = draw_token()
    try:
        address = await parts.call(lambda: login.begin(browser=browser, back_to=_back_to(request)))
    except LoginRefused as refused:
        return _form(request, str(refused))
    response = RedirectResponse(address, status_code=303)
    set_cookie(request, response, browser, "openid")
    return response


@router.get("/login/openid/back")
async def finish_openid(request: Request, state: str = "", code: str = "") -> Response:
    """The browser comes back from the provider."""
    parts = parts_of(request)
    login = parts.openid
    if login is None:
        raise HttpRefusal(NOT_FOUND)
    browser = read_cookie(request, "openid")
    try:
        identity = await parts.call(
            lambda: login.finish(
                browser=browser, back_to=_back_to(request), state=state[:200], code=code[:4000]
            )
        )
    except LoginRefused as refused:
        return _form(request, str(refused))
    found = await parts.call(lambda: parts.credentials.find_identity(identity))
    if found is None:
        await parts.call(lambda: parts.actions.note(None, "login refused", {}))
        return _form(request, _UNKNOWN)
    response = await _start(request, found)
    drop_cookie(request, response, "openid")
    return response


async def _start(request: Request, found: Principal) -> Response:
    """A new session, never one that was there before the login."""
    parts = parts_of(request)
    old = read_cookie(request)
    if old:
        await parts.call(lambda: parts.sessions.end(old))
    token = await parts.call(lambda: parts.sessions.start(found))
    response = RedirectResponse("/", status_code=303)
    set_cookie(request, response, token)
    drop_cookie(request, response, "login")
    return response


def _back_to(request: Request) -> str:
    """Where the provider sends the browser: the configured address, not the one that a header names."""
    return f"{parts_of(request).settings.address}/login/openid/back"


def _form(request: Request, message: str, *, name: str = "") -> Response:
    parts, token = parts_of(request), draw_token()
    provider = None if parts.openid is None else parts.openid.settings.name
    values = {"message": message, "name": name, "provider": provider, "hints": parts.hints}
    response = render("login.html", values, csrf=token, status=403 if message else 200)
    set_cookie(request, response, token, "login")
    return response
