"""points by month on PostgreSQL, with the columns of eight bytes first so that none is padded; on SQLite one table stays

The months of the points that are there are made, this one, and the next two.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from alembic import op

from tracker.migrations.views import LATEST, make_views

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None

POINTS = {"offer_point": ("offer", "offer_id"), "rate_point": ("rate", "rate_id")}
BY_MONTH = "cross join lateral (select * from offer_point where offer_id = o.id and at <= {now} order by at desc limit 1) p"
PRICES = ("input", "cache_read", "cache_write_5m", "cache_write_1h", "output", "valid_to")


def upgrade() -> None:
    """Apply."""
    if op.get_bind().dialect.name == "postgresql":
        for table in POINTS:
            _remake(table, by_month=True)
        _finish(BY_MONTH)


def downgrade() -> None:
    """Undo; the order of columns stays."""
    if op.get_bind().dialect.name == "postgresql":
        for table in POINTS:
            _remake(table, by_month=False)
        _finish(LATEST)


def _finish(latest: str) -> None:
    """Who may read the views still may: they are replaced."""
    make_views(latest)
    for table in POINTS:
        op.drop_table(f"{table}_old")


def _remake(table: str, *, by_month: bool) -> None:
    kind, link = POINTS[table]
    moments = [at for (at,) in op.get_bind().execute(sa.text(f"select distinct at / 86400 * 86400 from {table}"))] if by_month else []
    op.rename_table(table, f"{table}_old")
    for name in (f"{table}_pkey", f"{table}_{link}_fkey"):
        op.execute(f"alter table {table}_old rename constraint {name} to {name}_old")
    columns = _offer_columns() if kind == "offer" else _rate_columns()
    keys = [
        sa.ForeignKeyConstraint([link], [f"{kind}.id"], name=f"{table}_{link}_fkey"),
        sa.PrimaryKeyConstraint(link, "at", name=f"{table}_pkey"),
    ]
    op.create_table(table, *columns, *keys, postgresql_partition_by="RANGE (at)" if by_month else None)
    for year, month in sorted({(day.year, day.month) for day in (datetime.fromtimestamp(at, UTC) for at in moments)} | _ahead(by_month)):
        start, end = (int(datetime(*first, 1, tzinfo=UTC).timestamp()) for first in ((year, month), _following(year, month)))
        op.execute(f"create table {table}_{year:04}_{month:02} partition of {table} for values from ({start}) to ({end})")
    names = ", ".join(column.name for column in columns)
    op.execute(f"insert into {table} ({names}) select {names} from {table}_old order by {link}, at")


def _ahead(by_month: bool) -> set[tuple[int, int]]:
    now = datetime.now(UTC)
    first = (now.year, now.month)
    return {first, _following(*first), _following(*_following(*first))} if by_month else set()


def _following(year: int, month: int) -> tuple[int, int]:
    return (year + month // 12, month % 12 + 1)


def _offer_columns() -> list[Any]:
    return [
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("price", sa.BigInteger(), nullable=True),
        sa.Column("offer_id", sa.Integer(), nullable=False),
        sa.Column("availability", sa.SmallInteger(), nullable=False),
        sa.Column("max_gpu_count", sa.SmallInteger(), nullable=True),
    ]


def _rate_columns() -> list[Any]:
    return [
        sa.Column("at", sa.BigInteger(), nullable=False),
        *(sa.Column(name, sa.BigInteger(), nullable=True) for name in PRICES),
        sa.Column("rate_id", sa.Integer(), nullable=False),
        sa.Column("gone", sa.Boolean(), nullable=False),
    ]
