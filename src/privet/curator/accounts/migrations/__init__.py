"""Alembic migrations of the tables of those who log in."""
