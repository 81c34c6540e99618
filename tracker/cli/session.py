"""What every command needs: the configuration, the book, and a way to print."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text
from sqlalchemy import Engine

from tracker.daemon import open_book, utc_now
from tracker.paths import config_dir, data_dir, user_config_dir
from tracker.plain import as_json
from tracker.world import World, load_world

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


def session() -> Session:
    """Configuration and book; the book is made, with the embedded prices in it, if there is none yet."""
    found, now = world(), utc_now()
    return Session(world=found, db=open_book(found, data_dir(), now), now=now)


def print_json(value: Any) -> None:
    """JSON on standard output."""
    print(as_json(value))


def print_table(header: Sequence[str], lines: Iterable[Sequence[str]], *, title: str = "", numbers: Sequence[int] = ()) -> None:
    """A table; scraped strings are printed as they are, without markup."""
    table = Table(title=title or None, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for place, name in enumerate(header):
        table.add_column(Text(name), justify="right" if place in numbers else "left", overflow="fold")
    for line in lines:
        table.add_row(*(Text(cell) for cell in line))
    console().print(table)


def say(line: str) -> None:
    """One line of text, without markup."""
    console().print(Text(line), soft_wrap=True)


def console() -> Console:
    """Standard output: as wide as the terminal, wide where there is none."""
    found = Console(highlight=False)
    return found if found.is_terminal else Console(highlight=False, width=PIPED_WIDTH)
