"""Every shipped source over real HTTP, all at once: its recorded prices reach the book, keys go nowhere else, and hosts are spared."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from time import monotonic
from typing import Any
from unittest import mock

import pytest
from shipped import KEY, Shipped, shipped
from upstream import Upstream

from scrapers.http import HostGate, SourceLimits, open_client
from tracker.book.book import Book, read_book
from tracker.book.precedence import preferred_offers
from tracker.book.stated import with_overrides
from tracker.database.handle import reading
from tracker.paths import config_dir
from tracker.service.opening import open_book
from tracker.sweeps.collect import Collector, collect_source
from tracker.sweeps.store import SweepReport
from tracker.sweeps.turns import WORKERS
from tracker.world import load_world

pytestmark = pytest.mark.loopback
NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
HOURS = {"hour": Decimal(1), "month": Decimal(730)}
TOKENS = {"token": Decimal(1_000_000), "ktok": Decimal(1000), "mtok": Decimal(1)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Everything:
    """What all sources brought."""

    upstreams: Shipped
    reports: dict[str, SweepReport]
    book: Book
    files: bytes
    logged: str


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Everything]:
    """One sweep of every source, side by side as the daemon runs them; one answer in twenty milliseconds."""
    folder = tmp_path_factory.mktemp("everything")
    log = folder / "log"
    handler = logging.FileHandler(log)
    logging.getLogger().addHandler(handler)
    logging.getLogger("breakeven").setLevel(logging.DEBUG)
    try:
        with shipped(delay_s=0.02) as upstreams, mock.patch.dict("os.environ", upstreams.keys()):
            fetch = {"host_spacing_s": 0, "attempts": 2, "deadline_s": 60}
            world = load_world(config_dir(), upstreams.write(folder / "user", fetch=fetch, host_spacing_s=0))
            db = open_book(world, folder, NOW)
            collector = Collector(world=world, db=db, now=lambda: NOW, gate=HostGate(monotonic=monotonic))
            with ThreadPoolExecutor(WORKERS) as pool:
                found = list(pool.map(lambda source: collect_source(collector, source), world.config.sources.values()))
            with reading(db) as connection:
                book = read_book(connection, NOW, world.config.sources)
            db.dispose()
            files = b"".join(path.read_bytes() for path in folder.glob("*.db*"))
            reports = {report.source: report for report in found if report is not None}
            yield Everything(upstreams=upstreams, reports=reports, book=book, files=files, logged=log.read_text())
    finally:
        logging.getLogger().removeHandler(handler)
        logging.getLogger("breakeven").setLevel(logging.NOTSET)
        handler.close()


def test_every_source_is_read(everything: Everything) -> None:
    assert {name: report.error for name, report in everything.reports.items() if report.status != "ok"} == {}
    assert set(everything.reports) == set(everything.upstreams.tables)


def rents(everything: Everything, source: str) -> dict[tuple[object, ...], Decimal]:
    """Native price an hour of the whole offer in the book of one source."""
    offers = [entry.value for entry in everything.book.offers if entry.value.source == source]
    return {(o.provider, o.sku, o.region, o.gpu_count, o.tier, o.trust, o.currency): o.native_per_hour for o in offers}


def expected_rent(row: dict[str, Any]) -> tuple[tuple[object, ...], Decimal]:
    whom, _, period = row["per"].partition("_")
    count = row["gpu_count"]
    price = Decimal(row["price"]) * Decimal(row.get("scale", "1")) * (count if whom == "gpu" else 1) / HOURS[period]
    trust = row.get("trust", "datacenter")
    return (row["provider"], row["sku"], row.get("region", ""), count, row["tier"], trust, row["currency"]), round(price, 9)


def expected_rates(row: dict[str, Any]) -> tuple[tuple[object, ...], dict[str, Decimal]]:
    factor = Decimal(row.get("scale", "1")) * TOKENS[row["per"]]
    key = (row["model"], row["currency"], row.get("min_prompt_tokens", 0), row.get("hours_utc", ""), row.get("weekdays", ""))
    return key, {kind: Decimal(price) * factor for kind, price in row["prices"].items()}


def test_the_recorded_prices_reach_the_book(everything: Everything) -> None:
    """Of every source some, at the price that is written beside its recording, and none at another one. Vast's asks become statistics."""
    for source, at in everything.upstreams.served.items():
        written = at.expected()
        found = rents(everything, source)
        offers = dict(expected_rent(row) for row in written if row["row"] == "gpu" and not row.get("valid_from"))
        seen = {key: price for key, price in offers.items() if key in found}
        assert {key: found[key] for key in seen} == seen, source
        rates: dict[tuple[object, ...], set[tuple[tuple[str, Decimal], ...]]] = {}
        for entry in everything.book.price_lists:
            rate = entry.value
            if rate.source == source:
                when = rate.conditions
                key = (rate.source_model, rate.currency, when.min_prompt_tokens, when.hours_utc, when.weekdays)
                prices = {
                    kind: getattr(rate.native, kind) for kind in ("input", "cache_read", "cache_write_5m", "cache_write_1h", "output")
                }
                rates.setdefault(key, set()).add(tuple(sorted((kind, price) for kind, price in prices.items() if price is not None)))
        listed = [expected_rates(row) for row in written if row["row"] == "token"]
        matched = [key for key, prices in listed if tuple(sorted(prices.items())) in rates.get(key, set())]
        if source == "ecb":
            assert everything.reports[source].rows == sum(row["row"] == "fx" for row in written)
        elif source == "vast":
            assert {key[0] for key in found} == {"vast"}
        else:
            assert seen or matched, source


def test_moonshot_s_chinese_list_is_a_list_of_its_own(everything: Everything) -> None:
    """Seed 004 prints 13 / 1.3 / 68 CNY; at the day's rate 13 and 68 CNY are not the 2.00 and 10.00 USD of the other list, which stays."""
    rates = [entry.value for entry in everything.book.rates if entry.value.provider == "moonshot" and entry.value.sku == "standard"]
    found = {(r.source, r.region): r for r in rates if r.model == "kimi-k3.1-pro" and r.source in ("moonshot", "moonshot_cn")}
    chinese, per_usd = found["moonshot_cn", "cn"], everything.book.exchange.per_usd("CNY", NOW.date())
    assert (chinese.native.input, chinese.native.cache_read, chinese.native.output) == (Decimal(13), Decimal("1.3"), Decimal(68))
    assert (chinese.currency, per_usd is not None and chinese.usd.output == Decimal(68) / per_usd[0]) == ("CNY", True)
    assert all(r.currency == "USD" and r.native == r.usd for (source, _), r in found.items() if source == "moonshot")


def test_what_is_stated_stands_beside_what_is_collected(everything: Everything) -> None:
    """Kimi's batch price at 60 % of the standard price of the source believed first, in each of its regions."""
    world = load_world(config_dir())
    stated = with_overrides(everything.book, world.overrides, world.settings.track.rate_sources)
    batch = {(e.value.model, e.value.region): e.value for e in stated.rates if e.value.provider == "moonshot" and e.value.sku == "batch"}
    chinese = batch["kimi-k3.1-pro", "cn"]
    assert (chinese.source, chinese.native.input, chinese.native.output) == ("override", Decimal("7.8"), Decimal("40.8"))


def test_aws_spot_is_told_by_the_api_where_there_is_a_key(everything: Everything) -> None:
    order = load_world(config_dir()).settings.precedence.root
    spoken = [e.value for e in preferred_offers(everything.book.offers, order) if e.value.provider == "aws" and e.value.tier == "spot"]
    assert {(o.sku, o.source) for o in spoken if o.region == "us-east-1"} >= {("p5.48xlarge", "aws_spot_history")}
    assert {o.source for o in spoken if o.region in ("us-east-1", "us-east-2", "us-west-2", "eu-north-1")} == {"aws_spot_history"}


def test_a_key_goes_to_its_own_host_and_into_no_file(everything: Everything) -> None:
    keyed = {source: table for source, table in everything.upstreams.tables.items() if table.get("key_env")}
    hosts = {everything.upstreams.url(source) for source in keyed}
    assert len(hosts) == len(keyed) > 5
    secrets = [KEY, KEY.split(":")[1]]
    for upstream in everything.upstreams.hosts.values():
        sent = [seen for seen in upstream.seen if any(secret in str(seen.headers) + str(seen.query) + seen.path for secret in secrets)]
        assert not sent or upstream.url in hosts
    assert not [secret for secret in secrets if secret.encode() in everything.files or secret in everything.logged]


def test_no_host_is_asked_more_than_two_things_at_once(everything: Everything) -> None:
    """Also those that several sources share; the next test shows that more would be seen."""
    assert max(upstream.most_at_once for upstream in everything.upstreams.hosts.values()) <= 2


def test_without_the_gate_more_would_be_asked(upstream: Upstream) -> None:
    """Five at once are counted as five where the gate lets them through."""
    upstream.add("/p", b"prices", delay_s=0.2)
    limits = SourceLimits(base_url=upstream.url, user_agent="t", min_interval_s=0)

    def ask(gate: HostGate) -> None:
        with open_client(limits, host_gate=gate, now=lambda: NOW) as client:
            client.get("/p")

    for at_once in (5, 2):
        gate = HostGate(monotonic=monotonic, at_once=at_once)
        upstream.most_at_once = 0
        with ThreadPoolExecutor(5) as pool:
            list(pool.map(ask, [gate] * 5))
        assert upstream.most_at_once == at_once
