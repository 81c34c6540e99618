"""the hash of what a sweep read in 16 bytes, the first half of a SHA-256: it tells whether an input is the one before"""

from __future__ import annotations

from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    op.execute("update sweep set input_hash = substr(input_hash, 1, 16) where length(input_hash) > 16")


def downgrade() -> None:
    """Undo: the other half is not known any more, so that every source is read as if it had changed, once."""
