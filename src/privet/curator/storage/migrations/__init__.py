"""How the tables came to be, revision by revision, for Alembic. A revision, once released, never changes."""
