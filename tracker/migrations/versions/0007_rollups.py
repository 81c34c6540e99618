"""figures a day"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlmodel.sql.sqltypes import AutoString

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    op.create_table(
        "rollup_group",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("source", AutoString(), nullable=False),
        sa.Column("provider", AutoString(), nullable=False),
        sa.Column("gpu", AutoString(), nullable=False),
        sa.Column("gpu_count", sa.Integer(), nullable=False),
        sa.Column("tier", AutoString(), nullable=False),
        sa.Column("currency", AutoString(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("source", "provider", "gpu", "gpu_count", "tier", "currency"),
    )
    with op.batch_alter_table("rollup_group", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_rollup_group_gpu"), ["gpu"], unique=False)

    op.create_table(
        "rollup_day",
        sa.Column("group_id", sa.Integer(), nullable=False),
        sa.Column("day", sa.Integer(), nullable=False),
        sa.Column("least", sa.BigInteger(), nullable=False),
        sa.Column("median", sa.BigInteger(), nullable=False),
        sa.Column("most", sa.BigInteger(), nullable=False),
        sa.Column("offers", sa.Integer(), nullable=False),
        sa.Column("held_ms", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["group_id"], ["rollup_group.id"]),
        sa.PrimaryKeyConstraint("group_id", "day"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "rollup_model",
        sa.Column("model", AutoString(), nullable=False),
        sa.Column("workload", AutoString(), nullable=False),
        sa.Column("policy", AutoString(), nullable=False),
        sa.Column("day", sa.Integer(), nullable=False),
        sa.Column("provider", AutoString(), nullable=False),
        sa.Column("sku", AutoString(), nullable=False),
        sa.Column("region", AutoString(), nullable=False),
        sa.Column("tier", AutoString(), nullable=False),
        sa.Column("gpu", AutoString(), nullable=False),
        sa.Column("gpu_count", sa.Integer(), nullable=False),
        sa.Column("weight_format", AutoString(), nullable=False),
        sa.Column("held_ms", sa.BigInteger(), nullable=False),
        sa.Column("decided_ms", sa.BigInteger(), nullable=False),
        sa.Column("least", sa.BigInteger(), nullable=False),
        sa.Column("median", sa.BigInteger(), nullable=False),
        sa.Column("most", sa.BigInteger(), nullable=False),
        sa.Column("setups", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("model", "workload", "policy", "day"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "rollup_state",
        sa.Column("source", AutoString(), nullable=False),
        sa.Column("until", sa.BigInteger(), nullable=False),
        sa.Column("sweep", sa.Integer(), nullable=False),
        sa.Column("offer", sa.Integer(), nullable=False),
        sa.Column("basis", AutoString(), nullable=False),
        sa.PrimaryKeyConstraint("source"),
    )


def downgrade() -> None:
    """Undo."""
    op.drop_table("rollup_state")
    op.drop_table("rollup_model")
    op.drop_table("rollup_day")
    with op.batch_alter_table("rollup_group", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_rollup_group_gpu"))

    op.drop_table("rollup_group")
