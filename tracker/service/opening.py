"""The book as every start finds it: migrated, with exchange rates and the embedded prices in it."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from sqlalchemy import Engine

from tracker.book.bookmark import starter_is_loaded
from tracker.book.exchange import load_shipped
from tracker.database.handle import database_url, migrate, open_database, reading, writing
from tracker.database.postgres import serialize
from tracker.world import World


def open_book(world: World, data_dir: Path, now: datetime) -> Engine:
    """The migrated database with exchange rates and the embedded starter book in it."""
    db = open_database(database_url(world.settings.database.url, data_dir))
    migrate(db)
    with writing(db) as connection:
        serialize(connection, "import")
        load_shipped(connection, now)
    starter = world.config.config_dir / "starter"
    with reading(db) as connection:
        wanted = (starter / "offers.csv").exists() and not starter_is_loaded(connection, starter)
    if wanted:
        from tracker.book.bookstore import import_book  # at the first start, and after an upgrade

        import_book(db, starter, world.catalogue, now)
    return db
