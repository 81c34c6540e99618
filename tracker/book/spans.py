"""Spans of time in s: lists of [from, to), ascending and apart. And the median of prices by the time they held."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

Span = tuple[int, int]

DAY_S = 86_400
FOREVER = 2**62  # a moment after every other


def merged(spans: Iterable[Span]) -> list[Span]:
    """Their union."""
    found: list[Span] = []
    for start, end in sorted(span for span in spans if span[0] < span[1]):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((start, end))
    return found


def within(spans: Iterable[Span], start: int, end: int) -> list[Span]:
    """The part of them in [start, end)."""
    return [(max(a, start), min(b, end)) for a, b in spans if max(a, start) < min(b, end)]


def without(spans: Iterable[Span], gaps: Iterable[Span]) -> list[Span]:
    """What is left of them outside the gaps."""
    found = list(spans)
    for start, end in (gap for gap in gaps if gap[0] < gap[1]):
        found = [piece for a, b in found for piece in ((a, min(b, start)), (max(a, end), b)) if piece[0] < piece[1]]
    return found


def by_day(spans: Iterable[Span]) -> Iterator[tuple[int, int]]:
    """(day since 1970, s of it) of each piece."""
    for start, end in spans:
        while start < end:
            day = start // DAY_S
            stop = min(end, (day + 1) * DAY_S)
            yield day, stop - start
            start = stop


def lower_median(held: Mapping[int, int]) -> int:
    """The lowest price that half of the time was not above: one that was really asked, never a mean of two. price -> s."""
    total, passed = sum(held.values()), 0
    for price in sorted(held):
        passed += held[price]
        if passed * 2 >= total:
            return price
    raise ValueError("no price held at any time")
