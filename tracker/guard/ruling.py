"""Judges one sweep inside its transaction: which rows are listed, which wait in quarantine, and whether the sweep can be true at all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from sqlalchemy import Connection

from tracker.book.listing import Row, prices_of
from tracker.book.standing import Standing
from tracker.database.rows import OfferRow, from_s
from tracker.guard.case import Case, Doubts, Printed
from tracker.guard.context import Guard
from tracker.guard.doubts import HAND, REPEAT, Doubt, close, hardest
from tracker.guard.quarantine import (
    ACCEPTED,
    CONFIRMED,
    PENDING,
    REJECTED,
    WITHDRAWN,
    Entry,
    accepted_faults,
    decide,
    hold,
    hold_conflict,
    refusals,
    seen_again,
)
from tracker.guard.sweeps import BELIEVED_IN_TIME, IMPLAUSIBLE, MOVED, Tally, refuse_if_impossible


@dataclass(slots=True)
class Ruling:
    """Which of a sweep's changed rows are listed, which are held, and how much of it waits."""

    passed: dict[str, Row] = field(default_factory=dict)
    held: set[str] = field(default_factory=set)
    quarantined: int = 0
    warned: Counter[str] = field(default_factory=Counter)


def rule(case: Case, allowed: Collection[str]) -> Ruling:
    """Judge a sweep's rows; SweepRefused when it cannot be true. ``allowed``: faults that are let pass this time."""
    doubts = {key: case.doubts(key, row) for key, row in case.moved.items()}
    refuse_if_impossible(_tally(case, doubts), case.seen.source, case.guard.settings, allowed)
    doubts |= _all_at_once(case, doubts)
    ruling = Ruling(warned=Counter(case.contradictions.warned) if case.moved else Counter())
    for key, row in case.printed.changed.items():
        if key not in case.moved or _passes(case, key, row, _weighed(doubts[key], allowed)):
            ruling.passed[key] = row
        else:
            ruling.held.add(key)
    for key, entries in case.entries.items():
        if key in case.printed.rows and key not in case.moved:
            _withdraw(case, entries, "the listed price came back")
        elif not case.printed.has(key):
            _withdraw(case, entries, "no longer printed")
    ruling.quarantined = len(ruling.held) + _conflicts(case)
    return ruling


def _all_at_once(case: Case, doubts: Mapping[str, Doubts]) -> dict[str, Doubts]:
    """Most of a price list is not as it was: another currency or tax, other columns, or true; the next sweep tells."""
    settings, rows = case.guard.settings, case.printed.rows
    told = {*case.missing, *case.printed.conflicts, *case.printed.rejected, *case.moved}
    same = {key for key in told if key in rows and (key not in case.moved or _nearly(case, key, rows[key]))}
    changed = {key for key in told - same if _is_expected(case, key)}
    if len(changed) < settings.all_rows or len(changed) < settings.all_share * _at_least_known(case):
        return {}
    known = sum(_is_expected(case, key) for key in case.known if case.printed.has(key) or key in case.missing)
    if len(changed) < settings.all_share * known or all(map(_is_spot, rows.values())):
        return {}
    doubt = Doubt(f"{len(changed)} of {known} prices are not as they were")
    return {key: replace(found, moved=(*found.moved, doubt)) for key, found in doubts.items() if key in changed}


def _at_least_known(case: Case) -> int:
    """How many prices are expected at the least, without a look at each."""
    rows = case.printed.rows.values()
    printed = len(rows) - sum(case.listed(key) is None for key in case.printed.changed)
    listed = len(case.known) - len(case.listing.gone) if case.printed.whole else printed
    return listed - len(case.listing.absent) - sum(map(_is_ask, rows))


def _is_expected(case: Case, key: str) -> bool:
    """Whether a price was listed and printed before this sweep, and is not asked on a market."""
    row = case.printed.rows.get(key)
    return case.listed(key) is not None and not case.known[key].is_missed and not (row is not None and _is_ask(row))


def _nearly(case: Case, key: str, row: Row) -> bool:
    """Whether a price is the listed one but for rounding, or for a conversion its source makes."""
    listed = case.listed(key)
    return listed is not None and close(listed, prices_of(row), case.guard.settings.tolerance)


def _is_ask(row: Row) -> bool:
    return isinstance(row, OfferRow) and row.price_kind == "ask"


def _is_spot(row: Row) -> bool:
    """Spot prices move together all the time: a list of nothing else is no list."""
    return isinstance(row, OfferRow) and row.tier == "spot"


def _tally(case: Case, doubts: Mapping[str, Doubts]) -> Tally:
    """The sweep in numbers."""
    rows, moved = case.printed.rows, {key: old for key in case.moved if (old := case.listed(key)) is not None}
    tally = Tally(
        kind=case.kind,
        known=case.known,
        missing=case.missing,
        implausible=len(case.printed.rejected) + sum(bool(found.out_of_line) for found in doubts.values()),
        judged=len(rows) + len(case.printed.rejected),
        moved=sum(bool(found.moved) for key, found in doubts.items() if key in moved),
        compared=len(rows) - (len(case.moved) - len(moved)),
    )
    for key, old in moved.items():
        tally.note_lost(old, prices_of(rows[key]))
    if any(count >= case.guard.settings.lost_rows for count in tally.lost.values()):
        tally.note_had(old for key in rows if (old := case.listed(key)) is not None)
    return tally


def _weighed(doubts: Doubts, allowed: Collection[str]) -> list[Doubt]:
    """The doubts that count: where a person accepted the sweep, not those it was refused for."""
    moved = () if MOVED in allowed else doubts.moved
    out_of_line = () if IMPLAUSIBLE in allowed else doubts.out_of_line
    return [*moved, *out_of_line, *doubts.contradicted]


def _passes(case: Case, key: str, row: Row, doubts: list[Doubt]) -> bool:
    """Whether a moved row is listed now; the quarantine is told what becomes of it."""
    entries, prices, tolerance = case.entries.get(key, ()), prices_of(row), case.tolerance(row)
    same = [entry for entry in entries if entry.is_of(prices, tolerance)]
    _withdraw(case, [entry for entry in entries if entry not in same], "another price")
    judged = next((entry for entry in same if entry.state != PENDING), None)
    if judged is not None:
        if judged.state == REJECTED:
            seen_again(case.connection, judged, case.seen)
        return judged.state == ACCEPTED
    waiting = next(iter(same), None)
    if not doubts:
        _withdraw(case, same, "no longer doubted")
        return True
    doubt = hardest(doubts)
    if waiting is None:
        waiting = hold(case.connection, case.kind, case.seen, key, row, case.listed(key), doubt)
    else:
        waiting = seen_again(case.connection, waiting, case.seen, doubt, row)
    return _released(case, waiting, row)


def _released(case: Case, waiting: Entry, row: Row) -> bool:
    """Whether a price has waited long enough, or a second source tells it."""
    by = ""
    if waiting.release == REPEAT and waiting.sweeps >= case.guard.settings.sweeps:
        by = f"{waiting.sweeps} sweeps"
    elif waiting.release != HAND and (twin := case.elsewhere.twin(row)) is not None:
        by = f"source {twin}"
    if by:
        decide(case.connection, [waiting.id], CONFIRMED, by, case.seen.when)
    return bool(by)


def _withdraw(case: Case, entries: Collection[Entry], why: str) -> None:
    """Prices that wait and are not printed any more need no decision."""
    decide(case.connection, [entry.id for entry in entries if entry.state == PENDING], WITHDRAWN, why, case.seen.when)


def _conflicts(case: Case) -> int:
    """Hold back what is printed at two prices. Returns how many."""
    for key, rows in case.printed.conflicts.items():
        entries = case.entries.get(key, ())
        before = next((entry for entry in entries if entry.state == PENDING and entry.row is None), None)
        _withdraw(case, [entry for entry in entries if entry is not before], "same offer at two prices")
        if before is None:
            hold_conflict(case.connection, case.kind, case.seen, key, rows, case.listed(key))
        else:
            seen_again(case.connection, before, case.seen)
    return len(case.printed.conflicts)


def rule_unchanged(case: Case) -> Ruling:
    """The same body again: what waited was seen once more, everything else is as it was."""
    ruling = Ruling()
    waiting = {key: entry for key, entries in case.entries.items() for entry in entries if entry.state == PENDING}
    rows = {key: entry.row for key, entry in waiting.items() if entry.row is not None}
    case = replace(case, printed=Printed(rows=rows, changed=rows))
    for key, entry in waiting.items():
        again = seen_again(case.connection, entry, case.seen)
        if entry.row is not None and _released(case, again, entry.row):
            ruling.passed[key] = entry.row
        else:
            ruling.quarantined += 1
    return ruling


def allowed_faults(connection: Connection, guard: Guard, source: str, standing: Standing, now: datetime) -> set[str]:
    """Faults of a whole sweep that are let pass: a person accepted them, or what is missing has outlived the prices it kept."""
    last = standing.whole_at
    allowed = accepted_faults(connection, source, None if last is None else from_s(last)) if standing.judged else set()
    known = guard.sources.get(source)
    for fault, refused in refusals(connection, source).items() if standing.pending else ():
        lasted = known is not None and now - refused["first_seen"] >= timedelta(hours=known.settings.max_age_hours)
        if fault in BELIEVED_IN_TIME and lasted and refused["sweeps"] + 1 >= guard.settings.drop_sweeps:
            allowed.add(fault)
    return allowed


def settle_refusals(connection: Connection, source: str, now: datetime) -> None:
    """A sweep was kept: refusals before it are over."""
    decide(connection, [row["id"] for row in refusals(connection, source).values()], WITHDRAWN, "a later sweep was kept", now)
