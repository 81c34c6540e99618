"""Follows the rows of one book after another, and what is made of them: it is worked out anew only where rows moved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tracker.book.asof import Row
from tracker.book.cheapest import Cheapest, Shape
from tracker.book.parts import Moved, Parting, Parts, moved

Fields = tuple[int, ...]


@dataclass(slots=True)
class Trail:
    """Owns the rows of the last book. One thread moves it at a time; what it gives away stays as it is."""

    _rows: Sequence[Row] = ()
    _partings: dict[Fields, Parting] = field(default_factory=dict)
    _cheapest: dict[Fields, Cheapest] = field(default_factory=dict)

    def move(self, rows: Sequence[Row]) -> None:
        """Go on to these rows. Where that is broken off, what it makes of them is made anew at the next question."""
        if rows is not self._rows:
            what, (partings, alike) = moved(self._rows, rows), (self._partings, self._cheapest)
            self._rows, self._partings, self._cheapest = rows, {}, {}
            for parting in partings.values():
                parting.follow(rows, what)
            for held in alike.values():
                held.follow(what)
            self._partings, self._cheapest = partings, alike

    def parts(self, fields: Fields) -> Parts:
        """The rows by those fields."""
        if fields not in self._partings:
            self._partings[fields] = Parting(fields)
            self._partings[fields].follow(self._rows, Moved((), self._rows))
        return self._partings[fields].parts

    def cheapest(self, fields: Fields) -> Mapping[Shape, Row]:
        """The cheapest row of those alike in those fields."""
        if fields not in self._cheapest:
            self._cheapest[fields] = Cheapest(fields)
            self._cheapest[fields].follow(Moved((), self._rows))
        return self._cheapest[fields].by_shape()
