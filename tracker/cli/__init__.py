"""The command line."""

from __future__ import annotations

import sys

from tracker.service.memory import collect_later, collect_rarely


def main() -> None:
    """Entry point."""
    collect_later()
    try:
        from tracker.cli.program import run  # after that: importing it makes a hundred thousand values, and throws none of them away

        run(sys.argv[1:])
    finally:
        collect_rarely()
