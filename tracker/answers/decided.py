"""Reads the history of the decision. A decision holds from its time, inclusive, to that of the next one, exclusive."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from decimal import Decimal
from functools import cache
from typing import Any

from sqlalchemy import Connection, Select, bindparam, select, tuple_

from tracker.answers.lapses import Row, lapsed
from tracker.book.spans import FOREVER
from tracker.config import Source
from tracker.database.rows import from_s, to_s, unscaled
from tracker.database.schema import RATE_SCALE, RENT_SCALE, TABLES

DECISION = TABLES["decision"]
SCALES = {
    "native_per_hour": RENT_SCALE, "offer_usd_per_hour": RENT_SCALE, "usd_per_hour": RENT_SCALE, "api_usd_per_mtok": RATE_SCALE,
    "api_usd_per_month": RENT_SCALE, "break_even_tokens": 1, "break_even_utilization": RATE_SCALE, "self_host_usd_per_month": RENT_SCALE,
}  # fmt: skip
Subject = tuple[str, str, str]  # model, workload, policy


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """The answer for a model from ``at`` on. Parts of which no fresh price was known are None, and ``reason`` says why.

    ``native_per_hour`` and ``offer_usd_per_hour`` are of the offer, ``usd_per_hour`` of the whole setup. Times are aware UTC.
    """

    at: datetime
    model: str
    workload: str
    policy: str
    sweep: int
    fresh: bool
    reason: str
    source: str | None
    provider: str | None
    sku: str | None
    region: str | None
    tier: str | None
    currency: str | None
    native_per_hour: Decimal | None
    offer_usd_per_hour: Decimal | None
    gpu: str | None
    gpu_count: int | None
    machines: int | None
    weight_format: str | None
    usd_per_hour: Decimal | None
    seen_at: datetime | None
    source_url: str | None
    api_source: str | None
    api_provider: str | None
    api_sku: str | None
    api_region: str | None
    api_currency: str | None
    api_prices: Mapping[str, Decimal] | None  # native, per Mtok by token kind
    api_usd_per_mtok: Decimal | None
    api_usd_per_month: Decimal | None
    api_seen_at: datetime | None
    api_source_url: str | None
    break_even_status: str | None
    break_even_tokens: Decimal | None
    break_even_utilization: Decimal | None
    replicas: int | None
    self_host_usd_per_month: Decimal | None
    verdict: str | None


def decisions(
    connection: Connection, start: datetime, end: datetime, *, model: str = "", workload: str = "", policy: str = ""
) -> list[Decided]:
    """Decisions made from ``start`` on, before ``end``, oldest first; empty names ask for all."""
    query = _of(select(DECISION).where(DECISION.c.at >= to_s(start), DECISION.c.at < to_s(end)), model, workload, policy)
    query = query.order_by(DECISION.c.at, DECISION.c.model, DECISION.c.workload, DECISION.c.policy)
    return [_decided(dict(row)) for row in connection.execute(query).mappings()]


def course(
    connection: Connection, sources: Mapping[str, Source], start: datetime, end: datetime, *, model: str, workload: str, policy: str
) -> list[Decided]:
    """Decisions that held at any moment of [start, end), oldest first: the first may have been made before it."""
    until, before = to_s(end) - 1, _row_at(connection, start, model, workload, policy)
    query = _of(select(DECISION).where(DECISION.c.at > to_s(start), DECISION.c.at <= until), model, workload, policy)
    later = connection.execute(query.order_by(DECISION.c.at)).mappings()
    rows: list[Row] = [*([] if before is None else [before]), *map(dict, later)]
    if rows:
        rows += lapsed(connection, sources, rows[-1], until)
    held = [place for place, row in enumerate(rows) if row["at"] <= to_s(start)]
    return [_decided(row) for row in rows[held[-1] if held else 0 :]]


def subjects(connection: Connection) -> list[Subject]:
    """Models, workloads and policies that were ever decided on, in order: one step of the index each, however many decisions there are."""
    first, beyond = _first_subjects()
    found: list[Subject] = []
    row = connection.execute(first).first()
    while row is not None:
        model, workload, policy = row
        found.append((model, workload, policy))
        row = connection.execute(beyond, {"model": model, "workload": workload, "policy": policy, "at": FOREVER}).first()
    return found


@cache
def _first_subjects() -> tuple[Select[Any], Select[Any]]:
    """The first of all, and the first beyond one: that by the whole key, or SQLite reads all of them."""
    names = (DECISION.c.model, DECISION.c.workload, DECISION.c.policy)
    first, key = select(*names).order_by(*names).limit(1), (*names, DECISION.c.at)
    return first, first.where(tuple_(*key) > tuple_(*(bindparam(column.name, type_=column.type) for column in key)))


def _row_at(connection: Connection, at: datetime, model: str, workload: str, policy: str) -> Row | None:
    query = _of(select(DECISION).where(DECISION.c.at <= to_s(at)), model, workload, policy)
    found = connection.execute(query.order_by(DECISION.c.at.desc()).limit(1)).mappings().first()
    return None if found is None else dict(found)


def _of(query: Select[Any], model: str, workload: str, policy: str) -> Select[Any]:
    for name, wanted in (("model", model), ("workload", workload), ("policy", policy)):
        query = query.where(DECISION.c[name] == wanted) if wanted else query
    return query


def _decided(row: Row) -> Decided:
    return Decided(**dict(_values(row)))


def _values(row: Row) -> Iterator[tuple[str, Any]]:
    for field in fields(Decided):
        value = row[field.name]
        if value is not None and field.name in SCALES:
            value = unscaled(value, SCALES[field.name])
        yield field.name, value
    yield "at", from_s(row["at"])
    yield (
        "api_prices",
        None if row["api_prices"] is None else {kind: Decimal(price) for kind, price in json.loads(row["api_prices"]).items()},
    )
