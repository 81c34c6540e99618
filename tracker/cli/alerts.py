"""``alerts``: what is active and what was told, answers to it, a try of the routes, and what rules would have told."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from sqlalchemy import RowMapping

from tracker.alerting import decisions
from tracker.alerting.counts import alert_counts
from tracker.alerting.deadline import deadline_client
from tracker.alerting.gallery import why_none
from tracker.alerting.ledger import FAILED, said
from tracker.alerting.routes import Channels, Email
from tracker.alerting.senders import Delivery, make_sender
from tracker.alerting.trial import trial_message
from tracker.cli.alert_replay import known_rule, run_backtest
from tracker.cli.session import Json, Session, print_json, print_table, say, session
from tracker.cli.values import MOST_ROWS
from tracker.database.handle import reading, writing
from tracker.errors import BreakevenError, UnknownName, did_you_mean
from tracker.moments import since, span

Id = Annotated[int, typer.Argument(help="Number of the alert, as list and history show it.", min=1, max=MOST_ROWS)]
By = Annotated[str, typer.Option("--by", help="Who decides; default: the user's name.")]
RuleName = Annotated[str, typer.Argument(help="A rule of alerts.toml.")]


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    group = typer.Typer(no_args_is_help=True, help="What is told: look at it, answer it, try it, and replay it.")
    for name, command in (
        ("list", list_active), ("history", history), ("test", test), ("ack", ack), ("snooze", snooze), ("mute", mute), ("unmute", unmute),
        ("retry", retry), ("backtest", run_backtest),
    ):  # fmt: skip
        group.command(name)(command)
    app.add_typer(group, name="alerts")


# --- look -------------------------------------------------------------------------------------------------------------


def list_active(as_json: Json = False) -> None:
    """Active alerts, silences, routes, and what nobody took."""
    here = session()
    with reading(here.db) as connection:
        active, quiet = decisions.active(connection, here.now), decisions.silent(connection, here.now)
        waiting = decisions.undelivered(connection)
        counts = alert_counts(connection, {row["route"] for row in waiting if _is_on(here, row)})
    routes = {name: route.off_reason or "on" for name, route in here.world.alerts.routes.items()}
    if as_json:
        print_json({
            "active": [_facts(row) for row in active], "silences": [dict(row) for row in quiet], "routes": routes,
            "undelivered": [_delivery(row) for row in waiting], "counts": counts,
        })  # fmt: skip
        return
    _print_alerts(active, f"{len(active)} active")
    for row in quiet:
        until = "until it is lifted" if row["until"] is None else f"until {row['until']:%Y-%m-%d %H:%M} UTC"
        say(f"silent {until}: {row['rule'] or 'all rules'}{' ' + row['subject'] if row['subject'] else ''} (by {row['created_by']})")
    for name, reason in routes.items():
        say(f"route {name}: {reason}")
    for row in waiting:
        word = "waits" if _is_on(here, row) else "waits, and its route is off"
        word = "DEAD LETTER, breakeven alerts retry sends it again" if row["state"] == FAILED else word
        say(f"{row['key']} to {row['route']}: {word}; {row['attempts']} attempts; {row['last_error'] or 'not tried yet'}")


def _is_on(here: Session, delivery: RowMapping) -> bool:
    route = here.world.alerts.routes.get(delivery["route"].partition("#")[0])
    return route is not None and not route.off_reason


def history(
    start: Annotated[str, typer.Option("--since", help="From this time on, or so long ago: 7d, 6h, 2026-11-01.")] = "7d",
    as_json: Json = False,
) -> None:
    """Everything that was told, newest first."""
    here = session()
    with reading(here.db) as connection:
        found = decisions.since(connection, since(start, here.now, "--since"), here.now)
    if as_json:
        print_json([_facts(row) for row in found])
    else:
        _print_alerts(found, f"{len(found)} alerts")


def _print_alerts(rows: Sequence[RowMapping], title: str) -> None:
    print_table(("id", "time (UTC)", "rule", "state", "what"), [_cells(row) for row in rows], numbers=(0,), title=title)


def _cells(row: RowMapping) -> tuple[str, ...]:
    return str(row["id"]), f"{row['fired_at']:%Y-%m-%d %H:%M}", row["rule"] or row["kind"], _state(row), str(_body(row)["text"])


def _state(row: RowMapping) -> str:
    if row["acked_at"] is not None:
        return f"acknowledged by {row['acked_by']}"
    if row["over_at"] is not None:
        return "over"
    return "active" if row["held_until"] is None else f"held until {row['held_until']:%Y-%m-%d %H:%M}"


def _body(row: RowMapping) -> dict[str, Any]:
    return said(row)


def _facts(row: RowMapping) -> dict[str, Any]:
    names = ("id", "key", "rule", "kind", "subject", "fired_at", "held_until", "over_at", "acked_at", "acked_by", "digest")
    return {name: row[name] for name in names} | {"state": _state(row), **_body(row)}


def _delivery(row: RowMapping) -> dict[str, Any]:
    return {name: row[name] for name in ("key", "kind", "route", "state", "attempts", "created_at", "last_error")}


# --- answer -----------------------------------------------------------------------------------------------------------


def ack(id_: Id, by: By = "", as_json: Json = False) -> None:
    """Somebody knows: no longer active, closed at an Alertmanager. What is worth telling against it is told as ever."""
    here = session(writes=True)
    with writing(here.db) as connection:
        found = decisions.acknowledge(connection, id_, _who(by), here.now)
    _confirm(found, "acknowledged", as_json)


def snooze(
    id_: Id, length: Annotated[str, typer.Option("--for", help="How long: 12h, 3d, 2w.")] = "1d", by: By = "", as_json: Json = False
) -> None:  # fmt: skip
    """Tell nothing more about this for a while. What is still so afterwards is told then, against the price of the last message."""
    here = session(writes=True)
    until = here.now + span(length, "--for")
    with writing(here.db) as connection:
        found = decisions.snooze(connection, id_, until, _who(by), here.now)
    _confirm(found, f"silent until {until:%Y-%m-%d %H:%M} UTC", as_json)


def _confirm(found: RowMapping, word: str, as_json: bool) -> None:
    if as_json:
        print_json({"id": found["id"], "rule": found["rule"], "subject": found["subject"], "state": word})
    else:
        say(f"{found['id']}: {_body(found)['title']}: {word}")


def mute(
    rule: RuleName, length: Annotated[str, typer.Option("--for", help="How long; default: until unmute.")] = "", by: By = ""
) -> None:  # fmt: skip
    """Tell nothing of a rule."""
    here = session(writes=True)
    known_rule(here, rule)
    until = here.now + span(length, "--for") if length else None
    with writing(here.db) as connection:
        decisions.silence(connection, rule, "", _who(by), here.now, until)
    say(f"{rule}: silent " + ("until breakeven alerts unmute" if until is None else f"until {until:%Y-%m-%d %H:%M} UTC"))


def unmute(rule: RuleName) -> None:
    """Tell of a rule again; what has moved meanwhile and is still so is told at the next look."""
    here = session(writes=True)
    known_rule(here, rule)
    with writing(here.db) as connection:
        ended = decisions.lift(connection, rule)
    say(f"{rule}: told again" if ended else f"{rule}: was not muted")


def retry() -> None:
    """Put dead letters back into the outbox; the daemon sends them."""
    here = session(writes=True)
    with writing(here.db) as connection:
        count = decisions.retry(connection, here.now)
    say(f"{count} dead letter{'' if count == 1 else 's'} back in the outbox")


def _who(by: str) -> str:
    return by or os.environ.get("USER") or "command line"


# --- try --------------------------------------------------------------------------------------------------------------


def test(
    route: Annotated[str, typer.Option("--route", help="Only this one; default: all that are on.")] = "", as_json: Json = False
) -> None:  # fmt: skip
    """Send a message marked as a test to the routes, now, and say what came back. Exit code 1 when one did not take it."""
    here = session(only_now=True)
    routes = here.world.alerts.routes
    if route and route not in routes:
        raise UnknownName(f"no route named {route!r}{did_you_mean(route, routes)}; alerts.toml has {', '.join(routes)}")
    wanted = [name for name in routes if name == route or not (route or routes[name].off_reason)]
    if not wanted:
        reasons = "; ".join(f"{name}: {found.off_reason}" for name, found in routes.items())
        raise BreakevenError(f"no route is on: {reasons}")
    message = trial_message(here.world, here.now)
    found = {name: _try(here, name, message) for name in wanted}
    kinds = {here.world.alerts.routes[name].kind for name in wanted}
    missing = why_none() if kinds & {Email.kind, Channels.kind} else ""
    if as_json:
        print_json([{"route": name, "taken": not fault, "answer": fault or "taken"} for name, fault in found.items()])
    else:
        for name, fault in found.items():
            say(f"{name}: {fault or 'taken'}")
        if missing:
            say(missing)
    if any(found.values()):
        raise typer.Exit(1)


def _try(here: Session, name: str, message: dict[str, Any]) -> str:
    route = here.world.alerts.routes[name]
    if route.off_reason:
        return f"off: {route.off_reason}"
    with deadline_client(threading.Event()) as client:
        return Delivery(make_sender(route), route.timeout_s).tried(client, message, here.now)
