"""What a person does with the quarantine: looks, accepts, rejects. An accepted price is listed at once, with its own last sighting."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, RowMapping, select

from tracker.book.asof import IMPORTED
from tracker.book.bookfile import Dated
from tracker.book.bookstore import add_dated
from tracker.book.listing import OFFERS, RATES
from tracker.book.points import list_accepted
from tracker.database.postgres import serialize
from tracker.database.rows import to_s
from tracker.errors import BreakevenError
from tracker.guard.quarantine import ACCEPTED, PENDING, QUARANTINE, REJECTED, SWEEP_KIND, decide


class NothingToDecide(BreakevenError):
    """An entry does not exist, was decided, or holds nothing that could be listed."""


def entries(connection: Connection, *, source: str = "", every: bool = False, at: datetime | None = None) -> list[Mapping[str, Any]]:
    """What waits, or everything that ever did; newest last. As of ``at``, what was decided later still waits."""
    query = select(QUARANTINE).order_by(QUARANTINE.c.first_seen, QUARANTINE.c.id)
    if at is not None:
        query = query.where(QUARANTINE.c.first_seen <= at)
    if source:
        query = query.where(QUARANTINE.c.source == source)
    found = [_as_of(row, at) for row in connection.execute(query).mappings()]
    return [entry for entry in found if every or entry["state"] == PENDING]


def _as_of(row: RowMapping, at: datetime | None) -> Mapping[str, Any]:
    if at is None or row["decided_at"] is None or row["decided_at"] <= at:
        return dict(row)
    return {**row, "state": PENDING, "decided_at": None, "decided_by": ""}


def accept(connection: Connection, id_: int, by: str, now: datetime) -> RowMapping:
    """List the price that waits; of a refused sweep, let the next one pass. Returns the entry as it was."""
    entry = _pending(connection, id_)
    serialize(connection, f"source {entry['source']}")
    if entry["kind"] != SWEEP_KIND:
        if not entry["row"]:
            raise NothingToDecide(f"entry {id_} ({entry['subject']}) is printed at two prices: which one holds must show in the source")
        kind = OFFERS if entry["kind"] == OFFERS.name else RATES
        row = kind.row(**json.loads(entry["row"]))
        if entry["source"].startswith(IMPORTED):  # it was seen in its own time, and is not asked now
            seen = Dated(row, entry["source"].removeprefix(IMPORTED), to_s(entry["first_seen"]), entry["last_at"], None)
            add_dated(connection, [seen], now)
        else:
            list_accepted(connection, kind, entry["source"], entry["key"], row, entry["last_at"], now)
    decide(connection, [id_], ACCEPTED, by, now)
    return entry


def reject(connection: Connection, id_: int, by: str, now: datetime) -> RowMapping:
    """Hold that price back for good; another price of the same thing is judged anew. Returns the entry as it was."""
    entry = _pending(connection, id_)
    if entry["kind"] == SWEEP_KIND or not entry["row"]:
        raise NothingToDecide(
            f"entry {id_} ({entry['subject']}) is held back until the source prints something else; there is no price to reject"
        )
    decide(connection, [id_], REJECTED, by, now)
    return entry


def _pending(connection: Connection, id_: int) -> RowMapping:
    found = connection.execute(select(QUARANTINE).where(QUARANTINE.c.id == id_)).mappings().first()
    if found is None:
        raise NothingToDecide(f"no quarantine entry {id_}; breakeven quarantine list shows those that wait")
    if found["state"] != PENDING:
        raise NothingToDecide(
            f"entry {id_} ({found['subject']}) is {found['state']} since {found['decided_at']:%Y-%m-%d %H:%M} by {found['decided_by']}"
        )
    return found
