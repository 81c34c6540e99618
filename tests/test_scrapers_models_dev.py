"""models.dev: the real catalogue of 2026-07-02."""

from __future__ import annotations

import gzip
from collections import Counter
from decimal import Decimal
from pathlib import Path

import pytest

from scrapers import models_dev
from scrapers.contract import Page, Skipped, TokenQuote

REAL = Path(__file__).parents[2] / "shared/recorded/tokens/models.dev/modelsdev-2026-07-02.api.json.gz"


@pytest.mark.shared
def test_real_catalogue() -> None:
    """Counted by a script of its own (json.load): 5,276 models, 382 without cost, 432 with 0 and 0; 4,656 rows with the tiers of the
    others, and 35 fast modes. Prices read with grep."""
    if not REAL.exists():
        pytest.skip("../shared is not here")
    rows = list(models_dev.parse([Page(url="", body=gzip.decompress(REAL.read_bytes()))]))
    assert Counter(row.reason for row in rows if isinstance(row, Skipped)) == {"no cost": 382, "0 for input and output is no price": 432}
    assert Counter(row.sku for row in rows if isinstance(row, TokenQuote)) == {"standard": 4656, "highspeed": 35}
    found = {
        (row.provider, row.model, row.min_prompt_tokens): row.prices
        for row in rows
        if isinstance(row, TokenQuote) and row.sku == "standard"
    }
    assert found["moonshotai", "kimi-k2.6", 0] == {"input": Decimal("0.95"), "cache_read": Decimal("0.16"), "output": Decimal("4.0")}
    assert found["deepinfra", "moonshotai/Kimi-K2.6", 0]["input"] == Decimal("0.75")
    assert found["302ai", "gpt-5.4", 272000] == {
        "input": Decimal("5.0"),
        "cache_read": Decimal("0.25"),
        "cache_write_5m": Decimal(0),
        "output": Decimal("22.5"),
    }
