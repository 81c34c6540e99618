"""deliveries that were never tried, of alerts of before there were routes: nobody is told months later"""

from __future__ import annotations

from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    # without an address every alert was kept as one that waits; a digest has no rule either
    old = "select id from alert where over_at is not null and rule = '' and kind <> 'digest'"
    op.execute(f"delete from alert_delivery where state = 'stored' and attempts = 0 and alert_id in ({old})")


def downgrade() -> None:
    """Undo: what is gone stays so."""
