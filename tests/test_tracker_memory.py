"""Threads share the heaps of the C library, and cycles are looked for once a command runs."""

from __future__ import annotations

import gc
import platform
import subprocess
import sys
from pathlib import Path

import pytest
from commands import breakeven

from tracker.cli import times
from tracker.service.memory import THRESHOLD, collect_later

CODE = """
import sys, threading
from tracker.service.memory import share_arenas
if sys.argv[1] == "shared":
    share_arenas()
held, together, over = [], threading.Barrier(17), threading.Event()
def hold():
    held.append(bytes(100_000))
    together.wait()
    over.wait()
for _ in range(16):
    threading.Thread(target=hold, daemon=True).start()
together.wait()
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmSize")))
"""

STARTED = """
import gc
from tracker.service.memory import collect_later, collect_rarely
collect_later()
held = [[] for _ in range(200_000)]
collect_rarely()
print(len(gc.get_objects()), gc.get_freeze_count())
"""

MADE = """
import sys
from alembic import command
from tracker.database.handle import alembic_config, migrate, open_database
made = open_database(f"sqlite:///{sys.argv[1]}")
migrate(made)
print("tracker.database.tables" in sys.modules)
compared = open_database(f"sqlite:///{sys.argv[1]}2")
command.upgrade(alembic_config(compared), "head")
print("tracker.database.tables" in sys.modules)
schemas = [db.connect().exec_driver_sql("select sql from sqlite_master order by name").fetchall() for db in (made, compared)]
print(schemas[0] == schemas[1] != [])
"""


def reserved_mb(how: str) -> float:
    """Address space of a process in which sixteen threads hold memory."""
    ran = subprocess.run([sys.executable, "-c", CODE, how], capture_output=True, text=True, check=True, timeout=60)
    return int(ran.stdout) / 1000


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="heaps of glibc")
def test_threads_share_heaps() -> None:
    """A heap of its own reserves 64 MiB for a thread; up to eight a core are made."""
    assert reserved_mb("each") - reserved_mb("shared") > 5 * 64


def test_cycles_are_looked_for_seldom_while_a_command_runs_and_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[object] = []
    monkeypatch.setattr(times, "moment", lambda *_: seen.append((gc.isenabled(), gc.get_threshold())))
    assert breakeven("--at", "2026-10-16", "download-time", "--help").code == 0
    assert seen == [(True, THRESHOLD)]
    collect_later()
    assert not gc.isenabled()
    assert breakeven("--help").code == 0  # of all: no command runs
    assert gc.isenabled()


def test_a_database_is_made_without_the_models_that_it_is_compared_with(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", MADE, str(tmp_path / "book.db")], capture_output=True, text=True, check=True, timeout=60
    )  # fmt: skip
    assert ran.stdout.split() == ["False", "True", "True"]


def test_what_a_start_has_made_is_not_looked_through_again() -> None:
    begun = subprocess.run([sys.executable, "-c", STARTED], capture_output=True, text=True, check=True, timeout=60)
    looked, kept = map(int, begun.stdout.split())
    assert looked < 100 < 200_000 < kept
