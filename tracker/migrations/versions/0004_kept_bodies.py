"""kept bodies: what sources answered, once by hash, and the sweeps that read it"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlmodel.sql.sqltypes import AutoString, UTCDateTime

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    op.create_table(
        "body",
        sa.Column("sha256", AutoString(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("stored", sa.BigInteger(), nullable=False),
        sa.Column("zstd", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("sha256"),
    )
    op.create_index("ix_body_stored", "body", ["stored"])
    op.create_table(
        "kept_sweep",
        sa.Column("first_sweep", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("last_sweep", sa.Integer(), nullable=False),
        sa.Column("source", AutoString(), nullable=False),
        sa.Column("last_read", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("first_sweep"),
    )
    op.create_index("ix_kept_sweep_source", "kept_sweep", ["source"])
    op.create_index("ix_kept_sweep_last_read", "kept_sweep", ["last_read"])
    op.create_table(
        "kept_page",
        sa.Column("first_sweep", sa.Integer(), nullable=False),
        sa.Column("place", sa.Integer(), nullable=False),
        sa.Column("sha256", AutoString(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("headers", sa.Text(), nullable=False),
        sa.Column("fetched_at", UTCDateTime(), nullable=True),
        sa.ForeignKeyConstraint(["first_sweep"], ["kept_sweep.first_sweep"]),
        sa.PrimaryKeyConstraint("first_sweep", "place"),
    )
    op.create_index("ix_kept_page_sha256", "kept_page", ["sha256"])


def downgrade() -> None:
    """Undo."""
    op.drop_table("kept_page")
    op.drop_table("kept_sweep")
    op.drop_table("body")
