"""Alembic's entry: runs the migrations on the connection that ``open_accounts`` gives."""

from alembic import context

from privet.curator.accounts.tables import METADATA

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=METADATA,
    version_table="alembic_version_accounts",  # the ledger has its own, maybe in the same database
)
with context.begin_transaction():
    context.run_migrations()
