"""The judge: what was last told of a subject and what is seen now -> whether to tell. Pure, so that live and replayed history agree.

A price is measured against the price of the last message, not of the last look: a slow slide adds up and is told, a flutter
is not. A move the other way becomes the new normal only when it lasts ``rearm``; so a price that goes down and up again
between the same two levels is told once. A first sight, and any change of what is compared (``basis``), is silent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from engine.units import usd_per_month
from tracker.database.rows import to_s

Prices = Mapping[str, Decimal]
AHEAD = timedelta(hours=1)  # counted by a clock that was so far ahead, it would not count again until then
MOVED = "moved"  # up or down, where either is told


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """When a rule tells."""

    sweeps: int
    hold: timedelta = timedelta.max  # two sweeps so far apart are enough, where a source is read seldom
    cooldown: timedelta = timedelta(0)
    active: timedelta = timedelta(hours=24)
    tells: frozenset[str] = frozenset()  # ways of a price; empty: labels, all but the silent ones
    percent: Decimal = Decimal(0)
    usd_per_month: Decimal = Decimal(0)  # a move of less an hour, times the hours of a month, is none
    rearm: timedelta = timedelta(0)
    cooldown_percent: Decimal = Decimal(1000)
    silent: frozenset[str] = frozenset()  # labels nobody is told of: all is well again
    lasting: bool = False  # a message stays active until it is no longer true, however old it is

    def is_silent(self, way: str) -> bool:
        """Whether nobody is told of that way or label."""
        return way not in self.tells if self.tells else way in self.silent


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One thing as it is now: a price by component, or a label; "" is not known. ``seen_at`` is when it was read.

    ``anew`` is what to compare with from here on after a move that is not told; ``becomes`` the label after a message.
    """

    rule: str
    kind: str
    subject: str
    basis: str
    seen_at: datetime
    facts: Mapping[str, Any] = field(default_factory=dict)
    prices: Prices = field(default_factory=dict)
    label: str = ""
    start: str = ""  # the label before anything was seen, where that is not what is seen first
    anew: tuple[Prices, Mapping[str, Any]] | None = None
    becomes: str = ""
    follow: bool = False  # the same label, about something else now
    unmoved: bool = False  # what looks like a move is none: another exchange rate, or a source that does not answer


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """What was last told of a subject, and what has been seen since. It is kept in the database: any process may judge next."""

    basis: str
    prices: Prices = field(default_factory=dict)
    label: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)
    leaning: str = ""  # the way it has moved, or the other label
    sweeps: int = 0  # in a row that saw it so
    since: datetime | None = None  # the first of them
    counted: datetime | None = None  # the last of them
    told_at: datetime | None = None
    told_from: Prices = field(default_factory=dict)  # what that message said was before
    told_before: Mapping[str, Any] = field(default_factory=dict)  # its facts
    told_label: str = ""  # its label
    told_earlier: datetime | None = None  # and when the message before it was told
    told_way: str = ""
    news_at: datetime | None = None  # since when people know, where it was held back: its age counts from then
    active: str = ""  # key of the message that is still true
    fading: int = 0  # sweeps in a row that no longer saw it
    faded: datetime | None = None  # the last of them


@dataclass(frozen=True, slots=True, kw_only=True)
class Ruling:
    """What follows: the state to keep, whether to tell (against ``before``), and the message that is over."""

    state: State
    before: State | None = None
    told: bool = False
    over: str = ""


def judge(terms: Terms, state: State | None, seen: Seen, now: datetime, *, may_tell: bool = True) -> Ruling:
    """Whether to tell what is seen. While it may not be told, nothing is forgotten: it is told later if it is still so."""
    over = ""
    if state is None or state.basis != seen.basis:
        over = "" if state is None else state.active
        state = State(basis=seen.basis, prices=seen.prices, label=seen.start or seen.label, facts=seen.facts)
        if not seen.start:
            return Ruling(state=state, over=over)
    if not state.prices and not state.label:  # nothing was known until now
        return Ruling(state=replace(state, prices=seen.prices, label=seen.label, facts=seen.facts))
    state, ended = _ended(terms, state, seen, now)
    over = over or ended  # the one before may be of another basis, such as the month before
    if not seen.prices and not seen.label:
        return Ruling(state=state, over=over)
    way = way_of(terms, state, seen)
    state = _lean(state, way, seen, now)
    if not way:
        return Ruling(state=replace(state, facts=seen.facts) if seen.follow else state, over=over)
    lasted = _lasted(terms, state, seen)
    if terms.is_silent(way):
        ripe = lasted and state.since is not None and seen.seen_at - state.since >= terms.rearm
        return Ruling(state=_anew(state, seen) if ripe else state, over=over)
    if not (lasted and may_tell) or _cooling(terms, state, seen, now):
        return Ruling(state=state, over=over)
    return Ruling(state=_told(state, seen, way, now), before=state, told=True, over=over or state.active)


def moved(terms: Terms, old: Decimal, new: Decimal) -> str:
    """``down`` or ``up`` where the step is worth telling, a share of the price of the last message."""
    step = new - old
    if step == 0 or usd_per_month(abs(step)) < terms.usd_per_month:
        return ""
    base = old if step < 0 or "up" in terms.tells or MOVED in terms.tells else new  # a rise by what makes the way back worth telling
    return ("down" if step < 0 else "up") if abs(step) * 100 >= base * terms.percent else ""


def still_true(terms: Terms, told_from: Prices, way: str, prices: Prices) -> bool:
    """Whether a message holds: at least half of the step that is worth telling is left of it."""
    half = replace(terms, percent=terms.percent / 2, usd_per_month=terms.usd_per_month / 2)
    ways = {moved(half, old, prices[name]) for name, old in told_from.items() if name in prices}
    return bool(ways & ({"down", "up"} if way == MOVED else {way}))


def way_of(terms: Terms, state: State, seen: Seen) -> str:
    """Which way it has moved, or its other label; empty where it is worth no word."""
    if seen.unmoved:
        return ""
    if not terms.tells:
        return seen.label if seen.label not in ("", state.label) else ""
    ways = {moved(terms, old, seen.prices[name]) for name, old in state.prices.items() if name in seen.prices} - {""}
    if MOVED in terms.tells:
        return MOVED if ways else ""
    return ways.pop() if len(ways) == 1 else ""


def _lean(state: State, way: str, seen: Seen, now: datetime) -> State:
    """Count the sweep, once however often and by whomever it is looked at."""
    if not way:
        return replace(state, leaning="", sweeps=0, since=None, counted=None) if state.leaning else state
    if state.leaning != way or state.counted is None or state.counted > now + AHEAD:
        return replace(state, leaning=way, sweeps=1, since=seen.seen_at, counted=seen.seen_at)
    return replace(state, sweeps=state.sweeps + 1, counted=seen.seen_at) if seen.seen_at > state.counted else state


def _lasted(terms: Terms, state: State, seen: Seen) -> bool:
    far_apart = state.since is not None and seen.seen_at - state.since >= terms.hold
    return state.sweeps >= terms.sweeps or (state.sweeps > 1 and far_apart)


def _cooling(terms: Terms, state: State, seen: Seen, now: datetime) -> bool:
    """Whether the last message is too young; a very large step does not wait."""
    if state.told_at is None or not state.told_at <= now < state.told_at + terms.cooldown:
        return False
    large = replace(terms, percent=terms.cooldown_percent)
    return not any(moved(large, old, seen.prices[name]) for name, old in state.prices.items() if name in seen.prices)


def _anew(state: State, seen: Seen) -> State:
    prices, facts = seen.anew or (seen.prices, seen.facts)
    return replace(state, prices=prices, label=seen.label, facts=facts, leaning="", sweeps=0, since=None, counted=None)


def _told(state: State, seen: Seen, way: str, now: datetime) -> State:
    label = seen.becomes or seen.label
    return State(
        basis=seen.basis, prices=seen.prices, label=label, facts=seen.facts, told_at=now,
        told_from=state.prices, told_before=state.facts, told_label=state.label, told_earlier=state.told_at,
        told_way=way if seen.prices else label, active=key_of(seen, now),
    )  # fmt: skip


def _ended(terms: Terms, state: State, seen: Seen, now: datetime) -> tuple[State, str]:
    """Close a message that is no longer true, or no longer news."""
    if not state.active and not state.fading and state.faded is None:
        return state, ""
    if not state.active or is_old(terms, state, now):
        return replace(state, active="", fading=0, faded=None), state.active
    if not seen.prices and not seen.label:
        return state, ""
    if still_true(terms, state.told_from, state.told_way, seen.prices) if terms.tells else seen.label in ("", state.told_way):
        return replace(state, fading=0, faded=None), ""
    if state.faded is None or seen.seen_at > state.faded or state.faded > now + AHEAD:
        state = replace(state, fading=state.fading + 1, faded=seen.seen_at)
    return (replace(state, active="", fading=0, faded=None), state.active) if state.fading >= terms.sweeps else (state, "")


def is_old(terms: Terms, state: State, now: datetime) -> bool:
    """Whether a message is no longer news, or was told by a clock that was far ahead."""
    if terms.lasting or state.told_at is None:
        return False
    news_at = state.news_at or state.told_at
    return now >= news_at + terms.active or min(news_at, state.told_at) > now + AHEAD


def key_of(seen: Seen, now: datetime) -> str:
    """What a message is stored under: the same whoever finds it."""
    return f"{seen.rule}:{seen.subject}@{to_s(now)}"
