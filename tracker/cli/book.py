"""``import book`` and ``import history``."""

from __future__ import annotations

from pathlib import Path
from time import monotonic
from typing import Annotated

import typer

from tracker.book.bookstore import import_book
from tracker.book.newest import SKEW
from tracker.cli.session import Json, print_json, say, session
from tracker.database.handle import only_daemon
from tracker.history.load import KINDS, HistoryReport, import_history
from tracker.history.quotes import Shape
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
        done = import_book(here.db, folder, here.world.catalogue, here.now, latest=here.now + SKEW)
    if as_json:
        print_json({"folder": str(folder), "rows": done.rows, "new_points": done.new_points})
    else:
        say(f"{done.rows} rows read, {done.new_points} new price points")


def import_series(
    kind: Annotated[str, typer.Argument(help=f"Shape of the file: {', '.join(KINDS)}.")],
    path: Annotated[Path, typer.Argument(help="A file, or a folder of files that are one history.")],
    dated: Annotated[str, typer.Option(help="Time (UTC) of a snapshot whose name holds no day.")] = "",
    column: Annotated[list[str] | None, typer.Option(help="offers, rates: OURS=THEIRS, such as price=usd_per_hour.")] = None,
    every: Annotated[list[str] | None, typer.Option("--set", help="offers, rates: OURS=VALUE in every row, such as currency=EUR.")] = None,
    as_json: Json = False,
) -> None:
    """Add a recorded series to the history, each price with the days it was seen; a second time changes nothing.

    offers and rates are tables of your own. Needed are observed, provider, gpu, gpu_count, tier, price, per and currency; for rates
    observed, provider, model, per, currency and a price such as input or output. GPUs and models go by our ids or their provider's
    names; per is gpu_hour, node_hour, node_month, token, mtok.
    """
    here, began = session(writes=True), monotonic()
    shape = Shape(columns=_pairs(column or [], "--column"), constants=_pairs(every or [], "--set"))
    with only_daemon(here.db):
        report = import_history(here.db, kind, path, here.world, here.now, at=moment(dated, "--dated") if dated else None, shape=shape)
    if as_json:
        print_json(report)
    else:
        _say_report(report)
        say(f"  {monotonic() - began:.1f} s")


def _pairs(words: list[str], option: str) -> dict[str, str]:
    """NAME=VALUE words."""
    if wrong := [word for word in words if "=" not in word]:
        raise typer.BadParameter(f"{option} {wrong[0]!r}: write NAME=VALUE")
    return dict(word.split("=", 1) for word in words)


def _say_report(report: HistoryReport) -> None:
    span = f", {report.first:%Y-%m-%d} to {report.last:%Y-%m-%d}" if report.first and report.last else ""
    say(f"{report.kind}: {report.sightings} prices in {report.files} files, {report.rows} runs{span}, {report.new_points} new price points")
    for reason, count in sorted(report.refused.items(), key=lambda item: -item[1]):
        say(f"  {count} refused: {reason}, first: {report.examples.get(reason, '')}")
    if report.held:
        waiting = sum(report.held.values())
        say(f"  {waiting} not believed and not listed; breakeven quarantine list shows them, accept lists one with its own dates")
