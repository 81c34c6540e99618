"""Limits of one source in sources.toml stand above those of [fetch], and a file read by lines reaches the book."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic

import pytest
from upstream import Upstream

from scrapers import aws
from scrapers.http import HostGate
from tracker.book.exchange import load_shipped
from tracker.database.handle import migrate, open_database, writing
from tracker.paths import config_dir
from tracker.sweeps.collect import Collector, collect_source
from tracker.world import load_world

pytestmark = pytest.mark.loopback
NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
RECORDED = Path(__file__).parent / "recorded"
FETCH = '[fetch]\nuser_agent = "breakeven-tests"\ndeadline_s = 20\nread_timeout_s = 5\nattempts = 1\nhost_spacing_s = 0\n'
Build = Callable[[str], Collector]


@pytest.fixture
def build(upstream: Upstream, tmp_path: Path) -> Iterator[Build]:
    """A collector whose sources.toml has one more table, at the upstream."""
    db = open_database(f"sqlite:///{tmp_path / 'book.db'}")
    migrate(db)
    with writing(db) as connection:
        load_shipped(connection)

    def collector(table: str) -> Collector:
        user = tmp_path / "user"
        user.mkdir()
        (user / "tracker.toml").write_text(FETCH, encoding="utf-8")
        common = f'kind = "rent"\nbase_url = "{upstream.url}"\ninterval_minutes = 60\nmax_age_hours = 6\n'
        (user / "sources.toml").write_text(table + "\n" + common, encoding="utf-8")
        return Collector(world=load_world(config_dir(), user), db=db, now=lambda: NOW, gate=HostGate(monotonic=monotonic))

    yield collector
    db.dispose()


def test_a_deadline_of_its_own_ends_a_sweep(upstream: Upstream, build: Build) -> None:
    upstream.add("/v1/gpu-prices", b"{}", lasting_fault="hang")
    collector = build("[akash]\ndeadline_s = 0.3")
    report = collect_source(collector, collector.world.config.source("akash"))
    assert report is not None and report.status == "failed"
    assert "no complete answer within 0.3 s" in report.error


def test_a_spacing_of_its_own_that_does_not_fit_the_deadline_is_said(upstream: Upstream, build: Build) -> None:
    """The second of several regions would have to wait longer than the sweep may last."""
    body = (RECORDED / "aws/normal/us_east_1.csv").read_bytes()
    for region in aws.REGIONS:
        upstream.add(aws.PATH.format(region=region), body)
    collector = build("[aws]\nhost_spacing_s = 60\ndeadline_s = 5")
    report = collect_source(collector, collector.world.config.source("aws"))
    assert report is not None and report.status == "failed"
    assert "longer than what is left of 5 s" in report.error
    assert len(upstream.seen) == 1


def test_offer_files_read_by_lines_reach_the_book(upstream: Upstream, build: Build) -> None:
    """Five GPU rows of us-east-1 and one of eu-north-1; the other regions serve a header alone."""
    folder = RECORDED / "aws/normal"
    header = (folder / "us_east_1.csv").read_bytes().split(b"\n")[0]
    for region in aws.REGIONS:
        recorded = folder / f"{region.replace('-', '_')}.csv"
        upstream.add(aws.PATH.format(region=region), recorded.read_bytes() if recorded.exists() else header + b"\n")
    collector = build("[aws]")
    first = collect_source(collector, collector.world.config.source("aws"))
    assert first is not None and first.status == "ok", first
    assert {(row.sku, row.region) for row in first.offers} >= {("p5.48xlarge", "us-east-1"), ("p5en.48xlarge", "eu-north-1")}
    second = collect_source(collector, collector.world.config.source("aws"))
    assert second is not None and second.status == "unchanged"
    assert all("if-none-match" in seen.headers for seen in upstream.seen[len(aws.REGIONS) :])
