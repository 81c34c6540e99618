"""the view of current offers on SQLite goes from offers to their points, not through all points there ever were"""

from __future__ import annotations

from alembic import op

from tracker.migrations.views import drop_views, make_views

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    if op.get_bind().dialect.name == "sqlite":
        drop_views()
        make_views()


def downgrade() -> None:
    """Undo: what the view says is the same."""
