"""The cheapest row of those that are alike in some fields: of equal prices the first by names, then by its number."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

from tracker.book.asof import ID, SOURCE, Row
from tracker.book.parts import Moved
from tracker.book.row_fields import PRICE, PROVIDER, REGION, SKU

Shape = tuple[Any, ...]

names = itemgetter(PROVIDER, SKU, REGION, SOURCE, ID)


def cheapest(rows: Iterable[Row], fields: tuple[int, ...]) -> dict[Shape, Row]:
    """The cheapest row of each shape, which is what those fields hold."""
    shape_of, best = itemgetter(*fields), dict[Shape, Row]()
    for row in rows:
        shape = shape_of(row)
        held = best.get(shape)
        if held is None or is_cheaper(row, held):
            best[shape] = row
    return best


def is_cheaper(row: Row, held: Row) -> bool:
    """Whether it is before the other; both are in the same currency."""
    price: Any = row[PRICE]
    return bool(price < held[PRICE] or (price == held[PRICE] and names(row) < names(held)))


@dataclass(slots=True)
class _Alike:
    """Rows of one shape by their ids."""

    cheapest: Row
    rows: dict[int, Row] = field(default_factory=dict)


@dataclass(slots=True)
class Cheapest:
    """The same, followed from one book to the next: only where a cheapest row went, those that are like it are looked at again."""

    fields: tuple[int, ...]
    _alike: dict[Shape, _Alike] = field(default_factory=dict)

    def follow(self, what: Moved) -> None:
        """Take over what moved since."""
        shape_of, lost, by_shape = itemgetter(*self.fields), set[Shape](), self._alike
        for row, shape in zip(what.gone, map(shape_of, what.gone), strict=True):
            alike = by_shape[shape]
            del alike.rows[row[ID]]
            if alike.cheapest is row:
                lost.add(shape)
        for row, shape in zip(what.came, map(shape_of, what.came), strict=True):
            found = by_shape.get(shape)
            if found is None:
                found = by_shape[shape] = _Alike(row)
            elif row[PRICE] <= found.cheapest[PRICE] and is_cheaper(row, found.cheapest):
                found.cheapest = row
                lost.discard(shape)
            found.rows[row[ID]] = row
        for shape in lost:
            if rows := by_shape[shape].rows:
                (by_shape[shape].cheapest,) = cheapest(rows.values(), self.fields).values()
            else:
                del by_shape[shape]

    def by_shape(self) -> Mapping[Shape, Row]:
        """The cheapest row of each shape, as of now."""
        return {shape: alike.cheapest for shape, alike in self._alike.items()}
