"""Runs migrations on the handle that ``tracker.database.handle.migrate`` passes in."""

from __future__ import annotations

from typing import Any

from alembic import context
from sqlalchemy import MetaData

from tracker.database.months import is_month
from tracker.database.packed import VALUES
from tracker.database.postgres import serialize

db = context.config.attributes["db"]
PACKED = {"packed", *VALUES}


def models() -> MetaData:
    """The tables as they are to be. Building them takes a tenth of a second and 10 MB."""
    from sqlmodel import SQLModel

    from tracker.database import derived_tables as derived_tables  # registers the tables on the metadata, as the next line does
    from tracker.database import tables as tables

    return SQLModel.metadata


def is_compared(thing: Any, name: str | None, kind: str, *_: Any) -> bool:
    """Whether a table's part is to be as the models say: the values of offers' points are generated on SQLite, out of what holds them."""
    packed = db.dialect.name == "sqlite" and kind == "column" and thing.table.name == "offer_point" and name in PACKED
    return not packed


with db.connect().execution_options(writes=True) as connection:
    context.configure(
        connection=connection,
        target_metadata=models() if context.config.attributes["compares"] else None,
        render_as_batch=True,
        compare_type=True,
        include_object=is_compared,
        include_name=lambda name, kind, parents: kind != "table" or not is_month(name or ""),
    )
    with context.begin_transaction():
        serialize(connection, "migration")  # replicas that start together: the second finds the work done
        context.run_migrations()
    connection.commit()
