"""licences that sources state in their own data"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlmodel.sql.sqltypes import AutoString

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    op.create_table(
        "source_licence",
        sa.Column("source", AutoString(), nullable=False),
        sa.Column("since", sa.BigInteger(), nullable=False),
        sa.Column("name", AutoString(), nullable=False),
        sa.Column("url", AutoString(), nullable=False),
        sa.Column("publisher", AutoString(), nullable=False),
        sa.Column("published_at", AutoString(), nullable=False),
        sa.Column("terms", AutoString(), nullable=False),
        sa.PrimaryKeyConstraint("source", "since"),
    )


def downgrade() -> None:
    """Undo."""
    op.drop_table("source_licence")
