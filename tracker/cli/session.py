"""What every command needs: the configuration, the book, and a way to print."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer
from sqlalchemy import Engine

from tracker.book.asof import as_known
from tracker.cli.times import asked_at
from tracker.database.handle import reading
from tracker.errors import BreakevenError
from tracker.moments import past_moment
from tracker.now import utc_now
from tracker.paths import config_dir, data_dir, user_config_dir
from tracker.plain import as_json
from tracker.service.opening import open_book
from tracker.world import World, load_world

if TYPE_CHECKING:
    from rich.console import Console

PIPED_WIDTH = 200  # a table that is not read on a terminal must not wrap at 80 columns

Json = Annotated[bool, typer.Option("--json", help="Print JSON; money as decimal strings.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """One run of a command: what is configured, the book, and the time it stands for."""

    world: World
    db: Engine
    now: datetime


def world() -> World:
    """The shipped configuration with the user's over it."""
    return load_world(config_dir(), user_config_dir())


def session(read: World | None = None, *, writes: bool = False, only_now: bool = False) -> Session:
    """Configuration, book, and the time --at names; the book is made, with the embedded prices in it, if there is none yet.

    ``read`` is the configuration where it has been read. A command that ``writes`` does so now, and one that
    looks ``only_now`` keeps no history: both refuse --at.
    """
    found, now, at = read or world(), utc_now(), asked_at()
    if at and writes:
        raise BreakevenError("--at is for looking back; this command changes the book, and can do so only now")
    if at and only_now:
        raise BreakevenError("--at is for looking back; this command knows only how things are now")
    here = Session(world=found, db=open_book(found, data_dir(), now), now=past_moment(at, now, "--at") if at else now)
    if at:
        _tell_hindsight(here)
    return here


def _tell_hindsight(here: Session) -> None:
    """On standard error, where the book began after the moment asked about: what is answered from then."""
    with reading(here.db) as connection:
        moment = as_known(connection, here.now)
    if moment.in_hindsight:
        known = f"imported history, as known at {moment.known:%Y-%m-%d %H:%M} UTC"
        print(f"breakeven: the book began after {here.now:%Y-%m-%d %H:%M} UTC; answered from {known}", file=sys.stderr)


def print_json(value: Any) -> None:
    """JSON on standard output."""
    print(as_json(value))


def print_table(header: Sequence[str], lines: Iterable[Sequence[str]], *, title: str = "", numbers: Sequence[int] = ()) -> None:
    """A table; scraped strings are printed as they are, without markup."""
    from rich import box  # here, and below: the daemon serves before it prints anything
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title or None, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for place, name in enumerate(header):
        table.add_column(Text(name), justify="right" if place in numbers else "left", overflow="fold")
    for line in lines:
        table.add_row(*(Text(cell) for cell in line))
    console().print(table)


def say(line: str) -> None:
    """One line of text, without markup."""
    from rich.text import Text

    console().print(Text(line), soft_wrap=True)


def console() -> Console:
    """Standard output: as wide as the terminal, wide where there is none."""
    from rich.console import Console

    found = Console(highlight=False)
    return found if found.is_terminal else Console(highlight=False, width=PIPED_WIDTH)
