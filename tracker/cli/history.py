"""``changes`` and ``history``: what moved when, and what the answers were."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any

import typer
from sqlalchemy import Connection

from tracker.answers.answer_history import ANSWERS, answer_history
from tracker.answers.price_history import PRICES, price_history
from tracker.answers.questions import nearest_question
from tracker.book.timeline import Change, changes, steps
from tracker.cli.answers import PolicyName, WorkloadName
from tracker.cli.session import Json, Session, print_json, print_table, say, session
from tracker.cli.times import asked_at
from tracker.database.handle import reading
from tracker.database.rows import TICK
from tracker.moments import since, span
from tracker.plain import as_line
from tracker.rollup.history import DAYS, day_history, days_between

Since = Annotated[str, typer.Option("--since", help="From this time on, or so long ago: 7d, 6h, 2026-11-01.")]
Until = Annotated[str, typer.Option("--until", help="Before this time; default: now.")]
Step = Annotated[str, typer.Option("--step", help="One line every 1d, 6h, 30m.")]
Lines = Annotated[bool, typer.Option("--jsonl", help="One JSON object a line.")]
CURSOR = "Cursor: the event of the last change you have that is over a minute old; a sweep that ended before newer ones may still come in."
Name = Annotated[str, typer.Argument(help="What of: a GPU for gpu, a provider's sku for offer, a model for the others.")]


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    app.command("changes")(list_changes)
    app.command("history")(history)


def list_changes(
    start: Since = "1d",
    after: Annotated[str, typer.Option(help=CURSOR)] = "",
    limit: Annotated[int, typer.Option(min=1, max=100_000)] = 1000,
    imported: Annotated[bool, typer.Option("--imported", help="Imported history too.")] = False,
    lines: Lines = False,
    as_json: Json = False,
) -> None:
    """Prices that appeared, moved or went, oldest first."""
    here = session()
    with reading(here.db) as connection:
        found = changes(connection, since(start, here.now, "--since"), until=here.now + TICK, cursor=after, limit=limit, imported=imported)
    if lines:
        for change in found:
            print(as_line(change))
    elif as_json:
        print_json(found)
    else:
        print_table(("time (UTC)", "provider", "what", "", "old", "new", "percent", "event"), [_cells(change) for change in found])


def _cells(change: Change) -> tuple[str, ...]:
    moved = [key for key, value in change.new.items() if value != change.old[key]]

    def shown(prices: Mapping[str, Any]) -> str:
        return " ".join(f"{key} {prices[key]:f}" for key in moved if prices[key] is not None)

    percent = " ".join(f"{value:+}" for value in change.percent.values())
    return (
        f"{change.at:%Y-%m-%d %H:%M}", change.provider, change.name, change.kind,
        f"{shown(change.old)} {change.currency}" if change.kind != "appeared" else "",
        f"{shown(change.new)} {change.currency}" if change.kind != "gone" else "", percent, change.event,
    )  # fmt: skip


def history(
    what: Annotated[str, typer.Argument(help="offer, gpu, rate, setup, breakeven or days.")],
    name: Name,
    start: Since = "30d",
    until: Until = "",
    step: Step = "1d",
    workload: WorkloadName = "",
    policy: PolicyName = "",
    gpu_count: Annotated[int, typer.Option("--gpus", help="days: of machines sold with 1, 2, 4, 8 or 16 GPUs (and up to the next).")] = 1,
    tier: Annotated[str, typer.Option(help="days: on_demand, spot or reserved.")] = "on_demand",
    lines: Lines = False,
    as_json: Json = False,
) -> None:
    """Prices or answers as they were at each step: only what was observed by then, with the time it was seen.

    setup and breakeven tell what was decided, and when; before the first decision, what the book of that time says today. They are of
    the default question of tracker.toml; --workload and --policy name another. days is the lowest price of a GPU on each UTC day, from
    the figures a day that the daemon works out every hour (db rollup does so now).
    """
    here = session()
    if what not in ANSWERS and (workload or policy):
        raise typer.BadParameter(f"prices of {what} are of no workload or policy; setup and breakeven are")
    first, last = since(start, here.now, "--since"), since(until, here.now, "--until") if until else here.now + TICK
    with reading(here.db) as connection:
        if what == DAYS:
            between = days_between(first, last, here.now, past=bool(asked_at()))
            rows = day_history(connection, here.world, name, gpu_count, tier, *between)
        else:
            moments = list(steps(first, min(last, here.now + TICK), span(step, "--step")))
            rows = _told(here, connection, what, name, moments, workload, policy)
    _show(rows, f"nothing known of {what} {name} in that time", lines, as_json)


def _told(
    here: Session, connection: Connection, what: str, name: str, moments: list[datetime], workload: str, policy: str
) -> list[dict[str, Any]]:
    """What there was at each moment."""
    if what in PRICES:
        found = price_history(connection, here.world, what, name, moments, here.now)
    elif what in ANSWERS:
        question = nearest_question(here.world, workload, policy)
        found = answer_history(connection, here.world, what, name, moments, question, here.now)
    else:
        raise typer.BadParameter(f"{what!r} is none of {', '.join((*PRICES, *ANSWERS, DAYS))}")
    return [{"at": at, **entry} for at, entries in found for entry in entries]


def _show(rows: list[dict[str, Any]], nothing: str, lines: bool, as_json: bool) -> None:
    if lines:
        for row in rows:
            print(as_line(row))
    elif as_json:
        print_json(rows)
    elif not rows:
        say(nothing)
    else:
        header = tuple(rows[0])
        print_table(header, [tuple(_text(row[key]) for key in header) for row in rows])


def _text(value: Any) -> str:
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M}"
    return "" if value is None else f"{value:f}" if isinstance(value, Decimal) else str(value)
