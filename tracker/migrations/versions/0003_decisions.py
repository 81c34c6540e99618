"""the history of the decision"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlmodel.sql.sqltypes import AutoString, UTCDateTime

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    op.create_table(
        "decision",
        sa.Column("model", AutoString(), nullable=False),
        sa.Column("workload", AutoString(), nullable=False),
        sa.Column("policy", AutoString(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("sweep", sa.Integer(), nullable=False),
        sa.Column("fresh", sa.Boolean(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("source", AutoString(), nullable=True),
        sa.Column("provider", AutoString(), nullable=True),
        sa.Column("sku", AutoString(), nullable=True),
        sa.Column("region", AutoString(), nullable=True),
        sa.Column("tier", AutoString(), nullable=True),
        sa.Column("currency", AutoString(), nullable=True),
        sa.Column("native_per_hour", sa.BigInteger(), nullable=True),
        sa.Column("offer_usd_per_hour", sa.BigInteger(), nullable=True),
        sa.Column("gpu", AutoString(), nullable=True),
        sa.Column("gpu_count", sa.Integer(), nullable=True),
        sa.Column("machines", sa.Integer(), nullable=True),
        sa.Column("weight_format", AutoString(), nullable=True),
        sa.Column("usd_per_hour", sa.BigInteger(), nullable=True),
        sa.Column("seen_at", UTCDateTime(), nullable=True),
        sa.Column("source_url", AutoString(), nullable=True),
        sa.Column("api_source", AutoString(), nullable=True),
        sa.Column("api_provider", AutoString(), nullable=True),
        sa.Column("api_sku", AutoString(), nullable=True),
        sa.Column("api_region", AutoString(), nullable=True),
        sa.Column("api_currency", AutoString(), nullable=True),
        sa.Column("api_prices", sa.Text(), nullable=True),
        sa.Column("api_usd_per_mtok", sa.BigInteger(), nullable=True),
        sa.Column("api_usd_per_month", sa.BigInteger(), nullable=True),
        sa.Column("api_seen_at", UTCDateTime(), nullable=True),
        sa.Column("api_source_url", AutoString(), nullable=True),
        sa.Column("break_even_status", AutoString(), nullable=True),
        sa.Column("break_even_tokens", sa.BigInteger(), nullable=True),
        sa.Column("break_even_utilization", sa.BigInteger(), nullable=True),
        sa.Column("replicas", sa.BigInteger(), nullable=True),
        sa.Column("self_host_usd_per_month", sa.BigInteger(), nullable=True),
        sa.Column("verdict", AutoString(), nullable=True),
        sa.PrimaryKeyConstraint("model", "workload", "policy", "at"),
        sqlite_with_rowid=False,
    )


def downgrade() -> None:
    """Undo."""
    op.drop_table("decision")
