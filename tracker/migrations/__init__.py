"""Alembic migrations of the schema in ``tracker.tables``."""
