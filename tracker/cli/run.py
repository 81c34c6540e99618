"""``run``: the daemon in the foreground. What answers the first scrape comes first, and everything else is imported behind it."""

from __future__ import annotations

import logging
import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from tracker.answers.recompute import Sizer
from tracker.cli.session import Session, print_table, session
from tracker.database.handle import only_daemon
from tracker.facts.values import Facts
from tracker.kept import Kept
from tracker.paths import config_dir, data_dir, user_config_dir
from tracker.service.memory import collect_later, collect_rarely, share_arenas
from tracker.service.serving import Serving, listen, say
from tracker.service.signals import stop_on_signals
from tracker.service.systemd import supervisor
from tracker.world import load_world

if TYPE_CHECKING:
    from tracker.service.daemon import Daemon


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command()(run)


def run(
    host: Annotated[str, typer.Option(help="Address to listen on; default from tracker.toml.")] = "",
    port: Annotated[int, typer.Option(help="Port to listen on; default from tracker.toml.", min=-1, max=65535)] = -1,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log every skipped reason and fault.")] = False,
) -> None:
    """Collect, recompute and serve in the foreground until Ctrl-C."""
    collect_later()
    logging.basicConfig(
        level=logging.DEBUG if verbose else logging.ERROR, format="%(asctime)s %(name)s %(levelname)s %(message)s", stream=sys.stderr
    )
    logging.getLogger("breakeven.alerts").setLevel(logging.INFO)
    logging.getLogger("breakeven.kept").setLevel(logging.WARNING)
    config = (config_dir(), user_config_dir())
    kept = Kept(data_dir() / "kept", *config)
    found = load_world(*config, kept.facts())
    address = (host or found.settings.web.host, port if port >= 0 else found.settings.web.port)
    bound = listen(*address)
    here = session(found, writes=True)
    with only_daemon(here.db):
        serving = Serving(here.world, here.db, sizer=Sizer(here.world, kept.ways()))
        stop_on_signals(serving.stop)
        url = f"http://{address[0]}:{bound.getsockname()[1]}"
        say(f"page {url}/   metrics {url}/metrics   API {url}/api/v1/models   database {here.db.url.render_as_string(hide_password=True)}")
        share_arenas()  # before there are threads
        serving.serve(bound)
        daemon = _daemon(here, serving)
        kept.keep(Facts(catalogue=found.catalogue, points=found.points), serving.sizer.compiled)
        daemon.schedule()
        collect_rarely()
        say("collecting; Ctrl-C stops")
        supervisor().watch(daemon.stop, daemon.pulse)
        say("stopping")
        if not daemon.close():
            os._exit(0)  # a sweep hangs beyond its limit; the book is safe: a sweep is kept whole or not at all


def _daemon(here: Session, serving: Serving) -> Daemon:
    """The daemon behind what is served already, after the table of tracked models."""
    from tracker.present import HEADER, rows
    from tracker.service.daemon import Daemon  # now: the first scrape is being answered meanwhile

    found = rows(serving.snapshot.answers, serving.snapshot.at)
    cells = [(r.model, r.setup, r.usd_per_hour, r.usd_per_month, r.api_usd_per_mtok, r.break_even, r.verdict, r.age) for r in found]
    print_table(HEADER, cells, numbers=(2, 3, 4, 5))
    for entry in found:
        if entry.reason:
            say(f"{entry.model}: {entry.reason}")
    return Daemon(here.world, here.db, serving=serving)
