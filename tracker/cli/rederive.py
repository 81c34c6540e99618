"""``rederive``: kept bodies read again with today's parsers, and what would be stored otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from tracker.cli.session import Json, print_json, say, session
from tracker.moments import since
from tracker.sweeps.rederive import Difference, Rederived
from tracker.sweeps.rederive import rederive as read_again


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command()(rederive)


def rederive(
    start: Annotated[str, typer.Option("--since", help="Sweeps from this time on, or of so long ago: 7d, 6h, 2026-11-01.")],
    source: Annotated[str, typer.Option("--source", help="Only this source.")] = "",
    as_json: Json = False,
) -> None:
    """Parse kept bodies again with today's parsers and facts and show what would be stored otherwise; changes nothing.

    Exit code 1 when something differs.
    """
    here = session()
    if source:
        here.world.config.source(source)
    found = []
    for sweep in read_again(here.db, here.world, since(start, here.now, "--since"), source, until=here.now):
        found.append(sweep)
        if not as_json:
            _say_sweep(sweep)
    if as_json:
        print_json(found)
    elif not found:
        say(f"no bodies kept{f' of {source}' if source else ''} since {start}; [bodies] in tracker.toml says how long they are")
    if any(sweep.differences for sweep in found):
        raise SystemExit(1)


def _say_sweep(sweep: Rederived) -> None:
    head = f"{sweep.source} {sweep.at:%Y-%m-%d %H:%M:%S}"
    if sweep.not_read:
        say(f"{head}: not compared: {sweep.not_read}")
        return
    held = f", {sweep.held} held back then" if sweep.held else ""
    say(f"{head}: {sweep.equal} equal, {len(sweep.differences)} differ{held}")
    for difference in sweep.differences:
        say(f"  {_line(difference)}")


def _line(difference: Difference) -> str:
    sides = {"added": _values(difference.new), "gone": _values(difference.old), "unreadable": ""}
    shown = sides.get(difference.kind, f"{_values(difference.old)} -> {_values(difference.new)}")
    reason = f" ({difference.reason})" if difference.reason else ""
    return f"{difference.kind} {difference.what} {difference.name}{': ' if shown else ''}{shown}{reason}"


def _values(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {'unknown' if value is None else value}" for name, value in values.items())
