"""Opening the tables of those who log in: a SQLite file of their own, or the PostgreSQL of the ledger.

They are apart from the ledger where they can be, so that a login never waits for the lock of a charge.
"""

import sqlite3
from importlib.resources import as_file, files

from alembic import command
from alembic.config import Config
from sqlalchemy import Engine, create_engine, event
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError
from sqlalchemy.pool import ConnectionPoolEntry

from privet.errors import InvalidArgument, Unreadable

__all__ = ["open_accounts"]


def open_accounts(address: str) -> Engine:
    """Open the database of logins at a SQLAlchemy address, and bring its tables up to date."""
    try:
        url = make_url(address)
    except ArgumentError:
        raise InvalidArgument(
            "The address of the accounts must be one of SQLAlchemy, such as sqlite:///accounts.db, and is "
            "not. Write it so."
        ) from None
    engine = create_engine(url, hide_parameters=True, pool_pre_ping=url.get_backend_name() != "sqlite")
    if url.get_backend_name() == "sqlite":
        event.listen(engine, "connect", _prepare_sqlite)
    try:
        _migrate(engine)
    except SQLAlchemyError:
        raise Unreadable(
            f"The database of the accounts, {url.render_as_string(hide_password=True)}, must be "
            f"reachable and "
            "writable, and is not. Check its address and its rights."
        ) from None
    return engine


def _prepare_sqlite(connection: sqlite3.Connection, _entry: ConnectionPoolEntry) -> None:
    cursor = connection.cursor()
    for words in ("journal_mode=WAL", "synchronous=FULL", "busy_timeout=5000", "secure_delete=ON"):
        cursor.execute(f"PRAGMA {words}")
    cursor.close()


def _migrate(engine: Engine) -> None:
    with as_file(files("privet.curator.accounts") / "migrations") as folder, engine.begin() as connection:
        config = Config()
        config.set_main_option("script_location", str(folder).replace("%", "%%"))
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
