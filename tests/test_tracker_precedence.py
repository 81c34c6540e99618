"""Which of several sources speaks for a provider, and how far they are apart."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

from engine.offers import GpuOffer, Tier
from engine.rates import TokenPrices, TokenRate
from tracker.book.book import Listed
from tracker.book.entry_values import offers_of, rates_of
from tracker.book.precedence import offer_disagreements, preferred_offers, rate_disagreements

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)


def listed(
    source: str,
    price: str,
    *,
    provider: str = "nebius",
    fresh: bool = True,
    days_ago: int = 0,
    count: int = 8,
    region: str = "eu",
    tier: Tier = "on_demand",
) -> Listed[GpuOffer]:
    """Eight H200 of a provider as one source prints them."""
    seen = NOW - timedelta(days=days_ago)
    offer = GpuOffer(
        provider=provider, source=source, sku="x", region=region, gpu="nvidia-h200-sxm-141", gpu_count=count, tier=tier,
        currency="USD", native_per_hour=Decimal(price), usd_per_hour=Decimal(price), valid_from=seen, seen_at=seen,
    )  # fmt: skip
    return Listed(offer, source, fresh and not source.startswith("book:"), source.startswith("book:"))


def prices(entries: list[Listed[GpuOffer]], precedence: dict[str, list[str]] | None = None) -> list[str]:
    return [f"{entry.value.source} {entry.value.usd_per_hour}" for entry in preferred_offers(offers_of(entries), precedence or {})]


def test_the_providers_own_interface_is_believed_before_a_catalogue() -> None:
    assert prices([listed("gpuhunt", "27"), listed("nebius", "28")]) == ["nebius 28"]


def test_a_stale_own_interface_gives_way_to_a_fresh_catalogue() -> None:
    assert prices([listed("gpuhunt", "27"), listed("nebius", "28", fresh=False)]) == ["gpuhunt 27"]


def test_configuration_turns_the_order_round() -> None:
    assert prices([listed("gpuhunt", "27"), listed("nebius", "28")], {"nebius": ["gpuhunt", "nebius"]}) == ["gpuhunt 27"]


def test_one_source_of_another_provider_is_left_alone() -> None:
    entries = [listed("gpuhunt", "27"), listed("nebius", "28"), listed("gpuhunt", "30", provider="lambda")]
    assert prices(entries) == ["nebius 28", "gpuhunt 30"]


def test_a_tier_or_region_that_only_a_later_source_lists_is_taken_from_that_one() -> None:
    entries = [
        listed("gpuhunt", "27"), listed("nebius", "28"), listed("gpuhunt", "12", tier="spot"), listed("gpuhunt", "29", region="us"),
        listed("gpuhunt", "26", region="eu-b"),
    ]  # fmt: skip
    assert prices(entries) == ["nebius 28", "gpuhunt 12", "gpuhunt 29"]


def test_of_imported_rows_about_the_same_machine_the_newest_stands() -> None:
    entries = [listed("book:a", "20", days_ago=50), listed("book:b", "31", days_ago=40), listed("book:a", "4", days_ago=50, count=1)]
    assert sorted(prices(entries)) == ["book:a 4", "book:b 31"]


def test_disagreement_is_the_widest_spread_between_fresh_sources() -> None:
    found = offer_disagreements(offers_of([listed("gpuhunt", "24"), listed("nebius", "30"), listed("skypilot", "12", fresh=False)]))
    assert [(d.provider, d.what, d.sources, d.ratio) for d in found] == [
        ("nebius", "nvidia-h200-sxm-141", ("gpuhunt", "nebius"), Decimal("0.25")),
    ]
    assert offer_disagreements(offers_of([listed("nebius", "30")])) == ()


def rate(source: str, price: str, cached: str | None) -> Listed[TokenRate]:
    """Moonshot's list as one source prints it."""
    money = TokenPrices(input=Decimal(price), cache_read=None if cached is None else Decimal(cached), output=Decimal(10))
    entry = TokenRate(
        provider="moonshot", source=source, model="kimi-k3.1-pro", source_model="k", currency="USD", native=money, usd=money, seen_at=NOW
    )
    return Listed(entry, source, True, False)


def test_rates_are_compared_kind_by_kind_and_unknown_is_no_disagreement() -> None:
    assert [d.ratio for d in rate_disagreements(rates_of([rate("genai_prices", "2", "0.2"), rate("litellm", "2", "0.8")]))] == [Decimal(3)]
    assert [d.ratio for d in rate_disagreements(rates_of([rate("genai_prices", "2", "0.2"), rate("litellm", "2", None)]))] == [Decimal(0)]
