"""The tables of a database, made or brought up to date by the migrations that come with Privet."""

from importlib.util import find_spec
from pathlib import Path

from sqlalchemy import Engine, inspect, text
from sqlalchemy.exc import SQLAlchemyError

from privet.curator.refusals import CuratorUnavailable
from privet.errors import Unreadable

__all__ = ["NEWEST", "upgrade_schema"]

NEWEST = "0001"  # the last revision in migrations/versions
_VERSIONS = "alembic_version"


def upgrade_schema(engine: Engine) -> None:
    """Bring the tables to the newest revision. A database that a later Privet wrote is refused."""
    try:
        found = _revision(engine)
    except SQLAlchemyError:
        raise CuratorUnavailable(
            "The curator's database does not answer. Check its address, and that it runs."
        ) from None
    if found == NEWEST:
        return
    from alembic import command
    from alembic.config import Config
    from alembic.util import CommandError

    config = Config()
    spec = find_spec("privet.curator.storage.migrations")
    assert spec is not None
    assert spec.origin is not None
    config.set_main_option("script_location", str(Path(spec.origin).parent).replace("%", "%%"))
    with engine.execution_options(privet_writes=True).begin() as connection:
        config.attributes["connection"] = connection
        try:
            command.upgrade(config, "head")
        except CommandError as unknown:
            raise Unreadable(
                f"The database has tables of the revision {found!r}, which this version of Privet does not "
                f"know. "
                "Use the version that wrote it, or a later one."
            ) from unknown


def _revision(engine: Engine) -> str | None:
    with engine.connect() as connection:
        if not inspect(connection).has_table(_VERSIONS):
            return None
        return connection.execute(text(f"SELECT version_num FROM {_VERSIONS}")).scalar()
