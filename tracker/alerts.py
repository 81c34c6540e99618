"""Alerts: a cheaper setup, and a source gone stale. Stored once, logged, and sent to a webhook where one is set.

A setup is measured against the price of the last notification, not of the last look, so that a slow slide is told and a
flutter is not. The first price seen is taken as known once every rental source was asked: nothing is told on a first run.
Only fresh, buyable setups count, and what is gone with a stale source has not become dearer.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from sqlalchemy import Connection, Engine, select, update
from sqlmodel import SQLModel

from engine.candidates import Setup
from engine.units import usd_per_month
from tracker.config import AlertSettings
from tracker.database import writing
from tracker.leases import SKEW
from tracker.notify import Outbox
from tracker.plain import plain
from tracker.present import age, money, setup_text
from tracker.rows import scaled, to_ms, unscaled
from tracker.snapshot import ModelAnswer, Snapshot, SourceHealth
from tracker.store import insert_new
from tracker.tables import RENT_SCALE

log = logging.getLogger("breakeven.alerts")

ALERT, BASELINE = SQLModel.metadata.tables["alert"], SQLModel.metadata.tables["baseline"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Alarm:
    """One thing to tell. ``key`` is the same however often it is found, so that it is told once."""

    key: str
    kind: str
    subject: str
    text: str
    facts: dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Held:
    """How long a candidate has been cheaper (down) or dearer (up) than what was told."""

    direction: str
    seen_at: datetime
    sweeps: int


@dataclass(slots=True)
class AlertDesk:
    """Decides what is told. Owns the counts of how long a candidate has held, and the outbox."""

    db: Engine
    settings: AlertSettings
    started_at: datetime
    outbox: Outbox
    _held: dict[str, _Held] = field(default_factory=dict)

    def judge(self, snapshot: Snapshot, *, after_sweep: bool) -> tuple[Alarm, ...]:
        """Look at a snapshot, store what is new, hand it to the outbox; returns what was told."""
        with writing(self.db) as connection:
            found = [alarm for alarm in self._found(connection, snapshot, after_sweep) if _store(connection, alarm, snapshot.at)]
        for alarm in found:
            log.warning("%s", alarm.text)
        self.outbox.wake()
        return tuple(found)

    def _found(self, connection: Connection, snapshot: Snapshot, after_sweep: bool) -> Iterator[Alarm]:
        for answer in snapshot.answers:
            if after_sweep and (alarm := self._cheaper(connection, answer, snapshot)):
                yield alarm
        for source in snapshot.sources:
            if alarm := self._stale(source, snapshot.at):
                yield alarm

    # --- cheaper setup -------------------------------------------------------------------------------------------------

    def _cheaper(self, connection: Connection, answer: ModelAnswer, snapshot: Snapshot) -> Alarm | None:
        best, now = answer.setup if answer.setup_fresh else None, snapshot.at
        if best is None:
            return None
        subject = f"{answer.model.id}/{answer.workload.id}/{answer.policy}"
        # locked: of two processes that see the same fall, the second waits and finds it told
        told = connection.execute(select(BASELINE).where(BASELINE.c.subject == subject).with_for_update()).mappings().first()
        if told is None:
            if _all_asked(snapshot):
                _set_baseline(connection, subject, best, now)
            return None
        if timedelta(0) < told["set_at"] - now <= SKEW:
            return None  # another process has told from a newer look than this one
        old, before = unscaled(told["price"], RENT_SCALE), json.loads(told["body"])
        direction = "down" if self._is_cheaper(best.usd_per_hour, old) else "up" if self._is_cheaper(old, best.usd_per_hour) else ""
        if direction == "up" and _is_stale(snapshot, before.get("source", "")):
            direction = ""
        if not direction:
            self._held.pop(subject, None)
            return None
        if self._hold(subject, direction, best.seen_at) < self.settings.sweeps:
            return None
        _set_baseline(connection, subject, best, now)
        del self._held[subject]
        # a lasting rise is the new normal: the next fall is measured from it, but nobody is woken for it
        return _cheaper_alarm(answer, subject, best, old, before, now) if direction == "down" else None

    def _hold(self, subject: str, direction: str, seen_at: datetime) -> int:
        """Sweeps in a row that saw the price on that side; those of other sources say nothing about it."""
        held = self._held.get(subject)
        if held is None or held.direction != direction:
            held = _Held(direction, seen_at, 1)
        elif seen_at > held.seen_at:
            held = _Held(direction, seen_at, held.sweeps + 1)
        self._held[subject] = held
        return held.sweeps

    def _is_cheaper(self, new: Decimal, old: Decimal) -> bool:
        saved = old - new
        return (
            saved * 100 >= old * self.settings.cheaper_setup_percent
            and usd_per_month(saved) >= self.settings.cheaper_setup_usd_per_month
            and saved > 0
        )

    # --- stale source --------------------------------------------------------------------------------------------------

    def _stale(self, source: SourceHealth, now: datetime) -> Alarm | None:
        subject = f"source/{source.id}"
        if not source.stale or source.last_success is None:
            return None
        if source.last_attempt is None or source.last_attempt < self.started_at:
            return None  # we were not running: ask first, then complain
        limit, error = timedelta(hours=source.max_age_hours), f"; {source.error}" if source.error else ""
        return Alarm(
            key=f"{subject}@{to_ms(source.last_success)}",
            kind="source_stale",
            subject=subject,
            text=f"source {source.id} is stale: last read {age(now - source.last_success)} ago, limit {age(limit)}{error}",
            facts={"source": source.id, "last_success": source.last_success, "error": source.error, "max_age_hours": source.max_age_hours},
        )

    def close(self) -> None:
        """Stop sending; what is unsent stays in the database."""
        self.outbox.close()


def _all_asked(snapshot: Snapshot) -> bool:
    """Whether every rental source was tried: until then the cheapest known price is only that of those that answered first."""
    return all(s.last_attempt is not None for s in snapshot.sources if s.enabled and s.kind not in ("token", "fx"))


def _is_stale(snapshot: Snapshot, source: str) -> bool:
    """Whether a configured source is stale, so that its prices are missing and not gone."""
    return any(s.id == source and s.stale for s in snapshot.sources)


def _cheaper_alarm(answer: ModelAnswer, subject: str, best: Setup, old: Decimal, before: dict[str, Any], now: datetime) -> Alarm:
    saving = usd_per_month(old - best.usd_per_hour)
    percent = (old - best.usd_per_hour) / old * 100
    return Alarm(
        key=f"{subject}@{to_ms(now)}",
        kind="cheaper_setup",
        subject=subject,
        text=(
            f"cheaper setup for {answer.model.id}: ${money(best.usd_per_hour)}/h instead of ${money(old)}/h "
            f"({percent:.1f} % or ${money(saving)} a month less): {setup_text(best)}, seen {best.seen_at:%Y-%m-%d %H:%M} UTC"
        ),
        facts={
            "model": answer.model.id,
            "workload": answer.workload.id,
            "policy": answer.policy,
            "old_usd_per_hour": old,
            "old_setup": before,
            "new_usd_per_hour": best.usd_per_hour,
            "new_setup": setup_facts(best),
            "saving_usd_per_month": saving,
            "saving_percent": percent,
        },
    )


def setup_facts(setup: Setup) -> dict[str, Any]:
    """What a message says about a setup."""
    offer = setup.offer
    return {
        "provider": offer.provider,
        "sku": offer.sku,
        "region": offer.region,
        "tier": offer.tier,
        "gpu": setup.gpu,
        "gpu_count": setup.gpu_count_rented,
        "weight_format": setup.weight_format,
        "usd_per_hour": setup.usd_per_hour,
        "usd_per_month": setup.usd_per_month,
        "seen_at": setup.seen_at,
        "source": offer.source,
        "source_url": offer.source_url,
    }


def _set_baseline(connection: Connection, subject: str, best: Setup, now: datetime) -> None:
    values = {"price": scaled(best.usd_per_hour, RENT_SCALE), "body": json.dumps(plain(setup_facts(best))), "set_at": now}
    # an update in place, never a row taken away and put back: who waits for its lock must find it
    if connection.execute(update(BASELINE).where(BASELINE.c.subject == subject).values(**values)).rowcount == 0:
        connection.execute(insert_new(connection, BASELINE).values(subject=subject, **values))


def _store(connection: Connection, alarm: Alarm, now: datetime) -> bool:
    """Keep an alarm; False when it was told before."""
    row = {
        "key": alarm.key, "kind": alarm.kind, "subject": alarm.subject, "fired_at": now, "delivery": "stored", "attempts": 0,
        "delivered_at": None, "last_error": "", "body": json.dumps(plain({"text": alarm.text, **alarm.facts})),
    }  # fmt: skip
    # rows of an INSERT are counted only when asked for
    return connection.execute(insert_new(connection, ALERT).values(**row).execution_options(preserve_rowcount=True)).rowcount == 1
