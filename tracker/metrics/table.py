"""The metrics by name: what each says and which labels it has. Repeated in the README's table and held equal to it by a test.

Names and labels are an interface: see "Metrics" in the README for the rule by which they change.
"""

from __future__ import annotations

PREFIX = "breakeven_"
ANSWER = ("model", "workload", "policy")
RENTAL = ("provider", "gpu", "tier")
SOURCE = ("source",)
BUDGET = ("budget",)

Table = dict[str, tuple[str, tuple[str, ...]]]

GAUGES: Table = {
    "best_setup_usd_per_hour": ("Rent of the cheapest buyable setup that holds the model, USD per hour.", ANSWER),
    "best_setup_info": (
        "What the cheapest buyable setup is; always 1.",
        (*ANSWER, "provider", "gpu", "gpu_count", "weight_format", "tier"),
    ),
    "best_setup_tight": ("1 where the model only just fits that setup, else 0.", ANSWER),
    "setup_usd_per_hour": ("Rent of the cheapest buyable setup on each GPU, USD per hour.", (*ANSWER, "gpu", "weight_format")),
    "baseline_usd_per_hour": ("Rent of what runs today, as stated in [baseline] of tracker.toml, USD per hour.", ANSWER),
    "best_setup_saving_ratio": ("Share of the baseline's rent the cheapest setup would save; below 0 where it costs more.", ANSWER),
    "self_host_usd_per_mtok": ("Cost of the cheapest setup at the workload's utilization, USD per million tokens.", ANSWER),
    "self_host_usd_per_month": ("The workload's month on as many of the cheapest setup as serve it, USD.", ANSWER),
    "api_usd_per_mtok": ("Cheapest eligible API price of the workload's mix, USD per million tokens.", ANSWER),
    "api_info": ("Whose price list that is; always 1.", (*ANSWER, "provider", "sku")),
    "api_usd_per_month": ("The workload's month at that price, USD.", ANSWER),
    "break_even_tokens_per_month": ("Volume at which the best setup costs what the API does, tokens per month.", ANSWER),
    "break_even_utilization_ratio": ("That volume over what the setup serves at full use; above 1 it cannot.", ANSWER),
    "break_even_feasible": (
        "1 where renting comes to cost less than the API at the workload's utilization, 0 where it never does.",
        ANSWER,
    ),
    "break_even_info": ("Status of the break-even and the verdict at the workload's volume; always 1.", (*ANSWER, "status", "verdict")),
    "token_rate_usd_per_mtok": ("API list price, USD per million tokens.", ("provider", "model", "token_kind", "sku")),
    "budget_usd": ("Budget of a calendar month, as stated in tracker.toml, USD.", BUDGET),
    "month_to_date_usd": (
        "What a budget's month has cost so far, over the hours whose prices were known, USD; absent where none was.",
        BUDGET,
    ),
    "month_to_date_unknown_seconds": ("Time of the month so far for which no price was known: it is not in the cost.", BUDGET),
    "month_projected_usd": ("What the month comes to at the prices of now, USD; absent where one is not known.", BUDGET),
    "rental_usd_per_gpu_hour": ("Lowest rental price per GPU, USD per hour.", RENTAL),
    "rental_median_usd_per_gpu_hour": ("Median rental price per GPU over the provider's offers, USD per hour.", RENTAL),
    "rental_offers": ("Offers those prices are of.", RENTAL),
    "fx_units_per_usd": ("ECB reference rate, units of the currency per USD.", ("currency",)),
    "source_enabled": ("1 where the source is collected, 0 where it is switched off or has no key.", SOURCE),
    "source_last_success_timestamp_seconds": ("When the source was last read in full, seconds since 1970.", SOURCE),
    "source_last_attempt_timestamp_seconds": ("When the source was last tried, seconds since 1970.", SOURCE),
    "source_interval_seconds": ("Time between two sweeps of the source, seconds.", SOURCE),
    "source_max_age_seconds": ("Age at which prices of the source leave the ranking, seconds.", SOURCE),
    "source_rows": ("Prices accepted in the last sweep.", SOURCE),
    "source_rejected_rows": ("Rows of the last sweep that could not be used.", SOURCE),
    "source_rejected_rows_by_reason": ("The same by reason; the rarest of more than ten together as other.", (*SOURCE, "reason")),
    "source_quarantined_prices": ("Prices of the source that wait to be confirmed or decided by hand.", SOURCE),
    "source_conflicting_prices": ("Prices the source's last sweep printed twice with different values.", SOURCE),
    "source_sweep_duration_seconds": ("Length of the last sweep, seconds.", SOURCE),
    "disagreement_ratio": (
        "Widest spread between fresh sources about one thing of a provider: (highest - lowest) / lowest.",
        ("provider", "what"),
    ),
    "book_timestamp_seconds": ("When any source of prices was last read in full, seconds since 1970.", ()),
    "snapshot_timestamp_seconds": ("When the answers were last worked out, seconds since 1970.", ()),
    "jobs": ("Jobs of the scheduler: one a source that is on, and its own.", ()),
    "outbox_waiting_deliveries": ("Messages that are still to be delivered, one for each alert and route.", ()),
    "outbox_failed_deliveries": ("Messages nobody took, given up after the last attempt.", ()),
    "outbox_oldest_timestamp_seconds": ("Since when the oldest message waits, seconds since 1970; absent where none does.", ()),
    "alerts_active": ("Alerts that are true, news and not acknowledged, by kind.", ("kind",)),
    "database_size_bytes": ("Size of the database, what is free in it included.", ()),
    "trouble": ("1 for what keeps the program from keeping sweeps now, 0 for all else.", ("kind",)),
    "build_info": ("The running program; always 1.", ("version",)),
}
COUNTERS: Table = {
    "source_sweeps": ("Sweeps tried since the database was made.", SOURCE),
    "source_failures": ("Sweeps that failed since the database was made.", SOURCE),
    "jobs_missed": ("Runs of jobs that were left out since the program started.", ()),
}
# Names and meanings every client library of Prometheus gives them; without our prefix.
PROCESS_GAUGES: Table = {
    "process_resident_memory_bytes": ("Resident memory size in bytes.", ()),
    "process_start_time_seconds": ("Start time of the process since unix epoch in seconds.", ()),
    "process_open_fds": ("Number of open file descriptors.", ()),
    "process_max_fds": ("Maximum number of open file descriptors.", ()),
}
PROCESS_COUNTERS: Table = {"process_cpu_seconds": ("Total user and system CPU time spent in seconds.", ())}
