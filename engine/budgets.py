"""What a calendar month (UTC) has cost so far and comes to at the pace of now. A span costs its hours times its USD an hour, exactly."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction

from engine.units import SECONDS_PER_HOUR


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A stretch [start, end) at one price; None is unknown. ``note`` says whose price it is."""

    start: datetime
    end: datetime
    usd_per_hour: Fraction | None
    note: str = ""

    @property
    def hours(self) -> Fraction:
        """Its length in hours."""
        return hours_between(self.start, self.end)

    @property
    def usd(self) -> Fraction | None:
        """What it cost."""
        return None if self.usd_per_hour is None else self.usd_per_hour * self.hours


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """USD over the hours whose price was known, and how many were not: they are no hours at nothing."""

    usd: Fraction
    unknown_hours: Fraction


def month_of(at: datetime) -> tuple[datetime, datetime]:
    """First moment of the calendar month (UTC) of ``at``, inclusive, and of the next one, exclusive."""
    start = at.astimezone(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    return start, (start + timedelta(days=31)).replace(day=1)


def hours_between(start: datetime, end: datetime) -> Fraction:
    """Hours from one moment to another."""
    return Fraction((end - start) // timedelta(microseconds=1), SECONDS_PER_HOUR * 10**6)


def joined(spans: Iterable[Span]) -> tuple[Span, ...]:
    """The same with neighbours at one price of one origin as one span."""
    found: list[Span] = []
    for span in spans:
        last = found[-1] if found else None
        if last is not None and (last.end, last.usd_per_hour, last.note) == (span.start, span.usd_per_hour, span.note):
            found[-1] = replace(last, end=span.end)
        else:
            found.append(span)
    return tuple(found)


def covered_hours(spans: Iterable[Span]) -> Fraction:
    """Hours that the spans cover, each counted once however many of them lie over it."""
    hours, reached = Fraction(0), datetime.min.replace(tzinfo=UTC)
    for span in sorted(spans, key=lambda span: span.start):
        if span.end > reached:
            hours, reached = hours + hours_between(max(span.start, reached), span.end), span.end
    return hours


def within(spans: Iterable[Span], start: datetime, end: datetime) -> tuple[Span, ...]:
    """The parts of the spans in [start, end)."""
    cut = (replace(span, start=max(span.start, start), end=min(span.end, end)) for span in spans)
    return tuple(span for span in cut if span.start < span.end)


def spent(spans: Iterable[Span], start: datetime, end: datetime) -> Spent:
    """Cost of [start, end) by spans that do not overlap; what none of them covers is unknown."""
    usd, known = Fraction(0), Fraction(0)
    for span in within(spans, start, end):
        if span.usd_per_hour is not None:
            usd, known = usd + span.usd_per_hour * span.hours, known + span.hours
    return Spent(usd=usd, unknown_hours=hours_between(start, end) - known)


def ahead(usd_per_hour: Fraction | None, at: datetime, end: datetime) -> Fraction | None:
    """Cost of the rest of the month at the price of now; None where that is unknown."""
    return None if usd_per_hour is None else usd_per_hour * hours_between(at, end)
