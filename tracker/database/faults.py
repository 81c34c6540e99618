"""What is wrong with the database, in words a person can act on. Told by the error's code; its text may be in any language."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy.exc import DBAPIError, OperationalError, SQLAlchemyError

log = logging.getLogger("breakeven")

ADVICE = {
    "full": "make room; nothing more is kept until then",
    "locked": "another program has it locked; end that one, or wait for it",
    "read-only": "it cannot be written to; check the rights of this account, or name the primary server",
    "damaged": "restore a backup, or move it away: a new one is made with the embedded prices in it",
    "failing": "check that its disk has room, also within a quota, and is sound",
    "closed": "check that its folder exists and that this account may use it",
    "gone": "check that its server runs and can be reached",
    "refused": "its server refuses us; check user, password, name and the number of connections",
    "denied": "this account lacks that right; use the one that owns the tables and may create more: each month of points is one",
    "other": "",
}
CLOCK = "clock"  # the other kind of trouble: this machine's time
READS = ("locked", "damaged", "closed", "gone", "refused", "other")  # over when the book can be read again
WRITES = ("full", "failing", "read-only", "denied")  # over when it is written
SHORT = {  # for whoever may read /readyz: no addresses, no names
    "full": "its disk is full", "locked": "another program has it locked", "read-only": "it cannot be written to",
    "damaged": "it is damaged", "failing": "its disk fails", "closed": "its file cannot be used", "gone": "its server does not answer",
    "refused": "its server refuses us", "denied": "its account lacks a right",
}  # fmt: skip
PASSING = ("full", "failing", "locked", "read-only", "gone", "refused", "denied", "closed")  # what may be over when asked again
# result codes of SQLite by the start of their name (https://www.sqlite.org/rescode.html)
_SQLITE = {
    "SQLITE_FULL": "full", "SQLITE_IOERR_SHMSIZE": "full", "SQLITE_IOERR_WRITE": "failing", "SQLITE_IOERR_FSYNC": "failing",
    "SQLITE_BUSY": "locked", "SQLITE_LOCKED": "locked", "SQLITE_READONLY": "read-only", "SQLITE_CORRUPT": "damaged",
    "SQLITE_NOTADB": "damaged", "SQLITE_CANTOPEN": "closed", "SQLITE_IOERR": "closed", "SQLITE_PERM": "closed",
}  # fmt: skip
# SQLSTATE by its start (https://www.postgresql.org/docs/15/errcodes-appendix.html)
_SQLSTATE = {
    "53100": "full", "53200": "gone", "53300": "refused", "55P03": "locked", "40P01": "locked", "40001": "locked", "25006": "read-only",
    "XX001": "damaged", "XX002": "damaged", "08": "gone", "57P": "gone", "58": "closed", "28": "refused",
    "3D000": "refused", "42501": "denied",
}  # fmt: skip


def fault_kind(error: SQLAlchemyError) -> str:
    """Which of ``ADVICE`` it is."""
    found = error.orig if isinstance(error, DBAPIError) else None
    code: str = getattr(found, "sqlite_errorname", None) or getattr(found, "sqlstate", None) or ""
    for start, kind in (_SQLITE if code.startswith("SQLITE") else _SQLSTATE).items():
        if code.startswith(start):
            return kind
    if isinstance(error, OperationalError) and not code:  # no answer of a server; one that answered before a session was made says FATAL
        return "refused" if "FATAL:" in str(found) else "gone"
    return "other"


def fault_short(error: SQLAlchemyError) -> str:
    """What is wrong, without what the database said about it."""
    return SHORT.get(fault_kind(error), type(error).__name__)


def fault_line(error: SQLAlchemyError) -> str:
    """Cause and advice on one line."""
    advice = ADVICE[fault_kind(error)]
    return f"{fault_cause(error)}; {advice}" if advice else fault_cause(error)


def fault_cause(error: SQLAlchemyError) -> str:
    """What the database said, on one line."""
    said: Any = error.orig if isinstance(error, DBAPIError) else error
    return " ".join(str(said).split()) or type(error).__name__


def may_pass(error: SQLAlchemyError) -> bool:
    """Whether the same may work a little later."""
    return fault_kind(error) in PASSING


@dataclass(slots=True)
class Trouble:
    """What keeps the program from keeping sweeps now: said once when it begins, and once when it is over."""

    say: Callable[[str], None] = field(default=log.error)
    reason: str = ""
    short: str = ""  # the same without what the database said about it
    kind: str = ""

    def met(self, error: Exception) -> None:
        """The database failed, or must not be given a sweep now."""
        line = short = str(error)
        kind = CLOCK
        if isinstance(error, SQLAlchemyError):
            line, short, kind = f"database: {fault_line(error)}", f"database: {fault_short(error)}", fault_kind(error)
        if line != self.reason:
            self.reason, self.short, self.kind = line, short, kind
            self.say(line)

    def over(self, *kinds: str) -> None:
        """It worked again; with ``kinds``, only such trouble is over."""
        if self.reason and (not kinds or self.kind in kinds):
            self.say("clock: right again" if self.kind == CLOCK else "database: works again")
            self.reason = self.short = self.kind = ""
