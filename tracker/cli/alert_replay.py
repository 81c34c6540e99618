"""``alerts backtest``: what the rules would have told over the stored history."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any

import typer

from tracker.alerting.backtest import Backtest, Fired, backtest, summary
from tracker.alerting.replay import read_past, snapshots
from tracker.cli.session import Json, Session, print_json, print_table, say, session
from tracker.database.handle import reading
from tracker.errors import UnknownName, did_you_mean
from tracker.moments import since, span


def known_rule(here: Session, rule: str) -> None:
    """UnknownName with the closest one where alerts.toml has no such rule."""
    if rule not in here.world.alerts.rules:
        known = here.world.alerts.rules
        raise UnknownName(f"no rule named {rule!r}{did_you_mean(rule, known)}; alerts.toml has {', '.join(known)}")


def run_backtest(
    start: Annotated[str, typer.Option("--since", help="From this time on, or so long ago.")] = "30d",
    step: Annotated[str, typer.Option("--step", help="Of several readings within that time look at the last only.")] = "15m",
    rule: Annotated[str, typer.Option("--rule", help="Only this one.")] = "",
    as_json: Json = False,
) -> None:
    """What the rules would have told over the stored history, when it would have been sent by [delivery] of alerts.toml, how much of it
    was still true 6 hours later, and what they missed."""
    here = session()
    if rule:
        known_rule(here, rule)
    rules = {name: found for name, found in here.world.alerts.rules.items() if found.enabled and rule in ("", name)}
    with reading(here.db) as connection:
        past = read_past(connection)
        looks = past.looks(since(start, here.now, "--since"), here.now, span(step, "--step"))
        found = backtest(here.world, rules, snapshots(connection, here.world, past, looks, here.now))
    lines = summary(found, rules)
    if as_json:
        fired = [_fired(one) for one in found.fired]
        print_json(
            {
                "looks": found.looks,
                "messages": found.messages,
                "first": found.first,
                "last": found.last,
                "rules": lines,
                "fired": fired,
                "missed": found.missed,
            }
        )
    else:
        _print_backtest(found, lines)


def _fired(found: Fired) -> dict[str, Any]:
    alarm = found.alarm
    return {
        "at": found.at, "rule": alarm.rule, "subject": alarm.subject, "still_true": found.still_true, "sent_at": found.sent.at,
        "bundled": found.sent.bundled, "waits_until": found.sent.waits_until, "text": alarm.text, **alarm.facts,
    }  # fmt: skip


def _sent(found: Fired) -> str:
    """What would have become of it, in words."""
    sent = found.sent
    if sent.waits_until is not None:
        return f"waits until {sent.waits_until:%Y-%m-%d %H:%M}"
    if sent.at is None:
        return "never: over before"
    return ("at once" if sent.at == found.at else f"{sent.at:%Y-%m-%d %H:%M}") + (", with others" if sent.bundled else "")


def _print_backtest(found: Backtest, lines: list[dict[str, Any]]) -> None:
    word = {True: "yes", False: "no", None: "?"}
    print_table(
        ("time (UTC)", "rule", "sent", "true 6 h later", "what"),
        [(f"{f.at:%Y-%m-%d %H:%M}", f.alarm.rule, _sent(f), word[f.still_true], f.alarm.text) for f in found.fired],
    )
    for miss in found.missed:
        old, new = (", ".join(f"{value.normalize():f}" for value in prices.values()) for prices in (miss.old, miss.new))
        say(f"missed {miss.at:%Y-%m-%d %H:%M}: {miss.rule} {miss.subject}: {old} to {new}")
    cells = [
        (
            line["rule"],
            str(line["fired"]),
            str(line["sent"]),
            f"{line['still_true']} of {line['known']}",
            "-" if (n := line["missed"]) is None else str(n),
        )
        for line in lines
    ]
    days = 0.0 if found.first is None or found.last is None else (found.last - found.first) / timedelta(days=1)
    title = f"{found.looks} looks over {days:.1f} days, {found.messages} message{'' if found.messages == 1 else 's'}"
    print_table(("rule", "alerts", "sent", "true 6 h later", "missed"), cells, numbers=(1, 2, 3, 4), title=title)
