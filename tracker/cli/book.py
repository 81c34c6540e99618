"""``import book`` and ``import history``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tracker.bookstore import import_book
from tracker.cli.session import Json, print_json, say, session
from tracker.database import only_daemon
from tracker.history.load import KINDS, HistoryReport, import_history
from tracker.moments import moment

Folder = Annotated[Path, typer.Argument(help="Folder of offers.csv and rates.csv.")]


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    imports = typer.Typer(no_args_is_help=True, help="Read a book from files.")
    imports.command("book")(import_from)
    imports.command("history")(import_series)
    app.add_typer(imports, name="import")


def import_from(folder: Folder, as_json: Json = False) -> None:
    """Add the prices of offers.csv and rates.csv, each with its own dates; a second time changes nothing."""
    here = session(writes=True)
    with only_daemon(here.db):
        done = import_book(here.db, folder, here.world.catalogue, here.now)
    if as_json:
        print_json({"folder": str(folder), "rows": done.rows, "new_points": done.new_points})
    else:
        say(f"{done.rows} rows read, {done.new_points} new price points")


def import_series(
    kind: Annotated[str, typer.Argument(help=f"Shape of the file: {', '.join(KINDS)}.")],
    path: Annotated[Path, typer.Argument(help="A file, or a folder of files that are one history.")],
    dated: Annotated[str, typer.Option(help="Time (UTC) of a snapshot whose name holds no day.")] = "",
    as_json: Json = False,
) -> None:
    """Add a recorded series to the history, each price with the days it was seen; a second time changes nothing."""
    here = session(writes=True)
    with only_daemon(here.db):
        report = import_history(here.db, kind, path, here.world, here.now, at=moment(dated, "--dated") if dated else None)
    if as_json:
        print_json(report)
    else:
        _say_report(report)


def _say_report(report: HistoryReport) -> None:
    span = f", {report.first:%Y-%m-%d} to {report.last:%Y-%m-%d}" if report.first and report.last else ""
    say(f"{report.kind}: {report.sightings} prices in {report.files} files, {report.rows} runs{span}, {report.new_points} new price points")
    for reason, count in sorted(report.refused.items(), key=lambda item: -item[1]):
        say(f"  {count} refused: {reason}, first: {report.examples.get(reason, '')}")
