"""Which sightings of a series are held back: judged as the guard judges sweeps, as far as a recording alone can tell.

The sightings of one origin at one moment are a sweep: its rows are held against each other, and a price against the one that was listed
before, also by an earlier import. A move that is too far is believed once the following sightings confirm it, from its first one on;
what contradicts its siblings is not mended by being printed again. What a person decided holds. What only a live book knows, such as
other providers' prices of the time, is not asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

from tracker.book.exchange import Exchange
from tracker.book.listing import Prices, Row, prices_of
from tracker.database.rows import OfferRow
from tracker.guard.balance import balance_doubt
from tracker.guard.changes import change_doubt
from tracker.guard.doubts import HAND, REPEAT, Doubt, close, hardest
from tracker.guard.settings import GuardSettings
from tracker.guard.siblings import contradictions


@dataclass(slots=True, kw_only=True)
class Held:
    """A price that is not believed, from its first to its last sighting (s); ``old`` is what was listed before, None for nothing."""

    key: str
    origin: str
    row: Row
    old: Prices | None
    doubt: Doubt
    moments: list[int]


@dataclass(frozen=True, slots=True)
class Series:
    """All sightings of one offer or rate, by moment."""

    key: str
    origin: str
    rows: Mapping[int, Row]


@dataclass(frozen=True, slots=True, kw_only=True)
class Before:
    """What the book knows of a series' identities: the prices listed before it begins, those that wait since an earlier import, and
    those a person accepted or rejected."""

    listed: Mapping[str, Row] = field(default_factory=dict)
    waiting: Mapping[str, Held] = field(default_factory=dict)
    accepted: Mapping[str, Sequence[Row]] = field(default_factory=dict)
    rejected: Mapping[str, Sequence[Row]] = field(default_factory=dict)


NOTHING = Before()
REJECTED = Doubt("rejected before", HAND)


@dataclass(slots=True)
class _State:
    listed: Row | None = None
    waiting: Held | None = None


@dataclass(slots=True)
class _Bench:
    settings: GuardSettings
    exchange: Exchange
    before: Before
    states: dict[str, _State] = field(default_factory=dict)
    held: list[Held] = field(default_factory=list)


def held_back(series: Iterable[Series], settings: GuardSettings, exchange: Exchange, before: Before = NOTHING) -> list[Held]:
    """The prices of the series that nothing confirms, each with the moments at which it is not listed."""
    sweeps: dict[tuple[str, int], dict[str, Row]] = {}
    for one in series:
        for at, row in one.rows.items():
            sweeps.setdefault((one.origin, at), {})[one.key] = row
    bench = _Bench(settings, exchange, before)
    for (origin, at), rows in sorted(sweeps.items(), key=lambda sweep: sweep[0]):
        _judge_sweep(bench, origin, at, rows)
    bench.held += [state.waiting for state in bench.states.values() if state.waiting is not None]
    return bench.held


def _judge_sweep(bench: _Bench, origin: str, at: int, rows: Mapping[str, Row]) -> None:
    before = bench.before
    states = {key: bench.states.setdefault(key, _State(before.listed.get(key), before.waiting.get(key))) for key in rows}
    moved = {key for key, row in rows.items() if (was := states[key].listed) is None or prices_of(was) != prices_of(row)}
    offers = {key: row for key, row in rows.items() if isinstance(row, OfferRow)}
    against = contradictions(offers, frozenset(moved), bench.settings, bench.exchange).doubts
    for key, row in rows.items():
        state = states[key]
        if key not in moved:
            _give_up(bench, state)
            state.listed = row
        else:
            old = None if state.listed is None else prices_of(state.listed)
            seen = Held(key=key, origin=origin, row=row, old=old, doubt=REJECTED, moments=[at])
            _judge(bench, state, seen, against.get(key, []))


def _judge(bench: _Bench, state: _State, seen: Held, against: list[Doubt]) -> None:
    """A price that is not the listed one: listed now, or held with what was seen of it before."""
    doubts, waiting = _doubts(bench, seen, against), state.waiting
    if waiting is not None and close(prices_of(waiting.row), prices_of(seen.row), _tolerance(seen.row, bench.settings)):
        seen.moments = [*waiting.moments, *seen.moments]
        state.waiting = None
    _give_up(bench, state)
    if doubts:
        seen.doubt = hardest(doubts)
        confirmed = seen.doubt.release == REPEAT and len(seen.moments) >= bench.settings.sweeps
        if not confirmed:
            state.waiting = seen
            return
    state.listed = seen.row


def _doubts(bench: _Bench, seen: Held, against: list[Doubt]) -> list[Doubt]:
    """Why a price is not believed; what a person said of it counts alone."""
    known, tolerance, prices = bench.before, _tolerance(seen.row, bench.settings), prices_of(seen.row)
    for decided, doubts in ((known.accepted, []), (known.rejected, [REJECTED])):
        if any(close(prices_of(row), prices, tolerance) for row in decided.get(seen.key, ())):
            return doubts
    moved = None if seen.old is None else change_doubt(seen.old, seen.row, bench.settings)
    return [*against, *(doubt for doubt in (moved, balance_doubt(seen.row, bench.settings)) if doubt is not None)]


def _give_up(bench: _Bench, state: _State) -> None:
    """What waited was not seen again."""
    if state.waiting is not None:
        bench.held.append(state.waiting)
        state.waiting = None


def _tolerance(row: Row, settings: GuardSettings) -> Decimal:
    """How far a second sighting may be from the first."""
    moving = isinstance(row, OfferRow) and (row.tier == "spot" or row.price_kind == "ask")
    return settings.moving_tolerance if moving else settings.tolerance
