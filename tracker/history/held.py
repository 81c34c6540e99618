"""Prices of a series that wait: kept in the quarantine with the moments they were seen, and let go when a later import believes them."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, RowMapping, select

from tracker.book.asof import FIELDS, IMPORTED, PREFIX, SOURCE, Moment, rows_at
from tracker.book.listing import OFFERS, RATES, Kind, Row, prices_of
from tracker.database.rows import OfferRow, from_s, identity, to_s
from tracker.guard.doubts import Doubt
from tracker.guard.quarantine import ACCEPTED, CONFIRMED, PENDING, QUARANTINE, Sighting, decide, hold, seen_until
from tracker.guard.quarantine import REJECTED as REJECTED_BY_HAND
from tracker.history.plausible import REJECTED, Before, Held


def keep_held(connection: Connection, held: Iterable[Held], listed: Mapping[str, Collection[int]], now: datetime) -> None:
    """Keep what waits. What is there already, waiting or decided, is left as it is but for a later last sighting.

    ``listed``: by identity, the moments at which this import believes a price; entries of those are confirmed.
    """
    known = _known(connection, listed)
    believed = [id_ for (key, at), (id_, state) in known.items() if state == PENDING and at in listed.get(key, ())]
    decide(connection, believed, CONFIRMED, "a later sighting", now)
    for one in held:
        if one.doubt == REJECTED and (one.key, one.moments[0]) not in known:
            continue  # a person has said what there is to say of that price
        kind = OFFERS if isinstance(one.row, OfferRow) else RATES
        found = known.get((one.key, one.moments[0]))
        if found is None:
            first = Sighting(source=IMPORTED + one.origin, at=one.moments[0], when=from_s(one.moments[0]))
            found = hold(connection, kind, first, one.key, one.row, one.old, one.doubt).id, PENDING
        if found[1] == PENDING:
            seen_until(connection, found[0], one.moments[-1], len(one.moments))


def recalled(connection: Connection, now: datetime, keys: Collection[str], first: int) -> Before:
    """What the book knows of imported identities: what they were listed at before ``first`` (s), what was decided, and what waits."""
    sources = sorted({json.loads(key)[0] for key in keys})
    moment = Moment(at=from_s(first - 1), known=now)
    listed: dict[str, Row] = {}
    for kind in (OFFERS, RATES):
        for row in (_row(kind, told) for told in rows_at(connection, kind, moment, {"source": sources}).told):
            listed[identity(row[0], row[1])] = row[1]
    decided: dict[str, dict[str, list[Row]]] = {ACCEPTED: {}, REJECTED_BY_HAND: {}}
    waiting: dict[str, Held] = {}
    for entry in _entries(connection, keys):
        price = (OFFERS if entry["kind"] == OFFERS.name else RATES).row(**json.loads(entry["row"]))
        if entry["state"] in decided:
            decided[entry["state"]].setdefault(entry["key"], []).append(price)
        elif entry["state"] == PENDING and entry["last_at"] < first:
            moments, doubt = sorted({to_s(entry["first_seen"]), entry["last_at"]}), Doubt(entry["reason"], entry["release"])
            origin, old = entry["source"].removeprefix(IMPORTED), listed.get(entry["key"])
            was = None if old is None else prices_of(old)
            waiting[entry["key"]] = Held(key=entry["key"], origin=origin, row=price, old=was, doubt=doubt, moments=moments)
    return Before(listed=listed, waiting=waiting, accepted=decided[ACCEPTED], rejected=decided[REJECTED_BY_HAND])


def _row(kind: Kind, told: tuple[Any, ...]) -> tuple[str, Row]:
    """The source of a row of the book, and the row."""
    return told[SOURCE], kind.row(**dict(zip(FIELDS[kind.name], told[PREFIX:], strict=True)))


def _entries(connection: Connection, keys: Collection[str]) -> list[RowMapping]:
    """All imported entries about those identities, oldest first."""
    query = select(QUARANTINE).where(QUARANTINE.c.source.startswith(IMPORTED), QUARANTINE.c.row != "").order_by(QUARANTINE.c.id)
    return [row for row in connection.execute(query).mappings() if row["key"] in keys]


def _known(connection: Connection, listed: Mapping[str, Collection[int]]) -> dict[tuple[str, int], tuple[int, str]]:
    """Number and state of the imported entries about what this import tells of, by identity and first sighting."""
    return {(row["key"], to_s(row["first_seen"])): (row["id"], row["state"]) for row in _entries(connection, listed.keys())}
