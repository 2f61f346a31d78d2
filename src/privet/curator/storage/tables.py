"""The tables of a curator. Whole numbers for privacy, text for time, and checks that the database itself
keeps.

::

    curator            one row: its number, a secret for fingerprints, the head of the chain
    groups, accounts   who asks
    lineages           whose data a budget protects: adjacency, column of the unit, refresh policy
    contents           fingerprints of the data, each of one lineage
    datasets           names; each stands for one content
    grants             which account may ask which dataset
    budgets            one row for each cap of a lineage; CHECK (spent <= cap)
    records            one row for each question that was charged, or given again
    charges            what a record added to each budget
    chain              the links of the chain of hashes

A time is ISO 8601 in UTC, as it stands in the chain. ``migrations/`` makes the same tables step by step; a
test compares the two.
"""

from typing import Any, TypeAlias

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    text,
)

__all__ = [
    "AnyRow",
    "accounts",
    "budgets",
    "chain",
    "charges",
    "contents",
    "curator",
    "datasets",
    "grants",
    "groups",
    "lineages",
    "metadata",
    "records",
]

AnyRow: TypeAlias = Any  # its columns are those of its query

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
    }
)

curator = Table(
    "curator",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("identity", String(32), nullable=False),
    Column("secret", LargeBinary(32), nullable=False),
    Column("links", BigInteger, nullable=False),
    Column("digest", String(64), nullable=False),
    CheckConstraint("id = 1", name="one_row"),
)

groups = Table(
    "groups",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", String(200), nullable=False, unique=True),
)

accounts = Table(
    "accounts",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", String(200), nullable=False, unique=True),
    Column("role", String(20), nullable=False),
    Column("group_id", Integer, ForeignKey("groups.id")),
    Column("closed", Boolean, nullable=False, default=False),
    CheckConstraint("role IN ('analyst', 'steward', 'auditor')", name="role"),
)

lineages = Table(
    "lineages",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("identity", String(32), nullable=False, unique=True),
    Column("relation", String(20), nullable=False),
    Column("unit", String(20), nullable=False),
    Column("unit_column", String(200)),
    Column("refresh", String(20), nullable=False),
)

contents = Table(
    "contents",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("lineage_id", Integer, ForeignKey("lineages.id"), nullable=False),
    Column("fingerprint", String(64), nullable=False, unique=True),
)

datasets = Table(
    "datasets",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", String(200), nullable=False, unique=True),
    Column("lineage_id", Integer, ForeignKey("lineages.id"), nullable=False),
    Column("content_id", Integer, ForeignKey("contents.id"), nullable=False),
)

grants = Table(
    "grants",
    metadata,
    Column("dataset_id", Integer, ForeignKey("datasets.id"), primary_key=True),
    Column("account_id", Integer, ForeignKey("accounts.id"), primary_key=True),
)

budgets = Table(
    "budgets",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("lineage_id", Integer, ForeignKey("lineages.id"), nullable=False),
    # dataset, then group, then analyst: the order in which rows are locked
    Column("rank", Integer, nullable=False),
    Column("subject", Integer, nullable=False),  # 0, the group or the account
    Column("epsilon", Float(53), nullable=False),
    Column("delta", Float(53), nullable=False),
    Column("rule", Text, nullable=False),
    Column("late", Boolean, nullable=False, default=False),
    Column("measure", BigInteger, nullable=False, default=0),
    Column("claimed", BigInteger, nullable=False, default=0),
    Column("largest", BigInteger, nullable=False, default=0),
    Column("measure_cap", BigInteger, nullable=False),
    Column("claimed_cap", BigInteger, nullable=False),
    Column("largest_cap", BigInteger, nullable=False),
    UniqueConstraint("lineage_id", "rank", "subject"),
    CheckConstraint("rank IN (0, 1, 2)", name="rank"),
    CheckConstraint("measure >= 0 AND claimed >= 0 AND largest >= 0", name="not_negative"),
    CheckConstraint("claimed <= claimed_cap", name="claims_within_cap"),
    CheckConstraint("measure <= measure_cap OR largest <= largest_cap", name="spent_within_cap"),
)

records = Table(
    "records",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("position", BigInteger, nullable=False, unique=True),  # of its first link in the chain
    Column("dataset_id", Integer, ForeignKey("datasets.id"), nullable=False),
    Column("content_id", Integer, ForeignKey("contents.id"), nullable=False),
    Column("account_id", Integer, ForeignKey("accounts.id"), nullable=False),
    Column("group_id", Integer, ForeignKey("groups.id")),
    Column("idempotency_key", String(200), nullable=False),
    Column("question_key", String(200), nullable=False),
    Column("question", Text, nullable=False),
    Column("labels", Text, nullable=False),
    Column("entries", Text, nullable=False),
    Column("caveats", Text, nullable=False),
    Column("filter_name", String(40), nullable=False),
    Column("epsilon", Float(53), nullable=False),
    Column("delta", Float(53), nullable=False),
    Column("asked_at", String(40), nullable=False),
    Column("owner", String(32), nullable=False),  # the run of the curator that made the reservation
    Column("status", String(20), nullable=False),
    Column("answer", Text),
    Column("source_id", String(32), ForeignKey("records.id")),  # the record whose answer is given again
    UniqueConstraint("account_id", "idempotency_key"),
    CheckConstraint("status IN ('reserved', 'answered', 'failed')", name="status"),
    CheckConstraint("(status = 'answered') = (answer IS NOT NULL)", name="answered_with_answer"),
    Index("ix_records_account_id_position", "account_id", "position"),
    Index("ix_records_dataset_id_position", "dataset_id", "position"),
    Index(
        "ix_records_reserved",
        "status",
        sqlite_where=text("status = 'reserved'"),
        postgresql_where=text("status = 'reserved'"),
    ),
    # One answer to one question: a second reservation beside an answer is refused by the database itself.
    Index(
        "uq_records_one_answer",
        "content_id",
        "question_key",
        unique=True,
        sqlite_where=text("source_id IS NULL AND status <> 'failed'"),
        postgresql_where=text("source_id IS NULL AND status <> 'failed'"),
    ),
)

charges = Table(
    "charges",
    metadata,
    Column("record_id", String(32), ForeignKey("records.id"), primary_key=True),
    Column("budget_id", Integer, ForeignKey("budgets.id"), primary_key=True),
    Column("measure", BigInteger, nullable=False),
    Column("claimed", BigInteger, nullable=False),
    Column("largest", BigInteger, nullable=False),
    Index("ix_charges_budget_id", "budget_id"),
)

chain = Table(
    "chain",
    metadata,
    Column("position", BigInteger, primary_key=True, autoincrement=False),
    Column("kind", String(40), nullable=False),
    Column("body", Text, nullable=False),
    Column("digest", String(64), nullable=False),
)
