"""What a person does with the quarantine: looks, accepts, rejects. An accepted price is listed at once, with its own last sighting."""

from __future__ import annotations

import json
from datetime import datetime

from sqlalchemy import Connection, RowMapping, select

from tracker.errors import BreakevenError
from tracker.guard.quarantine import ACCEPTED, PENDING, QUARANTINE, REJECTED, SWEEP_KIND, decide
from tracker.listing import OFFERS, RATES
from tracker.points import list_accepted
from tracker.postgres import serialize


class NothingToDecide(BreakevenError):
    """An entry does not exist, was decided, or holds nothing that could be listed."""


def entries(connection: Connection, *, source: str = "", every: bool = False) -> list[RowMapping]:
    """What waits, or everything that ever did; newest last."""
    query = select(QUARANTINE).order_by(QUARANTINE.c.first_seen, QUARANTINE.c.id)
    if not every:
        query = query.where(QUARANTINE.c.state == PENDING)
    if source:
        query = query.where(QUARANTINE.c.source == source)
    return list(connection.execute(query).mappings())


def accept(connection: Connection, id_: int, by: str, now: datetime) -> RowMapping:
    """List the price that waits; of a refused sweep, let the next one pass. Returns the entry as it was."""
    entry = _pending(connection, id_)
    serialize(connection, f"source {entry['source']}")
    if entry["kind"] != SWEEP_KIND:
        if not entry["row"]:
            raise NothingToDecide(f"entry {id_} ({entry['subject']}) is printed at two prices: which one holds must show in the source")
        kind = OFFERS if entry["kind"] == OFFERS.name else RATES
        list_accepted(connection, kind, entry["source"], entry["key"], kind.row(**json.loads(entry["row"])), entry["last_at"], now)
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
