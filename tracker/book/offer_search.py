"""Finds offers of a book by GPU, count, tier and provider, cheapest per GPU first. Sorted once for each book and GPU."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

from engine.offers import GpuOffer
from tracker.book.asof import Row
from tracker.book.book import Book, Listed
from tracker.book.entries import Entries, Reading
from tracker.book.entry_values import usd_per_hour
from tracker.book.row_fields import GPU, GPU_COUNT, MAX_GPU_COUNT, PROVIDER, REGION, SKU, TIER

KEPT = 4  # books: the current one, and past ones that are looked at meanwhile

Key = tuple[Decimal, str, str, str]


def by_price(rows: Iterable[Row], reading: Reading[GpuOffer]) -> list[Row]:
    """Rows strictly by USD per GPU-hour, then provider, sku and region."""

    def order(row: Row) -> Key:
        return (usd_per_hour(row, reading) / row[GPU_COUNT], row[PROVIDER], row[SKU], row[REGION])

    return sorted(rows, key=order)


def sold_at(row: Row, gpus: int) -> bool:
    """Whether the offer is sold at exactly so many GPUs."""
    most = row[MAX_GPU_COUNT]
    return bool(row[GPU_COUNT] == gpus or (most is not None and row[GPU_COUNT] < gpus <= most))


@dataclass(slots=True)
class _Sorted:
    """The offers of a book by GPU; a GPU's are sorted when it is asked for."""

    book: Book
    ready: dict[str, list[Row]] = field(default_factory=dict)

    def of(self, gpu: str) -> list[Row]:
        """Those of one GPU in order; of all where it is empty."""
        found = self.ready.get(gpu)
        if found is None:
            found = by_price(_rows_of(self.book.offers, gpu), self.book.offers.reading)
            if found:  # what nobody offers is asked for under any name
                self.ready[gpu] = found
        return found


def _rows_of(offers: Entries[GpuOffer], gpu: str) -> Sequence[Row]:
    if not gpu:
        return offers.rows
    part = offers.by(GPU).get(gpu)
    return () if part is None else part.rows


@dataclass(slots=True)
class OfferSearch:
    """The last books asked about."""

    _books: list[_Sorted] = field(default_factory=list)

    def find(
        self, book: Book, *, gpu: str = "", gpu_count: int = 0, tier: str = "", provider: str = "", limit: int = 0
    ) -> tuple[Listed[GpuOffer], ...]:
        """Every offer that is meant, strictly by USD per GPU-hour, then provider, sku and region. Empty names and 0 ask for all.

        ``gpu_count`` asks for offers sold at exactly so many GPUs, also where one is sold at several counts.
        """
        found = self._of(book).of(gpu)
        if tier:
            found = [row for row in found if row[TIER] == tier]
        if provider:
            found = [row for row in found if row[PROVIDER] == provider]
        if gpu_count:
            found = [row for row in found if sold_at(row, gpu_count)]
        return tuple(map(book.offers.reading.listed, found[: limit or None]))

    def _of(self, book: Book) -> _Sorted:
        for known in self._books:
            if known.book is book:
                return known
        made = _Sorted(book)
        self._books = [made, *self._books[: KEPT - 1]]
        return made
