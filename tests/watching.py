"""A book, a clock and a desk of alerts: sweeps go in, and what is told comes out."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from small_world import FILES, T0, offer, small_world, sweep
from sqlalchemy import Engine, select

from tracker.alerting.desk import AlertDesk
from tracker.alerting.ledger import ALERT, DELIVERY
from tracker.alerting.message import Alarm
from tracker.alerting.outbox import Outbox
from tracker.alerting.state import load_states
from tracker.answers.recompute import Sizer, recompute
from tracker.database.handle import reading
from tracker.database.rows import OfferRow, RateRow
from tracker.world import World

TRACK_ONE = '[track]\nmodels = ["large-60b"]\nworkload = "turns"\n\n[fetch]\nuser_agent = "breakeven-tests"\n'
SECOND = FILES["sources.toml"] + FILES["sources.toml"].partition("[tokens]")[0].replace("[rents]", "[others]")
HOOK = '[routes.webhook]\nkind = "webhook"\n'
CHEAPER = '[rules.cheaper]\nkind = "cheaper_setup"\npercent = 5\nusd_per_month = 50\nsweeps = 2\nrearm_hours = 24\n'
STALE = '[rules.stale]\nkind = "source_stale"\nsweeps = 1\n'


@dataclass(slots=True)
class Watch:
    """``look`` is a sweep of one source and what the desk tells after it."""

    db: Engine
    world: World
    at: datetime = T0
    minutes: float = 15
    desk: AlertDesk = field(init=False)
    sizer: Sizer = field(init=False)

    def __post_init__(self) -> None:
        self.sizer = Sizer(self.world)
        self.restart()

    def restart(self) -> None:
        """A new process on the same book."""
        self.desk = self.new_desk()

    def new_desk(self) -> AlertDesk:
        """The alerts of a process that starts now."""
        outbox = Outbox(self.db, self.world.alerts, lambda: self.at)
        return AlertDesk(db=self.db, world=self.world, started_at=self.at, outbox=outbox)

    def look(self, *rows: OfferRow | RateRow | str, source: str = "rents", **how: object) -> tuple[Alarm, ...]:
        """After the usual minutes ``source`` lists ``rows`` (a text is the price of one test-141 at its own provider)."""
        self.list(*rows, source=source, **how)
        return self.judge()

    def list(self, *rows: OfferRow | RateRow | str, source: str = "rents", **how: object) -> None:
        """The same, and nobody looks yet."""
        self.at += timedelta(minutes=self.minutes)
        provider = {"rents": "cloud"}.get(source, source)
        sweep(self.db, source, self.at, *(offer(row, provider=provider) if isinstance(row, str) else row for row in rows), **how)

    def judge(self) -> tuple[Alarm, ...]:
        """What the desk tells now."""
        return self.desk.judge(recompute(self.db, self.world, self.sizer, self.at))

    def wait(self, **span: float) -> None:
        """Time passes and nothing is collected."""
        self.at += timedelta(**span)

    def told(self) -> list[dict[str, Any]]:
        """Everything stored."""
        with reading(self.db) as connection:
            return [dict(row) for row in connection.execute(select(ALERT).order_by(ALERT.c.id)).mappings()]

    def bodies(self) -> list[dict[str, Any]]:
        """What was said, as it is sent."""
        return [json.loads(row["body"]) for row in self.told()]

    def deliveries(self) -> list[dict[str, Any]]:
        """The outbox."""
        with reading(self.db) as connection:
            return [dict(row) for row in connection.execute(select(DELIVERY).order_by(DELIVERY.c.alert_id, DELIVERY.c.route)).mappings()]

    def baseline(self, rule: str = "cheaper") -> Decimal | None:
        """What the next price is measured against."""
        with reading(self.db) as connection:
            prices = [state.prices for (name, _), state in load_states(connection).items() if name == rule]
        return next(iter(prices[0].values())) if prices else None


def watch_with(db: Engine, folder: Path, rules: str, **changed: str) -> Watch:
    """One model, which one test-141 holds, and these rules."""
    stated: Mapping[str, str] = {"tracker_toml": TRACK_ONE, "alerts_toml": rules} | changed
    return Watch(db, small_world(folder / "small", **stated))
