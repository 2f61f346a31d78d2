"""Which data a budget is for: lineages, their contents, and the names of datasets.

A budget belongs to a *lineage*: people, whatever file their rows stand in. A content is known by its
fingerprint, which is kept under a key that never leaves the database, because a plain hash confirms guesses.
The same content under another name has the same budget. Other content under the same name has the same
budget, or is refused; a fresh budget is an act of a steward (``renew``).
"""

import hashlib
import hmac

from sqlalchemy import Connection, insert, select, update

from privet.adjacency import Adjacency
from privet.curator.refresh import RefreshPolicy
from privet.curator.storage import tables
from privet.curator.storage.chain import ChainLink, add_link, read_head, time_now
from privet.curator.storage.tables import AnyRow
from privet.errors import InvalidArgument
from privet.lineage import Head, fresh_identity

__all__ = ["add_content", "add_lineage", "find_content", "keyed_fingerprint", "refresh_content"]


def keyed_fingerprint(connection: Connection, fingerprint: str) -> str:
    """A fingerprint as it is kept: HMAC-SHA256 under the curator's secret."""
    secret = connection.execute(select(tables.curator.c.secret)).scalar_one()
    return hmac.new(secret, fingerprint.encode(), hashlib.sha256).hexdigest()


def find_content(connection: Connection, fingerprint: str) -> AnyRow | None:
    """The content with this fingerprint, and its lineage."""
    query = (
        select(tables.contents.c.id, tables.lineages)
        .join(tables.lineages)
        .where(tables.contents.c.fingerprint == keyed_fingerprint(connection, fingerprint))
    )
    return connection.execute(
        query.with_only_columns(
            tables.contents.c.id.label("content_id"),
            tables.contents.c.lineage_id,
            tables.lineages.c.identity,
            tables.lineages.c.relation,
            tables.lineages.c.unit,
            tables.lineages.c.unit_column,
            tables.lineages.c.refresh,
        )
    ).one_or_none()


def add_lineage(
    connection: Connection, *, adjacency: Adjacency, unit_column: str | None, refresh: RefreshPolicy
) -> tuple[int, str]:
    """A new lineage: its row and its public number."""
    identity = fresh_identity()
    inserted = connection.execute(
        insert(tables.lineages).values(
            identity=identity,
            relation=adjacency.relation,
            unit=str(adjacency.unit),
            unit_column=unit_column,
            refresh=str(refresh),
        )
    )
    (number,) = inserted.inserted_primary_key or (0,)
    return int(number), identity


def add_content(connection: Connection, lineage: int, fingerprint: str) -> int:
    """A new content of a lineage."""
    inserted = connection.execute(
        insert(tables.contents).values(
            lineage_id=lineage, fingerprint=keyed_fingerprint(connection, fingerprint)
        )
    )
    (number,) = inserted.inserted_primary_key or (0,)
    return int(number)


def refresh_content(connection: Connection, dataset: str, fingerprint: str) -> tuple[int, Head]:
    """The content that a dataset now has, as its policy allows: its number, and the head of the chain."""
    row = connection.execute(
        select(
            tables.datasets.c.id,
            tables.datasets.c.content_id,
            tables.datasets.c.lineage_id,
            tables.lineages.c.refresh,
        )
        .join(tables.lineages)
        .where(tables.datasets.c.name == dataset)
        .with_for_update(of=tables.datasets)
    ).one_or_none()
    if row is None:
        raise InvalidArgument(f"There is no dataset {dataset!r}. Add it first.")
    known = find_content(connection, fingerprint)
    if known is not None and known.content_id == row.content_id:
        return row.content_id, read_head(connection)
    if row.refresh == RefreshPolicy.FROZEN:
        raise InvalidArgument(
            f"The content of {dataset!r} is not that of the day on which it was added, and its refresh "
            f"policy is "
            f"'{RefreshPolicy.FROZEN}'. Put the file back, or renew the dataset if its people are others."
        )
    if known is not None and known.lineage_id != row.lineage_id:
        raise InvalidArgument(
            f"The content of {dataset!r} is that of another dataset, which has a budget of its own. Ask "
            f"that one."
        )
    content = add_content(connection, row.lineage_id, fingerprint) if known is None else known.content_id
    connection.execute(
        update(tables.datasets).where(tables.datasets.c.id == row.id).values(content_id=content)
    )
    body = {"dataset": dataset, "content": content, "time": time_now()}
    return content, add_link(connection, read_head(connection, lock=True), ChainLink.REFRESH, body)
