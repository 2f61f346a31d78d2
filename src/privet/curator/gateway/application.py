"""The application: the JSON interface and the pages, inside of ``Transport``."""

from typing import final

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from privet import __version__
from privet.curator.gateway.interface import router as interface
from privet.curator.gateway.parts import GatewayParts
from privet.curator.gateway.plain_json import json_response
from privet.curator.gateway.refusals_http import (
    MALFORMED,
    NOT_FOUND,
    HttpRefusal,
    RefusalAnswer,
    refusal_of,
)
from privet.curator.gateway.transport import Transport
from privet.curator.pages import add_pages
from privet.curator.pages.refusal_page import render_refusal
from privet.errors import PrivetError

__all__ = ["make_application"]

_DESCRIPTION = """\
Ask, be quoted, be answered, within a budget.

Every request carries a key: `Authorization: Bearer privet_…`. A question is quoted and then asked; it is
charged before a row is read, and at most once for each `Idempotency-Key`. What can be refused is refused
before anything is spent. After the charge there is one failure, the same whatever the cause.
"""


def make_application(parts: GatewayParts) -> ASGIApp:
    """The whole gateway as ASGI."""
    app = FastAPI(
        title="Privet curator",
        version=__version__,
        description=_DESCRIPTION,
        openapi_url="/api/v1/openapi.json",
        docs_url=None,  # their pages load scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.parts = parts
    app.include_router(interface)
    add_pages(app)
    app.add_exception_handler(RequestValidationError, _answer_malformed)
    app.add_exception_handler(HTTPException, _answer_http)
    for kind in (PrivetError, HttpRefusal):
        app.add_exception_handler(kind, _answer_error)
    app.add_middleware(_CatchAll)
    return Transport(app, parts.settings)


@final
class _CatchAll:
    """Answers what no handler expects. Starlette's own middleware would raise it again after its answer."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = False

        async def send_on(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self._app(scope, receive, send_on)
        except Exception as error:
            if started:
                raise
            await _show(Request(scope), refusal_of(error))(scope, receive, send)


async def _answer_malformed(request: Request, _error: Exception) -> Response:
    return _show(request, MALFORMED)  # the error itself would quote what was sent


async def _answer_http(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    if status == 405:
        answer = RefusalAnswer(405, "no_such_method", "This address does not take this method. Use another.")
        response = _show(request, answer)
        response.headers.update(getattr(error, "headers", None) or {})
        return response
    return _show(request, NOT_FOUND if status == 404 else MALFORMED)


async def _answer_error(request: Request, error: Exception) -> Response:
    return _show(request, refusal_of(error))


def _show(request: Request, answer: RefusalAnswer) -> Response:
    """In JSON for programs, as a page for people."""
    if request.url.path.startswith("/api/"):
        return json_response(answer.document, answer.status)
    return render_refusal(request, answer)
