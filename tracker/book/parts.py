"""Rows of a book parted by some of their fields, kept from one book to the next: a part in which no row is another one since stays the
same object, with what was worked out of it. Most rows of a book are those of the book before it.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from operator import itemgetter
from typing import Any, TypeVar

from tracker.book.asof import ID, Row

_by_key = itemgetter(0)
_END: Row = (float("inf"),)  # of an id above all others

Found = TypeVar("Found")
Parts = dict[Any, "Part"]


@dataclass(slots=True)
class Part:
    """Rows that are alike in some fields, in the order of the book, which is that of their ids. ``known``: what follows from them alone."""

    rows: Sequence[Row]
    known: dict[str, Any] = field(default_factory=dict)
    before: Mapping[str, Any] = field(default_factory=dict)  # what followed from the rows of the part in its place before

    def once(self, name: str, work: Callable[[Sequence[Row]], Found]) -> Found:
        """What the work makes of the rows: done at the first question. Two who ask at once find the same."""
        found: Found | None = self.known.get(name)
        return self.known.setdefault(name, work(self.rows)) if found is None else found


def parted(rows: Sequence[Row], fields: tuple[int, ...]) -> Parts:
    """Rows by those fields, in the order of these."""
    groups: dict[Any, list[Row]] = {}
    for row, key in zip(rows, map(itemgetter(*fields), rows), strict=True):
        groups.setdefault(key, []).append(row)
    return {key: Part(groups[key]) for key in sorted(groups)}


@dataclass(frozen=True, slots=True)
class Moved:
    """Rows to take away from those of the book before, and rows to add then: a row at another price is one of each."""

    gone: Sequence[Row]
    came: Sequence[Row]


def moved(before: Sequence[Row], rows: Sequence[Row]) -> Moved:
    """What makes these rows of those before. It compares them by being the same object, so it never takes one for another; where rows
    are not in the order of their ids, it may take some away and add them again."""
    gone: list[Row] = []
    came: list[Row] = []
    olds, news = chain(before, (_END,)), chain(rows, (_END,))
    for old, new in zip(olds, news, strict=False):  # a look at each row, so it does no more than that for most of them
        while old is not new:
            if old[ID] == new[ID]:
                gone.append(old)
                came.append(new)
                break
            if old[ID] < new[ID]:
                gone.append(old)
                old = next(olds)
            else:
                came.append(new)
                new = next(news)
    return Moved(gone, came)


@dataclass(slots=True)
class Parting:
    """Follows the rows of one book after another."""

    fields: tuple[int, ...]
    parts: Parts = field(default_factory=dict)

    def follow(self, rows: Sequence[Row], what: Moved) -> None:
        """Take over what moved since, of which these rows come."""
        many = (len(what.came) + len(what.gone)) * 2 > len(rows)
        self.parts = parted(rows, self.fields) if many else self._after(what)

    def _after(self, what: Moved) -> Parts:
        """The parts before, but for those that lost a row or got one."""
        key_of, parts, held = itemgetter(*self.fields), dict(self.parts), dict[Any, list[Row]]()
        for row, key in zip(what.gone, map(key_of, what.gone), strict=True):
            rows = held.get(key)
            if rows is None:
                rows = held[key] = list(parts[key].rows)
            rows.remove(row)
        for row, key in zip(what.came, map(key_of, what.came), strict=True):
            rows = held.get(key)
            if rows is None:
                rows = held[key] = list(parts[key].rows) if key in parts else []
            insort(rows, row)  # by their ids, which differ
        is_sorted = True
        for key, rows in held.items():
            was = parts.get(key)
            is_sorted = is_sorted and was is not None
            if rows:
                parts[key] = Part(rows) if was is None else Part(rows, before=was.known)
            else:
                parts.pop(key, None)
        return parts if is_sorted else dict(sorted(parts.items(), key=_by_key))
