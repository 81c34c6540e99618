"""One model: what it costs on which GPU and at which API, when which setup was the cheapest, and its break-even."""

from __future__ import annotations

from panels import Column, Json, Panel, ask, ask_now, bars, dashboard, lines, spans, stat, table, value
from queries import ANSWER, SETUP, TITLES, any_of, choices, common, joined, links, one_of, series

from engine.rates import TOKEN_KINDS

UID = "breakeven-model"
MODEL = one_of("model")
KEY = one_of("model", "workload", "policy")
BEST = joined(series("best_setup_info", *KEY), SETUP, series("best_setup_usd_per_hour", *KEY))
ON_GPU = f"min by (gpu, weight_format) ({series('setup_usd_per_hour', *KEY, *any_of('gpu'))})"
LISTED = (*MODEL, *any_of("provider", "sku"))


def model() -> Json:
    """The dashboard."""
    keys = [
        choices("workload", series("api_info", *MODEL), many=False),
        choices("policy", series("api_info", *one_of("model", "workload")), many=False),
    ]
    lists = [choices(name, series("token_rate_usd_per_mtok", *MODEL)) for name in ("provider", "sku")]
    return dashboard(
        uid=UID,
        title=TITLES[UID],
        description="One model: its cheapest setups and their history, its API rates, its break-even against the workload's volume.",
        links=links(UID),
        variables=[
            *common(), choices("model", series("api_info"), many=False), *keys,
            choices("gpu", series("setup_usd_per_hour", *KEY)), *lists,
        ],
        rows=[
            (4, [cheapest(), api(), break_even(), verdict()]),
            (8, [winner(), rent_of_winner()]),
            (8, [by_gpu_now(), by_gpu()]),
            (8, [api_table()]),
            (8, [api_rates(), volumes()]),
            (6, [verdicts()]),
        ],
    )  # fmt: skip


def cheapest() -> Panel:
    """The setup of now."""
    asked = ask_now(BEST, "{{gpu_count}} x {{gpu}}, {{weight_format}}, {{provider}}")
    return stat("Cheapest setup", "Rent of the cheapest buyable setup, per hour.", asked, "currencyUSD", text="value_and_name")


def api() -> Panel:
    """The API of now."""
    price = joined(series("api_info", *KEY), "provider, sku", series("api_usd_per_mtok", *KEY))
    asked = ask_now(price, "{{provider}}, {{sku}}")
    return stat("Cheapest API", "Of a million tokens of the workload's mix.", asked, "currencyUSD", text="value_and_name")


def break_even() -> Panel:
    """The break-even of now."""
    tokens = joined(series("break_even_info", *KEY), "status", series("break_even_tokens_per_month", *KEY))
    about = "Tokens a month at which both cost the same, and whether the setup can serve that many (never: it cannot)."
    return stat("Break-even", about, ask_now(tokens, "{{status}}"), "short", text="value_and_name")


def verdict() -> Panel:
    """The verdict of now."""
    asked = ask_now(f"max by ({ANSWER}, verdict) ({series('break_even_info', *KEY)})", "{{verdict}}")
    return stat("Verdict", "At the workload's volume: api, self_host (rent GPUs) or unknown.", asked, "none", text="name")


def winner() -> Panel:
    """History of the cheapest setup."""
    held = f"max by ({SETUP}) ({series('best_setup_info', *KEY)})"
    about = "A line for each setup that was the cheapest in the time range, filled while it was."
    return spans("Which setup was the cheapest", about, ask(held, "{{gpu_count}} x {{gpu}}, {{weight_format}}, {{provider}}, {{tier}}"))


def rent_of_winner() -> Panel:
    """Its price."""
    asked = ask(BEST, "{{gpu_count}} x {{gpu}}, {{weight_format}}, {{provider}}, {{tier}}")
    today = ask(f"max by ({ANSWER}) ({series('baseline_usd_per_hour', *KEY)})", "what runs today")
    about = "Per hour; the colour changes with the setup. What runs today is what [baseline] of tracker.toml states, if anything."
    return lines("Rent of the cheapest setup", about, [asked, today], "currencyUSD")


def by_gpu_now() -> Panel:
    """GPUs side by side."""
    about = "Rent per hour of the cheapest buyable setup that holds the model on that GPU, for the memory policy of the daemon."
    return bars("Cheapest setup on each GPU", about, ask_now(f"sort({ON_GPU})", "{{gpu}}, {{weight_format}}"), "currencyUSD")


def by_gpu() -> Panel:
    """GPUs over time."""
    asked = ask(ON_GPU, "{{gpu}}, {{weight_format}}")
    return lines("Cheapest setup on each GPU over time", "Rent per hour. A gap: no fresh offer.", [asked], "currencyUSD")


def api_table() -> Panel:
    """Price lists, a column for each kind of token."""
    rates = {kind: series("token_rate_usd_per_mtok", *LISTED, f'token_kind="{kind}"') for kind in TOKEN_KINDS}
    asked = [ask_now(f"min by (provider, sku) ({rate})", kind) for kind, rate in rates.items()]
    kinds = [Column(field=value(number), title=kind.replace("_", " ")) for number, kind in enumerate(TOKEN_KINDS)]
    columns = [Column(field="provider", title="provider"), Column(field="sku", title="rate"), *kinds]
    about = "Per million tokens, standard conditions. None: the provider states no such price."
    return table("API price lists", about, asked, columns, "currencyUSD", sorted_by="input")


def api_rates() -> Panel:
    """List prices over time."""
    asked = ask(f"min by (token_kind) ({series('token_rate_usd_per_mtok', *LISTED)})", "{{token_kind}}")
    about = "Of the chosen providers and rates, per million tokens."
    return lines("Lowest API list price of each kind of token", about, [asked], "currencyUSD")


def volumes() -> Panel:
    """Break-even against what the workload uses."""
    tokens, month, mtok = (
        f"min by ({ANSWER}) ({series(name, *KEY)})" for name in ("break_even_tokens_per_month", "api_usd_per_month", "api_usd_per_mtok")
    )
    about = "Tokens a month. The workload's volume is its API bill over its API price."
    asked = [ask(tokens, "break-even"), ask(f"1e6 * {month} / {mtok}", "{{workload}}")]
    return lines("Break-even against the workload's volume", about, asked, "short")


def verdicts() -> Panel:
    """History of the verdict."""
    held = f"max by (status, verdict) ({series('break_even_info', *KEY)})"
    about = "A line for each verdict and status of the break-even in the time range, filled while it held."
    return spans("Verdict over time", about, ask(held, "{{verdict}} ({{status}})"))
