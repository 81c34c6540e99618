"""Runs migrations on the handle that ``tracker.database.handle.migrate`` passes in."""

from __future__ import annotations

from alembic import context
from sqlmodel import SQLModel

from tracker.database import derived_tables as derived_tables  # registers the tables on the metadata, as the next line does
from tracker.database import tables as tables
from tracker.database.months import is_month
from tracker.database.postgres import serialize

db = context.config.attributes["db"]

with db.connect().execution_options(writes=True) as connection:
    context.configure(
        connection=connection,
        target_metadata=SQLModel.metadata,
        render_as_batch=True,
        compare_type=True,
        include_name=lambda name, kind, parents: kind != "table" or not is_month(name or ""),
    )
    with context.begin_transaction():
        serialize(connection, "migration")  # replicas that start together: the second finds the work done
        context.run_migrations()
    connection.commit()
