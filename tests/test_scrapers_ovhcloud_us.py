"""OVHcloud's American catalogue: an offer of its own beside the French one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from scrapers import ovhcloud, ovhcloud_us
from scrapers.contract import GpuQuote, Page

RECORDED = Path(__file__).parent / "recorded/ovhcloud"


def page(case: str) -> Page:
    (body,) = [path for path in (RECORDED / case).glob("*.json") if path.name not in ("pages.json", "expected.json")]
    return Page(url="https://api.us.ovhcloud.com/1.0/order/catalog/public/cloud?ovhSubsidiary=US", body=body.read_bytes())


def test_quotes_are_those_of_the_catalogue_in_the_region_us() -> None:
    french = [row for row in ovhcloud.parse([page("us_catalogue")]) if isinstance(row, GpuQuote)]
    american = [row for row in ovhcloud_us.parse([page("us_catalogue")]) if isinstance(row, GpuQuote)]
    assert [(row.sku, row.currency, row.region) for row in american] == [("l40s-90", "USD", "us")]
    assert american == [replace(row, region="us") for row in french]


def test_skipped_rows_and_named_zones_stay() -> None:
    for case in ("normal", "bad_row"):
        french, american = list(ovhcloud.parse([page(case)])), list(ovhcloud_us.parse([page(case)]))
        assert [row for row in american if not isinstance(row, GpuQuote)] == [row for row in french if not isinstance(row, GpuQuote)]
        zones = [(a.region, f.region) for a, f in zip(american, french, strict=True) if isinstance(a, GpuQuote) and isinstance(f, GpuQuote)]
        assert zones and all(a == (f or "us") for a, f in zones)


def test_the_american_subsidiary_is_asked() -> None:
    assert ovhcloud.PATH.replace("=FR", "=US") == ovhcloud_us.PATH
