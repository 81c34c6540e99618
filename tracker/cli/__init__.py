"""The command line."""

from __future__ import annotations

import sys

from tracker.service.memory import collect_later, collect_rarely
from tracker.service.signals import end_on_signals


def main() -> None:
    """Entry point."""
    if sys.argv[1:2] == ["run"]:
        end_on_signals()  # before half a second of imports
    collect_later()
    try:
        from tracker.cli.program import run  # after that: importing it makes a hundred thousand values, and throws none of them away

        run(sys.argv[1:])
    finally:
        collect_rarely()
