"""alerts: what was told and seen by rule, deliveries by route, silences; the baselines of before start anew, in silence"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlmodel.sql.sqltypes import AutoString, UTCDateTime

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

KEPT = "id, delivery, attempts, fired_at, claimed_until, delivered_at, last_error"


def upgrade() -> None:
    """Apply."""
    # kept aside: SQLite makes a changed table anew, which nothing may refer to meanwhile
    op.execute(f"create table alert_kept as select {KEPT} from alert")
    with op.batch_alter_table("alert", schema=None) as batch_op:
        batch_op.add_column(sa.Column("rule", AutoString(), nullable=False, server_default=""))
        batch_op.add_column(sa.Column("held_until", UTCDateTime(), nullable=True))
        batch_op.add_column(sa.Column("digest", AutoString(), nullable=False, server_default=""))
        batch_op.add_column(sa.Column("over_at", UTCDateTime(), nullable=True))
        batch_op.add_column(sa.Column("acked_at", UTCDateTime(), nullable=True))
        batch_op.add_column(sa.Column("acked_by", AutoString(), nullable=False, server_default=""))
        for name in ("delivery", "attempts", "delivered_at", "claimed_until", "last_error"):
            batch_op.drop_column(name)
    op.execute("update alert set over_at = fired_at")
    op.create_table(
        "alert_delivery",
        sa.Column("alert_id", sa.Integer(), nullable=False),
        sa.Column("route", AutoString(), nullable=False),
        sa.Column("state", AutoString(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("created_at", UTCDateTime(), nullable=False),
        sa.Column("claimed_until", UTCDateTime(), nullable=True),
        sa.Column("delivered_at", UTCDateTime(), nullable=True),
        sa.Column("last_error", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["alert_id"], ["alert.id"]),
        sa.PrimaryKeyConstraint("alert_id", "route"),
    )
    op.execute(
        "insert into alert_delivery (alert_id, route, state, attempts, created_at, claimed_until, delivered_at, last_error) "
        "select id, 'webhook', delivery, attempts, fired_at, claimed_until, delivered_at, last_error from alert_kept"
    )
    op.drop_table("alert_kept")
    op.create_table(
        "alert_state",
        sa.Column("rule", AutoString(), nullable=False),
        sa.Column("subject", AutoString(), nullable=False),
        sa.Column("judged_at", UTCDateTime(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("rule", "subject"),
    )
    op.create_table(
        "alert_silence",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("rule", AutoString(), nullable=False),
        sa.Column("subject", AutoString(), nullable=False),
        sa.Column("until", UTCDateTime(), nullable=True),
        sa.Column("created_at", UTCDateTime(), nullable=False),
        sa.Column("created_by", AutoString(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.drop_table("baseline")


def downgrade() -> None:
    """Undo."""
    op.create_table(
        "baseline",
        sa.Column("subject", AutoString(), nullable=False),
        sa.Column("price", sa.BigInteger(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("set_at", UTCDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("subject"),
    )
    op.execute("create table alert_kept as select * from alert_delivery where route = 'webhook'")
    for name in ("alert_silence", "alert_state", "alert_delivery"):
        op.drop_table(name)
    with op.batch_alter_table("alert", schema=None) as batch_op:
        for name in ("rule", "held_until", "digest", "over_at", "acked_at", "acked_by"):
            batch_op.drop_column(name)
        batch_op.add_column(sa.Column("delivery", AutoString(), nullable=False, server_default="stored"))
        batch_op.add_column(sa.Column("attempts", sa.Integer(), nullable=False, server_default="0"))
        batch_op.add_column(sa.Column("delivered_at", UTCDateTime(), nullable=True))
        batch_op.add_column(sa.Column("claimed_until", UTCDateTime(), nullable=True))
        batch_op.add_column(sa.Column("last_error", sa.Text(), nullable=False, server_default=""))
    pairs = {"delivery": "state"} | {name: name for name in ("attempts", "delivered_at", "claimed_until", "last_error")}
    told = ", ".join(f"{ours} = (select k.{theirs} from alert_kept k where k.alert_id = alert.id)" for ours, theirs in pairs.items())
    op.execute(f"update alert set {told} where id in (select alert_id from alert_kept)")
    op.drop_table("alert_kept")
