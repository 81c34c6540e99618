"""One sweep of one source: hostile bytes become refused rows or a failed sweep of that source, and never more."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from small_world import FILES, T0, fx, small_world
from sqlalchemy import Engine, select, text
from upstream import Upstream
from worlds import ecb_xml, runpod_answer

from scrapers import ecb, runpod
from scrapers.http import HostGate
from tracker.book.book import read_book
from tracker.book.exchange import load_exchange, store_rates
from tracker.database.handle import reading, writing
from tracker.sweeps import collect
from tracker.sweeps.collect import Collector, collect_source
from tracker.sweeps.store import SWEEP, SweepReport

pytestmark = pytest.mark.loopback
Collect = Callable[[str], SweepReport]


@pytest.fixture
def sweep_of(db: Engine, upstream: Upstream, tmp_path: Path) -> Collect:
    """A function that collects a source of the small world from the upstream at T0."""
    sources = FILES["sources.toml"].replace("http://127.0.0.1:9", upstream.url)
    tracker = FILES["tracker.toml"].replace("[fetch]\n", "[fetch]\nattempts = 1\nhost_spacing_s = 0\n")
    world = small_world(tmp_path / "small", sources_toml=sources, tracker_toml=tracker)
    collector = Collector(world=world, db=db, now=lambda: T0, gate=HostGate(monotonic=monotonic))

    def collected(name: str) -> SweepReport:
        report = collect_source(collector, world.config.source(name))
        assert report is not None
        return report

    return collected


def coverage(db: Engine) -> list[tuple[str, str]]:
    with reading(db) as connection:
        return [(row.source, row.status) for row in connection.execute(select(SWEEP.c.source, SWEEP.c.status).order_by(SWEEP.c.id))]


def test_a_price_page_becomes_offers(sweep_of: Collect, upstream: Upstream, db: Engine) -> None:
    upstream.add(runpod.PATH, runpod_answer({"TEST 141GB": "2.30", "NVIDIA Z9": "1"}), method="POST")
    report = sweep_of("rents")
    assert (report.status, report.skipped["unmapped gpu"] > 0, ("gpu", "NVIDIA Z9") in report.unmapped) == ("ok", True, True)
    with reading(db) as connection:
        offers = read_book(connection, T0, {}).offers
    assert {(o.value.gpu, o.value.gpu_count, o.value.usd_per_hour) for o in offers} == {
        ("test-141", 1, Decimal("2.30")), ("test-141", 8, Decimal("18.40")),
    }  # fmt: skip


@pytest.mark.parametrize("name", ["\ud83d", "a\x00b", "\u202eLIVE", "x" * 10_000, "=1+1", "<script>"])
def test_a_hostile_name_costs_its_own_row_only(sweep_of: Collect, upstream: Upstream, db: Engine, name: str) -> None:
    answer = json.loads(runpod_answer({"TEST 141GB": "2.30"}))
    answer["data"]["gpuTypes"].append(answer["data"]["gpuTypes"][0] | {"id": name, "displayName": name})
    upstream.add(runpod.PATH, json.dumps(answer), method="POST")
    report = sweep_of("rents")
    assert (report.status, report.rows) == ("ok", 2)
    assert sum(report.skipped.values()) > 0
    assert coverage(db) == [("rents", "ok")]


@pytest.mark.parametrize("price", ["1e999999", "1e-999999", "-1", "9999999999999999999", "0.0000000001"])
def test_a_hostile_price_costs_its_own_row_only(sweep_of: Collect, upstream: Upstream, db: Engine, price: str) -> None:
    upstream.add(runpod.PATH, runpod_answer({"TEST 141GB": "2.30", "TEST 80GB": price}), method="POST")
    report = sweep_of("rents")
    assert (report.status, {row.gpu for row in report.offers}) == ("ok", {"test-141"})
    assert coverage(db) == [("rents", "ok")]


def test_what_a_failed_sweep_quotes_is_clean(sweep_of: Collect, upstream: Upstream, db: Engine) -> None:
    upstream.add(runpod.PATH, '{"errors": [{"message": "no\x1b[31m \u202e\u2066 more"}]}', method="POST")
    report = sweep_of("rents")
    assert (report.status, coverage(db)) == ("failed", [("rents", "failed")])
    assert report.error
    assert not set("\x1b\u202e\u2066\n") & set(report.error)
    assert len(report.error) <= 2000


def test_a_fault_while_it_is_judged_or_kept_is_a_failed_sweep_too(
    sweep_of: Collect, upstream: Upstream, db: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever trips over a source's rows, the other sources and the program go on."""
    upstream.add(runpod.PATH, runpod_answer({"TEST 141GB": "2.30"}), method="POST")
    whole = collect.record_sweep

    def trip(db: Engine, report: SweepReport, *rest: Any, **more: Any) -> int:
        if report.status == "ok":
            raise ValueError("tripped over a row")
        return whole(db, report, *rest, **more)

    monkeypatch.setattr(collect, "record_sweep", trip)
    report = sweep_of("rents")
    assert report.error == "unexpected ValueError: tripped over a row; run breakeven collect rents --save"
    assert coverage(db) == [("rents", "failed")]


def test_trouble_of_the_database_is_nobody_s_failed_sweep(sweep_of: Collect, upstream: Upstream, db: Engine) -> None:
    upstream.add(runpod.PATH, runpod_answer({"TEST 141GB": "2.30"}), method="POST")
    with writing(db) as connection:
        connection.execute(text("drop table sweep"))
    with pytest.raises(Exception, match="no such table: sweep"):
        sweep_of("rents")


def test_a_reference_rate_of_the_day_after_tomorrow_is_refused(sweep_of: Collect, upstream: Upstream, db: Engine) -> None:
    upstream.add(ecb.PATH, ecb_xml(date(2026, 11, 4), {"USD": "1.1"}), headers={"Content-Type": "text/xml"})  # T0 is the 2nd
    assert sweep_of("ecb").error.startswith("ecb: not one usable price (1 day lies in the future)")
    upstream.add(ecb.PATH, ecb_xml(date(2026, 11, 2), {"USD": "1.1"}), headers={"Content-Type": "text/xml"})
    with writing(db) as connection:
        store_rates(connection, fx(date(2026, 10, 30), USD="1.25"), "ecb-history")
    assert sweep_of("ecb").status == "ok"
    with reading(db) as connection:
        assert load_exchange(connection).usd(Decimal(1), "EUR") == Decimal("1.1")
