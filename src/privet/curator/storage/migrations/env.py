"""Runs the revisions on the connection that ``schema`` gives."""

from alembic import context

from privet.curator.storage.tables import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
with context.begin_transaction():
    context.run_migrations()
