"""litellm: the real maps of 2026, among them the one with 15,000 USD per Mtok."""

from __future__ import annotations

import gzip
from collections import Counter
from decimal import Decimal
from pathlib import Path

import pytest

from scrapers import litellm
from scrapers.contract import Page, Row, Skipped, TokenQuote

RECORDED = Path(__file__).parents[2] / "shared/recorded/tokens/litellm"


def real(name: str) -> list[Row]:
    path = RECORDED / name
    if not path.exists():
        pytest.skip("../shared is not here")
    body = path.read_bytes()
    return list(litellm.parse([Page(url="", body=gzip.decompress(body) if name.endswith(".gz") else body)]))


def prices(rows: list[Row], model: str, hours: str = "", weekdays: str = "") -> dict[str, Decimal]:
    """Of the one standard quote for prompts of any size at these hours."""
    key = (model, "standard", 0, hours, weekdays)
    found = [row for row in rows if isinstance(row, TokenQuote) and key_of(row) == key]
    assert len(found) == 1, found
    return dict(found[0].prices)


def key_of(row: TokenQuote) -> tuple[str, str, int, str, str]:
    return (row.model, row.sku, row.min_prompt_tokens, row.hours_utc, row.weekdays)


@pytest.mark.shared
def test_whole_map_row_counts() -> None:
    """Counted by a script of its own (json.load): 4,242 entries with sample_spec, 1,006 of other modes, 116 text models without a price,
    3,459 standard rows with their tiers, ten models with off-peak hours: eight in 4 parts of the week, two (weekdays of Shanghai) in 6."""
    rows = real("litellm-1.104.9.model_prices.json.gz")
    assert Counter(row.reason for row in rows if isinstance(row, Skipped)) == {"no text model": 1006, "no token price": 116}
    assert Counter(row.sku for row in rows if isinstance(row, TokenQuote)) == {
        "standard": 3459 + 8 * 4 + 2 * 6,
        "batch": 473,
        "priority": 335,
        "flex": 258,
        "ultrafast": 16,
        "balanced": 10,
        "decisions": 2,
    }


@pytest.mark.shared
def test_named_prices() -> None:
    """Read in the raw files with grep."""
    rows = real("subset-1.110.2.kimi-k3_muse_deepseek.json")
    assert prices(rows, "moonshot/kimi-k3.1-pro") == {
        "input": Decimal("0.000002"),
        "cache_read": Decimal("0.0000002"),
        "cache_write_5m": Decimal("0.000002"),
        "cache_write_1h": Decimal("0.000004"),
        "output": Decimal("0.00001"),
    }
    assert prices(rows, "global.moonshotai.kimi-k3.1")["output"] == Decimal("0.00002")  # Bedrock sells the highspeed model
    assert prices(rows, "deepseek/deepseek-v4-pro")["input"] == Decimal("0.00000132")
    assert prices(rows, "deepseek/deepseek-v4-pro", hours="04:00-06:00", weekdays="12345")["input"] == Decimal("0.00000066")


@pytest.mark.shared
def test_the_old_unit_error_is_quoted_as_printed() -> None:
    """0.015 USD per token is 15,000 USD per Mtok; the right price was 0.15. The guard decides, not the scraper."""
    assert prices(real("subset-1.98.1.unit-errors.json"), "wandb/openai/gpt-oss-120b")["input"] == Decimal("0.015")
