"""The quarantine: what is held back, since when and why, and what became of it. Every entry stays as a record."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from decimal import Decimal

from sqlalchemy import Connection, RowMapping, insert, select, update

from tracker.book.listing import Kind, Prices, Row, prices_of
from tracker.database.rows import OfferRow, from_s, unscaled
from tracker.database.schema import RATE_SCALE, RENT_SCALE, TABLES
from tracker.guard.doubts import HAND, SOURCE, Doubt, close

QUARANTINE = TABLES["quarantine"]
PENDING, CONFIRMED, ACCEPTED, REJECTED, WITHDRAWN = "pending", "confirmed", "accepted", "rejected", "withdrawn"
SWEEP_KIND = "sweep"
CONFLICT = "same offer at two prices"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One price that waits, or that a person has judged."""

    id: int
    key: str
    state: str
    release: str
    reason: str
    sweeps: int
    row: Row | None

    def is_of(self, prices: Prices, tolerance: Decimal) -> bool:
        """Whether it holds this price."""
        return self.row is not None and close(prices_of(self.row), prices, tolerance)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """The moment of a sweep."""

    source: str
    at: int
    when: datetime


def load_entries(connection: Connection, kind: Kind, source: str) -> dict[str, list[Entry]]:
    """Entries of a source that still say something: waiting ones, and what a person accepted or rejected."""
    query = select(QUARANTINE).where(
        QUARANTINE.c.source == source, QUARANTINE.c.kind == kind.name, QUARANTINE.c.state.in_((PENDING, ACCEPTED, REJECTED))
    )
    found: dict[str, list[Entry]] = {}
    for row in connection.execute(query.order_by(QUARANTINE.c.id)).mappings():
        found.setdefault(row["key"], []).append(_entry(row, kind))
    return found


def _entry(row: RowMapping, kind: Kind) -> Entry:
    names = ("id", "key", "state", "release", "reason", "sweeps")
    return Entry(row=kind.row(**json.loads(row["row"])) if row["row"] else None, **{name: row[name] for name in names})


def hold(connection: Connection, kind: Kind, seen: Sighting, key: str, row: Row, old: Prices | None, doubt: Doubt) -> Entry:
    """A price is held back for the first time."""
    new = shown(prices_of(row), row)
    id_ = _add(connection, kind.name, seen, key, doubt, subject=subject_of(row), old=shown(old, row), new=new, row=json.dumps(asdict(row)))
    return Entry(id=id_, key=key, state=PENDING, release=doubt.release, reason=doubt.reason, sweeps=1, row=row)


def hold_conflict(connection: Connection, kind: Kind, seen: Sighting, key: str, rows: Sequence[Row], old: Prices | None) -> None:
    """One thing at two prices: both are shown, neither can be accepted."""
    both = "[" + ", ".join(shown(prices_of(row), row) for row in rows) + "]"
    _add(connection, kind.name, seen, key, Doubt(CONFLICT, SOURCE), subject=subject_of(rows[0]), old=shown(old, rows[0]), new=both, row="")


def _add(connection: Connection, kind: str, seen: Sighting, key: str, doubt: Doubt, *, subject: str, old: str, new: str, row: str) -> int:
    added = connection.execute(
        insert(QUARANTINE).values(
            kind=kind, source=seen.source, key=key, subject=subject, old=old, new=new, row=row, reason=doubt.reason,
            release=doubt.release, first_seen=seen.when, last_seen=seen.when, last_at=seen.at, sweeps=1, state=PENDING,
            decided_at=None, decided_by="",
        )
    )  # fmt: skip
    assert added.inserted_primary_key is not None
    return int(added.inserted_primary_key[0])


def seen_again(connection: Connection, entry: Entry, seen: Sighting, doubt: Doubt | None = None, row: Row | None = None) -> Entry:
    """The price that is held back was printed again, perhaps a little different; the entry as it is now."""
    now = replace(entry, sweeps=entry.sweeps + 1)
    if doubt is not None:
        now = replace(now, reason=doubt.reason, release=doubt.release)
    changed = {"sweeps": now.sweeps, "reason": now.reason, "release": now.release, "last_seen": seen.when, "last_at": seen.at}
    if row is not None:
        changed |= {"row": json.dumps(asdict(row)), "new": shown(prices_of(row), row)}
    connection.execute(update(QUARANTINE).where(QUARANTINE.c.id == entry.id).values(**changed))
    return now


def seen_until(connection: Connection, id_: int, at: int, times: int) -> None:
    """The price that is held back was seen so many times, at last at that moment: a recording tells all of them at once."""
    changed = {"sweeps": times, "last_seen": from_s(at), "last_at": at}
    connection.execute(update(QUARANTINE).where(QUARANTINE.c.id == id_).values(**changed))


def decide(connection: Connection, ids: Iterable[int], state: str, by: str, when: datetime) -> None:
    """Entries leave the quarantine."""
    for id_ in ids:
        connection.execute(update(QUARANTINE).where(QUARANTINE.c.id == id_).values(state=state, decided_by=by, decided_at=when))


def note_refusal(connection: Connection, seen: Sighting, fault: str, message: str) -> None:
    """A whole sweep was refused: counted for as long as it goes on. ``message`` is kept without its advice."""
    message = message.partition(";")[0]
    pending = _sweep_entries(connection, seen.source, (PENDING,)).get(fault)
    if pending is not None:
        again = {"sweeps": pending["sweeps"] + 1, "last_seen": seen.when, "last_at": seen.at, "reason": message}
        connection.execute(update(QUARANTINE).where(QUARANTINE.c.id == pending["id"]).values(**again))
        return
    subject = f"{seen.source}: a whole sweep"
    _add(connection, SWEEP_KIND, seen, fault, Doubt(message, HAND), subject=subject, old="null", new="null", row="")


def _sweep_entries(connection: Connection, source: str, states: Sequence[str]) -> dict[str, RowMapping]:
    query = select(QUARANTINE).where(QUARANTINE.c.source == source, QUARANTINE.c.kind == SWEEP_KIND, QUARANTINE.c.state.in_(states))
    return {row["key"]: row for row in connection.execute(query.order_by(QUARANTINE.c.id)).mappings()}


def refusals(connection: Connection, source: str) -> Mapping[str, RowMapping]:
    """Refused sweeps of a source that go on, by fault."""
    return _sweep_entries(connection, source, (PENDING,))


def accepted_faults(connection: Connection, source: str, since: datetime | None) -> set[str]:
    """Faults a person accepted after the last sweep that was kept."""
    found = _sweep_entries(connection, source, (ACCEPTED,))
    return {fault for fault, row in found.items() if since is None or row["decided_at"] > since}


def subject_of(row: Row) -> str:
    """What a price is of, for people."""
    parts = (
        (row.provider, row.sku, row.region, row.tier.replace("_", " "), "" if row.trust == "datacenter" else row.trust)
        if isinstance(row, OfferRow)
        else (row.provider, row.source_model, "" if row.sku == "standard" else row.sku, row.region)
    )
    return " ".join(part for part in parts if part)


def shown(prices: Prices | None, row: Row) -> str:
    """Prices as JSON for people: currency, and each component as a decimal string."""
    if prices is None:
        return "null"
    scale = RENT_SCALE if isinstance(row, OfferRow) else RATE_SCALE
    known = {name: f"{unscaled(price, scale):f}" for name, price in prices.items() if price is not None}
    return json.dumps({"currency": row.currency, **known})
