"""History of the decision: what the answer for each model was from when on, with the offer and rate it stood on.

A row is written when the winner, its price, the break-even or the verdict changes, and holds until the next row of the same model,
workload and policy. Only fresh prices decide. A price that grew old ends a decision too: by a row without it, dated to the moment it
passed its age limit, whether or not anybody looked just then. An unchanged recompute writes nothing. A new exchange rate changes
what a foreign offer costs in USD, and with it the decision.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

from sqlalchemy import Connection, Engine, Select, bindparam, select

from engine.rate_choice import RateChoice
from engine.rates import TOKEN_KINDS
from engine.setups import Setup
from tracker.answers.decided import DECISION, SCALES, subjects
from tracker.answers.lapses import RATE, RENT, SIDE, TOGETHER, Row, lapsed
from tracker.answers.snapshot import ModelAnswer, Snapshot
from tracker.book.newest import newest_sweep
from tracker.book.points import insert_new
from tracker.config import Source
from tracker.database.handle import reading, writing
from tracker.database.postgres import serialize
from tracker.database.rows import scaled, to_s

KEY = ("model", "workload", "policy")


def keep_decisions(db: Engine, sources: Mapping[str, Source], snapshot: Snapshot, sweep: int) -> int:
    """Store what a snapshot of the book with that newest sweep changed about the answers; returns the number of rows.

    Several processes that see the same change store it once: the second finds it stored, and a look older than that is no news.
    """
    with reading(db) as connection:
        if not _dropped(connection, snapshot, sweep) and not any(
            _news(connection, sources, snapshot, answer, sweep) for answer in snapshot.every
        ):
            return 0
    with writing(db) as connection:
        serialize(connection, "decisions")
        rows = [row for answer in snapshot.every for row in _news(connection, sources, snapshot, answer, sweep)]
        rows += _dropped(connection, snapshot, sweep)
        if rows:
            connection.execute(insert_new(connection, DECISION), rows)
    return len(rows)


def _news(connection: Connection, sources: Mapping[str, Source], snapshot: Snapshot, answer: ModelAnswer, sweep: int) -> list[Row]:
    """Rows that tell what changed since the last one of the answer, ascending."""
    new = _row(answer, to_s(snapshot.at), sweep)
    last = _last(connection, new)
    if last is None:
        return [] if new["source"] is None and new["api_source"] is None else [new]
    if _is_older(connection, new, last):
        return []
    found: list[Row] = [{**row, "sweep": sweep} for row in lapsed(connection, sources, last, new["at"], new)]
    last = found[-1] if found else last
    if _differ(last, new):
        found.append({**new, "at": max(new["at"], last["at"] + 1)})
    return found


def _dropped(connection: Connection, snapshot: Snapshot, sweep: int) -> list[Row]:
    """Rows that end what is asked no more: of a model, workload or policy that left the configuration."""
    asked = {(answer.model.id, answer.workload.id, answer.policy) for answer in snapshot.every}
    ended: list[Row] = []
    for key in subjects(connection):
        last = None if key in asked else _last(connection, dict(zip(KEY, key, strict=True)))
        if last is None or last["at"] >= to_s(snapshot.at):
            continue
        if last["source"] is not None or last["api_source"] is not None:
            nothing = dict.fromkeys((*RENT, *RATE, *TOGETHER))
            ended.append({**last, **nothing, "at": to_s(snapshot.at), "sweep": sweep, "fresh": False, "reason": "asked no more"})
    return ended


def _last(connection: Connection, new: Row) -> Row | None:
    found = connection.execute(_last_one(), {name: new[name] for name in KEY}).mappings().first()
    return None if found is None else dict(found)


@cache
def _last_one() -> Select[Any]:
    query = select(DECISION).where(*(DECISION.c[name] == bindparam(name) for name in KEY))
    return query.order_by(DECISION.c.at.desc()).limit(1)


def _is_older(connection: Connection, new: Row, last: Row) -> bool:
    """Whether a look is older than the one that decided last: of an earlier book, or of the same book by a clock that is behind."""
    if new["sweep"] == last["sweep"]:
        return bool(new["at"] < last["at"])
    return bool(new["sweep"] < last["sweep"] <= newest_sweep(connection))  # in a book that was brought from elsewhere numbers start anew


def _differ(one: Row, other: Row) -> bool:
    return any(one[name] != other[name] for name in set(DECISION.columns.keys()) - SIDE)


# --- from an answer to a row ----------------------------------------------------------------------------------------------


def _row(answer: ModelAnswer, at: int, sweep: int) -> dict[str, Any]:
    """The row of an answer, of its fresh parts alone."""
    row: dict[str, Any] = {"model": answer.model.id, "workload": answer.workload.id, "policy": answer.policy, "at": at, "sweep": sweep}
    row |= {"fresh": answer.all_fresh, "reason": _reason(answer)} | dict.fromkeys((*RENT, *RATE, *TOGETHER))
    if answer.setup is not None and answer.setup_fresh:
        row |= _rent(answer.setup)
    if answer.rate is not None and answer.rate_fresh:
        row |= _rate(answer.rate)
    return row | (_together(answer) if answer.all_fresh else {})


def _rent(setup: Setup) -> dict[str, Any]:
    offer = setup.offer
    named = {name: getattr(offer, name) for name in ("source", "provider", "sku", "region", "tier", "currency", "seen_at", "source_url")}
    money = {
        "native_per_hour": offer.native_per_hour, "offer_usd_per_hour": offer.usd_per_hour, "usd_per_hour": setup.usd_per_hour
    }  # fmt: skip
    what = {"gpu": setup.gpu, "gpu_count": setup.gpu_count_rented, "machines": setup.machines, "weight_format": setup.weight_format}
    return named | what | _scaled(money)


def _rate(choice: RateChoice) -> dict[str, Any]:
    rate = choice.rate
    names = ("source", "provider", "sku", "region", "currency", "seen_at", "source_url")
    prices = {kind: f"{price:f}" for kind in TOKEN_KINDS if (price := rate.native.of(kind)) is not None}
    money = {"api_usd_per_mtok": choice.usd_per_mtok, "api_usd_per_month": choice.usd_per_month}
    return {f"api_{name}": getattr(rate, name) for name in names} | {"api_prices": json.dumps(prices)} | _scaled(money)


def _together(answer: ModelAnswer) -> dict[str, Any]:
    point, verdict = answer.break_even, answer.verdict
    if point is None or verdict is None:
        return {}
    figures = {"break_even_tokens": point.tokens, "break_even_utilization": point.breakeven_utilization}
    words = {"break_even_status": point.status, "replicas": verdict.replicas, "verdict": verdict.answer}
    return words | _scaled(figures | {"self_host_usd_per_month": verdict.self_host_usd_per_month})


def _reason(answer: ModelAnswer) -> str:
    if answer.all_fresh:
        return answer.verdict.reason if answer.verdict is not None else ""
    old = (answer.setup is not None and not answer.setup_fresh, answer.rate is not None and not answer.rate_fresh)
    stale = [f"no fresh {word}" for word, is_old in zip(("offer holds it", "API rate"), old, strict=True) if is_old]
    return "; ".join([*filter(None, [answer.why_not]), *stale])


def _scaled(figures: Mapping[str, Any]) -> dict[str, int | None]:
    return {name: None if value is None else _kept(value, SCALES[name]) for name, value in figures.items()}


def _kept(value: Any, scale: int) -> int | None:
    """The number as the database keeps it; None where it does not fit: a break-even in the quintillions is none to anybody."""
    try:
        return scaled(value, scale)
    except ValueError:
        return None
