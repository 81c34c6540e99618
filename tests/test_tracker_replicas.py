"""Three processes on one PostgreSQL, killed in mid-sweep again and again: nothing is lost beyond its lease, double, or told twice."""

from __future__ import annotations

import json
import random
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from databases import Postgres
from processes import Running
from sqlalchemy import Engine, text
from upstream import Route, Upstream
from worlds import runpod_answer, serve_market, write_user_config

from scrapers import runpod
from tracker.database.handle import open_database

pytestmark = [pytest.mark.real, pytest.mark.loopback]
REPLICAS = 3
INTERVAL_S = 1.0
LEASE_S = 2
SLACK_S = 30  # of a machine that is busy starting the next process
ALERTS = (
    '[rules.cheaper-setup]\nkind = "cheaper_setup"\npercent = 5\nusd_per_month = 50\n[routes.webhook]\nkind = "webhook"\ntimeout_s = 1\n'
    "[delivery]\nmax_per_day = 1000\n"
)
OWN = ("breakeven_snapshot_timestamp_seconds ", "process_", "breakeven_jobs", "breakeven_database_size_bytes ")
POOLED = "a connection pooler stands before the database"


@dataclass(slots=True)
class Replicas:
    """The processes, the database they share, and the price that the source tells."""

    home: Path
    upstream: Upstream
    url: str
    db: Engine
    running: list[Running] = field(default_factory=list)
    ended: list[Running] = field(default_factory=list)
    price: Decimal = Decimal("6.94")
    route: Route = field(init=False)

    def start(self) -> Running:
        """One more process, with directories of its own."""
        home = self.home / f"replica{len(self.running) + len(self.ended)}"
        fetch = '[fetch]\nuser_agent = "breakeven-tests"\ndeadline_s = 20\nread_timeout_s = 5\nattempts = 2\nhost_spacing_s = 0\n'
        tracker = f'{fetch}[database]\nurl = "{self.url}"\nlease_s = {LEASE_S}\n[recompute]\nevery_s = 1\n'
        write_user_config(home / "config", self.upstream.url, tracker=tracker, sources=["runpod", "ecb"], interval_minutes=INTERVAL_S / 60)
        (home / "config/alerts.toml").write_text(ALERTS, encoding="utf-8")
        process = Running(home, env={"BREAKEVEN_WEBHOOK_URL": f"{self.upstream.url}/hook"})
        self.running.append(process)
        return process

    def cut(self) -> None:
        """The price falls by 7 %: more than the 5 % and $50 a month that are told."""
        self.price = (self.price * Decimal("0.93")).quantize(Decimal("0.0001"))
        self.tell()

    def tell(self) -> None:
        """Serve the price, a third of a second late, so that a sweep has a middle."""
        body = runpod_answer({"NVIDIA B300 SXM6 AC": f"{self.price}", "NVIDIA H200": "3.59", "NVIDIA H100 80GB HBM3": "2.89"})
        self.route = self.upstream.add(runpod.PATH, body, method="POST", delay_s=0.3)

    def rows(self, query: str) -> list[Any]:
        with self.db.connect() as connection:
            return list(connection.execute(text(query)))

    def lease(self) -> tuple[str, int, datetime, datetime | None]:
        """Owner, fence, moment of the claim and end of the source's lease, by the database's clock."""
        found = self.rows("select owner, fence, claimed_at, lease_until from source_lease where source = 'runpod'")
        return tuple(found[0]) if found else ("", 0, datetime.min.replace(tzinfo=UTC), None)

    def holder(self, beyond: int) -> tuple[Running, int]:
        """The process that has the source under a fence beyond that one, and that fence."""
        while True:
            self.until(lambda: self.lease()[0] != "" and self.lease()[1] > beyond)
            owner, fence, *_ = self.lease()
            for process in self.running:
                if owner and process.process.pid == int(owner.split(":")[1]):
                    return process, fence

    def until(self, holds: Any, seconds: float = 120) -> None:
        end, pause = monotonic() + seconds, threading.Event()
        while not holds():
            assert monotonic() < end, "it never came true:\n" + "\n---\n".join("\n".join(p.lines) for p in (*self.running, *self.ended))
            pause.wait(0.01)

    def kill(self, process: Running) -> None:
        process.process.kill()
        process.process.wait(10)
        self.running.remove(process)
        self.ended.append(process)

    def sweeps(self) -> list[Any]:
        return self.rows("select at * 1000 + lag_ms - took_ms, at * 1000 + lag_ms, status from sweep where source = 'runpod' order by at")

    def told(self) -> list[tuple[str, Decimal, Decimal]]:
        """Model, old and new price of every alert, in order."""
        bodies = [json.loads(body) for (body,) in self.rows("select body from alert where kind = 'cheaper_setup' order by id")]
        return [(body["model"], Decimal(body["old_usd_per_hour"]), Decimal(body["new_usd_per_hour"])) for body in bodies]

    def printed(self, words: str) -> int:
        return sum(words in line for process in (*self.running, *self.ended) for line in process.lines)


@pytest.fixture
def replicas(request: pytest.FixtureRequest, tmp_path: Path, upstream: Upstream, postgres: Postgres) -> Iterator[Replicas]:
    """Three processes that start together on an empty database, directly or through PgBouncer in transaction mode."""
    name = postgres.make()
    url = postgres.url(name) if request.param == "direct" else postgres.url(name, port=request.getfixturevalue("pgbouncer"))
    db = open_database(postgres.url(name))
    serve_market(upstream)
    upstream.add("/hook", b"{}", method="POST")
    found = Replicas(tmp_path, upstream, url, db)
    found.tell()
    try:
        for _ in range(REPLICAS):
            found.start()
        for process in found.running:
            process.wait_for("collecting; Ctrl-C stops", 120)
        yield found
    finally:
        for process in (*found.running, *found.ended):
            process.__exit__()
        db.dispose()


@pytest.mark.parametrize(("replicas", "kills"), [("direct", 10), ("pooled", 6)], indirect=["replicas"])
def test_killed_in_mid_sweep_again_and_again(replicas: Replicas, kills: int) -> None:
    pooled = replicas.url != str(replicas.db.url)
    dice = random.Random(20261129)
    replicas.until(lambda: replicas.rows("select 1 from alert_state where rule = 'cheaper-setup' and subject like 'kimi%'"))
    waits: list[float] = []
    fence = 0
    for number in range(kills):
        victim, fence = replicas.holder(beyond=fence)
        threading.Event().wait(dice.random() * 0.4)  # asked, answered, judged or stored: within that time
        replicas.kill(victim)
        owner, held, _, until = replicas.lease()
        replicas.start()
        if number % 2:
            replicas.cut()
        replicas.until(lambda fence=fence: replicas.lease()[1] > fence)
        after = replicas.lease()
        if (owner, held) == (victim_name(owner, victim), fence) and until is not None and after[1] == fence + 1:
            waits.append((after[2] - until).total_seconds())  # it died with its lease: the next may come when that ends
        if number % 2:
            replicas.until(lambda: ("kimi-k3.1-pro", 7 * replicas.price) in [(model, new) for model, _, new in replicas.told()])
    assert len(waits) > kills / 2, "too few kills met a sweep"
    assert 0 <= min(waits) <= max(waits) < SLACK_S, waits
    check(replicas, kills)
    settle_and_compare(replicas)
    assert replicas.printed(POOLED) == (REPLICAS + kills if pooled else 0)
    assert replicas.printed("Traceback") == 0


def victim_name(owner: str, victim: Running) -> str:
    """``owner`` if that is the process that was killed."""
    return owner if owner and int(owner.split(":")[1]) == victim.process.pid else "another"


def check(replicas: Replicas, kills: int) -> None:
    """Nothing is lost, double or told twice."""
    sweeps = replicas.sweeps()
    assert {status for _, _, status in sweeps} <= {"ok", "unchanged"}
    for (before, ended, _), (after, _, _) in pairwise(sweeps):  # no two at a time, none before it was due
        assert after >= ended
        assert after - before >= 900 * INTERVAL_S - 100  # ms
    # every claim came to one sweep, but for those that died, those that lost their lease, and one that may be under way
    assert replicas.lease()[1] - len(sweeps) <= kills + replicas.printed("this sweep is not kept") + 1
    # each fall is told once, measured from the one before
    told = [(old, new) for model, old, new in replicas.told() if model == "kimi-k3.1-pro"]
    assert len(told) == kills // 2
    assert [old for old, _ in told[1:]] == [new for _, new in told[:-1]]
    assert not told or told[-1][1] == 7 * replicas.price


def settle_and_compare(replicas: Replicas) -> None:
    """Every alert arrives, under the id it is stored under; and when prices stand still all replicas serve the same figures."""
    replicas.until(lambda: {state for (state,) in replicas.rows("select state from alert_delivery")} == {"delivered"})
    arrived = Counter(str(seen.json()["key"]) for seen in replicas.upstream.asked("/hook"))
    assert set(arrived) == {key for (key,) in replicas.rows("select key from alert where held_until is null")}
    assert sum(arrived.values()) - len(arrived) <= len(replicas.ended)  # again only where the sender died before it noted the answer
    for process in replicas.running:
        process.wait_for("collecting; Ctrl-C stops", 120)
    replicas.until(lambda: len({figures(process) for process in replicas.running}) == 1)


def figures(process: Running) -> str:
    """What it serves, without the moment it was worked out and what is of the process itself."""
    lines = process.get("/metrics").text.splitlines()
    return "\n".join(line for line in lines if not line.startswith(OWN))


@pytest.mark.parametrize("replicas", ["direct"], indirect=True)
def test_one_that_sleeps_through_its_lease_cannot_store_a_second_sweep(replicas: Replicas) -> None:
    sleeper, fence = replicas.holder(beyond=0)
    sleeper.process.send_signal(signal.SIGSTOP)
    if replicas.lease()[:2] != (victim_name(replicas.lease()[0], sleeper), fence):
        pytest.skip("it was quicker than the signal")
    replicas.until(lambda: replicas.lease()[1] > fence + 1)  # another took over, and kept its sweep
    kept = len(replicas.sweeps())
    sleeper.process.send_signal(signal.SIGCONT)
    sleeper.wait_for("runpod: another process took over, this sweep is not kept")
    check(replicas, 0)
    assert len(replicas.sweeps()) >= kept
