"""Alerts: a cheaper setup, and a source gone stale. Stored once, logged, and sent to a webhook where one is set.

A setup is measured against the price of the last notification, not of the last look, so that a slow slide is told and a
flutter is not. The first price seen is taken as known: nothing is told on a first run. Only fresh, buyable setups count.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from sqlalchemy import Connection, Engine, delete, insert, select
from sqlmodel import SQLModel

from engine.candidates import Setup
from engine.units import usd_per_month
from tracker.config import AlertSettings
from tracker.database import writing
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


@dataclass(slots=True)
class AlertDesk:
    """Decides what is told. Owns the counts of how long a candidate has held, and the outbox."""

    db: Engine
    settings: AlertSettings
    started_at: datetime
    outbox: Outbox
    _held: Counter[tuple[str, str]] = field(default_factory=Counter)

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
            if after_sweep and (alarm := self._cheaper(connection, answer, snapshot.at)):
                yield alarm
        for source in snapshot.sources:
            if alarm := self._stale(source, snapshot.at):
                yield alarm

    # --- cheaper setup -------------------------------------------------------------------------------------------------

    def _cheaper(self, connection: Connection, answer: ModelAnswer, now: datetime) -> Alarm | None:
        best = answer.setup if answer.setup_fresh else None
        if best is None:
            return None
        subject = f"{answer.model.id}/{answer.workload.id}/{answer.policy}"
        told = connection.execute(select(BASELINE).where(BASELINE.c.subject == subject)).mappings().first()
        if told is None:
            _set_baseline(connection, subject, best, now)
            return None
        old = unscaled(told["price"], RENT_SCALE)
        direction = "down" if self._is_cheaper(best.usd_per_hour, old) else "up" if self._is_cheaper(old, best.usd_per_hour) else ""
        for other in ("down", "up"):
            self._held[subject, other] = self._held[subject, other] + 1 if other == direction else 0
        if not direction or self._held[subject, direction] < self.settings.sweeps:
            return None
        _set_baseline(connection, subject, best, now)
        self._held[subject, direction] = 0
        # a lasting rise is the new normal: the next fall is measured from it, but nobody is woken for it
        return _cheaper_alarm(answer, subject, best, old, json.loads(told["body"]), now) if direction == "down" else None

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
        limit = timedelta(hours=source.max_age_hours)
        return Alarm(
            key=f"{subject}@{to_ms(source.last_success)}",
            kind="source_stale",
            subject=subject,
            text=f"source {source.id} is stale: last read {age(now - source.last_success)} ago, limit {age(limit)}; {source.error}",
            facts={"source": source.id, "last_success": source.last_success, "error": source.error, "max_age_hours": source.max_age_hours},
        )

    def close(self) -> None:
        """Stop sending; what is unsent stays in the database."""
        self.outbox.close()


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
        "source_url": offer.source_url,
    }


def _set_baseline(connection: Connection, subject: str, best: Setup, now: datetime) -> None:
    connection.execute(delete(BASELINE).where(BASELINE.c.subject == subject))
    body = json.dumps(plain(setup_facts(best)))
    connection.execute(insert(BASELINE).values(subject=subject, price=scaled(best.usd_per_hour, RENT_SCALE), body=body, set_at=now))


def _store(connection: Connection, alarm: Alarm, now: datetime) -> bool:
    """Keep an alarm; False when it was told before."""
    row = {
        "key": alarm.key, "kind": alarm.kind, "subject": alarm.subject, "fired_at": now, "delivery": "stored", "attempts": 0,
        "delivered_at": None, "last_error": "", "body": json.dumps(plain({"text": alarm.text, **alarm.facts})),
    }  # fmt: skip
    return connection.execute(insert_new(connection, ALERT).values(**row)).rowcount == 1
