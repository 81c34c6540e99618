"""Finds offers of a book by GPU, count, tier and provider, cheapest per GPU first. Sorted once for each book and GPU."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal

from engine.offers import GpuOffer
from tracker.book import Book, Listed

KEPT = 4  # books: the current one, and past ones that are looked at meanwhile

Key = tuple[Decimal, str, str, str]


@dataclass(slots=True)
class _Sorted:
    """The offers of a book by GPU; a GPU's are sorted when it is asked for."""

    book: Book
    by_gpu: dict[str, list[Listed[GpuOffer]]]
    ready: dict[str, list[Listed[GpuOffer]]] = field(default_factory=dict)

    def of(self, gpu: str) -> list[Listed[GpuOffer]]:
        """Those of one GPU in order; of all where it is empty."""
        if gpu not in self.ready:
            self.ready[gpu] = sorted(self.by_gpu.get(gpu, ()) if gpu else self.book.offers, key=_order)
        return self.ready[gpu]


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
        known = self._of(book)
        found = known.of(gpu) if not gpu or gpu in known.by_gpu else []
        if tier:
            found = [entry for entry in found if entry.value.tier == tier]
        if provider:
            found = [entry for entry in found if entry.value.provider == provider]
        if gpu_count:
            found = [entry for entry in found if entry.value.sold_count(gpu_count) == gpu_count]
        return tuple(found[: limit or None])

    def _of(self, book: Book) -> _Sorted:
        for known in self._books:
            if known.book is book:
                return known
        by_gpu: dict[str, list[Listed[GpuOffer]]] = {}
        for entry in book.offers:
            by_gpu.setdefault(entry.value.gpu, []).append(entry)
        made = _Sorted(book, by_gpu)
        self._books = [made, *self._books[: KEPT - 1]]
        return made


def _order(entry: Listed[GpuOffer]) -> Key:
    offer = entry.value
    return (offer.usd_per_gpu_hour, offer.provider, offer.sku, offer.region)
