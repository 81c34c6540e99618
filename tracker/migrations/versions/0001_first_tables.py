"""first tables"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlmodel.sql.sqltypes import AutoString, UTCDateTime

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    op.create_table(
        "alert",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("key", AutoString(), nullable=False),
        sa.Column("kind", AutoString(), nullable=False),
        sa.Column("subject", AutoString(), nullable=False),
        sa.Column("fired_at", UTCDateTime(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("delivery", AutoString(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("delivered_at", UTCDateTime(), nullable=True),
        sa.Column("last_error", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("key"),
    )
    with op.batch_alter_table("alert", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_alert_subject"), ["subject"], unique=False)

    op.create_table(
        "baseline",
        sa.Column("subject", AutoString(), nullable=False),
        sa.Column("price", sa.BigInteger(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("set_at", UTCDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("subject"),
    )
    op.create_table(
        "fx",
        sa.Column("currency", AutoString(), nullable=False),
        sa.Column("day", sa.Date(), nullable=False),
        sa.Column("rate", sa.BigInteger(), nullable=False),
        sa.Column("origin", AutoString(), nullable=False),
        sa.PrimaryKeyConstraint("currency", "day"),
    )
    op.create_table(
        "offer",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("key", AutoString(), nullable=False),
        sa.Column("source", AutoString(), nullable=False),
        sa.Column("origin", AutoString(), nullable=False),
        sa.Column("provider", AutoString(), nullable=False),
        sa.Column("sku", AutoString(), nullable=False),
        sa.Column("region", AutoString(), nullable=False),
        sa.Column("gpu", AutoString(), nullable=False),
        sa.Column("gpu_count", sa.Integer(), nullable=False),
        sa.Column("tier", AutoString(), nullable=False),
        sa.Column("term_months", sa.Integer(), nullable=False),
        sa.Column("trust", AutoString(), nullable=False),
        sa.Column("currency", AutoString(), nullable=False),
        sa.Column("valid_from", sa.BigInteger(), nullable=True),
        sa.Column("is_slice", sa.Boolean(), nullable=False),
        sa.Column("price_kind", AutoString(), nullable=False),
        sa.Column("interconnect", AutoString(), nullable=False),
        sa.Column("source_url", AutoString(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("key"),
    )
    with op.batch_alter_table("offer", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_offer_gpu"), ["gpu"], unique=False)
        batch_op.create_index(batch_op.f("ix_offer_source"), ["source"], unique=False)

    op.create_table(
        "page",
        sa.Column("source", AutoString(), nullable=False),
        sa.Column("url", AutoString(), nullable=False),
        sa.Column("etag", AutoString(), nullable=False),
        sa.Column("last_modified", AutoString(), nullable=False),
        sa.Column("headers", sa.Text(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("fetched_at", UTCDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("source", "url"),
    )
    op.create_table(
        "quarantine",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("kind", AutoString(), nullable=False),
        sa.Column("source", AutoString(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("old", sa.Text(), nullable=False),
        sa.Column("new", sa.Text(), nullable=False),
        sa.Column("row", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("release", AutoString(), nullable=False),
        sa.Column("first_seen", UTCDateTime(), nullable=False),
        sa.Column("last_seen", UTCDateTime(), nullable=False),
        sa.Column("last_at", sa.BigInteger(), nullable=False),
        sa.Column("sweeps", sa.Integer(), nullable=False),
        sa.Column("state", AutoString(), nullable=False),
        sa.Column("decided_at", UTCDateTime(), nullable=True),
        sa.Column("decided_by", AutoString(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    with op.batch_alter_table("quarantine", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_quarantine_key"), ["key"], unique=False)
        batch_op.create_index("ix_quarantine_source_state", ["source", "state"], unique=False)

    op.create_table(
        "rate",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("key", AutoString(), nullable=False),
        sa.Column("source", AutoString(), nullable=False),
        sa.Column("origin", AutoString(), nullable=False),
        sa.Column("provider", AutoString(), nullable=False),
        sa.Column("source_model", AutoString(), nullable=False),
        sa.Column("model", AutoString(), nullable=False),
        sa.Column("sku", AutoString(), nullable=False),
        sa.Column("region", AutoString(), nullable=False),
        sa.Column("currency", AutoString(), nullable=False),
        sa.Column("min_prompt_tokens", sa.Integer(), nullable=False),
        sa.Column("tier_inclusive", sa.Boolean(), nullable=False),
        sa.Column("hours_utc", AutoString(), nullable=False),
        sa.Column("weekdays", AutoString(), nullable=False),
        sa.Column("valid_from", sa.BigInteger(), nullable=True),
        sa.Column("source_url", AutoString(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("key"),
    )
    with op.batch_alter_table("rate", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_rate_model"), ["model"], unique=False)
        batch_op.create_index(batch_op.f("ix_rate_source"), ["source"], unique=False)

    op.create_table(
        "sweep",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("source", AutoString(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("recorded_at", UTCDateTime(), nullable=False),
        sa.Column("started_at", UTCDateTime(), nullable=False),
        sa.Column("finished_at", UTCDateTime(), nullable=False),
        sa.Column("status", AutoString(), nullable=False),
        sa.Column("complete", sa.Boolean(), nullable=False),
        sa.Column("rows", sa.Integer(), nullable=False),
        sa.Column("changed", sa.Integer(), nullable=False),
        sa.Column("skipped", sa.Text(), nullable=False),
        sa.Column("warned", sa.Text(), server_default="{}", nullable=False),
        sa.Column("quarantined", sa.Integer(), server_default="0", nullable=False),
        sa.Column("conflicts", sa.Integer(), server_default="0", nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("input_hash", AutoString(), nullable=False),
        sa.Column("error", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("source", "at"),
    )
    with op.batch_alter_table("sweep", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_sweep_source"), ["source"], unique=False)

    op.create_table(
        "unmapped",
        sa.Column("source", AutoString(), nullable=False),
        sa.Column("kind", AutoString(), nullable=False),
        sa.Column("name", AutoString(), nullable=False),
        sa.Column("first_seen", UTCDateTime(), nullable=False),
        sa.Column("last_seen", UTCDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("source", "kind", "name"),
    )
    op.create_table(
        "unseen",
        sa.Column("kind", AutoString(), nullable=False),
        sa.Column("target", sa.Integer(), nullable=False),
        sa.Column("since", sa.BigInteger(), nullable=False),
        sa.Column("until", sa.BigInteger(), nullable=True),
        sa.Column("last_seen", sa.BigInteger(), nullable=False),
        sa.Column("why", AutoString(), nullable=False),
        sa.PrimaryKeyConstraint("kind", "target", "since"),
    )
    op.create_table(
        "offer_point",
        sa.Column("offer_id", sa.Integer(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("price", sa.BigInteger(), nullable=True),
        sa.Column("availability", sa.SmallInteger(), nullable=False),
        sa.Column("max_gpu_count", sa.SmallInteger(), nullable=True),
        sa.ForeignKeyConstraint(
            ["offer_id"],
            ["offer.id"],
        ),
        sa.PrimaryKeyConstraint("offer_id", "at"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "rate_point",
        sa.Column("rate_id", sa.Integer(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("gone", sa.Boolean(), nullable=False),
        sa.Column("input", sa.BigInteger(), nullable=True),
        sa.Column("cache_read", sa.BigInteger(), nullable=True),
        sa.Column("cache_write_5m", sa.BigInteger(), nullable=True),
        sa.Column("cache_write_1h", sa.BigInteger(), nullable=True),
        sa.Column("output", sa.BigInteger(), nullable=True),
        sa.Column("valid_to", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(
            ["rate_id"],
            ["rate.id"],
        ),
        sa.PrimaryKeyConstraint("rate_id", "at"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "statistic",
        sa.Column("offer_id", sa.Integer(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("least", sa.BigInteger(), nullable=False),
        sa.Column("p10", sa.BigInteger(), nullable=False),
        sa.Column("median", sa.BigInteger(), nullable=False),
        sa.Column("asks", sa.Integer(), nullable=False),
        sa.Column("hosts", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["offer_id"],
            ["offer.id"],
        ),
        sa.PrimaryKeyConstraint("offer_id", "at"),
        sqlite_with_rowid=False,
    )


def downgrade() -> None:
    """Undo."""
    op.drop_table("statistic")
    op.drop_table("rate_point")
    op.drop_table("offer_point")
    op.drop_table("unseen")
    op.drop_table("unmapped")
    with op.batch_alter_table("sweep", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_sweep_source"))

    op.drop_table("sweep")
    with op.batch_alter_table("rate", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_rate_source"))
        batch_op.drop_index(batch_op.f("ix_rate_model"))

    op.drop_table("rate")
    with op.batch_alter_table("quarantine", schema=None) as batch_op:
        batch_op.drop_index("ix_quarantine_source_state")
        batch_op.drop_index(batch_op.f("ix_quarantine_key"))

    op.drop_table("quarantine")
    op.drop_table("page")
    with op.batch_alter_table("offer", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_offer_source"))
        batch_op.drop_index(batch_op.f("ix_offer_gpu"))

    op.drop_table("offer")
    op.drop_table("fx")
    op.drop_table("baseline")
    with op.batch_alter_table("alert", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_alert_subject"))

    op.drop_table("alert")
