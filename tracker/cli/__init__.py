"""The command line. Errors are one line on standard error and exit code 1; wrong usage is 2; ``--json`` works everywhere."""

from __future__ import annotations

import sys

import typer
from sqlalchemy.exc import DatabaseError

from tracker.cli import answers, book, daemon, finance
from tracker.errors import BreakevenError

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Rent GPUs or pay per token: prices, setups and the volume at which renting wins.",
)
for commands in (daemon, answers, book, finance):
    commands.add_to(app)


def main() -> None:
    """Entry point: one line for what a user can mend, never a traceback for it."""
    try:
        app()
    except BreakevenError as error:
        _fail(str(error))
    except DatabaseError as error:
        _fail(f"database: {' '.join(str(error.orig).split())}")
    except BrokenPipeError:
        sys.stderr.close()  # the reader has seen enough: no complaint at exit either
        raise SystemExit(0) from None
    except OSError as error:
        _fail(f"{error.filename or 'system'}: {error.strerror or error}")


def _fail(message: str) -> None:
    print(f"breakeven: {message}", file=sys.stderr)
    raise SystemExit(1)
