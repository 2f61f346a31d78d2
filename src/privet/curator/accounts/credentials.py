"""Passwords of local accounts, and the identities of OpenID Connect that stand for an account."""

from dataclasses import dataclass
from typing import final

from sqlalchemy import Engine, select, update

from privet.curator.accounts.directory import AccountDirectory
from privet.curator.accounts.secrets_of_login import check_password, check_secret, hash_secret
from privet.curator.accounts.tables import api_keys, credentials, sessions
from privet.curator.principals import Principal
from privet.errors import InvalidArgument

__all__ = ["Credentials", "OpenIdIdentity"]


@final
@dataclass(frozen=True, kw_only=True)
class OpenIdIdentity:
    """Who somebody is by a provider: the subject never changes and is never given to another."""

    issuer: str
    subject: str
    email: str | None  # only if the provider has verified it


@final
class Credentials:
    """What shows that somebody is an account.

    *Leaks*: a refused login takes as long for a name that does not exist as for a wrong password.
    """

    def __init__(self, engine: Engine, directory: AccountDirectory) -> None:
        self._engine, self._directory = engine, directory

    def set_password(self, account: int, password: str) -> None:
        """Set the password of an account, and end its sessions."""
        self._put(account, {"password": hash_secret(check_password(password))})
        with self._engine.begin() as connection:
            connection.execute(sessions.delete().where(sessions.c.account == account))

    def set_email(self, account: int, email: str) -> None:
        """Let whoever has this address at the OpenID provider claim the account, once."""
        self._put(account, {"email": email.strip().lower()})

    def set_disabled(self, account: int, *, disabled: bool) -> None:
        """Close an account to every login, or open it again. Its sessions end and its keys are revoked."""
        self._put(account, {"disabled": disabled})
        with self._engine.begin() as connection:
            connection.execute(sessions.delete().where(sessions.c.account == account))
            connection.execute(api_keys.delete().where(api_keys.c.account == account))

    def is_disabled(self, account: int) -> bool:
        """Whether the account is closed."""
        with self._engine.connect() as connection:
            row = connection.execute(
                select(credentials.c.disabled).where(credentials.c.account == account)
            ).first()
        return row is not None and bool(row.disabled)

    def verify_password(self, name: str, password: str) -> Principal | None:
        """The account of this name and password."""
        found = self._directory.find_account(name)
        stored = None
        if found is not None:
            with self._engine.connect() as connection:
                row = connection.execute(
                    select(credentials.c.password).where(
                        credentials.c.account == found.account, credentials.c.disabled.is_(False)
                    )
                ).first()
            stored = None if row is None else row.password
        return found if check_secret(stored, password[:1000]) else None

    def find_identity(self, identity: OpenIdIdentity) -> Principal | None:
        """The account of an identity. A verified address claims its account at the first login only.

        From then on the subject decides, since a provider may give an address to another person.
        """
        by_subject = (credentials.c.issuer == identity.issuer) & (credentials.c.subject == identity.subject)
        with self._engine.begin() as connection:
            row = connection.execute(select(credentials).where(by_subject)).first()
            if row is None and identity.email is not None:
                claimed = connection.execute(
                    update(credentials)
                    .where(credentials.c.email == identity.email.lower(), credentials.c.subject.is_(None))
                    .values(issuer=identity.issuer, subject=identity.subject)
                )
                if claimed.rowcount == 1:
                    row = connection.execute(select(credentials).where(by_subject)).first()
        if row is None or row.disabled:
            return None
        return self._directory.find_number(row.account)

    def _put(self, account: int, values: dict[str, object]) -> None:
        if self._directory.find_number(account) is None:
            raise InvalidArgument(
                f"'account' must be the number of an account, got {account}. Add the account first."
            )
        with self._engine.begin() as connection:
            done = connection.execute(
                update(credentials).where(credentials.c.account == account).values(**values)
            )
            if done.rowcount == 0:
                connection.execute(
                    credentials.insert().values(account=account, **{"disabled": False} | values)
                )
