"""``changes`` and ``history``: what moved when, and what the answers were."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any

import typer
from sqlalchemy import Connection

from tracker.book import read_book
from tracker.cli.answers import PolicyName, WorkloadName
from tracker.cli.session import Json, Session, print_json, print_table, say, session
from tracker.database import reading
from tracker.decided import Decided, course
from tracker.moments import since, span
from tracker.plain import as_line
from tracker.present import money
from tracker.price_history import PRICES, price_history
from tracker.questions import Question, default_question
from tracker.recompute import Sizer, answer
from tracker.rows import TICK
from tracker.timeline import Change, changes, steps

Since = Annotated[str, typer.Option("--since", help="From this time on, or so long ago: 7d, 6h, 2026-11-01.")]
Until = Annotated[str, typer.Option("--until", help="Before this time; default: now.")]
Step = Annotated[str, typer.Option("--step", help="One line every 1d, 6h, 30m.")]
Lines = Annotated[bool, typer.Option("--jsonl", help="One JSON object a line.")]
Name = Annotated[str, typer.Argument(help="What of: a GPU for gpu, a provider's sku for offer, a model for the others.")]


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    app.command("changes")(list_changes)
    app.command("history")(history)


def list_changes(
    start: Since = "1d",
    after: Annotated[str, typer.Option(help="Cursor: the event of the last change you have.")] = "",
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
    what: Annotated[str, typer.Argument(help="offer, gpu, rate, setup or breakeven.")],
    name: Name,
    start: Since = "30d",
    until: Until = "",
    step: Step = "1d",
    workload: WorkloadName = "",
    policy: PolicyName = "",
    lines: Lines = False,
    as_json: Json = False,
) -> None:
    """Prices or answers as they were at each step: only what was observed by then, with the time it was seen.

    setup and breakeven tell what was decided, and when; before the first decision, what the book of that time says today. They are of
    the default question of tracker.toml; --workload and --policy name another.
    """
    here = session()
    if what in PRICES and (workload or policy):
        raise typer.BadParameter(f"prices of {what} are of no workload or policy; setup and breakeven are")
    question = default_question(here.world, workload, policy)
    first, last = since(start, here.now, "--since"), since(until, here.now, "--until") if until else here.now + TICK
    moments = list(steps(first, min(last, here.now + TICK), span(step, "--step")))
    with reading(here.db) as connection:
        rows = [{"at": at, **entry} for at, entries in _told(here, connection, what, name, moments, question) for entry in entries]
    if lines:
        for row in rows:
            print(as_line(row))
    elif as_json:
        print_json(rows)
    elif not rows:
        say(f"nothing known of {what} {name} in that time")
    else:
        header = tuple(rows[0])
        print_table(header, [tuple(_text(row[key]) for key in header) for row in rows])


def _text(value: Any) -> str:
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M}"
    return "" if value is None else str(value)


Told = Iterator[tuple[datetime, list[dict[str, Any]]]]


def _told(here: Session, connection: Connection, what: str, name: str, moments: Sequence[datetime], question: Question) -> Told:
    """What there was at each moment: prices, or the answer that was decided then; before the first decision, what the book says."""
    if what in PRICES:
        yield from price_history(connection, here.world, what, name, moments, here.now)
        return
    if what not in ("setup", "breakeven"):
        raise typer.BadParameter(f"{what!r} is none of offer, gpu, rate, setup, breakeven")
    model, sizer, sources = here.world.model(name), Sizer(here.world), here.world.config.sources
    of = {"model": model.id, "workload": question.workload.id, "policy": question.policy_id}
    decided = course(connection, sources, moments[0], moments[-1] + TICK, **of)
    for at in moments:
        if place := bisect_right(decided, at, key=lambda entry: entry.at):
            yield at, [_decided(decided[place - 1], what)]
        else:
            book = read_book(connection, at, sources, known=here.now)
            yield at, [_answer(answer(here.world, sizer, book, model, question), what)]


def _answer(found: Any, what: str) -> dict[str, Any]:
    setup, rate, point = found.setup, found.rate, found.break_even
    facts = {
        "setup": None if setup is None else f"{setup.gpu_count_rented} x {setup.gpu} {setup.weight_format}",
        "provider": None if setup is None else setup.offer.provider,
        "usd_per_hour": None if setup is None else money(setup.usd_per_hour),
        "seen_at": found.seen_at,
        "fresh": found.all_fresh if what == "breakeven" else found.setup_fresh,
        "decided_at": None,
    }
    if what == "setup":
        return facts
    return facts | {
        "api_provider": None if rate is None else rate.rate.provider,
        "api_usd_per_mtok": None if rate is None else f"{rate.usd_per_mtok:.4f}",
        "break_even_tokens": None if point is None or point.tokens is None else f"{point.tokens:.0f}",
        "status": None if point is None else point.status,
        "verdict": None if found.verdict is None else found.verdict.answer,
    }


def _decided(found: Decided, what: str) -> dict[str, Any]:
    """The same facts of a decision. It was seen again after ``seen_at`` for as long as it held."""
    facts = {
        "setup": None if found.gpu is None else f"{found.gpu_count} x {found.gpu} {found.weight_format}",
        "provider": found.provider,
        "usd_per_hour": None if found.usd_per_hour is None else money(found.usd_per_hour),
        "seen_at": min((at for at in (found.seen_at, found.api_seen_at) if at is not None), default=None),
        "fresh": found.fresh if what == "breakeven" else found.provider is not None,
        "decided_at": found.at,
    }
    if what == "setup":
        return facts
    return facts | {
        "api_provider": found.api_provider,
        "api_usd_per_mtok": None if found.api_usd_per_mtok is None else f"{found.api_usd_per_mtok:.4f}",
        "break_even_tokens": None if found.break_even_tokens is None else f"{found.break_even_tokens:.0f}",
        "status": found.break_even_status,
        "verdict": found.verdict,
    }
