"""The whole loop over real HTTP: a local upstream, the six sources, the book, the answers, and what faults do to them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from time import monotonic

import pytest
from databases import BOTH, new_book
from upstream import Upstream
from worlds import SIX, serve_market, serve_shared, write_user_config

from scrapers.http import HostGate
from tracker.answers.recompute import Sizer, recompute
from tracker.book.book import Book, read_book
from tracker.book.exchange import load_shipped
from tracker.database.handle import open_database, reading, writing
from tracker.paths import config_dir
from tracker.sweeps.collect import Collector, collect_source
from tracker.sweeps.store import SweepReport
from tracker.world import load_world

pytestmark = pytest.mark.loopback
NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)


class Clock:
    """A clock the test moves."""

    def __init__(self) -> None:
        self.at = NOW

    def __call__(self) -> datetime:
        return self.at


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=BOTH)
def collector(request: pytest.FixtureRequest, upstream: Upstream, tmp_path: Path, clock: Clock) -> Iterator[Collector]:
    """A book of its own and six sources at the upstream."""
    world = load_world(config_dir(), write_user_config(tmp_path / "user", upstream.url))
    db = open_database(new_book(request, request.param))
    with writing(db) as connection:
        load_shipped(connection)
    yield Collector(world=world, db=db, now=clock, gate=HostGate(monotonic=monotonic))
    db.dispose()


def sweep_all(collector: Collector) -> dict[str, SweepReport]:
    found = {name: collect_source(collector, collector.world.config.source(name)) for name in SIX}
    return {name: report for name, report in found.items() if report is not None}


def book(collector: Collector) -> Book:
    with reading(collector.db) as connection:
        return read_book(connection, collector.now(), collector.world.config.sources)


def test_our_own_recordings_of_all_six_sources_reach_the_book(collector: Collector, upstream: Upstream) -> None:
    serve_market(upstream)
    reports = sweep_all(collector)
    assert {name: report.status for name, report in reports.items()} == dict.fromkeys(SIX, "ok")
    assert {entry.value.source for entry in book(collector).offers} == {"runpod", "scaleway", "coreweave"}
    assert {entry.value.source for entry in book(collector).rates} >= {"genai_prices", "openrouter"}
    assert all(entry.fresh for entry in (*book(collector).offers, *book(collector).rates))


def test_a_second_sweep_asks_conditionally_and_writes_one_row_each(collector: Collector, upstream: Upstream, clock: Clock) -> None:
    serve_market(upstream)
    sweep_all(collector)
    clock.at += timedelta(minutes=15)
    upstream.seen.clear()
    reports = sweep_all(collector)
    assert {report.status for report in reports.values()} == {"unchanged"}
    assert all("if-none-match" in seen.headers for seen in upstream.seen if seen.method == "GET" and seen.path != "/robots.txt")
    assert min(entry.seen_at for entry in book(collector).offers) == clock.at


FAULTS = ("status:500", "html", "empty", "truncate", "reset", "bomb:200", "redirect:http://127.0.0.1:1/", "drip:0.2", "hang")


@pytest.mark.parametrize("fault", FAULTS)
def test_a_broken_source_fails_alone_and_keeps_its_last_prices(collector: Collector, upstream: Upstream, clock: Clock, fault: str) -> None:
    serve_market(upstream)
    first = sweep_all(collector)
    before = {(e.value.source, e.value.sku, e.value.tier): e.value.usd_per_hour for e in book(collector).offers}
    clock.at += timedelta(minutes=15)
    upstream.add("/graphql", b"{}", method="POST", lasting_fault=fault)
    quick = collector.world.settings.fetch.model_copy(update={"deadline_s": 1.0, "read_timeout_s": 0.5, "attempts": 1, "max_bytes": 2**20})
    settings = collector.world.settings.model_copy(update={"fetch": quick})
    hurried = replace_config(collector, settings)  # for the broken source alone: a busy machine is no fault of the others
    found = {name: collect_source(hurried if name == "runpod" else collector, collector.world.config.source(name)) for name in SIX}
    reports = {name: report for name, report in found.items() if report is not None}
    assert reports["runpod"].status == "failed"
    assert reports["runpod"].error
    assert {name for name, report in reports.items() if report.status == "failed"} == {"runpod"}
    after = {(e.value.source, e.value.sku, e.value.tier): e.value.usd_per_hour for e in book(collector).offers}
    assert after == before
    assert {e.seen_at for e in book(collector).offers if e.value.source == "runpod"} == {first["runpod"].finished_at}


def replace_config(collector: Collector, settings: object) -> Collector:
    """The same collector with other settings."""
    config = replace(collector.world.config, settings=settings)
    return replace(collector, world=replace(collector.world, config=config))


def test_prices_age_out_of_the_fresh_ranking_when_nothing_is_collected(collector: Collector, upstream: Upstream, clock: Clock) -> None:
    serve_market(upstream)
    sweep_all(collector)
    sizer = Sizer(collector.world)
    fresh = recompute(collector.db, collector.world, sizer, clock())
    late = recompute(collector.db, collector.world, sizer, clock() + timedelta(hours=7))
    assert any(entry.fresh for entry in fresh.book.offers)
    assert not any(entry.fresh for entry in (*late.book.offers, *late.book.rates))
    assert all(source.last_success == clock() for source in late.sources if source.enabled)
    assert all(source.stale for source in late.sources if source.enabled)


# Quotes each raw file holds, counted by a script that imports nothing of ours: RunPod prices above 0 of both clouds (88 of 48 types)
# and its "unknown" type; Scaleway types with a GPU and a price; CoreWeave prices per column (10) and "Contact sales" (2); genai-prices
# price sets by constraint, tier and variant (1,347) and sets without a token price (157); OpenRouter models and their overrides.
QUOTES = {"runpod": 89, "scaleway": 22, "coreweave": 12, "genai_prices": 1504, "openrouter": 18, "ecb": 3}
RENTS = {  # source, sku, tier -> native currency an hour for the whole offer, as printed in the raw file
    ("runpod", "NVIDIA H200 (secure)", "on_demand"): "4.59",
    ("runpod", "NVIDIA H200 (community)", "on_demand"): "3.59",
    ("runpod", "NVIDIA B300 SXM6 AC (community)", "on_demand"): "6.94",
    ("scaleway", "B300-SXM-8-288G", "on_demand"): "60",
    ("scaleway", "H100-SXM-8-80G", "on_demand"): "25.3308",
    ("scaleway", "L40S-1-48G", "on_demand"): "1.469916",
    ("coreweave", "hgx-h200", "on_demand"): "50.44",
    ("coreweave", "hgx-h200", "spot"): "20.93",
    ("coreweave", "nvidia-b300", "spot"): "36.70",
}
RATES = {  # source, provider, model -> USD per Mtok of input, cached input, output
    ("genai_prices", "moonshot", "kimi-k3"): ("3", "0.3", "15"),
    ("genai_prices", "deepseek", "deepseek-v4-pro"): ("0.435", "0.003625", "0.87"),
    ("genai_prices", "groq", "gpt-oss-120b"): ("0.15", "0.075", "0.6"),
    ("openrouter", "openrouter", "kimi-k3"): ("3", "0.3", "15"),
    ("openrouter", "openrouter", "glm-5.2"): ("0.966", "0.1932", "3.036"),
    ("openrouter", "openrouter", "deepseek-v4-flash"): ("0.0826", "0.01652", "0.1652"),
}


@pytest.mark.shared
def test_the_real_recordings_give_the_counts_and_prices_of_the_raw_files(collector: Collector, upstream: Upstream, shared: Path) -> None:
    serve_shared(upstream, shared, date(2026, 11, 27))
    reports = sweep_all(collector)
    assert {name: report.status for name, report in reports.items()} == dict.fromkeys(SIX, "ok")
    assert {name: report.rows + sum(report.skipped.values()) for name, report in reports.items()} == QUOTES
    found = book(collector)
    rents = {(e.value.source, e.value.sku, e.value.tier): e.value for e in found.offers}
    assert {key: rents[key].native_per_hour for key in RENTS} == {key: Decimal(price) for key, price in RENTS.items()}
    assert rents["scaleway", "B300-SXM-8-288G", "on_demand"].usd_per_hour == Decimal("60") * Decimal("1.1555")  # the ECB rate served
    rates = {
        (e.value.source, e.value.provider, e.value.model): e.value.usd
        for e in found.rates
        if e.value.sku == "standard" and not e.value.region
    }
    shown = {key: (rates[key].input, rates[key].cache_read, rates[key].output) for key in RATES}
    assert shown == {key: tuple(map(Decimal, prices)) for key, prices in RATES.items()}
    assert found.exchange.per_eur("USD", date(2026, 11, 27)) == (Decimal("1.1555"), date(2026, 11, 27))


@pytest.mark.shared
def test_prices_without_the_deciding_flag_are_unverified_and_never_win(collector: Collector, upstream: Upstream, shared: Path) -> None:
    serve_shared(upstream, shared, date(2026, 11, 27))
    sweep_all(collector)
    answers = {a.model.id: a for a in recompute(collector.db, collector.world, Sizer(collector.world), collector.now()).answers}
    runpod = [e.value for e in book(collector).offers if e.value.source == "runpod"]
    assert {offer.trust for offer in runpod} == {"unverified"}
    for answer in answers.values():
        assert answer.setup is not None
        assert answer.setup_fresh
        assert {setup.offer.source for setup in answer.per_gpu} <= {"scaleway", "coreweave"}
