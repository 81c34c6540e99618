"""a sweep whose rows are those of the last one is known by their digest"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlmodel.sql.sqltypes import AutoString

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    op.add_column("sweep", sa.Column("rows_hash", AutoString(), server_default="", nullable=False))


def downgrade() -> None:
    """Undo."""
    op.drop_column("sweep", "rows_hash")
