"""The command line."""

from __future__ import annotations

import sys

from tracker.memory import collect_rarely


def main() -> None:
    """Entry point."""
    collect_rarely()
    from tracker.cli.program import run  # after that: importing it makes a hundred thousand values, and throws none of them away

    run(sys.argv[1:])
