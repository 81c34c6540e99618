"""DeepSeek: both pages are asked for, and the real USD page of late August 2026."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from engine.ratecards import RateCard, prices_at
from engine.rates import Conditions, TokenPrices, TokenRate
from scrapers import deepseek
from scrapers.contract import LayoutChanged, Page, TokenQuote

REAL = Path(__file__).parents[2] / "shared/recorded/tokens/html/deepseek-pricing.2026-08.html"
RECORDED = Path(__file__).parent / "recorded/deepseek"


class FakeClient:
    def __init__(self) -> None:
        self.asked: list[str] = []

    def get(self, path: str, *, params: Mapping[str, str | int] | None = None, headers: Mapping[str, str] | None = None) -> Page:
        self.asked.append(path)
        return Page(url=path, body=b"")

    def post(self, path: str, *, json: Any, headers: Mapping[str, str] | None = None) -> Page:
        raise AssertionError(f"unexpected POST {path}")


def quotes(path: Path) -> list[TokenQuote]:
    return [row for row in deepseek.parse([Page(url="", body=path.read_bytes())]) if isinstance(row, TokenQuote)]


def test_fetch_asks_for_both_editions_with_the_trailing_slash() -> None:
    """Without the slash another page has come with status 200."""
    client = FakeClient()
    deepseek.fetch(client, {})
    assert client.asked == ["/quick_start/pricing/", "/zh-cn/quick_start/pricing/"]


@pytest.mark.parametrize(
    ("at", "output"),
    [
        (datetime(2026, 11, 27, 0, 59, tzinfo=UTC), "1.98"),  # Friday
        (datetime(2026, 11, 27, 1, 0, tzinfo=UTC), "3.96"),
        (datetime(2026, 11, 27, 4, 0, tzinfo=UTC), "1.98"),
        (datetime(2026, 11, 27, 9, 59, tzinfo=UTC), "3.96"),
        (datetime(2026, 11, 28, 2, 0, tzinfo=UTC), "1.98"),  # Saturday at a peak hour: genai-prices bills the peak here
        (datetime(2026, 11, 29, 7, 0, tzinfo=UTC), "1.98"),  # Sunday
        (datetime(2026, 11, 30, 7, 0, tzinfo=UTC), "3.96"),  # Monday
    ],
)
def test_weekends_are_off_peak(at: datetime, output: str) -> None:
    found = [quote for quote in quotes(RECORDED / "normal/en.html") if quote.model == "north-pro"]
    prices = prices_at(RateCard(rates=tuple(map(rate, found))), 1000, at)
    assert prices is not None and prices.output == Decimal(output)


def rate(quote: TokenQuote) -> TokenRate:
    prices = TokenPrices(**quote.prices)
    return TokenRate(
        provider="deepseek",
        source="deepseek",
        model="m",
        source_model="m",
        currency="USD",
        native=prices,
        usd=prices,
        conditions=Conditions(hours_utc=quote.hours_utc, weekdays=quote.weekdays),
        seen_at=datetime(2026, 11, 1, tzinfo=UTC),
    )


def test_a_peak_that_begins_before_utc_midnight_is_not_guessed() -> None:
    page = (RECORDED / "normal/zh-cn.html").read_text(encoding="utf-8").replace("9:00 - 12:00", "7:00 - 12:00")
    with pytest.raises(LayoutChanged, match="within one UTC day"):
        list(deepseek.parse([Page(url="", body=page.encode())]))


@pytest.mark.shared
def test_real_page() -> None:
    """Read by eye: three models, each off-peak and in two peak windows; half of the peak price is the off-peak price."""
    if not REAL.exists():
        pytest.skip("../shared is not here")
    rows = quotes(REAL)
    assert Counter(row.model for row in rows) == {"deepseek-v4-flash": 3, "deepseek-v4-pro": 3, "deepseek-v4-flash-vision-exp": 3}
    found = {(row.model, row.hours_utc, row.weekdays): row.prices for row in rows}
    assert found["deepseek-v4-pro", "", ""] == {"cache_read": Decimal("0.022"), "input": Decimal("0.66"), "output": Decimal("1.98")}
    assert found["deepseek-v4-pro", "06:00-10:00", "12345"]["output"] == Decimal("3.96")
    assert found["deepseek-v4-flash", "01:00-04:00", "12345"]["cache_read"] == Decimal("0.014")
