"""Health of the collection: which sources are read, how old their prices are against their own limits, and what fails."""

from __future__ import annotations

from overview import not_up_to_date, price_age, snapshot_age
from panels import Column, Json, Panel, ask, ask_now, bars, dashboard, lines, stat, table, value
from queries import TITLES, any_of, choices, common, links, process, series

UID = "breakeven-sources"
CHOSEN = any_of("source")
ENABLED, LIMIT, ROWS, LENGTH, SWEEPS, FAILED = (
    f"max by (source) ({series(name, *CHOSEN)})"
    for name in (
        "source_enabled", "source_max_age_seconds", "source_rows", "source_sweep_duration_seconds", "source_sweeps_total",
        "source_failures_total",
    )
)  # fmt: skip
REJECTED = f"sum by (source) ({series('source_rejected_rows', *CHOSEN)})"
AGE, TRIED = (
    f"time() - max by (source) ({series(f'source_last_{name}_timestamp_seconds', *CHOSEN)})" for name in ("success", "attempt")
)  # fmt: skip
OWN_START = process("start_time_seconds")
FAILURES = series("source_failures_total", *CHOSEN)


def sources() -> Json:
    """The dashboard."""
    return dashboard(
        uid=UID,
        title=TITLES[UID],
        description="Which sources of prices are read, how old their prices are against their own limits, and what fails.",
        links=links(UID),
        variables=[*common(), choices("source", series("source_enabled"))],
        rows=[
            (4, [snapshot_age(), price_age(), not_up_to_date(), switched_on(), failed_sweeps(), program()]),
            (11, [ages(), counts()]),
            (9, [share_of_limit(), failures()]),
            (9, last_sweeps()),
            (9, held_back()),
            (9, [rejected_by_reason(), every()]),
            (4, program_now()),
            (8, [troubles(), active_alerts(), memory(), work()]),
        ],
    )


def held_back() -> list[Panel]:
    """Prices the guard keeps out of the answers."""
    waiting = ask(f"sum by (source) ({series('source_quarantined_prices', *CHOSEN)})", "{{source}}")
    twice = ask(f"sum by (source) ({series('source_conflicting_prices', *CHOSEN)})", "{{source}}")
    return [
        lines("Waiting in quarantine", "Prices that wait to be confirmed or decided by hand.", [waiting], "short"),
        lines("Printed at two prices", "Prices one sweep printed twice with different values: neither is believed.", [twice], "short"),
    ]


def rejected_by_reason() -> Panel:
    """Why rows cannot be used."""
    asked = ask_now(f"sort_desc(sum by (source, reason) ({series('source_rejected_rows_by_reason', *CHOSEN)}))", "{{source}}: {{reason}}")
    return bars("Why rows could not be used", "Rows of each source's last sweep, by reason.", asked, "short")


def every() -> Panel:
    """Ages in sweeps."""
    about = "Since the last attempt, over the interval of the source: above 200 % a sweep was left out."
    asked = ask(f"({TRIED}) / max by (source) ({series('source_interval_seconds', *CHOSEN)})", "{{source}}")
    return lines("Time since the last attempt, in intervals", about, [asked], "percentunit", limit=2)


def program_now() -> list[Panel]:
    """The daemon's own figures."""
    one = {
        name: f"max({series(name)})" for name in ("jobs", "outbox_waiting_deliveries", "outbox_failed_deliveries", "database_size_bytes")
    }
    started = f"time() - max({OWN_START})"
    return [
        stat("Running for", "Since the program started.", ask_now(started, "running"), "s"),
        stat("Jobs", "Of the scheduler: one for each source that is on, and its own.", ask_now(one["jobs"], "jobs"), "short"),
        stat("Messages waiting", "Of alerts, still to be delivered.", ask_now(one["outbox_waiting_deliveries"], "waiting"), "short",
             limits=[("green", 0), ("orange", 1)]),
        stat("Messages given up", "Of alerts: nobody took them.", ask_now(one["outbox_failed_deliveries"], "failed"), "short",
             limits=[("green", 0), ("red", 1)]),
        stat("Database", "Its size, what is free in it included.", ask_now(one["database_size_bytes"], "size"), "bytes"),
    ]  # fmt: skip


def troubles() -> Panel:
    """What kept the program from its work."""
    about = "A line for each kind of trouble: 1 while it kept the program from keeping sweeps."
    return lines("Trouble with the database or the clock", about, [ask(f"max by (kind) ({series('trouble')})", "{{kind}}")], "short")


def active_alerts() -> Panel:
    """What people were told and is still so."""
    about = "Alerts of the daemon's own rules that are true, news and not acknowledged, by kind."
    return lines("Active alerts", about, [ask(f"max by (kind) ({series('alerts_active')})", "{{kind}}")], "short")


def memory() -> Panel:
    """Memory and open files."""
    asked = [ask(f"max({process('resident_memory_bytes')})", "memory")]
    return lines("Memory", "Resident memory of the process.", asked, "bytes")


def work() -> Panel:
    """What the process uses of the machine, and what it left out."""
    asked = [
        ask(f"max(rate({process('cpu_seconds_total')}[$__rate_interval]))", "processors in use"),
        ask(f"max({process('open_fds')}) / max({process('max_fds')})", "open files of those allowed"),
        ask(f"max(increase({series('jobs_missed_total')}[$__rate_interval]))", "runs left out"),
    ]
    return lines("Load", "Processors in use, open files as a share of those allowed, and runs of jobs that were left out.", asked, "short")


def switched_on() -> Panel:
    """How many are collected."""
    about = "Sources that are collected; the others are switched off or lack a key."
    return stat("Sources switched on", about, ask_now(f"sum({ENABLED})", "on"), "short")


def failed_sweeps() -> Panel:
    """Failures of all sources."""
    asked = ask_now(f"sum(max by (source) (increase({FAILURES}[$__range])))", "failed")
    return stat("Failed sweeps", "Of the chosen sources in the time range.", asked, "short", limits=[("green", 0), ("orange", 1)])


def program() -> Panel:
    """Which version runs."""
    return stat(
        "Version", "The running program.", ask_now(f"max by (version) ({series('build_info')})", "{{version}}"), "none", text="name"
    )


def _table(title: str, about: str, columns: dict[str, str], unit: str) -> Panel:
    """A row for each source. ``columns`` are title: query."""
    shown = [Column(field="source", title="source"), *(Column(field=value(n), title=name) for n, name in enumerate(columns))]
    return table(title, about, [ask_now(query, name) for name, query in columns.items()], shown, unit, sorted_by="source")


def ages() -> Panel:
    """Times of each source."""
    about = "Since the last full read, the age at which prices leave the ranking, since the last attempt, and the length of the last sweep."
    return _table("Ages", about, {"last read": AGE, "limit": LIMIT, "last tried": TRIED, "length": LENGTH}, "s")


def counts() -> Panel:
    """Numbers of each source."""
    about = (
        "On is 1 where the source is collected. Prices and rejected rows are those of the last sweep; sweeps and failures count since the "
        "database was made."
    )
    return _table("Counts", about, {"on": ENABLED, "prices": ROWS, "rejected": REJECTED, "sweeps": SWEEPS, "failed": FAILED}, "short")


def share_of_limit() -> Panel:
    """Ages by one measure."""
    about = "Since the last full read, over the age at which the source's prices leave the ranking."
    return lines("Age as a share of its limit", about, [ask(f"({AGE}) / {LIMIT}", "{{source}}")], "percentunit", limit=1)


def failures() -> Panel:
    """When sweeps failed."""
    asked = ask(f"max by (source) (increase({FAILURES}[$__rate_interval]))", "{{source}}")
    return lines("Failed sweeps over time", "How many sweeps of a source failed within each bar.", [asked], "short", bars_every="1h")


def last_sweeps() -> list[Panel]:
    """What each sweep brought and how long it took."""
    return [
        lines("Prices accepted", "In the last sweep of each source.", [ask(ROWS, "{{source}}")], "short"),
        lines("Rows that could not be used", "In the last sweep of each source.", [ask(REJECTED, "{{source}}")], "short"),
        lines("Length of a sweep", "Of the last sweep of each source.", [ask(LENGTH, "{{source}}")], "s"),
    ]
