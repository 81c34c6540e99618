"""Which process collects a source now. One row a source is claimed with a row lock and held by a lease that ends by itself.

The fence grows with every claim, and a sweep is stored only together with the fence it was claimed under: a process that
slept through its lease cannot add a second sweep. When a source is due is kept here too, so that it is due once, whoever
looks. Times are the database's own on PostgreSQL, so that the clocks of machines need not agree. One daemon on SQLite
goes the same way and always gets its turn. Nothing is bound to a session: it works through a pooler in transaction mode.
"""

from __future__ import annotations

import os
import secrets
import socket
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import Connection, Engine, RowMapping, func, select, update

from tracker.book.newest import SKEW as SKEW
from tracker.database.handle import writing
from tracker.database.listen import announce
from tracker.database.schema import TABLES
from tracker.errors import BreakevenError
from tracker.sweeps.store import insert_new

LEASE, DELIVERY = TABLES["source_lease"], TABLES["alert_delivery"]
CONTENDED_S = 1.0  # until the next look at a row that another process has locked: its transaction is short
LONGEST_S = 900.0  # no lease is renewed beyond: a sweep has a deadline, so what lasts longer hangs


class ClockWrong(BreakevenError):
    """This machine and the database disagree about the time: what it collects would be dated wrongly."""


class LeaseLost(BreakevenError):
    """Another process has claimed the source since: this sweep must not be kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """How a source is shared out: seconds from one claim to the next, seconds a lease lasts unless renewed, age limit of its prices."""

    interval_s: float
    lease_s: float
    max_age_s: float = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """The right to store one sweep of a source, which is due again ``wait_s`` after the claim."""

    source: str
    owner: str
    fence: int
    claimed_at: datetime
    wait_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class NotYet:
    """No turn now: look again in so many seconds. ``holder`` collects it; empty when it is not due."""

    seconds: float
    holder: str = ""


def owner_name() -> str:
    """A name for this process that no other has: machine, process and chance."""
    return f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"


def database_time(connection: Connection, now: datetime) -> datetime:
    """The moment by the database's clock; ``now`` where the database is a file of this machine."""
    if connection.dialect.name != "postgresql":
        return now
    found: datetime = connection.execute(select(func.clock_timestamp())).scalar_one()
    return found


def claim(db: Engine, source: str, owner: str, now: datetime, terms: Terms, *, wait_s: float, early: bool = False) -> Lease | NotYet:
    """The lease of a source that is due and that nobody holds; ``wait_s`` from now on it is due again. ``early``: due or not."""
    with writing(db) as connection:
        row = _locked(connection, source, now)
        if row is None:
            return NotYet(seconds=CONTENDED_S, holder="another process")
        moment = database_time(connection, now)
        if abs(now - moment) > SKEW:
            ahead = (now - moment).total_seconds()
            raise ClockWrong(f"clock: this machine is {ahead:+.0f} s ahead of the database's; nothing is collected until one is set right")
        if (refused := _refusal(row, moment, terms, early)) is not None:
            return refused
        lease = Lease(source=source, owner=owner, fence=row["fence"] + 1, claimed_at=moment, wait_s=wait_s)
        until = moment + timedelta(seconds=terms.lease_s)
        taken = {
            "owner": owner,
            "fence": lease.fence,
            "claimed_at": moment,
            "lease_until": until,
            "max_age_ms": int(terms.max_age_s * 1000),
        }
        connection.execute(update(LEASE).where(LEASE.c.source == source).values(**taken))
        return lease


def _locked(connection: Connection, source: str, now: datetime) -> RowMapping | None:
    """The row of a source, locked and made where it is missing; None while another process has it locked."""
    query = select(LEASE).where(LEASE.c.source == source).with_for_update(skip_locked=True)
    found = connection.execute(query).mappings().first()
    if found is not None or connection.scalar(select(LEASE.c.source).where(LEASE.c.source == source)) is not None:
        return found
    empty = {"owner": "", "fence": 0, "claimed_at": None, "lease_until": None, "max_age_ms": 0}
    connection.execute(insert_new(connection, LEASE).values(source=source, next_due=database_time(connection, now), **empty))
    return connection.execute(query).mappings().first()


def _refusal(row: RowMapping, moment: datetime, terms: Terms, early: bool) -> NotYet | None:
    """Why it is not our turn. A moment further ahead than any lease or two intervals is a wrong clock's, and does not count."""
    held = row["lease_until"] is not None and moment < row["lease_until"] <= moment + timedelta(seconds=max(terms.lease_s, LONGEST_S))
    if held:
        return NotYet(seconds=(row["lease_until"] - moment).total_seconds(), holder=row["owner"])
    waits = moment < row["next_due"] <= moment + timedelta(seconds=2 * terms.interval_s)
    return NotYet(seconds=(row["next_due"] - moment).total_seconds()) if waits and not early else None


def renew(db: Engine, owner: str, now: datetime, lease_s: float) -> int:
    """Prolong every lease of ``owner`` that is not held beyond reason; how many there are."""
    with writing(db) as connection:
        moment = database_time(connection, now)
        mine = update(LEASE).where(LEASE.c.owner == owner, LEASE.c.claimed_at > moment - timedelta(seconds=LONGEST_S))
        return connection.execute(mine.values(lease_until=moment + timedelta(seconds=lease_s))).rowcount


def settle(connection: Connection, lease: Lease) -> None:
    """End a lease in the transaction that stores its sweep, and tell the others.

    LeaseLost, and nothing is stored, when the source was claimed again since.
    """
    if not _end(connection, lease, next_due=lease.claimed_at + timedelta(seconds=lease.wait_s)):
        raise LeaseLost(f"{lease.source}: another process took over, this sweep is not kept")
    announce(connection, lease.owner)


def give_back(db: Engine, lease: Lease) -> bool:
    """End a lease without a sweep: the source stays due, and whoever looks next may have it."""
    with writing(db) as connection:
        return _end(connection, lease)


def _end(connection: Connection, lease: Lease, **more: datetime) -> bool:
    mine = update(LEASE).where(LEASE.c.source == lease.source, LEASE.c.owner == lease.owner, LEASE.c.fence == lease.fence)
    return connection.execute(mine.values(owner="", lease_until=None, **more)).rowcount == 1


def start_alone(db: Engine, now: datetime) -> None:
    """On SQLite, where the file's lock proves that no other daemon lives: what a dead one held is free, and every source is due."""
    if db.dialect.name == "sqlite":
        with writing(db) as connection:
            connection.execute(update(LEASE).values(owner="", lease_until=None, next_due=now))
            connection.execute(update(DELIVERY).values(claimed_until=None))
