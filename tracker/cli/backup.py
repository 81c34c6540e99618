"""``db backup``, ``db restore``, ``db export`` and ``db import``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from sqlalchemy import Engine

from tracker.cli.session import Json, print_json, say, world
from tracker.cli.times import asked_at
from tracker.database.handle import database_url, migrate, open_database
from tracker.errors import BreakevenError
from tracker.maintenance.backup import backup, restore
from tracker.maintenance.dump import dump, load
from tracker.now import utc_now
from tracker.paths import data_dir

Force = Annotated[bool, typer.Option("--force", help="Also where something is in its place.")]
File = Annotated[Path, typer.Argument(help="The file.")]


def add_to(group: typer.Typer) -> None:
    """Register the commands in the group ``db``."""
    group.command("backup")(backup_to)
    group.command("restore")(restore_from)
    group.command("export")(export_to)
    group.command("import")(import_from)


def _book() -> Engine:
    """The configured database as it is: nothing is made, migrated or read. It has no copy of a past moment: --at is refused."""
    if asked_at():
        raise BreakevenError("--at is for looking back; this command takes the book as it is now")
    return open_database(database_url(world().settings.database.url, data_dir()))


def backup_to(file: File, force: Force = False, as_json: Json = False) -> None:
    """Copy the book to a file while daemons go on writing to it: a SQLite book as it is, one in PostgreSQL by its pg_dump."""
    db = _book()
    if db.dialect.name == "postgresql":
        from tracker.maintenance import postgres_backup  # here: it needs the driver, which is an extra

        size = postgres_backup.backup(db, file, replace=force)
    else:
        size = backup(db, file, replace=force)
    if as_json:
        print_json({"file": str(file), "bytes": size})
    else:
        say(f"{size:,} bytes written to {file}")


def restore_from(file: File, force: Force = False, as_json: Json = False) -> None:
    """Put a backup in the place of the book, once it is found to be whole. An old SQLite book stays beside it; one in PostgreSQL is
    replaced in one transaction."""
    db, kept = _book(), None
    if db.dialect.name == "postgresql":
        from tracker.maintenance import postgres_backup

        postgres_backup.restore(db, file, replace=force)
    else:
        kept = restore(db, file, utc_now(), replace=force)
    if as_json:
        print_json({"file": str(file), "replaced": None if kept is None else str(kept)})
    else:
        say(f"{file} is the book now" + ("" if kept is None else f"; the one before is {kept}"))


def export_to(file: File, force: Force = False, as_json: Json = False) -> None:
    """Write the whole book, every table of it, to one file that a book of any database takes."""
    _say_rows(dump(_book(), file, replace=force), f"written to {file}", as_json)


def import_from(file: File, force: Force = False, as_json: Json = False) -> None:
    """Put such a file into an empty book: from SQLite to PostgreSQL, or back. With --force what is in the book goes first."""
    db = _book()
    migrate(db)
    _say_rows(load(db, file, replace=force), f"read from {file}", as_json)


def _say_rows(counts: dict[str, int], done: str, as_json: bool) -> None:
    if as_json:
        print_json({"rows": counts})
    else:
        say(f"{sum(counts.values()):,} rows of {len(counts)} tables {done}")
