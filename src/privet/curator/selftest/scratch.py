"""A scratch database beside the one that is configured: on the same disk or server, and gone afterwards."""

import secrets
import shutil
from abc import ABC, abstractmethod
from pathlib import Path
from random import Random
from typing import final
from urllib.parse import quote

from sqlalchemy import text
from sqlalchemy.engine import make_url

from privet.curator.selftest.postgres_server import PostgresServer
from privet.curator.storage.database import open_engine

__all__ = ["ScratchDatabase", "ScratchSchema", "ScratchServer", "SqliteScratch", "choose_scratch"]


class ScratchDatabase(ABC):
    """Where each round of the harness has an empty database."""

    @abstractmethod
    def open(self) -> str:
        """The address of a fresh database."""

    @abstractmethod
    def drop(self) -> None:
        """Remove what ``open`` made."""

    def kill(self, chance: Random) -> bool:
        """SIGKILL the database, and wait until it is back; False where it is no process of its own, or not
        ours.
        """
        del chance
        return False


@final
class SqliteScratch(ScratchDatabase):
    """Files in a folder. SQLite is part of the gateway, and dies with it."""

    def __init__(self, parent: Path) -> None:
        self._parent = parent
        self._folder: Path | None = None

    def open(self) -> str:
        self._folder = self._parent / f"privet-selftest-{secrets.token_hex(6)}"
        self._folder.mkdir(mode=0o700)
        return f"sqlite:///{self._folder / 'curator.db'}"

    def drop(self) -> None:
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)


@final
class ScratchSchema(ScratchDatabase):
    """A schema of its own on a PostgreSQL server."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._schema: str | None = None

    def open(self) -> str:
        self._schema = f"privet_selftest_{secrets.token_hex(6)}"
        self._run(f"CREATE SCHEMA {self._schema}")
        joint = "&" if "?" in self._address else "?"
        return f"{self._address}{joint}options={quote(f'-csearch_path={self._schema}')}"

    def drop(self) -> None:
        if self._schema is not None:
            self._run(f"DROP SCHEMA {self._schema} CASCADE")

    def _run(self, statement: str) -> None:
        engine = open_engine(self._address)
        try:
            with engine.begin() as connection:
                connection.execute(text(statement))
        finally:
            engine.dispose()


@final
class ScratchServer(ScratchDatabase):
    """A schema on a server that belongs to the harness, which may kill it."""

    def __init__(self, server: PostgresServer) -> None:
        self._server = server
        self._schema = ScratchSchema(server.address)

    def open(self) -> str:
        return self._schema.open()

    def drop(self) -> None:
        self._schema.drop()

    def kill(self, chance: Random) -> bool:
        if chance.random() < 0.7:
            self._server.kill_one(chance)
            self._server.revive()
        else:
            self._server.kill_all()
            self._server.start()
        return True


def choose_scratch(address: str) -> ScratchDatabase:
    """The scratch that goes with a configured address."""
    url = make_url(address if "://" in address else f"sqlite:///{address}")
    if url.get_backend_name() == "sqlite":
        return SqliteScratch(Path(url.database or ".").resolve().parent)
    return ScratchSchema(address)
