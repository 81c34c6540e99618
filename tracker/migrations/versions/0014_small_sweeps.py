"""a sweep in half the bytes: when it ended and how long it took as milliseconds from its moment, its hash as bytes, one index by source

The digest of its rows is asked for no more.

On PostgreSQL columns of eight bytes come first, then those of four, so that none is padded.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlmodel.sql.sqltypes import AutoString, UTCDateTime

from tracker.migrations.views import drop_views, make_views

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

POSTGRESQL = {
    "ms": "cast(floor(extract(epoch from {0}) * 1000) as bigint)",
    "time": "to_timestamp(({0}) / 1000.0)",
    "bytes": "case when {0} ~ '^([0-9a-f]{{2}})*$' then decode({0}, 'hex') else '' end",
    "hex": "encode({0}, 'hex')",
    "took": "cast(greatest(0, least({0}, 2147483647)) as integer)",  # by a clock that was set meanwhile: years, or less than nothing
}
SQLITE = {
    "ms": "(cast(strftime('%s', {0}) as integer) * 1000 + cast(substr(strftime('%f', {0}), 4) as integer))",
    "time": "strftime('%Y-%m-%d %H:%M:%f', ({0}) / 1000.0, 'unixepoch') || '000'",
    "bytes": "from_hex({0})",
    "hex": "lower(hex({0}))",
    "took": "max(0, min({0}, 2147483647))",
}
SAME = ("id", "source", "at", "status", "complete", "rows", "changed", "skipped", "warned", "quarantined", "conflicts", "bytes", "error")


def upgrade() -> None:
    """Apply."""
    words = _words()
    columns: list[Any] = [
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("lag_ms", sa.BigInteger(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("took_ms", sa.Integer(), nullable=False),
        *_counts(),
        sa.Column("complete", sa.Boolean(), nullable=False),
        *_texts(),
        sa.Column("input_hash", sa.LargeBinary(), nullable=False),
        sa.Column("error", sa.Text(), nullable=False),
    ]
    ended, begun = words["ms"].format("finished_at"), words["ms"].format("started_at")
    told = {
        "lag_ms": f"{words['ms'].format('recorded_at')} - at * 1000",
        "took_ms": words["took"].format(f"{ended} - {begun}"),
        "input_hash": words["bytes"].format("input_hash"),
    }
    _remake(columns, told)


def downgrade() -> None:
    """Undo."""
    words = _words()
    columns: list[Any] = [
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        *(sa.Column(name, UTCDateTime(), nullable=False) for name in ("recorded_at", "started_at", "finished_at")),
        sa.Column("complete", sa.Boolean(), nullable=False),
        *_counts(),
        *_texts(),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("input_hash", AutoString(), nullable=False),
        sa.Column("rows_hash", AutoString(), server_default="", nullable=False),
        sa.Column("error", sa.Text(), nullable=False),
    ]
    ended = words["time"].format("at * 1000 + lag_ms")
    told = {
        "recorded_at": ended,
        "started_at": words["time"].format("at * 1000 + lag_ms - took_ms"),
        "finished_at": ended,
        "input_hash": words["hex"].format("input_hash"),
    }
    _remake(columns, told)
    op.create_index("ix_sweep_source", "sweep", ["source"])


def _words() -> dict[str, str]:
    return POSTGRESQL if op.get_bind().dialect.name == "postgresql" else SQLITE


def _counts() -> list[Any]:
    held = (sa.Column(name, sa.Integer(), server_default="0", nullable=False) for name in ("quarantined", "conflicts"))
    return [*(sa.Column(name, sa.Integer(), nullable=False) for name in ("rows", "changed")), *held]


def _texts() -> list[Any]:
    return [
        sa.Column("source", AutoString(), nullable=False),
        sa.Column("status", AutoString(), nullable=False),
        sa.Column("skipped", sa.Text(), nullable=False),
        sa.Column("warned", sa.Text(), server_default="{}", nullable=False),
    ]


def _from_hex(text: str) -> bytes:
    """For SQLite before 3.41; what is no hash is none."""
    try:
        return bytes.fromhex(text)
    except ValueError:
        return b""


def _remake(columns: list[Any], told: dict[str, str]) -> None:
    """The table anew, filled from the old one; views look at the new one."""
    is_sqlite = op.get_bind().dialect.name == "sqlite"
    if is_sqlite:
        op.get_bind().connection.driver_connection.create_function("from_hex", 1, _from_hex)  # type: ignore[union-attr]  # sqlite3's own
        drop_views()
        op.execute("drop index if exists ix_sweep_source")
    op.rename_table("sweep", "sweep_old")
    if not is_sqlite:
        op.execute("drop index if exists ix_sweep_source")
        for name in ("sweep_pkey", "sweep_source_at_key"):
            op.execute(f"alter table sweep_old rename constraint {name} to {name}_old")
        op.execute("alter sequence sweep_id_seq rename to sweep_id_seq_old")
    op.create_table("sweep", *columns, sa.PrimaryKeyConstraint("id"), sa.UniqueConstraint("source", "at"))
    told = {name: name for name in SAME} | told
    op.execute(f"insert into sweep ({', '.join(told)}) select {', '.join(told.values())} from sweep_old order by id")
    if not is_sqlite:
        op.execute("select setval('sweep_id_seq', max(id)) from sweep having max(id) is not null")
    make_views()
    op.drop_table("sweep_old")
