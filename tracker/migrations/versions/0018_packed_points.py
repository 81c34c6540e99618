"""the points of offers on SQLite with their three values in one number, from which the columns that were are generated

A row takes 16 bytes where it took 21. PostgreSQL keeps its columns. The room that the old table had is free and filled again;
``db vacuum`` gives it back.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import sqlalchemy as sa
from alembic import op

from tracker.migrations.views import drop_views, make_views

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None

# Out of ``packed``, as tracker.database.packed tells its bits. NULL is gone; text is JSON of the three, and is more than any number.
STEP = "case {0} >> 2 & 3 when 3 then 10000000 when 2 then 100000 when 1 then 1000 else 1 end"
PRICE = f"""case when packed >= '' then json_extract(packed, '$[0]')
    when packed >= 0 then (packed >> 4) * {STEP.format("packed")}
    when packed < 0 then (-packed >> 12) * {STEP.format("-packed")} end"""
AVAILABILITY = """case when packed >= '' then json_extract(packed, '$[1]')
    when packed >= 0 then packed & 3 when packed < 0 then -packed & 3 else 0 end"""
MAX_GPU_COUNT = """case when packed >= '' then json_extract(packed, '$[2]')
    when packed < 0 then -packed >> 4 & 255 end"""

# Into it, from the plain columns: first what each price is counted in.
STEPS = """select offer_id, at, price, availability, max_gpu_count, case
    when price % 10000000 = 0 then 10000000 when price % 100000 = 0 then 100000 when price % 1000 = 0 then 1000 else 1 end as step
    from offer_point_old order by offer_id, at"""
PACKED = """case
    when price is null and availability = 0 and max_gpu_count is null then null
    when price >= 0 and availability between 0 and 3 and max_gpu_count is null and price / step < 1 << 59
        then price / step * 16 + {code} * 4 + availability
    when price >= 0 and availability between 0 and 3 and max_gpu_count between 0 and 255 and price / step < 1 << 51
        then -(price / step * 4096 + max_gpu_count * 16 + {code} * 4 + availability)
    else json_array(price, availability, max_gpu_count) end""".format(
    code="case step when 1 then 0 when 1000 then 1 when 100000 then 2 else 3 end"
)


def upgrade() -> None:
    """Apply."""
    generated = [
        sa.Column("packed", sa.BigInteger(), nullable=True),
        sa.Column("price", sa.BigInteger(), sa.Computed(PRICE, persisted=False), nullable=True),
        sa.Column("availability", sa.SmallInteger(), sa.Computed(AVAILABILITY, persisted=False), nullable=False),
        sa.Column("max_gpu_count", sa.SmallInteger(), sa.Computed(MAX_GPU_COUNT, persisted=False), nullable=True),
    ]
    _remake(generated, f"insert into offer_point (offer_id, at, packed) select offer_id, at, {PACKED} from ({STEPS})")


def downgrade() -> None:
    """Undo."""
    plain = [
        sa.Column("price", sa.BigInteger(), nullable=True),
        sa.Column("availability", sa.SmallInteger(), nullable=False),
        sa.Column("max_gpu_count", sa.SmallInteger(), nullable=True),
    ]
    names = "offer_id, at, price, availability, max_gpu_count"
    _remake(plain, f"insert into offer_point ({names}) select {names} from offer_point_old order by offer_id, at")


def _remake(values: list[Any], filled: str) -> None:
    if op.get_bind().dialect.name != "sqlite":
        return
    drop_views()
    op.rename_table("offer_point", "offer_point_old")
    key = [sa.Column("offer_id", sa.Integer(), nullable=False), sa.Column("at", sa.BigInteger(), nullable=False)]
    of = [sa.ForeignKeyConstraint(["offer_id"], ["offer.id"]), sa.PrimaryKeyConstraint("offer_id", "at")]
    op.create_table("offer_point", *key, *values, *of, sqlite_with_rowid=False)
    op.execute(filled)
    op.drop_table("offer_point_old")
    make_views(import_module("tracker.migrations.versions.0017_offers_first").OFFERS_FIRST)
