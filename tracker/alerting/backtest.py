"""What rules would have told over a stretch of history: the same judge on the same snapshots, and how right it was with hindsight."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from tracker.alerting.hearing import Heard
from tracker.alerting.judge import Prices, Seen, Terms, key_of, moved, still_true
from tracker.alerting.message import Alarm
from tracker.alerting.observe import terms_of
from tracker.alerting.rehearsal import Rehearsal, Sent
from tracker.alerting.rules import Rule
from tracker.answers.snapshot import Snapshot
from tracker.world import World

LATER = timedelta(hours=6)  # an alert should still be true by then, and what lasts so long should have been told
Key = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fired:
    """An alert that would have been told, what would have become of it, and whether it was still true six hours later; None: the
    history ends before."""

    at: datetime
    alarm: Alarm
    still_true: bool | None
    sent: Sent


@dataclass(frozen=True, slots=True, kw_only=True)
class Missed:
    """A move that lasted six hours, was worth telling by the rule's own limits, and was not told within them."""

    at: datetime
    rule: str
    subject: str
    old: Prices
    new: Prices


@dataclass(frozen=True, slots=True, kw_only=True)
class Backtest:
    """The outcome. ``looks`` is how many snapshots were judged."""

    looks: int
    first: datetime | None
    last: datetime | None
    fired: tuple[Fired, ...]
    missed: tuple[Missed, ...]

    @property
    def messages(self) -> int:
        """Messages people would have had: one for each alert that was sent alone, one for all that were sent together."""
        alone = sum(fired.sent.at is not None and not fired.sent.bundled for fired in self.fired)
        return alone + len({(fired.sent.at, fired.alarm.routes) for fired in self.fired if fired.sent.bundled})

    def precision(self, rule: str) -> tuple[int, int]:
        """Alerts of a rule that were still true, of those it is known of."""
        known = [f.still_true for f in self.fired if f.alarm.rule == rule and f.still_true is not None]
        return sum(known), len(known)


@dataclass(slots=True)
class _Record:
    """What one subject looked like, and what was told of it."""

    terms: Terms
    seen: list[tuple[datetime, Seen]] = field(default_factory=list)
    told: dict[str, tuple[datetime, Heard]] = field(default_factory=dict)  # by key of the message


def backtest(world: World, rules: Mapping[str, Rule], past: Iterable[Snapshot]) -> Backtest:
    """Judge every snapshot in turn, as the daemon would have; quiet hours, the limit a day and digests included."""
    records: dict[Key, _Record] = {}
    alarms: dict[str, Alarm] = {}
    looks, first, last = 0, None, None
    with Rehearsal(replace(world, alerts=replace(world.alerts, rules=rules))) as rehearsal:
        for snapshot in past:
            looks, first, last = looks + 1, first or snapshot.at, snapshot.at
            told = rehearsal.judge(snapshot, partial(_note, records, snapshot.at))
            alarms |= {alarm.key: alarm for alarm in told}
        sent = rehearsal.sent()
    fired = [
        Fired(at=at, alarm=alarms[key], still_true=_held(record, at, heard), sent=sent[key])
        for record in records.values()
        for key, (at, heard) in record.told.items()
    ]
    missed = [miss for key, record in records.items() for miss in _misses(key, record)]
    return Backtest(
        looks=looks, first=first, last=last, fired=tuple(sorted(fired, key=lambda f: (f.at, f.alarm.key))),
        missed=tuple(sorted(missed, key=lambda m: (m.at, m.rule, m.subject))),
    )  # fmt: skip


def _note(records: dict[Key, _Record], at: datetime, heard: Heard) -> None:
    record = records.setdefault((heard.seen.rule, heard.seen.subject), _Record(heard.terms))
    record.seen.append((at, heard.seen))
    if heard.ruling.told:
        record.told[key_of(heard.seen, at)] = (at, heard)


def _held(record: _Record, at: datetime, heard: Heard) -> bool | None:
    """Whether what was told still held at the first look six hours later; None where there is none."""
    state, terms = heard.ruling.state, record.terms
    seen = next((seen for moment, seen in record.seen if moment >= at + LATER and (seen.prices or seen.label)), None)
    if seen is None:
        return None
    return still_true(terms, state.told_from, state.told_way, seen.prices) if terms.tells else seen.label == state.told_way


def _misses(key: Key, record: _Record) -> Iterator[Missed]:
    """With hindsight: steps from the level before that every look confirms until six hours later, and nobody was told of by then."""
    terms, looks = record.terms, [(at, seen) for at, seen in record.seen if seen.prices]
    if not terms.tells or not looks:
        return
    level, basis = looks[0][1].prices, looks[0][1].basis
    risen: datetime | None = None
    for number, (at, seen) in enumerate(looks):
        if seen.basis != basis:
            level, basis, risen = seen.prices, seen.basis, None
        way = "" if seen.unmoved else _way(terms, level, seen.prices)
        if not way:
            risen = None
        elif way not in terms.tells:
            risen = risen or at
            if at - risen >= terms.rearm:
                level, risen = seen.prices, None
        elif (end := _lasts(terms, level, way, looks[number:])) is not None:
            if not any(at <= moment <= end for moment, _ in record.told.values()):
                yield Missed(at=at, rule=key[0], subject=key[1], old=level, new=seen.prices)
            level, risen = seen.prices, None


def _lasts(terms: Terms, level: Prices, way: str, looks: Sequence[tuple[datetime, Seen]]) -> datetime | None:
    """The first look six hours later, if that and all before confirm the step."""
    start, basis = looks[0][0], looks[0][1].basis
    for moment, seen in looks:
        if seen.basis != basis or _way(terms, level, seen.prices) != way:
            return None
        if moment >= start + LATER:
            return moment
    return None


def _way(terms: Terms, level: Prices, prices: Prices) -> str:
    ways = {moved(terms, old, prices[name]) for name, old in level.items() if name in prices} - {""}
    if not ways:
        return ""
    return next(iter(terms.tells)) if "moved" in terms.tells else ways.pop()


def summary(found: Backtest, rules: Mapping[str, Rule]) -> list[dict[str, Any]]:
    """One line a rule: alerts, how many of them were sent, how many were still true of how many, and misses."""
    lines = []
    for name, rule in rules.items():
        right, known = found.precision(name)
        lines.append(
            {
                "rule": name, "kind": rule.kind, "fired": sum(f.alarm.rule == name for f in found.fired),
                "sent": sum(f.alarm.rule == name and f.sent.at is not None for f in found.fired), "still_true": right,
                "known": known, "missed": sum(m.rule == name for m in found.missed) if terms_of(rule).tells else None,
            }
        )  # fmt: skip
    return lines
