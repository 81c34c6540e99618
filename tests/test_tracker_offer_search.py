"""Offers by GPU, count, tier and provider, in strict order."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

from books import B300, SPOT, book, listed

from tracker.book.offer_search import KEPT, OfferSearch

CHEAP = replace(B300, sku="cheap", native_per_hour=Decimal(40), usd_per_hour=Decimal(40))
PAIR = replace(B300, sku="pair", gpu_count=2, native_per_hour=Decimal(9), usd_per_hour=Decimal(9))  # $4.50 per GPU
FLEX = replace(B300, sku="flex", gpu_count=1, max_gpu_count=8, native_per_hour=Decimal(6), usd_per_hour=Decimal(6))
OTHER = replace(B300, gpu="nvidia-h100-sxm-80", sku="h100", provider="aws", usd_per_hour=Decimal(16))
ALL = book([B300, PAIR, OTHER, FLEX, CHEAP, SPOT])


def skus(**asked: object) -> list[str]:
    return [entry.value.sku for entry in OfferSearch().find(ALL, **asked)]  # type: ignore[arg-type]


def test_everything_is_in_order_of_the_price_per_gpu() -> None:
    assert skus() == ["h100", "8x B300 spot", "pair", "cheap", "flex", "8x B300"]  # 2, 2.5, 4.5, 5, 6, 6.94


def test_a_count_is_what_is_sold_not_what_would_fit() -> None:
    """Two do not make eight; one to eight on one machine does."""
    assert skus(gpu=B300.gpu, gpu_count=8, tier="on_demand") == ["cheap", "flex", "8x B300"]
    assert skus(gpu=B300.gpu, gpu_count=2) == ["pair", "flex"]
    assert skus(gpu=B300.gpu, gpu_count=3) == ["flex"]


def test_names_narrow_it() -> None:
    assert skus(provider="aws") == ["h100"]
    assert skus(tier="spot") == ["8x B300 spot"]
    assert skus(gpu="nobody") == []
    assert skus(gpu=B300.gpu, limit=2) == ["8x B300 spot", "pair"]


def test_equal_prices_are_in_the_order_of_their_names() -> None:
    twins = [replace(B300, sku=sku, provider=provider) for provider, sku in (("b", "x"), ("a", "y"), ("a", "x"))]
    found = OfferSearch().find(book(twins), gpu=B300.gpu)
    assert [(e.value.provider, e.value.sku) for e in found] == [("a", "x"), ("a", "y"), ("b", "x")]


def test_each_book_is_answered_by_itself_however_many_were_asked() -> None:
    search = OfferSearch()
    books = [book([listed(replace(B300, sku=f"sku-{number}"))]) for number in range(KEPT + 2)]
    for _ in range(2):
        for number, one in enumerate(books):
            assert [entry.value.sku for entry in search.find(one)] == [f"sku-{number}"]
    assert len(search._books) == KEPT
