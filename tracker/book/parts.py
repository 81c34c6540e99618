"""Rows of a book parted by some of their fields, kept from one book to the next: a part in which no row is another one since stays the
same object, with what was worked out of it. Most rows of a book are those of the book before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, TypeVar

from tracker.book.asof import ID, Row

_by_id, _by_key = itemgetter(ID), itemgetter(0)

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
    parts: dict[Any, list[Row]] = {}
    for row, key in zip(rows, map(itemgetter(*fields), rows), strict=True):
        parts.setdefault(key, []).append(row)
    return {key: Part(parts[key]) for key in sorted(parts)}


@dataclass(slots=True)
class Parting:
    """Follows the rows of one book after another. It compares rows by being the same object, so it never takes one for another."""

    fields: tuple[int, ...]
    _rows: Sequence[Row] = ()  # keeps alive what is compared
    _places: dict[int, int] = field(default_factory=dict)
    _parts: Parts = field(default_factory=dict)

    def of(self, rows: Sequence[Row]) -> Mapping[Any, Part]:
        """The parts of the rows."""
        if rows is not self._rows:
            places = dict(zip(map(id, rows), range(len(rows)), strict=True))
            came, gone = places.keys() - self._places.keys(), self._places.keys() - places.keys()
            many = (len(came) + len(gone)) * 2 > len(rows)
            self._parts = parted(rows, self.fields) if many else self._moved(rows, places, came, gone)
            self._rows, self._places = rows, places
        return self._parts

    def _moved(self, rows: Sequence[Row], places: Mapping[int, int], came: Iterable[int], gone: Iterable[int]) -> Parts:
        """The parts before, but for those that lost a row or got one."""
        key_of, parts = itemgetter(*self.fields), dict(self._parts)
        moved: dict[Any, list[Row]] = {}
        for key in {key_of(self._rows[self._places[id_]]) for id_ in gone}:
            moved[key] = [row for row in parts[key].rows if id(row) in places]
        for id_ in came:
            row = rows[places[id_]]
            key = key_of(row)
            if key not in moved:
                moved[key] = list(parts[key].rows) if key in parts else []
            moved[key].append(row)
        for key, found in moved.items():
            if found:
                found.sort(key=_by_id)
                parts[key] = Part(found, before=self._parts[key].known) if key in self._parts else Part(found)
            else:
                del parts[key]
        return parts if parts.keys() == self._parts.keys() else dict(sorted(parts.items(), key=_by_key))
