"""The outer skin of the gateway: known hosts, size and time of a request, and the headers of every answer.

It is plain ASGI, so that it also holds for what no route matches and for what fails inside.
"""

import asyncio
import logging
from typing import final

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from privet.curator.gateway.plain_json import json_response
from privet.curator.gateway.rates import RateLimit
from privet.curator.gateway.refusals_http import (
    MALFORMED,
    TOO_LARGE,
    TOO_MANY,
    RefusalAnswer,
    log_failure,
    refusal_of,
)
from privet.curator.gateway.settings import GatewaySettings

__all__ = ["Transport"]

_log = logging.getLogger("privet.curator.requests")
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",  # no-referrer would hide the origin of our own forms from us
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}
_TOO_LATE = RefusalAnswer(408, "too_slow", "The request came too slowly. Send it again.")
_UPLOAD_SECONDS = 10.0


@final
class Transport:
    """Wraps the application.

    *Leaks*: the log has the time, the method, the kind of the address and the status. It has no query, no
    body, no cookie, no key, no address of a record and no duration.
    """

    def __init__(self, app: ASGIApp, settings: GatewaySettings) -> None:
        self._app, self._settings = app, settings
        self._hosts = settings.known_hosts
        self._clients = RateLimit(settings.requests_per_minute)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        is_static = scope["path"].startswith("/static/")
        started = False
        upload = _Upload(receive, self._settings.largest_body)

        async def send_safely(message: Message) -> None:
            nonlocal started
            if upload.refused is not None:  # the routes take a body that broke off for one that is malformed
                return
            if message["type"] == "http.response.start":
                started = True
                self._write_headers(MutableHeaders(raw=message["headers"]), is_static=is_static)
                route = scope.get("route")
                pattern = getattr(route, "path", "(no such page)")
                _log.info("%s %s %s", scope["method"], pattern, message["status"])
            await send(message)

        try:
            refused = self._refuse(scope)
            if refused is None:
                await self._app(scope, upload.receive, send_safely)
                if upload.refused is None:
                    return
                refused, upload.refused = upload.refused, None
            answer = refused
        except Exception as error:
            if started:  # too late for another answer: the connection ends
                log_failure(error)
                raise ConnectionAbortedError from None
            answer = refusal_of(error)
        await json_response(answer.document, answer.status)(scope, receive, send_safely)

    def _refuse(self, scope: Scope) -> RefusalAnswer | None:
        headers = Headers(scope=scope)
        host = headers.get("host", "").rpartition("@")[2]
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
        if name.strip("[]").lower() not in self._hosts or "\0" in scope["path"]:
            return MALFORMED
        length = headers.get("content-length", "0")
        if not length.isascii() or not length.isdigit() or len(length) > 15:
            return MALFORMED
        if int(length) > self._settings.largest_body:
            return TOO_LARGE
        client = scope.get("client")
        return None if self._clients.take(client[0] if client else "") else TOO_MANY

    def _write_headers(self, headers: MutableHeaders, *, is_static: bool) -> None:
        for name, value in _HEADERS.items():
            headers[name] = value
        headers["cache-control"] = "public, max-age=3600" if is_static else "no-store"
        if self._settings.is_encrypted:
            headers["strict-transport-security"] = "max-age=31536000"


@final
class _Upload:
    """The body of a request as it comes in: no more than the limit, and within a time."""

    def __init__(self, receive: Receive, largest: int) -> None:
        self._receive, self._left, self._is_whole = receive, largest, False
        self.refused: RefusalAnswer | None = None

    async def receive(self) -> Message:
        if self._is_whole:  # what comes now is the end of the connection, which takes as long as it takes
            return await self._receive()
        try:
            message = await asyncio.wait_for(self._receive(), _UPLOAD_SECONDS)
        except TimeoutError:
            return self._refuse(_TOO_LATE)
        if message["type"] == "http.request":
            self._left -= len(message.get("body", b""))
            self._is_whole = not message.get("more_body", False)
            if self._left < 0:
                return self._refuse(TOO_LARGE)
        return message

    def _refuse(self, answer: RefusalAnswer) -> Message:
        self.refused, self._is_whole = answer, True
        return {"type": "http.disconnect"}
