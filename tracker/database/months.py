"""The months of the points in PostgreSQL: a partition for each (UTC), made before somebody writes into it. SQLite keeps one table.

There is no partition for everything else: a point without a month would be kept where nothing looks for it, and no month could be made
under it. Who makes or drops a month does it alone, under a lock that ends with the transaction, and finds what others made.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime

from sqlalchemy import Connection, Engine, func, select, text
from sqlalchemy.exc import OperationalError, ProgrammingError

from tracker.database.handle import writing
from tracker.database.postgres import serialize
from tracker.database.rows import from_s, to_s

TABLES = ("offer_point", "rate_point")
AHEAD = 2  # months made before they begin
LAST = 2**62  # s; no month begins so late
PATIENCE_MS = 2_000  # for those who read and write, until a month is dropped another time
LATER = ("55P03", "42501")  # lock_not_available; insufficient_privilege: the account that made them may drop them
_NAME = re.compile(r"(?:offer|rate)_point_(\d{4})_(\d{2})")
_THERE = text(
    "select c.relname from pg_inherits i join pg_class c on c.oid = i.inhrelid where i.inhparent = cast(:table as regclass) order by 1"
)

Month = tuple[int, int]


def is_month(name: str) -> bool:
    """Whether a table is a month of points, and no table of its own."""
    return _NAME.fullmatch(name) is not None


def months_of(moments: Iterable[int]) -> set[Month]:
    """The UTC months of stored moments."""
    days = {at // 86_400 for at in moments}
    return {(day.year, day.month) for day in (from_s(number * 86_400) for number in days)}


def bounds(month: Month) -> tuple[int, int]:
    """The first second of a month, and that of the next one."""
    return to_s(datetime(*month, 1, tzinfo=UTC)), to_s(datetime(*_following(month), 1, tzinfo=UTC))


def _following(month: Month) -> Month:
    return (month[0] + month[1] // 12, month[1] % 12 + 1)


def months_there(connection: Connection, table: str) -> list[Month]:
    """Months that have a partition, ascending; none where the points are one table."""
    if connection.dialect.name != "postgresql":
        return []
    names = (_NAME.fullmatch(name) for name in connection.scalars(_THERE, {"table": table}))
    return sorted((int(found[1]), int(found[2])) for found in names if found)


def make_months(connection: Connection, table: str, moments: Iterable[int]) -> None:
    """Have a partition of ``table`` for each of those moments, before anything else is written in this transaction."""
    if connection.dialect.name != "postgresql":
        return  # not even looked at: a sweep writes thousands
    missing = months_of(moments) - set(months_there(connection, table))
    if missing:
        lock(connection)
        for month in sorted(missing - set(months_there(connection, table))):  # another may have made it while we waited
            _make(connection, table, month)


def make_all(connection: Connection, moments: Iterable[int]) -> None:
    """``make_months`` of both kinds of points."""
    if connection.dialect.name == "postgresql":
        wanted = list(moments)
        for table in TABLES:
            make_months(connection, table, wanted)


def lock(connection: Connection) -> None:
    """Months are neither made nor dropped by another until this transaction ends."""
    serialize(connection, "months")


def _make(connection: Connection, table: str, month: Month) -> None:
    """Made beside the table and attached: who reads it is not kept waiting."""
    name, (start, end) = f"{table}_{month[0]:04}_{month[1]:02}", bounds(month)
    connection.execute(text(f"create table if not exists {name} (like {table} including defaults including constraints)"))
    connection.execute(text(f"alter table {table} attach partition {name} for values from ({start}) to ({end})"))


def make_ahead(db: Engine, now: datetime) -> None:
    """Have the months that begin soon, in a transaction of its own."""
    with writing(db) as connection:
        make_all(connection, [bounds(month)[0] for month in _ahead(now)])


def _ahead(now: datetime) -> list[Month]:
    """This month and those that begin soon."""
    months = [(now.year, now.month)]
    while len(months) <= AHEAD:
        months.append(_following(months[-1]))
    return months


def drop_empty(connection: Connection, before: int, now: datetime | None = None) -> int:
    """Drop the months that end before a moment (s) and hold no point; returns how many. One that is in use stays for the next time.

    With ``now`` those that begin after the months made ahead of it go too: a clock that was wrong had them made.
    """
    after = LAST if now is None else bounds(_following(_ahead(now)[-1]))[0]
    if connection.dialect.name == "postgresql":
        lock(connection)
    return sum(
        _drop(connection, table, f"{table}_{month[0]:04}_{month[1]:02}")
        for table in TABLES
        for month in months_there(connection, table)
        if bounds(month)[1] <= before or bounds(month)[0] >= after
    )


def _drop(connection: Connection, table: str, name: str) -> bool:
    """Whether an empty month could be dropped. What others have written and not yet committed is waited for, and looked at again.

    Whoever asks meanwhile waits for us: rather than keep them behind a long question of somebody else, it is given up.
    """
    if not _is_empty(connection, name):
        return False
    try:
        with connection.begin_nested():
            connection.exec_driver_sql(f"set local lock_timeout = {PATIENCE_MS}")
            connection.exec_driver_sql(f"lock table only {table} in access exclusive mode")
            empty = _is_empty(connection, name)
            if empty:
                connection.exec_driver_sql(f"drop table {name}")
            connection.exec_driver_sql("set local lock_timeout to default")
            return empty
    except (OperationalError, ProgrammingError) as error:
        if getattr(error.orig, "sqlstate", None) not in LATER:
            raise
        return False


def _is_empty(connection: Connection, name: str) -> bool:
    return connection.scalar(select(func.count()).select_from(text(f"(select 1 from {name} limit 1) one"))) == 0
