"""``breakeven db``: the book itself, as a file or database."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Annotated

import typer

from tracker.cli import backup
from tracker.cli.session import Json, print_json, print_table, say, session
from tracker.database.handle import only_daemon, writing
from tracker.database.rows import to_s
from tracker.maintenance.retention import prune
from tracker.maintenance.stats import book_size, vacuum
from tracker.rollup.run import roll_up
from tracker.service.clock import mend_future

Rebuild = Annotated[bool, typer.Option("--rebuild", help="All days anew, not only those that something changed.")]


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    group = typer.Typer(no_args_is_help=True, help="The book itself: its size, its age, figures a day, backups, moving it.")
    group.command("stats")(stats)
    group.command("rollup")(rollup)
    group.command("prune")(prune_old)
    group.command("vacuum")(give_back)
    group.command("redate")(redate)
    backup.add_to(group)
    app.add_typer(group, name="db")


def rollup(rebuild: Rebuild = False) -> None:
    """Work out what a day cost at each provider, the lowest of all of them, and the winner a day of every model."""
    here = session(writes=True)
    believed = here.world.settings.precedence.root
    written = roll_up(here.db, here.world.config.sources, here.now, precedence=believed, rebuild=rebuild)
    say(f"{written:,} days worked out")


def prune_old(dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")] = False) -> None:
    """Take away what is older than [retention] keeps; answers about the time that is kept stay as they are."""
    here = session(writes=True)
    gone = prune(here.db, here.world, here.now, dry_run=dry_run)
    for table, rows in sorted(gone.items()):
        say(f"{table}: {rows:,} rows {'would go' if dry_run else 'taken away'}")
    if not any(gone.values()):
        say("nothing is older than it is kept")


def give_back() -> None:
    """Give the room that was freed back to the system; on SQLite stop the daemon first, and have as much room free again."""
    here = session(writes=True)
    with only_daemon(here.db):
        vacuum(here.db)
    size = book_size(here.db).bytes
    say("done" if size is None else f"the book takes {size:,} bytes")


def redate() -> None:
    """Date sweeps that lie in the future to just before now: for a clock that was ahead when they were stored. Stop the daemon first."""
    here = session(writes=True)
    with only_daemon(here.db), writing(here.db) as connection:
        moved = mend_future(connection, to_s(here.now), 0)
    say(f"{moved:,} sweeps dated anew" if moved else "no sweep lies in the future")


def stats(as_json: Json = False) -> None:
    """Rows, bytes and age of every table, and what a change of a price takes."""
    size = book_size(session().db)
    if as_json:
        print_json(size)
        return
    lines = [(one.table, f"{one.rows:,}", _number(one.bytes), _day(one.oldest), _day(one.newest)) for one in size.tables]
    print_table(("table", "rows", "bytes", "oldest", "newest"), lines, numbers=(1, 2))
    months = f"; {size.months} partitions by month" if size.months else ""
    say(f"all: {_number(size.bytes)} bytes; a change of a price: {_number(size.bytes_per_change)} bytes{months}")


def _number(value: int | Decimal | None) -> str:
    return "unknown" if value is None else f"{value:,}"


def _day(value: datetime | None) -> str:
    return "" if value is None else f"{value:%Y-%m-%d %H:%M}"
