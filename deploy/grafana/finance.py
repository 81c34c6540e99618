"""For who pays: offers, price changes and coverage out of the book itself, by the SQL views that are its contract (PostgreSQL only)."""

from __future__ import annotations

from panels import POSTGRESQL, Json, Panel, Sql, dashboard, datasource_variable, lines, sql_table, sql_variable
from queries import LABELS, TITLES, links, metrics_variable

from engine.units import HOURS_PER_MONTH

UID = "breakeven-finance"
CHOSEN = "gpu in (${gpu:sqlstring}) and provider in (${provider:sqlstring}) and tier in (${tier:sqlstring})"
ASKED = "workload in (${workload:sqlstring}) and policy in (${policy:sqlstring})"
FRESH = (
    f"from v_current_offers where fresh and not is_slice and price_kind in ('list', 'ask') and availability <> 'unavailable' and {CHOSEN}"
)


def finance() -> Json:
    """The dashboard."""
    database = datasource_variable("database", "Database", POSTGRESQL, shown="PostgreSQL", uid="postgres")
    names = {"gpu": "GPU", "provider": "Provider", "tier": "Tier"}
    choices = [
        sql_variable(name, label, f"select distinct {name} from v_current_offers where fresh order by 1") for name, label in names.items()
    ]
    asked = [
        sql_variable(name, LABELS.get(name, name.capitalize()), f"select distinct {name} from v_breakeven order by 1")
        for name in ("workload", "policy")
    ]
    return dashboard(
        uid=UID,
        title=TITLES[UID],
        description="Offers, what a month of them costs, price changes and what the book stands on, from the SQL views of the database.",
        links=links(UID),
        variables=[metrics_variable(), database, *asked, *choices],
        rows=[
            (7, [setups()]),
            (8, [monthly(), decisions()]),
            (10, [cheapest()]),
            (9, [months(), tiers()]),
            (9, [days()]),
            (9, [history()]),
            (9, [changes(), coverage()]),
        ],
    )


def setups() -> Panel:
    """The winner of each model."""
    statement = f"""
        select model, workload, policy, provider, sku, region, gpu as "GPU", gpu_count::text as "GPUs", weight_format as "format", tier,
            usd_per_hour as "per hour", usd_per_month as "per month of 730 h", fresh::text as "fresh",
            to_char(decided_at at time zone 'UTC', 'YYYY-MM-DD HH24:MI') as "since, UTC"
        from v_cheapest where {ASKED} order by model, workload, policy
    """
    about = "The cheapest buyable setup by model, workload and policy, since when it is, and whether its price is within its age limit."
    return sql_table("Cheapest setup of each model", about, statement, "currencyUSD", sorted_by="model")


def monthly() -> Panel:
    """What each month would have cost either way."""
    statement = f"""
        select to_char(month, 'YYYY-MM') as "month", model, workload, policy, round(hours, 1)::text as "hours known",
            round(self_host_usd, 2) as "on rented GPUs", round(api_usd, 2) as "at the API"
        from v_monthly_cost where {ASKED} order by month desc, model, workload, policy
    """
    about = (
        "The workload on as many of each hour's cheapest setup as serve it, and at its cheapest API, over the hours of the month in which "
        "both were known. No invoice: what one would have paid."
    )
    return sql_table("What each month would have cost", about, statement, "currencyUSD", sorted_by="month")


def decisions() -> Panel:
    """How the answer moved."""
    statement = f"""
        select to_char(decided_from at time zone 'UTC', 'YYYY-MM-DD HH24:MI') as "from, UTC", model, workload, policy, verdict,
            provider || ' ' || gpu_count || ' x ' || gpu as "setup", usd_per_hour as "rent per hour", api_provider as "API at",
            api_usd_per_month as "workload at the API", self_host_usd_per_month as "on rented GPUs",
            round(break_even_tokens / 1e9, 1)::text || ' billion' as "break-even, tokens per month"
        from v_breakeven where {ASKED} and decided_from <= $__timeTo() and coalesce(decided_to, $__timeTo()) >= $__timeFrom()
        order by decided_from desc, model, workload, policy limit 200
    """
    about = "Every answer that held in the time range, the newest 200: the verdict, the setup, and both bills of the workload's month."
    return sql_table("Answers over time", about, statement, "currencyUSD", sorted_by="from, UTC")


def cheapest() -> Panel:
    """The offers themselves."""
    statement = f"""
        select provider, sku, region, gpu as "GPU", gpu_count::text as "GPUs", tier, trust, usd_per_gpu_hour as "per GPU-hour",
            usd_per_hour as "per hour", usd_per_hour * {HOURS_PER_MONTH} as "per month of {HOURS_PER_MONTH} h", currency,
            to_char(seen_at at time zone 'UTC', 'YYYY-MM-DD HH24:MI') as "seen at, UTC", source
        {FRESH} order by usd_per_gpu_hour, provider, sku, region limit 200
    """
    about = "The 200 cheapest fresh offers per GPU, of the chosen GPUs, providers and tiers. USD at the last reference rate, without VAT."
    return sql_table("Cheapest offers", about, statement, "currencyUSD", sorted_by="per GPU-hour")


def months() -> Panel:
    """A month of a GPU at each provider."""
    statement = f"""
        select provider, gpu as "GPU", tier, min(usd_per_gpu_hour) * {HOURS_PER_MONTH} as "lowest",
            percentile_cont(0.5) within group (order by usd_per_gpu_hour) * {HOURS_PER_MONTH} as "median", count(*)::text as "offers"
        {FRESH} group by provider, gpu, tier order by gpu, 4, provider
    """
    about = f"One GPU for a month of {HOURS_PER_MONTH} hours, at the lowest and the median of the provider's fresh offers."
    return sql_table("A month of a GPU", about, statement, "currencyUSD", sorted_by="GPU")


def tiers() -> Panel:
    """What a commitment or an interruption saves."""
    statement = f"""
        select gpu as "GPU", provider, min(usd_per_gpu_hour) filter (where tier = 'on_demand') as "on demand",
            min(usd_per_gpu_hour) filter (where tier = 'spot') as "spot",
            min(usd_per_gpu_hour) filter (where tier = 'reserved') as "reserved"
        {FRESH} group by gpu, provider having count(distinct tier) > 1 order by gpu, provider
    """
    about = "Lowest price per GPU-hour by tier, where a provider sells a GPU in more than one."
    return sql_table("On demand, spot and reserved", about, statement, "currencyUSD", sorted_by="GPU")


def days() -> Panel:
    """What a GPU cost at least, day by day."""
    statement = """
        select day::timestamp at time zone 'UTC' as time, usd_per_gpu_hour as value,
            concat_ws(' ', gpu, tier, case when gpu_count = 8 then 'in machines of 8' end) as metric
        from v_gpu_days where gpu in (${gpu:sqlstring}) and tier in (${tier:sqlstring}) and gpu_count in (1, 8) and $__timeFilter(day)
        order by 1, 3
    """
    about = "Lowest price per GPU-hour of each UTC day over all providers, from the figures a day. USD at the reference rate of the day."
    return lines("Lowest price of each day", about, [Sql(statement, over_time=True)], "currencyUSD")


def history() -> Panel:
    """Prices as they were listed."""
    statement = f"""
        select greatest(listed_from, $__timeFrom()) as time, price_per_hour / gpu_count as value,
            concat_ws(' ', provider, sku, region, tier, currency) as metric
        from v_price_history
        where {CHOSEN} and not imported and listed_from <= $__timeTo() and coalesce(listed_to, $__timeTo()) >= $__timeFrom()
        order by 1, 3
    """
    about = "Per GPU-hour, in the currency it is printed in; a point where a price began, or at the start of the time range."
    return lines("Prices as they were listed", about, [Sql(statement, over_time=True)], "none")


def changes() -> Panel:
    """What moved."""
    statement = f"""
        select to_char(listed_from at time zone 'UTC', 'YYYY-MM-DD HH24:MI') as "at, UTC", provider, sku, region, tier, currency,
            before as "before, per hour", price_per_hour as "after, per hour",
            round((price_per_hour / before - 1) * 100, 1)::text || ' %' as "change"
        from (
            select *, lag(price_per_hour) over (
                partition by source, provider, sku, region, gpu, gpu_count, tier, term_months, trust, currency order by listed_from
            ) as before
            from v_price_history where {CHOSEN} and not imported
        ) one
        where before <> price_per_hour and $__timeFilter(listed_from) order by listed_from desc, provider, sku, region limit 200
    """
    about = (
        "Changes of listed prices in the time range, the newest 200, in the currency they are printed in. Exchange rates change nothing."
    )
    return sql_table("Price changes", about, statement, "none", sorted_by="at, UTC")


def coverage() -> Panel:
    """What the figures stand on."""
    statement = """
        select source, count(*)::text as "offers", (count(*) filter (where fresh))::text as "fresh",
            count(distinct provider)::text as "providers", string_agg(distinct currency, ', ') as "currencies",
            to_char(max(seen_at) at time zone 'UTC', 'YYYY-MM-DD HH24:MI') as "last seen, UTC"
        from v_current_offers group by source order by source
    """
    about = "Offers listed now by who told them. Sources that begin with book: came with the program or were imported, and are never fresh."
    return sql_table("What the book stands on", about, statement, "none", sorted_by="source")
