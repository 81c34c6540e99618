"""moments in whole seconds since 1970, which SQLite keeps in 4 bytes where it kept milliseconds in 6

A moment becomes the second it lies in. Of two points of one thing in the same second the later one stays, as of statistics, decisions,
licences and stretches unseen; of two wordings the earlier, which is what was said before that second. Of two sweeps of a source in
the same second the later one moves on to the next. The views give the same times as before; on PostgreSQL they are replaced, not
dropped, so that who may read them still may. Figures a day are worked out anew, but for those whose points were pruned.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from importlib import import_module

import sqlalchemy as sa
from alembic import op

from tracker.migrations.views import drop_views, make_views

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

POINTS = {"offer_point": ("offer", "offer_id"), "rate_point": ("rate", "rate_id")}
KEYED = {  # table -> what a moment in its key is of, the moment
    "statistic": (("offer_id",), "at"),
    "unseen": (("kind", "target"), "since"),
    "reworded": (("kind", "target"), "until"),
    "decision": (("model", "workload", "policy"), "at"),
    "source_licence": (("source",), "since"),
    "backdated": (("kind", "target"), "at"),
    "sweep": (("source",), "at"),
}
OTHERS = (
    ("offer", "valid_from"), ("rate", "valid_from"), ("unseen", "until"), ("unseen", "last_seen"), ("kept_sweep", "last_read"),
    ("quarantine", "last_at"), ("fx", "known_at"), ("backdated", "known_at"), ("rollup_state", "until"),
)  # fmt: skip
DURATIONS = (("rollup_day", "held"), ("rollup_model", "held"), ("rollup_model", "decided"))
_DATED = re.compile(r",(\d+)\]$")  # an identity ends with the moment from which an announced price is valid


def upgrade() -> None:
    """Apply."""
    _part_sweeps()
    _leave_one_a_second()
    op.execute("update rollup_state set until = until + 999 where source = 'pruned'")  # a day is whole if nothing of it was pruned
    _remake("{0} / 1000", lambda at: at // 1000, make_views)
    for table, name in DURATIONS:
        op.execute(f"alter table {table} rename column {name}_ms to {name}_s")
        op.execute(f"update {table} set {name}_s = {name}_s / 1000")
    op.execute("update rollup_state set basis = '' where source not in ('', 'pruned', 'all providers')")
    op.execute("delete from rollup_state where source = ''")


def downgrade() -> None:
    """Undo: the milliseconds of a second are not known any more."""
    if _dialect() == "postgresql":
        drop_views()
    _remake("{0} * 1000", lambda at: at * 1000, _make_old_views)
    for table, name in DURATIONS:
        op.execute(f"alter table {table} rename column {name}_s to {name}_ms")
        op.execute(f"update {table} set {name}_ms = {name}_ms * 1000")
    op.execute("update rollup_state set basis = '' where source not in ('', 'pruned', 'all providers')")


def _dialect() -> str:
    return op.get_bind().dialect.name


def _make_old_views() -> None:
    many, decisions = (import_module(f"tracker.migrations.versions.{name}") for name in ("0002_many_machines", "0010_decision_views"))
    many._create_views(many.POSTGRESQL if _dialect() == "postgresql" else many.SQLITE)
    decisions.upgrade()


def _remake(as_stored: str, as_read: Callable[[int], int], views: Callable[[], None]) -> None:
    """Every moment anew. Point tables are written anew: that is faster than moving each row within its key."""
    if _dialect() == "sqlite":
        drop_views()
    _rename_identities(as_read)
    for table in POINTS:
        _copy_points(table, as_stored)
    views()
    for table in POINTS:
        op.drop_table(f"{table}_old")
    for table, (_, moment) in KEYED.items():  # by way of what no moment is, so that none meets another on its way
        op.execute(f"update {table} set {moment} = -({as_stored.format(moment)})")
        op.execute(f"update {table} set {moment} = -{moment}")
    for table, moment in OTHERS:
        op.execute(f"update {table} set {moment} = {as_stored.format(moment)} where {moment} is not null")


def _part_sweeps() -> None:
    """No two sweeps of a source in one second: the later one moves on, as it would have when it was stored."""
    connection = op.get_bind()
    twice = sa.text("select distinct source from (select source from sweep group by source, at / 1000 having count(*) > 1) s")
    for source in connection.execute(twice).scalars().all():
        last = -1
        for id_, at in connection.execute(sa.text("select id, at from sweep where source = :s order by at"), {"s": source}).all():
            last = max(at // 1000, last + 1)
            if last != at // 1000:
                connection.execute(sa.text("update sweep set at = :at where id = :id"), {"at": -last * 1000, "id": id_})
    op.execute("update sweep set at = -at where at < 0")


def _leave_one_a_second() -> None:
    for table, (kind, link) in POINTS.items():
        op.execute(
            f"delete from backdated where kind = '{kind}' and exists (select 1 from {table} p where p.{link} = target "
            "and p.at > backdated.at and p.at < (backdated.at / 1000 + 1) * 1000)"
        )
    for table, (key, moment) in KEYED.items():
        same = " and ".join(f"other.{name} = {table}.{name}" for name in key)
        other = (
            f"other.{moment} < {table}.{moment} and other.{moment} >= {table}.{moment} / 1000 * 1000"
            if table == "reworded"
            else f"other.{moment} > {table}.{moment} and other.{moment} < ({table}.{moment} / 1000 + 1) * 1000"
        )
        op.execute(f"delete from {table} where exists (select 1 from {table} other where {same} and {other})")


def _copy_points(table: str, as_stored: str) -> None:
    """The last point of every second into a new table; the old one stays aside until no view looks at it."""
    kind, link = POINTS[table]
    op.rename_table(table, f"{table}_old")
    if _dialect() == "postgresql":
        for name in (f"{table}_pkey", f"{table}_{link}_fkey"):
            op.execute(f"alter table {table}_old rename constraint {name} to {name}_old")
    columns = [
        sa.Column(link, sa.Integer(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        *(_offer_columns() if kind == "offer" else _rate_columns()),
    ]
    keys = [sa.ForeignKeyConstraint([link], [f"{kind}.id"]), sa.PrimaryKeyConstraint(link, "at")]
    op.create_table(table, *columns, *keys, sqlite_with_rowid=False)
    names = [column.name for column in columns]
    told = ", ".join(f"{as_stored.format(name)} as {name}" if name in ("at", "valid_to") else name for name in names)
    later = f"select 1 from {table}_old later where later.{link} = p.{link} and later.at > p.at and later.at < (p.at / 1000 + 1) * 1000"
    last = f" where not exists ({later})" if as_stored == "{0} / 1000" else ""
    op.execute(f"insert into {table} ({', '.join(names)}) select {told} from {table}_old p{last} order by {link}, p.at")


def _offer_columns() -> tuple[sa.Column[int], ...]:
    return (
        sa.Column("price", sa.BigInteger(), nullable=True),
        sa.Column("availability", sa.SmallInteger(), nullable=False),
        sa.Column("max_gpu_count", sa.SmallInteger(), nullable=True),
    )


def _rate_columns() -> tuple[sa.Column[int] | sa.Column[bool], ...]:
    prices = ("input", "cache_read", "cache_write_5m", "cache_write_1h", "output", "valid_to")
    return (sa.Column("gone", sa.Boolean(), nullable=False), *(sa.Column(name, sa.BigInteger(), nullable=True) for name in prices))


def _rename_identities(as_read: Callable[[int], int]) -> None:
    """What an announced price is of holds the moment it begins, and so does a row that waits."""
    connection = op.get_bind()

    def renamed(key: str) -> str:
        return _DATED.sub(lambda found: f",{as_read(int(found[1]))}]", key)

    for table in ("offer", "rate"):
        taken = set[str]()  # two that began in one second: the newer goes by that second
        for id_, key in connection.execute(sa.text(f"select id, key from {table} where valid_from is not null order by id desc")).all():
            if (new := renamed(key)) not in taken:
                connection.execute(sa.text(f"update {table} set key = :key where id = :id"), {"key": new, "id": id_})
                taken.add(new)
    waiting = sa.text("""select id, key, "row" from quarantine where kind <> 'sweep'""")
    for id_, key, row in connection.execute(waiting).all():
        told = json.loads(row) if row else {}
        told |= {name: as_read(at) for name in ("valid_from", "valid_to") if (at := told.get(name)) is not None}
        after = {"key": renamed(key), "row": json.dumps(told) if row else row, "id": id_}
        connection.execute(sa.text('update quarantine set key = :key, "row" = :row where id = :id'), after)
