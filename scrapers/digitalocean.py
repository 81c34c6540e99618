"""DigitalOcean GPU droplet prices, with a key. Docs: https://docs.digitalocean.com/reference/api/ (GET /v2/sizes; read 2026-11-29, from
stored copies).

What a price means: ``price_hourly`` is USD per hour for the whole droplet (all its GPUs) with its disks, without VAT, on demand; the answer
states no currency. One quote per region that lists the size; a size without regions, or with ``available`` false, cannot be created. The
memory of the GPUs is printed in total.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from functools import partial
from typing import Any

from scrapers.contract import Client, GpuQuote, MissingKey, Page, Row
from scrapers.fields import (
    as_object,
    clean_name,
    count,
    each,
    layout_changed,
    name,
    optional_memory,
    price,
    require_fields,
    require_page,
    with_quotes,
)

SOURCE = "digitalocean"
PATH = "/v2/sizes"
PER_PAGE = 200
MAX_PAGES = 10  # 147 sizes are one page; more than ten is a loop
CURRENCY = "USD"


def fetch(client: Client, secrets: Mapping[str, str]) -> list[Page]:
    """Every page of the sizes, while the answer names a next one; MissingKey without a key."""
    if not secrets.get("key"):
        raise MissingKey(f"{SOURCE}: no key; set the environment variable that key_env of this source names")
    headers = {"Authorization": f"Bearer {secrets['key']}"}
    pages: list[Page] = []
    while not pages or _has_next(pages[-1]):
        if len(pages) == MAX_PAGES:
            raise layout_changed(SOURCE, f"expected at most {MAX_PAGES} pages, the answer names a next one")
        pages.append(client.get(PATH, params={"per_page": PER_PAGE, "page": len(pages) + 1}, headers=headers))
    return pages


def _has_next(page: Page) -> bool:
    answer: Any = page.json()
    for key in ("links", "pages", "next"):
        answer = answer.get(key) if isinstance(answer, dict) else None
    return bool(answer)


def parse(pages: Sequence[Page]) -> Iterator[Row]:
    """One quote per GPU size and region."""
    require_page(SOURCE, pages)
    sizes = [size for page in pages for size in _sizes(page)]
    require_fields(SOURCE, sizes, ("slug", "price_hourly", "regions", "gpu_info"), "sizes")
    yield from with_quotes(SOURCE, each(sizes, _size_rows))


def _sizes(page: Page) -> list[object]:
    answer = page.json()
    sizes = answer.get("sizes") if isinstance(answer, dict) else None
    if not isinstance(sizes, list):
        raise layout_changed(SOURCE, f'expected a list "sizes", found {str(answer)[:100]!r}')
    return sizes


def _size_rows(raw: object) -> Iterator[Row]:
    """The quotes of one size; none for a size without GPUs."""
    size = as_object(raw, "size")
    if size.get("gpu_info") is None:
        return
    gpu = as_object(size["gpu_info"], "gpu_info")
    quote = partial(_quote, size, gpu, count(gpu, "count"))
    regions = size.get("regions")
    if size.get("available") is not True or not isinstance(regions, list) or not regions:
        yield quote("")
        return
    for region in regions:
        yield quote(clean_name(region if isinstance(region, str) else "", "region"))


def _quote(size: Mapping[str, Any], gpu: Mapping[str, Any], gpus: int, region: str) -> GpuQuote:
    """The quote of a region; without one the size is unavailable."""
    vram = gpu.get("vram")
    return GpuQuote(
        provider="digitalocean",
        sku=name(size, "slug"),
        gpu=name(gpu, "model"),
        gpu_count=gpus,
        memory_gb=optional_memory(vram, "amount", unit=Decimal(1) / gpus) if isinstance(vram, dict) else None,
        region=region,
        tier="on_demand",
        price=price(size, "price_hourly"),
        per="node_hour",
        currency=CURRENCY,
        availability="available" if region else "unavailable",
    )
