"""Moonshot: the real page of August 2026, with its six columns."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from scrapers import moonshot
from scrapers.contract import LayoutChanged, Page, TokenQuote

REAL = Path(__file__).parents[2] / "shared/recorded/tokens/html/kimi-pricing-chat.2026-08.md"


@pytest.mark.shared
def test_real_page() -> None:
    """Read by eye: four rows of one table; the code of the DocTable component above it is no table."""
    if not REAL.exists():
        pytest.skip("../shared is not here")
    rows = list(moonshot.parse([Page(url="", body=REAL.read_bytes())]))
    quotes = {row.model: row for row in rows if isinstance(row, TokenQuote)}
    assert len(rows) == len(quotes) == 4
    assert quotes["kimi-k3"].prices == {"cache_read": Decimal("0.30"), "input": Decimal("3.00"), "output": Decimal("15.00")}
    assert quotes["kimi-k2.7-code-highspeed"].prices["output"] == Decimal("8.00")
    assert quotes["kimi-k2.6"].prices["cache_read"] == Decimal("0.16")
    assert {(row.provider, row.region, row.currency, row.per) for row in quotes.values()} == {("moonshot", "", "USD", "mtok")}


@pytest.mark.parametrize("start", ["<DocTable\n  columns={[\n", '<DocTable\n  columns={[\n]}\n  rows={[\n["a", '])
def test_a_page_of_unfinished_tables_is_read_in_linear_time(start: str) -> None:
    body = (start * 20_000).encode()
    with pytest.raises(LayoutChanged, match="no DocTable with a column Model"):
        list(moonshot.parse([Page(url="", body=body)]))
