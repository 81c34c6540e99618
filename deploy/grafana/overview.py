"""All models at a glance: cheapest setup, cheapest API, break-even, verdict, and how old all of it is."""

from __future__ import annotations

from panels import FIRED, Column, Json, Panel, ask, ask_now, dashboard, lines, link_to, spans, stat, table, value
from queries import ANSWER, SETUP, TITLES, any_of, choices, common, joined, links, series

from engine.units import HOURS_PER_MONTH

UID = "breakeven-overview"
KEY = any_of("model", "workload", "policy")
RENT = f"min by ({ANSWER}) ({series('best_setup_usd_per_hour', *KEY)})"
MTOK = f"min by ({ANSWER}) ({series('api_usd_per_mtok', *KEY)})"
MONTH = f"min by ({ANSWER}) ({series('api_usd_per_month', *KEY)})"
OWN_MTOK = f"min by ({ANSWER}) ({series('self_host_usd_per_mtok', *KEY)})"
OWN_MONTH = f"min by ({ANSWER}) ({series('self_host_usd_per_month', *KEY)})"
BREAK_EVEN = f"min by ({ANSWER}) ({series('break_even_tokens_per_month', *KEY)})"
EACH = "{{model}} {{workload}} {{policy}}"
SNAPSHOT_OLD_S, PRICES_OLD_S = 600, 3 * 3600  # as in prometheus/rules/operations.yml
TEXTS = {
    "api": "use the API", "self_host": "rent GPUs", "unknown": "unknown", "feasible": "can be reached", "always": "at any volume",
    "never": "beyond the setup", "never_at_this_utilization": "beyond this utilization", "capacity_unknown": "capacity unknown",
}  # fmt: skip


def overview() -> Json:
    """The dashboard."""
    return dashboard(
        uid=UID,
        title=TITLES[UID],
        description="For each model the cheapest setup on rented GPUs, the cheapest API, their break-even volume, the verdict.",
        links=links(UID),
        variables=[*common(), *(choices(name, series("api_info")) for name in ("model", "workload", "policy"))],
        rows=[
            (4, [snapshot_age(), price_age(), not_up_to_date(), answered()]),
            (8, [price_table()]),
            (8, [verdict_table()]),
            (9, [rent(), prices_per_mtok()]),
            (9, [break_even(), share()]),
            (9, [saving(), utilization()]),
            (8, [budgets(), month_to_date(), unpriced()]),
            (7, [alerts()]),
        ],
    )


def snapshot_age() -> Panel:
    """Age of what the daemon worked out."""
    asked = ask_now(f"time() - max({series('snapshot_timestamp_seconds')})", "age")
    limits = [("green", 0), ("red", SNAPSHOT_OLD_S)]
    return stat(
        "Age of the answers", "Since the daemon last worked everything out; it should do so once a minute.", asked, "s", limits=limits
    )


def price_age() -> Panel:
    """Age of the newest price."""
    read = series("book_timestamp_seconds")
    limits = [("green", 0), ("red", PRICES_OLD_S)]
    about = "Since any source of prices was last read in full; exchange rates do not count."
    return stat("Age of the newest price", about, ask_now(f"time() - max({read})", "age"), "s", limits=limits)


def not_up_to_date() -> Panel:
    """Sources that are on and stale or never read."""
    enabled = f"max by (source) ({series('source_enabled')})"
    age = f"time() - max by (source) ({series('source_last_success_timestamp_seconds')})"
    fresh = f"({age} <= bool max by (source) ({series('source_max_age_seconds')}))"
    about = "Switched on, and last read longer ago than their own limit, or never."
    asked = ask_now(f"sum({enabled}) - sum({fresh} * {enabled})", "sources")
    return stat("Sources not up to date", about, asked, "short", limits=[("green", 0), ("orange", 1)])


def answered() -> Panel:
    """Answers with a fresh setup."""
    about = "Model, workload and policy for which a setup can be rented at a price within its age limit."
    return stat("Answers with a fresh setup", about, ask_now(f"count({RENT})", "answers"), "short")


def price_table() -> Panel:
    """What renting and the API cost."""
    api = f"label_replace({series('api_info', *KEY)}, 'api', '$1', 'provider', '(.+)')"
    asked = [
        ask_now(joined(series("best_setup_info", *KEY), SETUP, series("best_setup_usd_per_hour", *KEY)), "rent per hour"),
        ask_now(f"{RENT} * {HOURS_PER_MONTH}", "rent per month"),
        ask_now(joined(api, "api, sku", series("api_usd_per_mtok", *KEY)), "API per Mtok"),
        ask_now(MONTH, "API per month"),
        ask_now(OWN_MONTH, "own month"),
    ]
    columns = {
        "model": "model", "workload": "workload", "policy": "policy", "gpu_count": "GPUs", "gpu": "GPU", "weight_format": "format",
        "provider": "rented at", "tier": "tier", value(0): "rent per hour", value(1): "rent per month", "api": "API at", "sku": "API rate",
        value(2): "API per Mtok", value(3): "workload at the API", value(4): "workload on rented GPUs",
    }  # fmt: skip
    about = (
        "A row for each model, workload and memory policy: the cheapest setup that can be rented as it stands and holds the model, and the "
        "cheapest eligible API. Prices past their age limit are left out."
    )
    return table("Cheapest setup and API", about, asked, _columns(columns), "currencyUSD", sorted_by="model", links=[to_model()])


def verdict_table() -> Panel:
    """Where the break-even is and what to do."""
    asked = [
        ask_now(BREAK_EVEN, "break-even"),
        ask_now(f"1e6 * {MONTH} / {MTOK}", "workload"),
        ask_now(f"max by ({ANSWER}, status, verdict) ({series('break_even_info', *KEY)})", "verdict"),
        ask_now(f"max by ({ANSWER}) ({series('break_even_feasible', *KEY)})", "feasible"),
        ask_now(f"max by ({ANSWER}) ({series('best_setup_tight', *KEY)})", "tight"),
    ]
    columns = {
        "model": "model", "workload": "workload", "policy": "policy", value(0): "break-even, tokens per month",
        "status": "break-even is", value(1): "workload, tokens per month", "verdict": "verdict",
        value(3): "feasible (1 is yes)", value(4): "tight (1 is yes)",
    }  # fmt: skip
    about = (
        "The verdict weighs rent and API bill at the workload's volume and the setup's capacity. Feasible: renting comes to cost less at "
        "the workload's utilization. Tight: the model only just fits the setup."
    )
    return table(
        "Break-even and verdict", about, asked, _columns(columns), "short", sorted_by="model", texts=TEXTS, links=[to_model()]
    )  # fmt: skip


def _columns(titles: dict[str, str]) -> list[Column]:
    return [Column(field=field, title=title) for field, title in titles.items()]


def to_model() -> Panel:
    """From a cell to the row's model."""
    row = "".join(f"&var-{name}=${{__data.fields.{name}}}" for name in ("model", "workload", "policy"))
    return link_to("breakeven-model", "More about this model", ("datasource", "job"), row + "&${__url_time_range}")


def rent() -> Panel:
    """The cheapest setup over time."""
    about = "Cheapest buyable setup that holds the model, per hour. A gap: no fresh price."
    return lines("Rent of the cheapest setup", about, [ask(RENT, EACH)], "currencyUSD")


def prices_per_mtok() -> Panel:
    """A million tokens either way over time."""
    about = (
        "Of the workload's mix: at the cheapest eligible API, and on the cheapest setup at the workload's utilization. Without a known "
        "capacity there is no price of one's own."
    )
    asked = [ask(MTOK, f"API: {EACH}"), ask(OWN_MTOK, f"rented: {EACH}")]
    return lines("A million tokens", about, asked, "currencyUSD")


def saving() -> Panel:
    """The cheapest setup against what runs today."""
    about = "Share of today's rent, as stated in [baseline] of tracker.toml, that the cheapest setup would save. Below 0 it costs more."
    asked = ask(f"min by ({ANSWER}) ({series('best_setup_saving_ratio', *KEY)})", EACH)
    return lines("Saving against what runs today", about, [asked], "percentunit")


def utilization() -> Panel:
    """The break-even by the setup's capacity."""
    about = "Break-even volume over what the cheapest setup serves at full use. Above 100 % one of it can never be worth its rent."
    asked = ask(f"min by ({ANSWER}) ({series('break_even_utilization_ratio', *KEY)})", EACH)
    return lines("Break-even utilization", about, [asked], "percentunit", limit=1)


def budgets() -> Panel:
    """Where each budget stands."""
    columns = {
        "budget": "budget", value(0): "so far", value(1): "whole month", value(2): "planned", value(3): "left at that pace",
    }  # fmt: skip
    spent, whole, planned = (f"max by (budget) ({series(name)})" for name in ("month_to_date_usd", "month_projected_usd", "budget_usd"))
    asked = [ask_now(spent, "so far"), ask_now(whole, "whole month"), ask_now(planned, "planned"), ask_now(f"{planned} - {whole}", "left")]
    about = (
        "What the calendar month has cost over the hours whose prices were known, and what all of it comes to at the prices of now, by "
        "[budget.NAME] of tracker.toml."
    )
    return table("Budgets of the month", about, asked, _columns(columns), "currencyUSD", sorted_by="budget")


def month_to_date() -> Panel:
    """How the month went."""
    about = "The month to date, and what the whole month comes to at the prices of each moment. A gap: a price is not known."
    asked = [
        ask(f"max by (budget) ({series('month_to_date_usd')})", "{{budget}}: so far"),
        ask(f"max by (budget) ({series('month_projected_usd')})", "{{budget}}: whole month"),
    ]
    return lines("Month to date", about, asked, "currencyUSD")


def unpriced() -> Panel:
    """What the months to date lack."""
    about = "Time of the month so far for which no price was known, such as before the first look at it. It is not in the cost."
    asked = ask(f"max by (budget) ({series('month_to_date_unknown_seconds')})", "{{budget}}")
    return lines("Of the month without a price", about, [asked], "s")


def break_even() -> Panel:
    """The break-even over time."""
    about = "Tokens a month at which the cheapest setup costs what the API does. It may lie beyond what the setup can serve."
    return lines("Break-even volume", about, [ask(BREAK_EVEN, EACH)], "short")


def share() -> Panel:
    """Rent against the API bill."""
    about = (
        f"A month ({HOURS_PER_MONTH} h) of the cheapest setup over the workload's month at the API. Below 100 % renting is cheaper where "
        "one setup serves the workload."
    )
    asked = ask(f"{RENT} * {HOURS_PER_MONTH} / {MONTH}", EACH)
    return lines("Rent as a share of the API bill", about, [asked], "percentunit", limit=1)


def alerts() -> Panel:
    """What fired when."""
    about = "A line for each alert of the shipped rules that fired in the time range. None: nothing fired, or the rules are not loaded."
    fired = f"max by (alertname, severity, {ANSWER}, source) ({FIRED})"
    return spans("Alerts that fired", about, ask(fired, f"{{{{alertname}}}} {EACH} {{{{source}}}}"))
