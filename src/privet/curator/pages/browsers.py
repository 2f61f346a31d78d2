"""Who is logged in in a browser, and whether a form that comes in is one of ours.

A form is believed if it has the token of its session, and if the browser says that our own page sent it.
Either would do against a foreign page; together they also hold where one of them is missing or broken.
"""

import hmac
from typing import Annotated
from urllib.parse import urlsplit

from fastapi import Depends, Request
from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.responses import Response

from privet.curator.accounts.sessions import LoginSession
from privet.curator.gateway.parts import GatewayParts, parts_of
from privet.curator.gateway.refusals_http import NOT_LOGGED_IN, HttpRefusal, RefusalAnswer

__all__ = ["LoggedIn", "check_form", "drop_cookie", "read_cookie", "read_fields", "set_cookie"]

_FOREIGN = RefusalAnswer(
    403,
    "foreign_form",
    "The form was not sent by a page of yours, or its session has ended. Open the page again.",
)
_MOST_FIELDS = 100


async def find_session(request: Request) -> LoginSession:
    """The session of the browser. Without one, the browser is sent to the login."""
    parts = parts_of(request)
    token = read_cookie(request)
    session = None if not token else await parts.call(lambda: parts.sessions.find(token))
    if session is None:
        raise HttpRefusal(NOT_LOGGED_IN)
    return session


LoggedIn = Annotated[LoginSession, Depends(find_session)]


async def check_form(request: Request, session: LoginSession) -> dict[str, str]:
    """The fields of a form that our own page sent in this session."""
    fields = await read_fields(request)
    if not hmac.compare_digest(fields.get("csrf", "").encode(), session.csrf.encode()):
        raise HttpRefusal(_FOREIGN)
    return fields


async def read_fields(request: Request) -> dict[str, str]:
    """The fields of a form, which must come from our own origin. The last of equal names counts."""
    if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        raise HttpRefusal(_FOREIGN)
    origin = request.headers.get("origin")
    if origin is not None and urlsplit(origin).netloc.lower() != request.headers.get("host", "").lower():
        raise HttpRefusal(_FOREIGN)
    if request.headers.get("content-type", "").partition(";")[0] != "application/x-www-form-urlencoded":
        raise HttpRefusal(_FOREIGN)
    try:
        form: FormData = await request.form(max_files=0, max_fields=_MOST_FIELDS)
    except HTTPException:
        raise HttpRefusal(_FOREIGN) from None
    return {name: value.replace("\0", "") for name, value in form.multi_items() if isinstance(value, str)}


def read_cookie(request: Request, purpose: str = "session") -> str:
    """The value of one of our cookies."""
    return request.cookies.get(_name(parts_of(request), purpose), "")[:200]


def set_cookie(request: Request, response: Response, value: str, purpose: str = "session") -> None:
    """Set a cookie that no script can read, and that no foreign page can send along with a form."""
    parts = parts_of(request)
    response.set_cookie(
        _name(parts, purpose),
        value,
        httponly=True,
        secure=parts.settings.is_encrypted,
        samesite="lax",
        path="/",
    )


def drop_cookie(request: Request, response: Response, purpose: str = "session") -> None:
    """Remove a cookie."""
    parts = parts_of(request)
    response.delete_cookie(
        _name(parts, purpose), httponly=True, secure=parts.settings.is_encrypted, samesite="lax", path="/"
    )


def _name(parts: GatewayParts, purpose: str) -> str:
    """With TLS the prefix makes browsers refuse the cookie from any other host and from plain HTTP."""
    return f"__Host-privet-{purpose}" if parts.settings.is_encrypted else f"privet-{purpose}"
