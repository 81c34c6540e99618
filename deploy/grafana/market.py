"""Rental prices of the GPUs themselves: by provider and tier, spot against on demand, and the exchange rates they stand on."""

from __future__ import annotations

from panels import Column, Json, Panel, ask, ask_now, bars, dashboard, lines, table, value
from queries import TITLES, any_of, choices, common, links, series

UID = "breakeven-market"
CHOSEN = series("rental_usd_per_gpu_hour", *any_of("gpu", "provider", "tier"))


def market() -> Json:
    """The dashboard."""
    return dashboard(
        uid=UID,
        title=TITLES[UID],
        description="Rental prices of GPUs by provider and tier, spot against on demand, and exchange rates.",
        links=links(UID),
        variables=[*common(), *(choices(name, series("rental_usd_per_gpu_hour")) for name in ("gpu", "provider", "tier"))],
        rows=[(10, [rentals(), by_gpu_now()]), (9, [by_gpu(), by_provider()]), (9, spot()), (7, [providers(), offers(), exchange_rates()])],
    )


def rentals() -> Panel:
    """Prices of now with what they were in the time range."""
    middle = series("rental_median_usd_per_gpu_hour", *any_of("gpu", "provider", "tier"))
    asked = [
        ask_now(f"min by (provider, gpu, tier) ({CHOSEN})", "now"),
        ask_now(f"min by (provider, gpu, tier) ({middle})", "median now"),
        ask_now(f"min by (provider, gpu, tier) (min_over_time({CHOSEN}[$__range]))", "lowest"),
        ask_now(f"max by (provider, gpu, tier) (max_over_time({CHOSEN}[$__range]))", "highest"),
    ]
    labels = [Column(field="gpu", title="GPU"), Column(field="provider", title="provider"), Column(field="tier", title="tier")]
    prices = [Column(field=value(number), title=one.legend) for number, one in enumerate(asked)]
    about = (
        "Lowest and median price per GPU-hour at each provider now, and how low and how high the lowest was over the time range. Without a "
        "price now there is none within its age limit."
    )
    return table("Rental prices", about, asked, [*labels, *prices], "currencyUSD", sorted_by="now")


def by_gpu_now() -> Panel:
    """GPUs side by side."""
    asked = ask_now(f"sort(min by (gpu, tier) ({CHOSEN}))", "{{gpu}}, {{tier}}")
    return bars("Lowest price of each GPU", "Per GPU-hour, of the chosen providers and tiers.", asked, "currencyUSD")


def by_gpu() -> Panel:
    """GPUs over time."""
    about = "Per GPU-hour, of the chosen providers and tiers. A gap: no fresh offer."
    asked = ask(f"min by (gpu, tier) ({CHOSEN})", "{{gpu}}, {{tier}}")
    return lines("Lowest price of each GPU over time", about, [asked], "currencyUSD")


def by_provider() -> Panel:
    """Providers over time."""
    asked = ask(f"min by (provider, gpu, tier) ({CHOSEN})", "{{provider}}, {{gpu}}, {{tier}}")
    return lines("Price at each provider over time", "Lowest price per GPU-hour. A gap: no fresh offer.", [asked], "currencyUSD")


def spot() -> list[Panel]:
    """Spot against on demand: like with like, and whoever is cheapest."""
    same = "How far spot is below on demand for the same GPU at the same provider. Below 0: spot is dearer."
    whole = "How far the cheapest spot price of a GPU is below its cheapest price on demand, whoever asks it. Below 0: spot is dearer."
    return [
        lines("Spot discount at the same provider", same, [ask(_discount("provider, gpu"), "{{gpu}}, {{provider}}")], "percentunit"),
        lines("Cheapest spot against cheapest on demand", whole, [ask(_discount("gpu"), "{{gpu}}")], "percentunit"),
    ]


def _discount(labels: str) -> str:
    """1 less spot over on demand, 0..1."""
    spot, demand = (series("rental_usd_per_gpu_hour", *any_of("gpu", "provider"), f'tier="{tier}"') for tier in ("spot", "on_demand"))
    return f"1 - min by ({labels}) ({spot}) / min by ({labels}) ({demand})"


def providers() -> Panel:
    """How broad the market is."""
    asked = ask(f"count by (gpu, tier) (count by (provider, gpu, tier) ({CHOSEN}))", "{{gpu}}, {{tier}}")
    return lines("Providers with an offer", "How many providers have a fresh price, for each GPU and tier.", [asked], "short")


def offers() -> Panel:
    """How much there is to choose from."""
    found = series("rental_offers", *any_of("gpu", "provider", "tier"))
    about = "Fresh offers by machine and region, for each GPU and tier."
    return lines("Offers", about, [ask(f"sum by (gpu, tier) ({found})", "{{gpu}}, {{tier}}")], "short")


def exchange_rates() -> Panel:
    """What foreign prices are converted by."""
    asked = ask(f"max by (currency) ({series('fx_units_per_usd')})", "{{currency}} per USD")
    return lines("Exchange rates", "ECB reference rates: units of the currency per USD.", [asked], "none")
