"""The first tables; the chain and the charges can be added to, and neither changed nor removed from."""

import sqlalchemy as sa
from alembic import op

__all__ = ["down_revision", "revision", "upgrade"]

revision = "0001"
down_revision = None

_APPEND_ONLY = ("chain", "charges")


def upgrade() -> None:
    """Make everything. There is no way back: a ledger is never dropped."""
    op.create_table(
        "chain",
        sa.Column("position", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("kind", sa.String(length=40), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.PrimaryKeyConstraint("position", name=op.f("pk_chain")),
    )
    op.create_table(
        "curator",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("identity", sa.String(length=32), nullable=False),
        sa.Column("secret", sa.LargeBinary(length=32), nullable=False),
        sa.Column("links", sa.BigInteger(), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.CheckConstraint("id = 1", name=op.f("ck_curator_one_row")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_curator")),
    )
    op.create_table(
        "groups",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_groups")),
        sa.UniqueConstraint("name", name=op.f("uq_groups_name")),
    )
    op.create_table(
        "lineages",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("identity", sa.String(length=32), nullable=False),
        sa.Column("relation", sa.String(length=20), nullable=False),
        sa.Column("unit", sa.String(length=20), nullable=False),
        sa.Column("unit_column", sa.String(length=200), nullable=True),
        sa.Column("refresh", sa.String(length=20), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_lineages")),
        sa.UniqueConstraint("identity", name=op.f("uq_lineages_identity")),
    )
    op.create_table(
        "accounts",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("role", sa.String(length=20), nullable=False),
        sa.Column("group_id", sa.Integer(), nullable=True),
        sa.Column("closed", sa.Boolean(), nullable=False),
        sa.CheckConstraint("role IN ('analyst', 'steward', 'auditor')", name=op.f("ck_accounts_role")),
        sa.ForeignKeyConstraint(["group_id"], ["groups.id"], name=op.f("fk_accounts_group_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_accounts")),
        sa.UniqueConstraint("name", name=op.f("uq_accounts_name")),
    )
    op.create_table(
        "budgets",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("lineage_id", sa.Integer(), nullable=False),
        sa.Column("rank", sa.Integer(), nullable=False),
        sa.Column("subject", sa.Integer(), nullable=False),
        sa.Column("epsilon", sa.Float(precision=53), nullable=False),
        sa.Column("delta", sa.Float(precision=53), nullable=False),
        sa.Column("rule", sa.Text(), nullable=False),
        sa.Column("late", sa.Boolean(), nullable=False),
        sa.Column("measure", sa.BigInteger(), nullable=False),
        sa.Column("claimed", sa.BigInteger(), nullable=False),
        sa.Column("largest", sa.BigInteger(), nullable=False),
        sa.Column("measure_cap", sa.BigInteger(), nullable=False),
        sa.Column("claimed_cap", sa.BigInteger(), nullable=False),
        sa.Column("largest_cap", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("claimed <= claimed_cap", name=op.f("ck_budgets_claims_within_cap")),
        sa.CheckConstraint(
            "measure <= measure_cap OR largest <= largest_cap", name=op.f("ck_budgets_spent_within_cap")
        ),
        sa.CheckConstraint(
            "measure >= 0 AND claimed >= 0 AND largest >= 0", name=op.f("ck_budgets_not_negative")
        ),
        sa.CheckConstraint("rank IN (0, 1, 2)", name=op.f("ck_budgets_rank")),
        sa.ForeignKeyConstraint(["lineage_id"], ["lineages.id"], name=op.f("fk_budgets_lineage_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_budgets")),
        sa.UniqueConstraint("lineage_id", "rank", "subject", name=op.f("uq_budgets_lineage_id_rank_subject")),
    )
    op.create_table(
        "contents",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("lineage_id", sa.Integer(), nullable=False),
        sa.Column("fingerprint", sa.String(length=64), nullable=False),
        sa.ForeignKeyConstraint(["lineage_id"], ["lineages.id"], name=op.f("fk_contents_lineage_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_contents")),
        sa.UniqueConstraint("fingerprint", name=op.f("uq_contents_fingerprint")),
    )
    op.create_table(
        "datasets",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("lineage_id", sa.Integer(), nullable=False),
        sa.Column("content_id", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["content_id"], ["contents.id"], name=op.f("fk_datasets_content_id")),
        sa.ForeignKeyConstraint(["lineage_id"], ["lineages.id"], name=op.f("fk_datasets_lineage_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_datasets")),
        sa.UniqueConstraint("name", name=op.f("uq_datasets_name")),
    )
    op.create_table(
        "grants",
        sa.Column("dataset_id", sa.Integer(), nullable=False),
        sa.Column("account_id", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["account_id"], ["accounts.id"], name=op.f("fk_grants_account_id")),
        sa.ForeignKeyConstraint(["dataset_id"], ["datasets.id"], name=op.f("fk_grants_dataset_id")),
        sa.PrimaryKeyConstraint("dataset_id", "account_id", name=op.f("pk_grants")),
    )
    op.create_table(
        "records",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("dataset_id", sa.Integer(), nullable=False),
        sa.Column("content_id", sa.Integer(), nullable=False),
        sa.Column("account_id", sa.Integer(), nullable=False),
        sa.Column("group_id", sa.Integer(), nullable=True),
        sa.Column("idempotency_key", sa.String(length=200), nullable=False),
        sa.Column("question_key", sa.String(length=200), nullable=False),
        sa.Column("question", sa.Text(), nullable=False),
        sa.Column("labels", sa.Text(), nullable=False),
        sa.Column("entries", sa.Text(), nullable=False),
        sa.Column("caveats", sa.Text(), nullable=False),
        sa.Column("filter_name", sa.String(length=40), nullable=False),
        sa.Column("epsilon", sa.Float(precision=53), nullable=False),
        sa.Column("delta", sa.Float(precision=53), nullable=False),
        sa.Column("asked_at", sa.String(length=40), nullable=False),
        sa.Column("owner", sa.String(length=32), nullable=False),
        sa.Column("status", sa.String(length=20), nullable=False),
        sa.Column("answer", sa.Text(), nullable=True),
        sa.Column("source_id", sa.String(length=32), nullable=True),
        sa.CheckConstraint(
            "(status = 'answered') = (answer IS NOT NULL)", name=op.f("ck_records_answered_with_answer")
        ),
        sa.CheckConstraint("status IN ('reserved', 'answered', 'failed')", name=op.f("ck_records_status")),
        sa.ForeignKeyConstraint(["account_id"], ["accounts.id"], name=op.f("fk_records_account_id")),
        sa.ForeignKeyConstraint(["content_id"], ["contents.id"], name=op.f("fk_records_content_id")),
        sa.ForeignKeyConstraint(["dataset_id"], ["datasets.id"], name=op.f("fk_records_dataset_id")),
        sa.ForeignKeyConstraint(["group_id"], ["groups.id"], name=op.f("fk_records_group_id")),
        sa.ForeignKeyConstraint(["source_id"], ["records.id"], name=op.f("fk_records_source_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_records")),
        sa.UniqueConstraint(
            "account_id", "idempotency_key", name=op.f("uq_records_account_id_idempotency_key")
        ),
        sa.UniqueConstraint("position", name=op.f("uq_records_position")),
    )
    op.create_index("ix_records_account_id_position", "records", ["account_id", "position"], unique=False)
    op.create_index("ix_records_dataset_id_position", "records", ["dataset_id", "position"], unique=False)
    op.create_index(
        "ix_records_reserved",
        "records",
        ["status"],
        unique=False,
        sqlite_where=sa.text("status = 'reserved'"),
        postgresql_where=sa.text("status = 'reserved'"),
    )
    op.create_index(
        "uq_records_one_answer",
        "records",
        ["content_id", "question_key"],
        unique=True,
        sqlite_where=sa.text("source_id IS NULL AND status <> 'failed'"),
        postgresql_where=sa.text("source_id IS NULL AND status <> 'failed'"),
    )
    op.create_table(
        "charges",
        sa.Column("record_id", sa.String(length=32), nullable=False),
        sa.Column("budget_id", sa.Integer(), nullable=False),
        sa.Column("measure", sa.BigInteger(), nullable=False),
        sa.Column("claimed", sa.BigInteger(), nullable=False),
        sa.Column("largest", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["budget_id"], ["budgets.id"], name=op.f("fk_charges_budget_id")),
        sa.ForeignKeyConstraint(["record_id"], ["records.id"], name=op.f("fk_charges_record_id")),
        sa.PrimaryKeyConstraint("record_id", "budget_id", name=op.f("pk_charges")),
    )
    op.create_index("ix_charges_budget_id", "charges", ["budget_id"], unique=False)
    for table in _APPEND_ONLY:
        _forbid_changes(table)


def _forbid_changes(table: str) -> None:
    if op.get_bind().dialect.name == "sqlite":
        for act in ("UPDATE", "DELETE"):
            op.execute(
                f"CREATE TRIGGER {table}_forbids_{act.lower()} BEFORE {act} ON {table} "
                f"BEGIN SELECT RAISE(ABORT, '{table} is append-only'); END"
            )
        return
    op.execute(
        f"CREATE FUNCTION {table}_forbids_changes() RETURNS trigger LANGUAGE plpgsql AS "
        f"$$ BEGIN RAISE EXCEPTION '{table} is append-only'; END $$"
    )
    op.execute(
        f"CREATE TRIGGER {table}_forbids_changes BEFORE UPDATE OR DELETE ON {table} "
        f"FOR EACH ROW EXECUTE FUNCTION {table}_forbids_changes()"
    )
