"""``quarantine list``, ``accept`` and ``reject``: prices that wait for a second sighting or for a person."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from tracker.book.asof import IMPORTED
from tracker.cli.session import Json, print_json, print_table, say, session
from tracker.cli.values import MOST_ROWS
from tracker.database.handle import reading, writing
from tracker.guard.decisions import accept, entries, reject
from tracker.guard.doubts import HAND, REPEAT, SOURCE

Ids = Annotated[list[int], typer.Argument(help="Numbers of entries, as list shows them.", min=1, max=MOST_ROWS)]
By = Annotated[str, typer.Option("--by", help="Who decides; default: the user's name.")]

WAITS = {REPEAT: "the next sweep, or a second source", SOURCE: "a second source", HAND: "a decision"}
WAITS_IMPORTED = {REPEAT: "the next import", SOURCE: "an import whose other prices agree", HAND: "a decision"}


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    group = typer.Typer(no_args_is_help=True, help="Prices that are held back: implausible changes, contradictions, whole sweeps.")
    group.command("list")(list_entries)
    group.command("accept")(accept_entries)
    group.command("reject")(reject_entries)
    app.add_typer(group, name="quarantine")


def list_entries(
    source: Annotated[str, typer.Option(help="Only this source.")] = "",
    every: Annotated[bool, typer.Option("--all", help="Also what was decided.")] = False,
    as_json: Json = False,
) -> None:
    """What is held back, why, and what it waits for."""
    here = session()
    if source and not source.startswith(IMPORTED):
        here.world.config.source(source)
    with reading(here.db) as connection:
        found = entries(connection, source=source, every=every, at=here.now)
    if as_json:
        print_json([_facts(entry) for entry in found])
        return
    header = ("id", "source", "what", "from", "to", "why", "sweeps", "since", "state")
    title = f"{len(found)} {'entries' if every else 'held back'}"
    print_table(header, [_cells(entry) for entry in found], numbers=(0, 6), title=title)


def _facts(entry: Mapping[str, Any]) -> dict[str, object]:
    names = (
        "id",
        "kind",
        "source",
        "subject",
        "reason",
        "release",
        "first_seen",
        "last_seen",
        "sweeps",
        "state",
        "decided_at",
        "decided_by",
    )
    return {name: entry[name] for name in names} | {name: json.loads(entry[name]) for name in ("old", "new")}


def _cells(entry: Mapping[str, Any]) -> tuple[str, ...]:
    releases = WAITS_IMPORTED if entry["source"].startswith(IMPORTED) else WAITS
    waits = f"{entry['state']}: waits for {releases[entry['release']]}"
    decided = f"{entry['state']} by {entry['decided_by']}"
    return (
        str(entry["id"]), entry["source"], entry["subject"], _prices(entry["old"]), _prices(entry["new"]), entry["reason"],
        str(entry["sweeps"]), f"{entry['first_seen']:%Y-%m-%d %H:%M}", waits if entry["state"] == "pending" else decided,
    )  # fmt: skip


def _prices(text: str) -> str:
    """Stored prices in one line; several where they conflict."""
    found = json.loads(text)
    if found is None:
        return ""
    if isinstance(found, list):
        return " or ".join(_one(prices) for prices in found)
    return _one(found)


def _one(prices: dict[str, str]) -> str:
    known = {name: price for name, price in prices.items() if name != "currency"}
    if set(known) == {"price"}:
        return f"{known['price']} {prices['currency']}"
    return ", ".join(f"{name.replace('_', ' ')} {price}" for name, price in known.items()) + f" {prices['currency']}"


def accept_entries(ids: Ids, by: By = "", as_json: Json = False) -> None:
    """List prices that wait; of a refused sweep, let the next one pass."""
    _decide(ids, by, accepted=True, as_json=as_json)


def reject_entries(ids: Ids, by: By = "", as_json: Json = False) -> None:
    """Hold prices back for good; another price of the same thing is judged anew."""
    _decide(ids, by, accepted=False, as_json=as_json)


def _decide(ids: list[int], by: str, *, accepted: bool, as_json: bool) -> None:
    """All of them or none."""
    here, who = session(writes=True), by or os.environ.get("USER") or "command line"
    with writing(here.db) as connection:
        found = [(accept if accepted else reject)(connection, id_, who, here.now) for id_ in ids]
    word = "accepted" if accepted else "rejected"
    if as_json:
        print_json([{"id": entry["id"], "subject": entry["subject"], "state": word, "decided_by": who} for entry in found])
        return
    for entry in found:
        next_step = "; the next sweep may pass" if entry["kind"] == "sweep" else ""
        say(f"{entry['id']}: {entry['subject']} {_prices(entry['new'])}: {word} by {who}{next_step}")
