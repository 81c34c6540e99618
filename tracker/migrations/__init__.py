"""Alembic migrations of the schema in ``tracker.database.tables``."""
