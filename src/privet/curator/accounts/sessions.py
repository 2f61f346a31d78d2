"""Sessions of browsers: a cookie of 256 random bits, a CSRF token, and two ends."""

import time
from dataclasses import dataclass
from typing import final

from sqlalchemy import Engine, select, update

from privet.curator.accounts.directory import AccountDirectory
from privet.curator.accounts.secrets_of_login import digest_token, draw_token
from privet.curator.accounts.tables import credentials, sessions
from privet.curator.principals import Principal

__all__ = ["LoginSession", "LoginSessions"]

_IDLE, _WHOLE, _TOUCH = 30 * 60, 10 * 3600, 60  # seconds


@final
@dataclass(frozen=True, kw_only=True)
class LoginSession:
    """A browser that is logged in."""

    principal: Principal
    csrf: str


@final
class LoginSessions:
    """Sessions end after half an hour without a request, and after ten hours in any case."""

    def __init__(self, engine: Engine, directory: AccountDirectory) -> None:
        self._engine, self._directory = engine, directory

    def start(self, principal: Principal) -> str:
        """A new session; its token is the value of the cookie."""
        token, now = draw_token(), int(time.time())
        with self._engine.begin() as connection:
            connection.execute(
                sessions.delete().where(
                    (sessions.c.seen_at < now - _IDLE) | (sessions.c.created_at < now - _WHOLE)
                )
            )
            connection.execute(
                sessions.insert().values(
                    digest=digest_token(token),
                    account=principal.account,
                    csrf=draw_token(),
                    created_at=now,
                    seen_at=now,
                )
            )
        return token

    def find(self, token: str) -> LoginSession | None:
        """The session of a cookie, if it has not ended."""
        now, digest = int(time.time()), digest_token(token)
        with self._engine.connect() as connection:
            row = connection.execute(
                select(sessions)
                .join(credentials, credentials.c.account == sessions.c.account)
                .where(
                    sessions.c.digest == digest,
                    sessions.c.seen_at > now - _IDLE,
                    sessions.c.created_at > now - _WHOLE,
                    credentials.c.disabled.is_(False),
                )
            ).first()
        if row is None:
            return None
        if row.seen_at < now - _TOUCH:
            with self._engine.begin() as connection:
                connection.execute(update(sessions).where(sessions.c.digest == digest).values(seen_at=now))
        principal = self._directory.find_number(row.account)
        return None if principal is None else LoginSession(principal=principal, csrf=row.csrf)

    def end(self, token: str) -> None:
        """End one session."""
        with self._engine.begin() as connection:
            connection.execute(sessions.delete().where(sessions.c.digest == digest_token(token)))
