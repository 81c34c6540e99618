"""``breakeven db``: the book itself, as a file or database."""

from __future__ import annotations

from typing import Annotated

import typer

from tracker.cli import backup
from tracker.cli.session import say, session
from tracker.rollup.run import roll_up

Rebuild = Annotated[bool, typer.Option("--rebuild", help="All days anew, not only those that something changed.")]


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    group = typer.Typer(no_args_is_help=True, help="The book itself: figures a day, backups, moving it.")
    group.command("rollup")(rollup)
    backup.add_to(group)
    app.add_typer(group, name="db")


def rollup(rebuild: Rebuild = False) -> None:
    """Work out least, median and most a day of every provider, GPU, count and tier, and the winner a day of every model."""
    here = session(writes=True)
    written = roll_up(here.db, here.world.config.sources, here.now, rebuild=rebuild)
    say(f"{written:,} days worked out")
