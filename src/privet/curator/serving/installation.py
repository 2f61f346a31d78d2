"""What stands where: the steward's file, and the database, heads and accounts that belong to it.

::

    [curator.database]
    address = "sqlite:///curator.db"      # relative to this file; or postgresql+psycopg://curator@db/privet
    password_file = "db.password"         # or the environment variable PRIVET_DATABASE_PASSWORD
    head = "curator.heads"                # where the head of the chain is exported; or "stdout"
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from privet.curator.gateway.settings import GatewaySettings, read_gateway_settings, read_secret
from privet.curator.storage import HeadExport, HeadFile, HeadStream
from privet.errors import InvalidArgument, Unreadable

__all__ = ["Installation", "read_installation"]

_DATABASE_KEYS = ("address", "password_file", "head")


@final
@dataclass(frozen=True, kw_only=True)
class Installation:
    """A curator on this machine."""

    steward_file: Path
    settings: GatewaySettings
    database: URL
    head: str

    @property
    def folder(self) -> Path:
        """The folder of the steward's file, to which paths in it are relative."""
        return self.steward_file.parent

    @property
    def database_address(self) -> str:
        """The address of the ledger, with its password."""
        return self.database.render_as_string(hide_password=False)

    @property
    def accounts_address(self) -> str:
        """Where the logins are: a file beside that of the ledger, or the same server."""
        if self.database.get_backend_name() != "sqlite":
            return self.database_address
        ledger = Path(str(self.database.database))
        beside = ledger.with_name(f"{ledger.stem}-accounts{ledger.suffix}")
        return self.database.set(database=str(beside)).render_as_string(hide_password=False)

    def make_heads(self) -> HeadExport:
        """Where the head of the chain is exported."""
        return HeadStream() if self.head == "stdout" else HeadFile(self.folder / self.head)


def read_installation(steward_file: Path) -> Installation:
    """The section [curator] of a steward's file. Every key has a safe default."""
    try:
        path = steward_file.resolve()
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as failed:  # also text that is no Unicode, and no TOML
        raise Unreadable(
            f"The steward's file {str(steward_file)!r} must be TOML that can be read, and is not "
            f"({type(failed).__name__}). Check it; 'privet curator demo' shows one."
        ) from None
    section = document.get("curator", {})
    if not isinstance(section, Mapping) or set(section) - {"gateway", "openid", "database"}:
        raise InvalidArgument(
            "[curator] of steward.toml must have only the sections gateway, openid and database, and has "
            "another. Take it out."
        )
    database = section.get("database", {})
    _check_database(database)
    settings = read_gateway_settings(_with_folder(section, path.parent))
    return Installation(
        steward_file=path,
        settings=settings,
        database=_read_address(database, path.parent),
        head=str(database.get("head", "curator.heads")),
    )


def _check_database(section: object) -> None:
    if not isinstance(section, Mapping) or any(
        key not in _DATABASE_KEYS or not isinstance(value, str) for key, value in section.items()
    ):
        raise InvalidArgument(
            f"[curator.database] of steward.toml must have only {', '.join(_DATABASE_KEYS)}, each a "
            f"text, and has "
            "something else. Correct it."
        )


def _read_address(section: Mapping[str, str], folder: Path) -> URL:
    try:
        url = make_url(section.get("address", "sqlite:///curator.db"))
    except ArgumentError:
        raise InvalidArgument(
            "'address' in [curator.database] must be an address of SQLAlchemy, such as "
            "sqlite:///curator.db, and is "
            "not. Write it so."
        ) from None
    if url.get_backend_name() == "sqlite":
        return url.set(database=str(folder / str(url.database or "curator.db")))
    if url.password is not None:
        raise InvalidArgument(
            "'address' in [curator.database] must not hold the password, and does. Put it into a file "
            "and name the "
            "file in 'password_file', or set PRIVET_DATABASE_PASSWORD."
        )
    file = section.get("password_file")
    password = read_secret("PRIVET_DATABASE_PASSWORD", None if file is None else folder / file)
    return url.set(password=password) if password else url


def _with_folder(section: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The sections with files relative to the steward's file."""
    plain = {name: dict(part) if isinstance(part, Mapping) else part for name, part in section.items()}
    for name, keys in (("gateway", ("certificate", "private_key")), ("openid", ("secret_file",))):
        part = plain.get(name)
        if isinstance(part, dict):
            for key in keys:
                if isinstance(part.get(key), str):
                    part[key] = str(folder / part[key])
    return plain
