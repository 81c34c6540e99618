"""Runs the command line in this process: what it prints, what it complains of, and its exit code."""

from __future__ import annotations

import io
import json
import sys
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from unittest.mock import patch

from sqlalchemy import Engine

from tracker.cli import facts, main
from tracker.cli import session as sessions

sessions_open_book = sessions.open_book

NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Ran:
    """One run of a command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """What it printed, as JSON."""
        return json.loads(self.out)

    @property
    def text(self) -> str:
        """What it printed, without the spacing of tables."""
        return " ".join(self.out.split())


def breakeven(*args: str, at: datetime = NOW) -> Ran:
    """``breakeven ARGS`` at a time of the test's choosing; the book is closed as the end of a process closes it."""
    out, err = io.StringIO(), io.StringIO()
    opened: list[Engine] = []

    def open_book(*how: Any) -> Engine:
        opened.append(sessions_open_book(*how))
        return opened[-1]

    with ExitStack() as stack:
        stack.enter_context(patch.object(sys, "argv", ["breakeven", *args]))
        stack.enter_context(patch.object(sessions, "open_book", open_book))
        for module in (sessions, facts):
            stack.enter_context(patch.object(module, "utc_now", lambda: at))
        stack.enter_context(redirect_stdout(out))
        stack.enter_context(redirect_stderr(err))
        try:
            main()
            code = 0
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        finally:
            for db in opened:
                db.dispose()
    return Ran(code, out.getvalue(), err.getvalue())
