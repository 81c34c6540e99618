"""``report``: a month of API usage against rental spend."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tracker.cli.session import Json, print_json, print_table, say, session
from tracker.database.handle import reading
from tracker.errors import BreakevenError
from tracker.finance.records import read_rentals, read_usage
from tracker.finance.render import HEADER, cells, summary, write_csv
from tracker.finance.report import make_report, month_span


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command()(report)


def report(
    month: Annotated[str, typer.Option(help="Calendar month, such as 2026-11.")],
    usage: Annotated[Path | None, typer.Option(help="CSV of tokens used: day,provider,model and token kinds.")] = None,
    rentals: Annotated[Path | None, typer.Option(help="CSV of rentals: start,end,provider,gpu,gpu_count,price_per_hour.")] = None,
    csv: Annotated[Path | None, typer.Option(help="Write the report as CSV to this file as well.")] = None,
    as_json: Json = False,
) -> None:
    """The API bill at the rates of each day against rental spend; lines add up to the totals to the cent."""
    if usage is None and rentals is None:
        raise BreakevenError("report needs --usage or --rentals, or both")
    try:
        month_span(month)
    except ValueError as error:
        raise BreakevenError(f"--month {month!r} is no month; write it as 2026-11") from error
    used, rented = read_usage(usage) if usage else (), read_rentals(rentals) if rentals else ()
    here = session()
    with reading(here.db) as connection:
        made = make_report(connection, here.world, month, used, rented, here.now)
    if csv is not None:
        write_csv(made, csv)
    if as_json:
        print_json({**summary(made), "lines": made.lines})
        return
    print_table(HEADER, [cells(line) for line in made.lines], numbers=(6,), title=f"{month}")
    for name, value in summary(made).items():
        say(f"{name.replace('_', ' ')}: {value}")
    if csv is not None:
        say(f"written to {csv}")
