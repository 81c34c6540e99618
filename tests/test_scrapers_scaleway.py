"""Scaleway: following the pages, and the real answers of 2026-07-30."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from scrapers import scaleway
from scrapers.contract import GpuQuote, LayoutChanged, Page

ANSWERS = Path(__file__).parents[2] / "shared/recorded/gpu-clouds/scaleway"


class FakeClient:
    """Answers with ``last`` pages per list; the Link header is relative and names the next page, as theirs does."""

    def __init__(self, last: int) -> None:
        self.last = last
        self.asked: list[tuple[str, int, int]] = []

    def get(self, path: str, *, params: Mapping[str, str | int] | None = None, headers: Mapping[str, str] | None = None) -> Page:
        assert params is not None
        number = int(params["page"])
        self.asked.append((path, number, int(params["per_page"])))
        more = f'</products/servers?page={number + 1}&per_page=50&>; rel="next",' if number < self.last else ""
        first = '</products/servers?page=1&per_page=50&>; rel="first",' if number > 1 else ""
        link = first + more + f'</products/servers?page={self.last}&per_page=50&>; rel="last"'
        return Page(url=f"https://api.scaleway.com{path}?page={number}", body=b"{}", headers={"link": link})

    def post(self, path: str, *, json: Any, headers: Mapping[str, str] | None = None) -> Page:
        raise AssertionError(f"unexpected POST {path}")


def test_fetch_follows_the_link_header_in_both_lists_of_every_zone() -> None:
    client = FakeClient(last=3)
    pages = scaleway.fetch(client, {})
    assert len(pages) == len(scaleway.ZONES) * 2 * 3
    assert client.asked[:6] == [
        ("/instance/v1/zones/fr-par-1/products/servers", 1, 50),
        ("/instance/v1/zones/fr-par-1/products/servers", 2, 50),
        ("/instance/v1/zones/fr-par-1/products/servers", 3, 50),
        ("/instance/v1/zones/fr-par-1/products/servers/availability", 1, 50),
        ("/instance/v1/zones/fr-par-1/products/servers/availability", 2, 50),
        ("/instance/v1/zones/fr-par-1/products/servers/availability", 3, 50),
    ]


def test_a_single_page_is_one_call_per_list() -> None:
    assert len(scaleway.fetch(FakeClient(last=1), {})) == len(scaleway.ZONES) * 2


def test_a_link_header_without_end_is_an_error() -> None:
    with pytest.raises(LayoutChanged, match="the Link header goes on"):
        scaleway.fetch(FakeClient(last=10**6), {})


def recorded_page(path: Path) -> Page:
    recording = json.loads(path.read_text(), parse_float=Decimal)
    headers = {name.lower(): ", ".join(values) for name, values in recording["_response_headers"].items()}
    return Page(url=recording["_request_url"], body=json.dumps(recording["body"], default=float).encode(), headers=headers)


@pytest.mark.shared
def test_the_real_answers() -> None:
    """Counted in the raw files by "gpu" above 0: 5 types in fr-par-1, 17 in fr-par-2, none in fr-par-3, nl-ams-1 and nl-ams-2.

    Of these, read off the availability lists: 8 available and 2 scarce, 12 in shortage. No MIG types, nothing to skip.
    """
    if not ANSWERS.exists():
        pytest.skip(f"{ANSWERS} is not here")
    pages = [recorded_page(path) for path in sorted(ANSWERS.glob("*.json"))]
    assert len(pages) == 24
    rows = list(scaleway.parse(pages))
    quotes = {(row.region, row.sku): row for row in rows if isinstance(row, GpuQuote)}
    assert len(rows) == len(quotes) == 22
    assert Counter(region for region, _ in quotes) == {"fr-par-1": 5, "fr-par-2": 17}
    assert Counter(row.availability for row in quotes.values()) == {"available": 10, "unavailable": 12}
    # printed in the files, EUR per hour of the whole type
    assert quotes["fr-par-2", "B300-SXM-8-288G"].price == Decimal("60.0")
    assert quotes["fr-par-2", "H100-SXM-8-80G"].price == Decimal("25.3308")
    assert quotes["fr-par-1", "L4-1-24G"].price == Decimal("0.7875")
    assert {row.currency for row in quotes.values()} == {"EUR"}
    assert quotes["fr-par-2", "B300-SXM-8-288G"].gpu_count == 8
