"""a sweep that skipped and warned of nothing says so in no bytes, and the hash of what it read is 8 bytes, the first of a SHA-256

The hash tells whether an input is the one before it. By accident two in a row are alike once in 2^64 sweeps. Whoever could make two
pages of one hash is who answers us, and could as well answer with the old page; for one of many whose prices stand on a page it takes
2^64 tries within the hour.
"""

from __future__ import annotations

from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None

COUNTS = """update sweep set skipped = case skipped when '{0}' then '{1}' else skipped end,
    warned = case warned when '{0}' then '{1}' else warned end"""


def upgrade() -> None:
    """Apply."""
    op.execute(
        COUNTS.format("{}", "") + ", input_hash = case when length(input_hash) > 8 then substr(input_hash, 1, 8) else input_hash end"
    )


def downgrade() -> None:
    """Undo; the rest of a hash is not known any more, so that every source is read as if it had changed, once."""
    op.execute(COUNTS.format("", "{}"))
