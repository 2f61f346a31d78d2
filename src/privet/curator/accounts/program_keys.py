"""Keys with which programs ask: ``privet_<id>_<secret>``, shown once and stored as an argon2 hash."""

import re
import secrets
import time
from dataclasses import dataclass
from hashlib import blake2b
from threading import Lock
from typing import final

from sqlalchemy import Engine, Row, select, update

from privet.curator.accounts.directory import AccountDirectory
from privet.curator.accounts.secrets_of_login import check_secret, draw_token, hash_secret
from privet.curator.accounts.tables import api_keys, credentials
from privet.curator.principals import Principal
from privet.errors import InvalidArgument

__all__ = ["KeyCard", "ProgramKeys"]

_FORM = re.compile(r"privet_([0-9a-f]{12})_([A-Za-z0-9_-]{43})")
_MOST_REMEMBERED = 10_000
_MOST_KEYS = 20


@final
@dataclass(frozen=True, kw_only=True)
class KeyCard:
    """A key without its secret."""

    id: str
    label: str
    created_at: int
    expires_at: int | None


@final
class ProgramKeys:
    """The keys of all accounts.

    A hash takes tens of milliseconds, so a key that was verified is remembered for as long as the process
    lives: as a keyed hash, and only to skip argon2. Whether it is revoked, expired or its account closed is
    read every time.
    """

    def __init__(self, engine: Engine, directory: AccountDirectory) -> None:
        self._engine, self._directory = engine, directory
        self._pepper = secrets.token_bytes(32)
        self._verified: dict[bytes, str] = {}
        self._lock = Lock()

    def issue(self, account: int, *, label: str, days: int | None = None) -> str:
        """A new key. It is given here and never again."""
        if len(self.list_cards(account)) >= _MOST_KEYS:
            raise InvalidArgument(
                f"An account must have at most {_MOST_KEYS} keys, and this would be one more. Revoke one."
            )
        name, secret, now = secrets.token_hex(6), draw_token(), int(time.time())
        with self._engine.begin() as connection:
            connection.execute(
                api_keys.insert().values(
                    id=name,
                    account=account,
                    hash=hash_secret(secret),
                    label=label[:100],
                    created_at=now,
                    expires_at=None if days is None else now + 86_400 * days,
                )
            )
        return f"privet_{name}_{secret}"

    def verify(self, key: str) -> Principal | None:
        """The account whose key this is."""
        parts = _FORM.fullmatch(key)
        row = None if parts is None else self._row(parts[1])
        if parts is None or row is None:
            check_secret(None, "")  # as long as for a wrong secret
            return None
        mark = blake2b(key.encode(), key=self._pepper).digest()
        with self._lock:
            is_known = self._verified.get(mark) == row.hash
        if not is_known:
            if not check_secret(row.hash, parts[2]):
                return None
            with self._lock:
                if len(self._verified) >= _MOST_REMEMBERED:
                    self._verified.clear()
                self._verified[mark] = row.hash
        return self._directory.find_number(row.account)

    def list_cards(self, account: int) -> tuple[KeyCard, ...]:
        """The keys of an account that are not revoked."""
        with self._engine.connect() as connection:
            rows = connection.execute(
                select(api_keys)
                .where(api_keys.c.account == account, api_keys.c.revoked_at.is_(None))
                .order_by(api_keys.c.created_at, api_keys.c.id)
            ).all()
        return tuple(
            KeyCard(id=row.id, label=row.label, created_at=row.created_at, expires_at=row.expires_at)
            for row in rows
        )

    def revoke(self, account: int, key_id: str) -> None:
        """End a key of this account, at once."""
        with self._engine.begin() as connection:
            connection.execute(
                update(api_keys)
                .where(api_keys.c.id == key_id, api_keys.c.account == account)
                .values(revoked_at=int(time.time()))
            )

    def _row(self, name: str) -> Row[tuple[object, ...]] | None:
        now = int(time.time())
        with self._engine.connect() as connection:
            return connection.execute(
                select(api_keys)
                .join(credentials, credentials.c.account == api_keys.c.account, isouter=True)
                .where(
                    api_keys.c.id == name,
                    api_keys.c.revoked_at.is_(None),
                    api_keys.c.expires_at.is_(None) | (api_keys.c.expires_at > now),
                    credentials.c.disabled.is_(None) | credentials.c.disabled.is_(False),
                )
            ).first()
