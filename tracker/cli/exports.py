"""``export book`` and ``export history``."""

from __future__ import annotations

import sqlite3
import sys
from pathlib import Path
from tempfile import gettempdir
from typing import Annotated, TextIO

import typer

from tracker.book.bookstore import export_book
from tracker.cli.session import Json, Session, print_json, say, session
from tracker.cli.values import known_words
from tracker.database.rows import TICK
from tracker.exports.files import FORMATS, ExportError, replacing, write_tables
from tracker.exports.openmetrics import write_openmetrics
from tracker.exports.past import Steps
from tracker.exports.tables import book_tables, history_tables
from tracker.maintenance.backup import spare_book
from tracker.moments import since, span

STANDARD_OUTPUT = Path("-")

Format = Annotated[str, typer.Option("--format", help="csv, jsonl or parquet (pip install 'breakeven[parquet]').")]


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    exports = typer.Typer(no_args_is_help=True, help="Write the book or its history to files.")
    exports.command("book")(book)
    exports.command("history")(history)
    app.add_typer(exports, name="export")


def book(
    folder: Annotated[Path, typer.Argument(help="Folder for offers and rates.")], format_: Format = "csv", as_json: Json = False
) -> None:
    """Write every price known by now, or by --at, with the time it was seen as offers and rates; import book reads the CSV files."""
    known_words(format_, FORMATS, "format")
    here = session()
    if format_ == "csv":
        offers, rates = export_book(here.db, folder, here.now)
        _done(folder, {"offers": offers, "rates": rates}, as_json)
    else:
        _done(folder, write_tables(here.db, book_tables(here.now), folder, format_), as_json)


def history(
    path: Annotated[Path, typer.Argument(help="Folder for offers and rates; for openmetrics a file, - is standard output.")],
    format_: Annotated[str, typer.Option("--format", help="csv, jsonl, parquet, or openmetrics.")] = "csv",
    start: Annotated[str, typer.Option("--since", help="From this time on, or so long ago: 7d, 6h, 2026-11-01.")] = "30d",
    until: Annotated[str, typer.Option("--until", help="Before this time; default: now.")] = "",
    step: Annotated[str, typer.Option("--step", help="openmetrics: one sample every 1d, 6h, 5m.")] = "1h",
    as_json: Json = False,
) -> None:
    """Write price changes as tables, or what /metrics would have said at each step, for promtool tsdb create-blocks-from openmetrics."""
    known_words(format_, (*FORMATS, "openmetrics"), "format")
    here = session()
    first, last = since(start, here.now, "--since"), here.now + TICK
    if until:
        last = min(last, since(until, here.now, "--until"))
    if format_ == "openmetrics":
        _metrics(here, path, Steps(start=first, end=last, step=span(step, "--step")), as_json)
    else:
        _done(path, write_tables(here.db, history_tables(first, last, here.now), path, format_), as_json)


def _metrics(here: Session, path: Path, steps: Steps, as_json: bool) -> None:
    if path == STANDARD_OUTPUT:
        _write_metrics(sys.stdout, here, steps)
        return
    spare_book(here.db, path)
    with replacing(path) as part, part.open("w", encoding="utf-8") as out:
        samples = _write_metrics(out, here, steps)
    if as_json:
        print_json({"file": str(path), "samples": samples, "steps": len(steps)})
    else:
        say(f"{samples} samples of {len(steps)} steps written to {path}")


def _write_metrics(out: TextIO, here: Session, steps: Steps) -> int:
    try:
        return write_openmetrics(out, here.db, here.world, steps)
    except sqlite3.Error as error:  # of the file beside, in which the series wait for each other; the book's own are SQLAlchemy's
        raise ExportError(f"{gettempdir()}: {error}; make room there, or name another folder in TMPDIR") from error


def _done(folder: Path, counts: dict[str, int], as_json: bool) -> None:
    if as_json:
        print_json({"folder": str(folder), **counts})
    else:
        say(f"{counts['offers']} offer rows and {counts['rates']} rate rows written to {folder}")
