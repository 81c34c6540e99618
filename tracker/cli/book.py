"""``export book`` and ``import book``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tracker.bookstore import export_book, import_book
from tracker.cli.session import Json, print_json, say, session
from tracker.database import only_daemon

Folder = Annotated[Path, typer.Argument(help="Folder of offers.csv and rates.csv.")]


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    exports = typer.Typer(no_args_is_help=True, help="Write the book to files.")
    imports = typer.Typer(no_args_is_help=True, help="Read a book from files.")
    exports.command("book")(export_to)
    imports.command("book")(import_from)
    for group in (exports, imports):
        group.callback()(_group)  # keeps "book" a word of its own while it is the only one
    app.add_typer(exports, name="export")
    app.add_typer(imports, name="import")


def _group() -> None:
    """What to move."""


def export_to(folder: Folder, as_json: Json = False) -> None:
    """Write every price with the time it was seen as offers.csv and rates.csv."""
    here = session()
    offers, rates = export_book(here.db, folder)
    if as_json:
        print_json({"folder": str(folder), "offers": offers, "rates": rates})
    else:
        say(f"{offers} offer rows and {rates} rate rows written to {folder}")


def import_from(folder: Folder, as_json: Json = False) -> None:
    """Add the prices of offers.csv and rates.csv, each with its own dates; a second time changes nothing."""
    here = session()
    with only_daemon(here.db):
        done = import_book(here.db, folder, here.world.catalogue, here.now)
    if as_json:
        print_json({"folder": str(folder), "rows": done.rows, "new_points": done.new_points})
    else:
        say(f"{done.rows} rows read, {done.new_points} new price points")
