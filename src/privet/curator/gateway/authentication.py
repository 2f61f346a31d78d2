"""Who asks: a program by its key, a browser by its session. A key is never taken from a cookie, nor a
session from a header.
"""

from typing import Annotated

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from privet.curator.gateway.parts import parts_of
from privet.curator.gateway.refusals_http import FORBIDDEN, NOT_LOGGED_IN, HttpRefusal
from privet.curator.principals import Principal, Role

__all__ = ["Program", "client_of", "require_role"]

_BEARER = HTTPBearer(auto_error=False, scheme_name="key", description="A key of an account, privet_…")


async def authenticate_program(
    request: Request, header: Annotated[HTTPAuthorizationCredentials | None, Depends(_BEARER)]
) -> Principal:
    """The account of the key in the Authorization header."""
    parts = parts_of(request)
    key = "" if header is None else header.credentials
    found = None if not key else await parts.call(lambda: parts.keys.verify(key))
    if found is None:
        if key:
            parts.count_login(f"key {client_of(request)}")
        raise HttpRefusal(NOT_LOGGED_IN)
    parts.count_question(found)
    return found


Program = Annotated[Principal, Depends(authenticate_program)]


def require_role(who: Principal, *roles: Role) -> None:
    """Refuse everybody else."""
    if who.role not in roles:
        raise HttpRefusal(FORBIDDEN)


def client_of(request: Request) -> str:
    """The address that a request came from, or that a trusted proxy named."""
    return request.client.host if request.client is not None else ""
