"""``collect``, ``sources`` and ``check``."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Annotated, Any

import typer
from sqlalchemy.exc import DBAPIError

from scrapers.http import HostGate
from tracker.answers.health import source_health
from tracker.answers.questions import tracked
from tracker.answers.snapshot import SourceHealth
from tracker.budgets.sellers import doubts, sellers
from tracker.cli.session import Json, Session, print_json, print_table, say, session, world
from tracker.config import Source
from tracker.database.handle import database_url, only_daemon, open_database, reading, revision, revisions
from tracker.now import utc_now
from tracker.paths import config_dir, data_dir, user_config_dir
from tracker.present import source_line
from tracker.sweeps.collect import Collector, describe, longest_first
from tracker.sweeps.leases import start_alone
from tracker.sweeps.store import unmapped_names
from tracker.sweeps.turns import WORKERS, Turn, Turns, sweep_in_turn
from tracker.world import World

LEASE_MARGIN_S = 60.0  # beyond the deadline of a fetch: a single run renews no lease


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    app.command()(collect)
    app.command()(sources)
    app.command()(check)


def collect(
    source: Annotated[str, typer.Argument(help="One source; all when left out.")] = "",
    save: Annotated[bool, typer.Option("--save", help="Keep the fetched bodies as files in the data directory.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Parse again even if nothing changed.")] = False,
    as_json: Json = False,
) -> None:
    """Collect one source, or all, once. Exit code 1 when one failed."""
    here = session(writes=True)
    chosen = [here.world.config.source(source)] if source else longest_first(here.world.config.sources.values())
    collector = Collector(world=here.world, db=here.db, now=utc_now, gate=HostGate(monotonic=monotonic))
    kept = data_dir() / "saved" if save else None
    turns = Turns(db=here.db, now=utc_now, lease_s=collector.world.settings.fetch.deadline_s + LEASE_MARGIN_S)
    with only_daemon(here.db), ThreadPoolExecutor(WORKERS) as pool:
        start_alone(here.db, here.now)
        running = [pool.submit(sweep_in_turn, collector, turns, one, early=True, save_to=kept, force=force) for one in chosen]
        found = [done.result() for done in running]
    for one, turn in zip(chosen, found, strict=True):
        if not as_json:
            say(_told(here, one, turn))
    reports = [turn.report for turn in found if turn.report is not None]
    if as_json:
        print_json([_summary(report) for report in reports])
    elif kept:
        say(f"bodies kept in {kept}")
    if any(report.status == "failed" for report in reports):
        raise SystemExit(1)


def _told(here: Session, source: Source, turn: Turn) -> str:
    if turn.report is not None:
        return describe(turn.report)
    return f"{source.id}: {turn.holder} collects it now" if turn.holder else source_line(_health(here, source.id), here.now)


def _summary(report: object) -> dict[str, object]:
    names = ("source", "status", "started_at", "finished_at", "rows", "skipped", "bytes", "error")
    return {name: getattr(report, name) for name in names}


def _health(here: Session, name: str) -> SourceHealth:
    with reading(here.db) as connection:
        return next(found for found in source_health(connection, here.world.config.sources, here.now) if found.id == name)


def sources(
    unmapped: Annotated[bool, typer.Option("--unmapped", help="List the names no alias knows.")] = False, as_json: Json = False
) -> None:  # fmt: skip
    """How each source is doing; with --unmapped, the names it prints that nothing maps."""
    here = session()
    if unmapped:
        names = [dict(row) for row in unmapped_names(here.db, here.now)]
        if as_json:
            print_json(names)
        else:
            print_table(
                ("source", "kind", "name", "last seen"),
                [(n["source"], n["kind"], n["name"], f"{n['last_seen']:%Y-%m-%d %H:%M}") for n in names],
            )
        return
    with reading(here.db) as connection:
        health = source_health(connection, here.world.config.sources, here.now)
    if as_json:
        print_json(health)
        return
    for one in health:
        say(source_line(one, here.now))


def check(as_json: Json = False) -> None:
    """Read the whole configuration and say whether it is sound."""
    found = world()
    facts: dict[str, Any] = {
        "config": str(config_dir()),
        "user_config": str(user_config_dir()),
        "sources": len(found.config.sources),
        "models": len(found.catalogue.models),
        "gpus": len(found.catalogue.gpus),
        "formats": len(found.catalogue.formats),
        "workloads": len(found.workloads),
        "questions": len(tracked(found)),
        "doubts": list(doubts(found, partial(_sellers, found))),
    }
    if as_json:
        print_json(facts)
        return
    own = f" with {user_config_dir()} over it" if Path(user_config_dir()).is_dir() else ""
    say(f"configuration {config_dir()}{own} is sound: " + ", ".join(f"{n} {name}" for name, n in facts.items() if isinstance(n, int)))
    for doubt in facts["doubts"]:
        say(f"tracker.toml: {doubt}")


def _sellers(found: World) -> set[str]:
    """Those of the book; none where it cannot be read as it is: a check makes no book and changes none."""
    db = open_database(database_url(found.settings.database.url, data_dir()))
    if db.dialect.name == "sqlite" and not Path(db.url.database or "").is_file():
        return set()
    try:
        with reading(db) as connection:
            return sellers(connection) if revision(connection) == revisions()[1] else set()
    except DBAPIError:
        return set()
    finally:
        db.dispose()
