"""many machines: leases of sources, claims on alerts, and the views that Grafana and reports may rely on"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlmodel.sql.sqltypes import AutoString, UTCDateTime

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

# What differs between the databases: now in ms, the day in UTC, ms as a time, a number that divides exactly (SQLite has floats only).
POSTGRESQL = {
    "now_ms": "cast(extract(epoch from now()) * 1000 as bigint)",
    "today": "cast(now() at time zone 'utc' as date)",
    "time": "to_timestamp({0} / 1000.0)",
    "number": "cast({0} as numeric)",
}
SQLITE = {
    "now_ms": "cast((julianday('now') - 2440587.5) * 86400000 as integer)",
    "today": "date('now')",
    "time": "strftime('%Y-%m-%dT%H:%M:%fZ', {0} / 1000.0, 'unixepoch')",
    "number": "cast({0} as real)",
}

# Everything that is listed now, as the program ranks it: of dated prices the one in force; imported rows only where no live source
# lists the provider; what has no exchange rate is left out. 1e9 is the scale of stored rents and exchange rates.
CURRENT_OFFERS = """
create view v_current_offers as
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
    where complete and status in ('ok', 'unchanged') and at <= {now_ms} group by source
),
listed as (
    select o.*, p.price, p.availability, p.max_gpu_count, coalesce(o.valid_from, p.at) as starts, o.source like 'book:%' as imported,
        coalesce(u.last_seen, case when c.at > p.at then c.at else p.at end) as seen_ms
    from offer o
    join offer_point p on p.offer_id = o.id and p.at = (select max(at) from offer_point where offer_id = o.id and at <= {now_ms})
    left join covered c on c.source = o.source
    left join unseen u on u.kind = 'offer' and u.target = o.id and u.since <= {now_ms} and (u.until is null or u.until > {now_ms})
    where p.price is not null
),
in_force as (
    select * from (
        select l.*, row_number() over (
            partition by source, provider, sku, region, gpu, gpu_count, tier, term_months, trust order by starts desc
        ) as place
        from listed l where starts <= {now_ms} and currency in (select currency from worth)
    ) placed where place = 1
)
select f.source, f.origin, f.imported, f.provider, f.sku, f.region, f.gpu, f.gpu_count, f.max_gpu_count, f.tier, f.term_months, f.trust,
    case f.availability when 0 then 'available' when 1 then 'listed' when 2 then 'unavailable' else 'unknown' end as availability,
    f.price_kind, f.interconnect, f.is_slice, f.currency, f.price as price_nano,
    {price} / 1000000000 as price_per_hour,
    {price} * w.usd_rate / w.native_rate / 1000000000 as usd_per_hour,
    {price} * w.usd_rate / w.native_rate / 1000000000 / f.gpu_count as usd_per_gpu_hour,
    {seen} as seen_at,
    not f.imported and {now_ms} - f.seen_ms <= coalesce(s.max_age_ms, 0) as fresh,
    f.source_url
from in_force f
join worth w on w.currency = f.currency
left join source_lease s on s.source = f.source
where not f.imported or not exists (select 1 from in_force live where live.provider = f.provider and not live.imported)
"""

# Every price with the time it was listed at it: from inclusive, to exclusive and empty while it lasts.
PRICE_HISTORY = """
create view v_price_history as
select source, origin, imported, provider, sku, region, gpu, gpu_count, tier, term_months, trust, currency, price as price_nano,
    {price} / 1000000000 as price_per_hour, {from_} as listed_from, {to} as listed_to
from (
    select o.*, o.source like 'book:%' as imported, p.price, p.at,
        lead(p.at) over (partition by p.offer_id order by p.at) as next_at
    from offer_point p join offer o on o.id = p.offer_id
) f
where price is not null
"""


def upgrade() -> None:
    """Apply."""
    op.create_table(
        "source_lease",
        sa.Column("source", AutoString(), nullable=False),
        sa.Column("owner", AutoString(), nullable=False),
        sa.Column("fence", sa.BigInteger(), nullable=False),
        sa.Column("claimed_at", UTCDateTime(), nullable=True),
        sa.Column("lease_until", UTCDateTime(), nullable=True),
        sa.Column("next_due", UTCDateTime(), nullable=False),
        sa.Column("max_age_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("source"),
    )
    with op.batch_alter_table("alert", schema=None) as batch_op:
        batch_op.add_column(sa.Column("claimed_until", UTCDateTime(), nullable=True))
    _create_views(POSTGRESQL if op.get_bind().dialect.name == "postgresql" else SQLITE)


def _create_views(words: dict[str, str]) -> None:
    now = {"now_ms": words["now_ms"], "today": words["today"], "price": words["number"].format("f.price")}
    op.execute(CURRENT_OFFERS.format(seen=words["time"].format("f.seen_ms"), **now))
    op.execute(PRICE_HISTORY.format(from_=words["time"].format("f.at"), to=words["time"].format("f.next_at"), **now))


def downgrade() -> None:
    """Undo."""
    op.execute("drop view v_price_history")
    op.execute("drop view v_current_offers")
    with op.batch_alter_table("alert", schema=None) as batch_op:
        batch_op.drop_column("claimed_until")

    op.drop_table("source_lease")
