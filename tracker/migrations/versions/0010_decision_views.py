"""views of the decisions: the cheapest setup now, the break-even over time, and what each month would have cost"""

from __future__ import annotations

from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

# What differs between the databases: now in ms, ms as a time, a time as ms, a number that divides exactly (SQLite has floats only), the
# smaller and the larger of two, and the months since the first decision with their first and last ms, the latter exclusive.
POSTGRESQL = {
    "now": "cast(extract(epoch from now()) * 1000 as bigint)",
    "time": "to_timestamp({0} / 1000.0)",
    "ms": "cast(round(extract(epoch from {0}) * 1000) as bigint)",
    "number": "cast({0} as numeric)",
    "least": "least",
    "greatest": "greatest",
    "months": """
    select cast(m as date) as month, extract(epoch from m) * 1000 as start_ms, extract(epoch from m + interval '1 month') * 1000 as end_ms
    from generate_series(
        (select date_trunc('month', to_timestamp(min(at) / 1000.0) at time zone 'utc') from decision), now() at time zone 'utc',
        interval '1 month'
    ) m
""",
}
SQLITE = {
    "now": "cast((julianday('now') - 2440587.5) * 86400000 as integer)",
    "time": "strftime('%Y-%m-%dT%H:%M:%fZ', {0} / 1000.0, 'unixepoch')",
    "ms": "cast(round((julianday({0}) - 2440587.5) * 86400000) as integer)",
    "number": "cast({0} as real)",
    "least": "min",
    "greatest": "max",
    "months": """
    select day as month, strftime('%s', day) * 1000 as start_ms, strftime('%s', day, '+1 month') * 1000 as end_ms
    from (
        with recursive started(day) as (
            select date(min(at) / 1000, 'unixepoch', 'start of month') from decision
            union all select date(day, '+1 month') from started where date(day, '+1 month') <= date('now')
        ) select day from started where day is not null
    )
""",
}

# Every decision with the time it held. The last one of a model ends when a price it stands on passed its age limit, also while the
# program does not run; the limit is that of the configuration in which the source was collected last.
HELD = """
covered as (
    select source, max(at) as at from sweep where complete and status in ('ok', 'unchanged') and at <= {now} group by source
),
decided as (
    select d.*, lead(d.at) over (partition by d.model, d.workload, d.policy order by d.at) as next_at from decision d
),
reach as (
    select d.*,
        {rent_ms} as rent_seen, rent.at as rent_covered, rl.max_age_ms as rent_limit,
        {rate_ms} as rate_seen, rate.at as rate_covered, al.max_age_ms as rate_limit
    from decided d
    left join covered rent on rent.source = d.source
    left join source_lease rl on rl.source = d.source
    left join covered rate on rate.source = d.api_source
    left join source_lease al on al.source = d.api_source
),
ends as (
    select r.*,
        case when next_at is null then {greatest}(rent_seen, coalesce(rent_covered, 0)) + rent_limit + 1 end as rent_end,
        case when next_at is null then {greatest}(rate_seen, coalesce(rate_covered, 0)) + rate_limit + 1 end as rate_end
    from reach r
),
held as (
    select e.*, case
        when next_at is not null then next_at
        when {least}(coalesce(rent_end, {never}), coalesce(rate_end, {never})) <= {now}
            then {least}(coalesce(rent_end, {never}), coalesce(rate_end, {never}))
    end as end_at
    from ends e
)
"""

CHEAPEST = """
create view v_cheapest as with {held}
select model, workload, policy, {at} as decided_at, provider, sku, region, tier, gpu, gpu_count, machines, weight_format, currency,
    {native} / 1000000000 as native_per_hour, {offer} / 1000000000 as offer_usd_per_hour, {usd} / 1000000000 as usd_per_hour,
    {usd} * 730 / 1000000000 as usd_per_month, coalesce(rent_end > {now}, false) as fresh, {seen} as seen_at, source, source_url
from held where next_at is null and provider is not null
"""

BREAKEVEN = """
create view v_breakeven as with {held}
select model, workload, policy, {at} as decided_from, {end} as decided_to, fresh, provider, gpu, gpu_count, weight_format,
    {usd} / 1000000000 as usd_per_hour, api_provider, api_sku, {mtok} / 1000000000000 as api_usd_per_mtok,
    {api} / 1000000000 as api_usd_per_month, {own} / 1000000000 as self_host_usd_per_month, replicas, break_even_status,
    break_even_tokens, {utilization} / 1000000000000 as break_even_utilization, verdict, reason
from held
"""

# Only hours in which both bills were known: both columns are of the same hours.
MONTHLY_COST = """
create view v_monthly_cost as with {held},
month as ({months}),
part as (
    select h.model, h.workload, h.policy, m.month, h.api_usd_per_month, h.self_host_usd_per_month, h.usd_per_hour,
        m.end_ms - m.start_ms as month_ms, {least}(coalesce(h.end_at, {now}), m.end_ms) - {greatest}(h.at, m.start_ms) as ms
    from held h
    join month m on h.at < m.end_ms and coalesce(h.end_at, {now}) > m.start_ms
    where h.fresh and h.api_usd_per_month is not null and h.self_host_usd_per_month is not null
)
select model, workload, policy, month, {sum_ms} / 3600000 as hours, {month_ms} / 3600000 as month_hours,
    sum({own} * ms) / 730 / 3600000 / 1000000000 as self_host_usd, sum({api} * ms) / 730 / 3600000 / 1000000000 as api_usd,
    sum({usd} * ms) / 3600000 / 1000000000 as one_setup_usd
from part where ms > 0 group by model, workload, policy, month
"""


def upgrade() -> None:
    """Apply."""
    words = POSTGRESQL if op.get_bind().dialect.name == "postgresql" else SQLITE
    time, number, now = words["time"], words["number"], words["now"]
    both = {"now": now, "least": words["least"], "greatest": words["greatest"]}
    held = HELD.format(rent_ms=words["ms"].format("d.seen_at"), rate_ms=words["ms"].format("d.api_seen_at"), never=2**62, **both)
    money = {
        "usd": number.format("usd_per_hour"), "native": number.format("native_per_hour"), "offer": number.format("offer_usd_per_hour"),
        "api": number.format("api_usd_per_month"), "own": number.format("self_host_usd_per_month"),
        "mtok": number.format("api_usd_per_mtok"), "utilization": number.format("break_even_utilization"),
    }  # fmt: skip
    seen = time.format("{greatest}({ms}, coalesce(rent_covered, 0))".format(greatest=words["greatest"], ms="rent_seen"))
    times = {"at": time.format("at"), "end": time.format("end_at"), "seen": seen, "months": words["months"]}
    sums = {"sum_ms": number.format("sum(ms)"), "month_ms": number.format("max(month_ms)")}
    for view in (CHEAPEST, BREAKEVEN, MONTHLY_COST):
        op.execute(view.format(held=held, **both, **money, **times, **sums))


def downgrade() -> None:
    """Undo."""
    for view in ("v_monthly_cost", "v_breakeven", "v_cheapest"):
        op.execute(f"drop view {view}")
