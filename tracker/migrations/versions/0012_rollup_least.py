"""the lowest price of each day over all providers"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlmodel.sql.sqltypes import AutoString

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


# Worth in USD at the rate of the day, as the program works it out: weekends use the day before, a currency that the ECB gave up
# more than ten days before has none. Nothing is shown while the days are worked out for another precedence.
POSTGRESQL = {"day": "date '1970-01-01' + l.day", "number": "cast({0} as numeric)", "gap": "native_day + 10"}
SQLITE = {"day": "date(l.day * 86400, 'unixepoch')", "number": "cast({0} as real)", "gap": "date(native_day, '+10 days')"}
GPU_DAYS = """
create view v_gpu_days as
with known as (
    select m.gpu, m.gpu_count, m.tier, {day} as day, l.currency, l.least, g.provider, g.source
    from rollup_least l join rollup_market m on m.id = l.market_id join rollup_group g on g.id = l.group_id
    where exists (select 1 from rollup_state where source = 'all providers' and basis <> '')
),
dated as (
    select k.*, case when currency = 'EUR' then usd_day else own_day end as native_day
    from (
        select k.*, (select max(day) from fx where fx.currency = k.currency and fx.day <= k.day) as own_day,
            (select max(day) from fx where fx.currency = 'USD' and fx.day <= k.day) as usd_day
        from known k
    ) k
),
worth as (
    select gpu, gpu_count, tier, day, currency, least, provider, source, {least} / 1000000000 as usd from known where currency = 'USD'
    union all
    select d.gpu, d.gpu_count, d.tier, d.day, d.currency, d.least, d.provider, d.source,
        {least} * usd.rate / coalesce(native.rate, 1000000000) / 1000000000
    from dated d
    left join fx native on native.currency = d.currency and native.day = d.native_day
    join fx usd on usd.currency = 'USD' and usd.day = (select max(day) from fx where currency = 'USD' and day <= d.native_day)
    where d.currency <> 'USD' and d.usd_day <= {gap}
)
select gpu, gpu_count, tier, day, provider, source, currency, least as price_nano, usd as usd_per_gpu_hour
from (
    select w.*, row_number() over (partition by gpu, gpu_count, tier, day order by usd, provider, source) as place from worth w
) ranked where place = 1
"""


def upgrade() -> None:
    """Apply. The next run of the rollups fills them."""
    op.create_table(
        "rollup_market",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("gpu", AutoString(), nullable=False),
        sa.Column("gpu_count", sa.Integer(), nullable=False),
        sa.Column("tier", AutoString(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("gpu", "gpu_count", "tier"),
    )
    op.create_table(
        "rollup_least",
        sa.Column("market_id", sa.Integer(), nullable=False),
        sa.Column("day", sa.Integer(), nullable=False),
        sa.Column("currency", AutoString(), nullable=False),
        sa.Column("least", sa.BigInteger(), nullable=False),
        sa.Column("group_id", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["group_id"], ["rollup_group.id"]),
        sa.ForeignKeyConstraint(["market_id"], ["rollup_market.id"]),
        sa.PrimaryKeyConstraint("market_id", "day", "currency"),
        sqlite_with_rowid=False,
    )
    words = POSTGRESQL if op.get_bind().dialect.name == "postgresql" else SQLITE
    op.execute(GPU_DAYS.format(day=words["day"], gap=words["gap"], least=words["number"].format("least")))


def downgrade() -> None:
    """Undo."""
    op.execute("drop view v_gpu_days")
    op.drop_table("rollup_least")
    op.drop_table("rollup_market")
    op.execute("delete from rollup_state where source = 'all providers'")
