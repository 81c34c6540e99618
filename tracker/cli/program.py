"""The command line. Errors are one line on standard error and exit code 1; wrong usage is 2.

``--json`` and ``--at`` work everywhere.
"""

from __future__ import annotations

import sys

import typer
from sqlalchemy.exc import DatabaseError

from tracker.cli.commands import Commands
from tracker.cli.times import At, stand_at
from tracker.database.faults import fault_line
from tracker.errors import BreakevenError
from tracker.service.memory import collect_rarely

app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Rent GPUs or pay per token: prices, setups and the volume at which renting wins.",
)


@app.callback()
def _options(at: At = "") -> None:
    """Options of every command, which has been loaded by now."""
    collect_rarely()
    stand_at(at)


def run(words: list[str]) -> None:
    """Run the command that the words name: one line for what a user can mend, never a traceback for it."""
    try:
        app(args=at_first(words))
    except BreakevenError as error:
        _fail(str(error))
    except DatabaseError as error:
        _fail(f"database: {fault_line(error)}")
    except BrokenPipeError:
        sys.stderr.close()  # the reader has seen enough: no complaint at exit either
        raise SystemExit(0) from None
    except OSError as error:
        _fail(f"{error.filename or 'system'}: {error.strerror or error}")


def at_first(words: list[str]) -> list[str]:
    """The words with ``--at TIME`` before the command: it belongs to all of them and may be typed anywhere."""
    first: list[str] = []
    rest: list[str] = []
    words = list(words)
    while words:
        word = words.pop(0)
        if word == "--":
            return [*first, *rest, word, *words]
        if word == "--at" and words:
            first = [word, words.pop(0)]
        elif word.startswith("--at="):
            first = [word]
        else:
            rest.append(word)
    return first + rest


def _fail(message: str) -> None:
    print(f"breakeven: {message}", file=sys.stderr)
    raise SystemExit(1)
