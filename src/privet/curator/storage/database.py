"""A database that keeps its promises: what is committed is on the disk, or the curator does not start.

SQLite has a write-ahead log and ``synchronous=FULL``, so each commit waits for ``fsync``; both are set on
every connection and read back. PostgreSQL must have ``fsync``, ``full_page_writes`` and
``synchronous_commit`` on; they are read on every connection, and before every charge, because an
administrator may change them meanwhile.

*Limits*: a disk that lies about ``fsync``, and a network file system, break every promise that a database
makes.
"""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, final

from sqlalchemy import Connection, Engine, QueuePool, create_engine, event
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, IntegrityError, SQLAlchemyError

from privet.curator.refusals import CuratorUnavailable
from privet.errors import InvalidArgument, MissingPackage

__all__ = ["CommitUnknown", "Database", "open_engine"]

_FULL = 2  # PRAGMA synchronous
_PATIENCE_MS = 30_000  # how long one writer of SQLite waits for another process
_FLUSHES = (
    "on",
    "local",
    "remote_write",
    "remote_apply",
)  # values of synchronous_commit that wait for the disk
_WRITES = "privet_writes"
_MOST_MEMBERS = 32  # transactions in one commit
_PASSED_ON = 1.0  # seconds after which a member looks whether somebody still will commit


@final
class CommitUnknown(Exception):
    """The commit began and did not return: what it held may be in the database."""


def open_engine(address: str) -> Engine:
    """An engine for ``sqlite:///file`` or ``postgresql://…`` whose every connection is durable, or is
    refused.

    A path without ``://`` is a file of SQLite.
    """
    try:
        url = make_url(address if "://" in address else f"sqlite:///{address}")
    except ArgumentError:
        url = None
    if url is None or url.get_backend_name() not in ("sqlite", "postgresql"):
        raise InvalidArgument(
            "The address of the curator's database must begin with sqlite:/// or postgresql://, and does "
            "not. "
            "Give sqlite:///curator.db for a file."
        )
    if url.get_backend_name() == "sqlite":
        if url.database in (None, "", ":memory:"):
            raise InvalidArgument(
                "The curator's database must be a file, got one in memory, which forgets what was spent. "
                "Give sqlite:///curator.db."
            )
        engine = create_engine(url, poolclass=QueuePool, pool_size=8, max_overflow=24)
        event.listen(engine, "connect", _prepare_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
        return engine
    try:
        engine = create_engine(
            url.set(drivername="postgresql+psycopg"), pool_size=8, max_overflow=24, pool_pre_ping=True
        )
    except ImportError as missing:
        raise MissingPackage(
            "A curator on PostgreSQL needs the package 'psycopg', which is not installed. "
            "Run pip install 'privet[postgres]'."
        ) from missing
    event.listen(engine, "connect", _check_postgres)
    return engine


def _prepare_sqlite(connection: Any, record: object) -> None:  # noqa: ANN401
    del record
    connection.isolation_level = None  # SQLAlchemy's BEGIN is the one that counts
    cursor = connection.cursor()
    try:
        cursor.execute(f"PRAGMA busy_timeout = {_PATIENCE_MS}")
        (mode,) = cursor.execute("PRAGMA journal_mode = WAL").fetchone()
        cursor.execute("PRAGMA synchronous = FULL")
        cursor.execute(
            "PRAGMA cache_size = -8000"
        )  # kilobytes: the upper pages of all indexes of a long history
        if sys.platform == "darwin":
            cursor.execute("PRAGMA fullfsync = ON")
        cursor.execute("PRAGMA foreign_keys = ON")
        (level,) = cursor.execute("PRAGMA synchronous").fetchone()
    finally:
        cursor.close()
    if mode != "wal" or level != _FULL:
        connection.close()
        raise InvalidArgument(
            f"A curator on SQLite needs journal_mode = wal and synchronous = 2 (FULL), got {mode!r} and "
            f"{level}. "
            "Put the file on a local disk that can be written to."
        )


def _begin_sqlite(connection: Connection) -> None:
    # A reader that writes later would fail if another wrote in between; so a writer says so at once.
    writes = connection.get_execution_options().get(_WRITES, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _check_postgres(connection: Any, record: object) -> None:  # noqa: ANN401
    del record
    with connection.cursor() as cursor:
        cursor.execute(_SETTINGS)
        settings = cursor.fetchone()
    connection.rollback()
    try:
        _require_flushes(*settings)
    except InvalidArgument:
        connection.close()
        raise


_SETTINGS = (
    "SELECT current_setting('fsync'), current_setting('full_page_writes'), "
    "current_setting('synchronous_commit')"
)


def _require_flushes(fsync: str, pages: str, commit: str) -> None:
    if fsync != "on" or pages != "on" or commit not in _FLUSHES:
        raise InvalidArgument(
            f"A curator on PostgreSQL needs fsync, full_page_writes and synchronous_commit on, got {fsync}, "
            f"{pages} and {commit}: a commit might be lost. Switch them on in postgresql.conf, and start "
            f"again."
        )


@final
class _Batch:
    """Transactions of several threads that are committed together."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.members = 0
        self.done = threading.Event()
        self.is_committed = False
        # After some errors (a full disk) SQLite undoes everything and not the savepoint alone. What
        # was handed on
        # is then lost, and a commit would confirm what is not there.
        self.is_broken = False


@contextmanager
def _breaking(batch: _Batch) -> Iterator[None]:
    """Mark the batch on every error of the database, except a rule that it kept, which undoes little."""
    try:
        yield
    except IntegrityError:
        raise
    except SQLAlchemyError:
        batch.is_broken = True
        raise


@final
class Database:
    """Transactions of one engine.

    Those that write run one after the other in this process, each in a savepoint. One that finds others
    waiting hands its transaction on, and the last one commits for all: the disk is waited for once. Nobody
    returns from ``write`` before that commit.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.is_sqlite = engine.dialect.name == "sqlite"
        self._writing = engine.execution_options(**{_WRITES: True})
        self._turn = threading.Lock()
        self._count = threading.Lock()
        self._waiting = 0
        self._batch: _Batch | None = None

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A connection that reads what is committed."""
        try:
            with self.engine.connect() as connection:
                yield connection
        except SQLAlchemyError:
            raise _away() from None

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """One transaction. An error inside undoes it; ``CommitUnknown`` is whatever failed after that.

        ``IntegrityError`` passes: the database kept one of its own rules, and nothing was written.
        """
        batch: _Batch | None = None  # once all statements are in it
        try:
            with self._take_turn():
                try:
                    present = self._open_batch()
                    with _breaking(present), present.connection.begin_nested():
                        yield present.connection
                        batch = present
                    present.members += 1
                finally:
                    self._commit_if_last()
            while batch is not None and not batch.done.wait(_PASSED_ON):
                with self._take_turn():  # whoever was to commit is gone
                    self._commit_if_last(force=True)
            if batch is None or not batch.is_committed:
                raise CommitUnknown
        except Exception as failed:
            if batch is not None:
                raise CommitUnknown from failed
            if isinstance(failed, SQLAlchemyError) and not isinstance(failed, IntegrityError):
                raise _away() from None
            raise

    @contextmanager
    def _take_turn(self) -> Iterator[None]:
        is_waiting = False
        try:
            with self._count:
                self._waiting += 1
                is_waiting = True
            with self._turn:
                with self._count:
                    self._waiting -= 1
                    is_waiting = False
                yield
        finally:
            if is_waiting:
                with self._count:
                    self._waiting -= 1

    def _open_batch(self) -> _Batch:
        if self._batch is None:
            connection = self._writing.connect()
            try:
                if self.is_sqlite:
                    connection.begin()
                else:
                    _require_flushes(*connection.exec_driver_sql(_SETTINGS).one())
                self._batch = _Batch(connection)
            except BaseException:
                connection.close()  # else it keeps the lock of the database
                raise
        return self._batch

    def _commit_if_last(self, *, force: bool = False) -> None:
        """Commit, unless somebody waits who will. Called with the turn; raises nothing of the database."""
        batch = self._batch
        if batch is None:
            return
        if self._waiting > 0 and batch.members < _MOST_MEMBERS and not batch.is_broken and not force:
            return
        try:
            self._batch = None
            if batch.members > 0 and not batch.is_broken:
                batch.connection.commit()
                batch.is_committed = True
        except SQLAlchemyError:
            pass  # unknown
        finally:
            batch.done.set()
            with suppress(SQLAlchemyError):
                batch.connection.close()

    def close(self) -> None:
        """Close all connections."""
        self.engine.dispose()


def _away() -> CuratorUnavailable:
    """The error of a database that is away, without its text, which quotes statements and parameters."""
    return CuratorUnavailable("The curator's database does not answer. Nothing was spent; try again.")
