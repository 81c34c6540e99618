"""The dump of Spare Cores over real HTTP: compressed, read by lines, little kept; and the licence it states is kept and shown."""

from __future__ import annotations

import lzma
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import monotonic

import pytest
from small_world import FILES, T0, small_world
from sqlalchemy import Engine
from upstream import Upstream

from scrapers import sparecores
from scrapers.contract import FetchError
from scrapers.http import HostGate, SourceLimits, open_client
from tracker.answers.health import source_health
from tracker.database.handle import reading
from tracker.present import source_line
from tracker.sweeps.collect import Collector, collect_source
from tracker.sweeps.licences import licence_texts
from tracker.sweeps.store import SweepReport
from tracker.world import World

pytestmark = pytest.mark.loopback
RECORDED = Path(__file__).parent / "recorded/sparecores/normal/dump.sql"
NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
TABLE = """
[cores]
kind = "rent"
module = "sparecores"
base_url = "{url}"
interval_minutes = 60
max_age_hours = 3
"""


def padded(dump: str) -> bytes:
    """The dump among the tables and rows that a real one is mostly made of."""
    other = "CREATE TABLE storage_price (\n\tvendor_id VARCHAR NOT NULL, \n\tprice FLOAT NOT NULL\n);\n"
    rows = "".join(f"INSERT INTO storage_price VALUES('aws',{n}.5);\n" for n in range(5000))
    servers = "".join(
        f"INSERT INTO server VALUES('aws','m7i.{n}','m','m',NULL,2,0.0,NULL,NULL,NULL,'[]','ACTIVE','');\n" for n in range(3000)
    )
    prices = "".join(
        f"INSERT INTO server_price VALUES('aws','us-east-1','z','m7i.{n}','Linux','SPOT','HOUR',0.1,0.0,'[]','USD','ACTIVE','');\n"
        for n in range(3000)
    )
    before, _, after = dump.partition("CREATE TABLE server_price")
    head = "PRAGMA foreign_keys=OFF;\nBEGIN TRANSACTION;\n"
    return (head + other + rows + before + servers + "CREATE TABLE server_price" + after + prices + "COMMIT;\n").encode()


def fetch(upstream: Upstream) -> bytes:
    limits = SourceLimits(base_url=upstream.url, user_agent="t", attempts=1, min_interval_s=0)
    with open_client(limits, host_gate=HostGate(monotonic=monotonic), now=lambda: NOW) as client:
        (page,) = sparecores.fetch(client, {})
    return page.body


def test_of_a_dump_only_gpu_servers_and_their_prices_are_kept(upstream: Upstream) -> None:
    dump = RECORDED.read_text(encoding="utf-8")
    upstream.add(sparecores.PATH, lzma.compress(padded(dump)))
    kept = fetch(upstream).decode()
    assert "m7i" not in kept and "INSERT INTO storage_price" not in kept
    wanted = [line for line in dump.split("\n") if line.startswith("INSERT")]
    assert [line for line in kept.split("\n") if line.startswith("INSERT")] == wanted


@pytest.mark.parametrize("body", [b"no xz at all", lzma.compress(b"x" * 10_000)[:-20], lzma.compress(b"x", format=lzma.FORMAT_ALONE)])
def test_a_damaged_dump_is_a_failure(upstream: Upstream, body: bytes) -> None:
    upstream.add(sparecores.PATH, body)
    with pytest.raises(FetchError, match="compressed data"):
        fetch(upstream)


def test_what_is_kept_has_a_limit(upstream: Upstream) -> None:
    """A bomb: a small file of endless lines that would all be kept, and one of a line without end."""
    for text in ((b"CREATE TABLE region (\n" + b"\tvendor_id VARCHAR, \n" * 5_000_000), b"x" * 3_000_000):
        upstream.add(sparecores.PATH, lzma.compress(text))
        with pytest.raises(FetchError, match="more than"):
            fetch(upstream)


def sweep(db: Engine, world: World, at: datetime) -> SweepReport:
    collector = Collector(world=world, db=db, now=lambda: at, gate=HostGate(monotonic=monotonic))
    report = collect_source(collector, world.config.source("cores"))
    assert report is not None and report.status == "ok", report and report.error
    return report


def test_the_licence_is_kept_with_the_day_it_changed_and_shown(db: Engine, upstream: Upstream, tmp_path: Path) -> None:
    names = FILES["gpu_names.toml"] + '\n[cores]\n"H100" = "test-80"\n"L40S" = "test-80"\n"L4" = "test-80"\n'
    world = small_world(tmp_path / "small", sources_toml=TABLE.format(url=upstream.url), gpu_names_toml=names)
    dump = RECORDED.read_text(encoding="utf-8")
    shown = "BSL 1.1 <https://sparecores.com/legal/license-bsl>, Spare Cores, {day}; Internal use is granted."
    steps = [
        (dump, shown.format(day="2026-11-29")),
        (dump.replace("'2026-11-29 10:05", "'2026-11-30 10:05"), shown.format(day="2026-11-30")),
        (dump.replace("'BSL 1.1'", "'CC BY-SA 4.0'"), shown.format(day="2026-11-29").replace("BSL 1.1", "CC BY-SA 4.0")),
    ]
    for day, (text, licence) in enumerate(steps):
        at = T0 + timedelta(days=day)
        upstream.add(sparecores.PATH, lzma.compress(text.encode()))
        sweep(db, world, at)
        with reading(db) as connection:
            assert licence_texts(connection, at) == {"cores": licence}
            (health,) = (one for one in source_health(connection, world.config.sources, at) if one.id == "cores")
        assert source_line(health, at).endswith(f"; its data is under {licence}")
    with reading(db) as connection:
        assert licence_texts(connection, T0 + timedelta(hours=1)) == {"cores": steps[1][1]}  # then as now, of the newest data under it
        assert licence_texts(connection, T0 - timedelta(days=1)) == {}
