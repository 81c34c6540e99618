"""The views that Grafana and reports may rely on, as schema 0013 made them: moments in whole seconds. A migration that changes one
after it brings its own text: what is here stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterator

from alembic import op

NAMES = ("v_current_offers", "v_price_history", "v_cheapest", "v_breakeven", "v_monthly_cost")

# What differs between the databases: now in s, the day in UTC, s as a time, a time as s, a number that divides exactly (SQLite has floats
# only), the smaller and the larger of two, and the months since the first decision with their first and last s, the latter exclusive.
POSTGRESQL = {
    "create": "create or replace view",  # who was granted to read it still is
    "now": "cast(floor(extract(epoch from now())) as bigint)",
    "today": "cast(now() at time zone 'utc' as date)",
    "time": "to_timestamp({0})",
    "second": "cast(floor(extract(epoch from {0})) as bigint)",
    "number": "cast({0} as numeric)",
    "least": "least",
    "greatest": "greatest",
    "months": """
    select cast(m as date) as month, extract(epoch from m) as start_s, extract(epoch from m + interval '1 month') as end_s
    from generate_series(
        (select date_trunc('month', to_timestamp(min(at)) at time zone 'utc') from decision), now() at time zone 'utc', interval '1 month'
    ) m
""",
}
SQLITE = {
    "create": "create view",
    "now": "cast(strftime('%s', 'now') as integer)",
    "today": "date('now')",
    "time": "strftime('%Y-%m-%dT%H:%M:%fZ', {0}, 'unixepoch')",
    "second": "cast(strftime('%s', {0}) as integer)",
    "number": "cast({0} as real)",
    "least": "min",
    "greatest": "max",
    "months": """
    select day as month, cast(strftime('%s', day) as integer) as start_s, cast(strftime('%s', day, '+1 month') as integer) as end_s
    from (
        with recursive started(day) as (
            select date(min(at), 'unixepoch', 'start of month') from decision
            union all select date(day, '+1 month') from started where date(day, '+1 month') <= date('now')
        ) select day from started where day is not null
    )
""",
}

# The newest point p of an offer o.
LATEST = "join offer_point p on p.offer_id = o.id and p.at = (select max(at) from offer_point where offer_id = o.id and at <= {now})"

# Everything that is listed now, as the program ranks it: of dated prices the one in force; imported rows only where no live source
# lists the provider; what has no exchange rate is left out. 1e9 is the scale of stored rents and exchange rates.
CURRENT_OFFERS = """
{create} v_current_offers as
with fx_day as (
    select currency, max(day) as day from fx where day <= {today} group by currency
    union all
    select 'EUR', max(day) from fx where currency = 'USD' and day <= {today}
),
worth as (
    select d.currency, usd.rate as usd_rate, coalesce(native.rate, 1000000000) as native_rate
    from fx_day d
    left join fx native on native.currency = d.currency and native.day = d.day
    join fx usd on usd.currency = 'USD' and usd.day = (select max(day) from fx where currency = 'USD' and day <= d.day)
    where d.currency <> 'USD'
    union all
    select 'USD', 1, 1
),
covered as (
    select source, max(at) as at from sweep
    where complete and status in ('ok', 'unchanged') and at <= {now} group by source
),
listed as (
    select o.*, p.price, p.availability, p.max_gpu_count, coalesce(o.valid_from, p.at) as starts, o.source like 'book:%' as imported,
        coalesce(u.last_seen, case when c.at > p.at then c.at else p.at end) as seen
    from offer o
    {latest}
    left join covered c on c.source = o.source
    left join unseen u on u.kind = 'offer' and u.target = o.id and u.since <= {now} and (u.until is null or u.until > {now})
    where p.price is not null
),
in_force as (
    select * from (
        select l.*, row_number() over (
            partition by source, provider, sku, region, gpu, gpu_count, tier, term_months, trust order by starts desc
        ) as place
        from listed l where starts <= {now} and currency in (select currency from worth)
    ) placed where place = 1
)
select f.source, f.origin, f.imported, f.provider, f.sku, f.region, f.gpu, f.gpu_count, f.max_gpu_count, f.tier, f.term_months, f.trust,
    case f.availability when 0 then 'available' when 1 then 'listed' when 2 then 'unavailable' else 'unknown' end as availability,
    f.price_kind, f.interconnect, f.is_slice, f.currency, f.price as price_nano,
    {price} / 1000000000 as price_per_hour,
    {price} * w.usd_rate / w.native_rate / 1000000000 as usd_per_hour,
    {price} * w.usd_rate / w.native_rate / 1000000000 / f.gpu_count as usd_per_gpu_hour,
    {seen} as seen_at,
    not f.imported and ({now} - f.seen) * 1000 <= coalesce(s.max_age_ms, 0) as fresh,
    f.source_url
from in_force f
join worth w on w.currency = f.currency
left join source_lease s on s.source = f.source
where not f.imported or not exists (select 1 from in_force live where live.provider = f.provider and not live.imported)
"""

# Every price with the time it was listed at it: from inclusive, to exclusive and empty while it lasts.
PRICE_HISTORY = """
{create} v_price_history as
select source, origin, imported, provider, sku, region, gpu, gpu_count, tier, term_months, trust, currency, price as price_nano,
    {price} / 1000000000 as price_per_hour, {from_} as listed_from, {to} as listed_to
from (
    select o.*, o.source like 'book:%' as imported, p.price, p.at,
        lead(p.at) over (partition by p.offer_id order by p.at) as next_at
    from offer_point p join offer o on o.id = p.offer_id
) f
where price is not null
"""

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
        {rent} as rent_seen, rent.at as rent_covered, rl.max_age_ms / 1000 as rent_limit,
        {rate} as rate_seen, rate.at as rate_covered, al.max_age_ms / 1000 as rate_limit
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
{create} v_cheapest as with {held}
select model, workload, policy, {at} as decided_at, provider, sku, region, tier, gpu, gpu_count, machines, weight_format, currency,
    {native} / 1000000000 as native_per_hour, {offer} / 1000000000 as offer_usd_per_hour, {usd} / 1000000000 as usd_per_hour,
    {usd} * 730 / 1000000000 as usd_per_month, coalesce(rent_end > {now}, false) as fresh, {seen} as seen_at, source, source_url
from held where next_at is null and provider is not null
"""

BREAKEVEN = """
{create} v_breakeven as with {held}
select model, workload, policy, {at} as decided_from, {end} as decided_to, fresh, provider, gpu, gpu_count, weight_format,
    {usd} / 1000000000 as usd_per_hour, api_provider, api_sku, {mtok} / 1000000000000 as api_usd_per_mtok,
    {api} / 1000000000 as api_usd_per_month, {own} / 1000000000 as self_host_usd_per_month, replicas, break_even_status,
    break_even_tokens, {utilization} / 1000000000000 as break_even_utilization, verdict, reason
from held
"""

# Only hours in which both bills were known: both columns are of the same hours.
MONTHLY_COST = """
{create} v_monthly_cost as with {held},
month as ({months}),
part as (
    select h.model, h.workload, h.policy, m.month, h.api_usd_per_month, h.self_host_usd_per_month, h.usd_per_hour,
        m.end_s - m.start_s as month_s, {least}(coalesce(h.end_at, {now}), m.end_s) - {greatest}(h.at, m.start_s) as s
    from held h
    join month m on h.at < m.end_s and coalesce(h.end_at, {now}) > m.start_s
    where h.fresh and h.api_usd_per_month is not null and h.self_host_usd_per_month is not null
)
select model, workload, policy, month, {sum_s} / 3600 as hours, {month_s} / 3600 as month_hours,
    sum({own} * s) / 730 / 3600 / 1000000000 as self_host_usd, sum({api} * s) / 730 / 3600 / 1000000000 as api_usd,
    sum({usd} * s) / 3600 / 1000000000 as one_setup_usd
from part where s > 0 group by model, workload, policy, month
"""


def statements(dialect: str, latest: str = LATEST) -> Iterator[str]:
    """What makes each view of NAMES, in their order; on PostgreSQL also in place of one of the same columns."""
    words = POSTGRESQL if dialect == "postgresql" else SQLITE
    time, number = words["time"], words["number"]
    plain = {name: words[name] for name in ("create", "now", "today", "least", "greatest", "months")}
    price = number.format("f.price")
    yield CURRENT_OFFERS.format(**plain, price=price, seen=time.format("f.seen"), latest=latest.format(**plain))
    yield PRICE_HISTORY.format(**plain, price=price, from_=time.format("f.at"), to=time.format("f.next_at"))
    rent, rate = (words["second"].format(f"d.{name}") for name in ("seen_at", "api_seen_at"))
    held = HELD.format(**plain, rent=rent, rate=rate, never=2**62)
    money = {
        "usd": number.format("usd_per_hour"), "native": number.format("native_per_hour"), "offer": number.format("offer_usd_per_hour"),
        "api": number.format("api_usd_per_month"), "own": number.format("self_host_usd_per_month"),
        "mtok": number.format("api_usd_per_mtok"), "utilization": number.format("break_even_utilization"),
    }  # fmt: skip
    seen = time.format(f"{words['greatest']}(rent_seen, coalesce(rent_covered, 0))")
    times = {"at": time.format("at"), "end": time.format("end_at"), "seen": seen}
    sums = {"sum_s": number.format("sum(s)"), "month_s": number.format("max(month_s)")}
    for view in (CHEAPEST, BREAKEVEN, MONTHLY_COST):
        yield view.format(held=held, **plain, **money, **times, **sums)


def make_views(latest: str = LATEST) -> None:
    """Make every view, in place of those that are there on PostgreSQL; on SQLite they were dropped. ``latest``: in place of LATEST."""
    for statement in statements(op.get_bind().dialect.name, latest):
        op.execute(statement)


def drop_views() -> None:
    """Drop every view."""
    for name in reversed(NAMES):
        op.execute(f"drop view {name}")
