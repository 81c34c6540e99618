"""what was known when: imported points, exchange rates and corrected descriptions remember when they were learnt"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlmodel.sql.sqltypes import AutoString

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply. Points and rates that are there already count from the moment they are of, as they did."""
    op.create_table(
        "backdated",
        sa.Column("kind", AutoString(), nullable=False),
        sa.Column("target", sa.Integer(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("known_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("kind", "target", "at"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_backdated_known_at", "backdated", ["known_at"])
    op.create_table(
        "reworded",
        sa.Column("kind", AutoString(), nullable=False),
        sa.Column("target", sa.Integer(), nullable=False),
        sa.Column("until", sa.BigInteger(), nullable=False),
        sa.Column("was", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("kind", "target", "until"),
        sqlite_with_rowid=False,
    )
    op.add_column("fx", sa.Column("known_at", sa.BigInteger(), nullable=True))


def downgrade() -> None:
    """Undo."""
    op.drop_column("fx", "known_at")
    op.drop_table("reworded")
    op.drop_index("ix_backdated_known_at", "backdated")
    op.drop_table("backdated")
