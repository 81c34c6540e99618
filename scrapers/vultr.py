"""Vultr Cloud GPU and bare metal prices, no key. Docs: https://www.vultr.com/api/#tag/plans (read 2026-11-29, from stored copies).

What a price means: USD per hour for the whole plan (all its GPUs), without VAT, on demand; ``hourly_cost_preemptible`` is the spot price.
Some plans stop counting after 672 hours of a month, which no price here shows. Cloud plans state their GPU memory in total, so that a
plan below one GPU's memory is a slice; bare metal plans name count and GPU in their id alone. A plan without locations is not sold.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from functools import partial
from typing import Any

from scrapers.contract import Client, GpuQuote, Page, Row, Tier
from scrapers.fields import (
    BadRow,
    as_object,
    count,
    each,
    layout_changed,
    name,
    optional_price,
    price,
    require_fields,
    require_page,
    with_quotes,
)

SOURCE = "vultr"
LISTS = (("/v2/plans", "plans"), ("/v2/plans-metal", "plans_metal"))
PER_PAGE = 500
MAX_PAGES = 20
METAL_GPU = re.compile(r"vbm-.+-(?P<count>[0-9]{1,2})-(?P<gpu>[a-z0-9]+)-gpu")
# memory of one whole GPU in GB, to tell slices and counts apart (plan pages, read 2026-11-29)
GPU_MEMORY_GB: Mapping[str, int] = {"NVIDIA_A16": 16, "NVIDIA_A40": 48, "NVIDIA_A100": 80, "NVIDIA_L40S": 48}


def fetch(client: Client, secrets: Mapping[str, str]) -> list[Page]:
    """Every page of both lists, following the cursor of ``meta.links.next``."""
    return [page for path, _ in LISTS for page in _pages(client, path)]


def _pages(client: Client, path: str) -> Iterator[Page]:
    params: dict[str, str | int] = {"type": "all", "per_page": PER_PAGE} if path == LISTS[0][0] else {"per_page": PER_PAGE}
    for _ in range(MAX_PAGES):
        page = client.get(path, params=params)
        yield page
        answer: Any = page.json()
        for key in ("meta", "links", "next"):
            answer = answer.get(key) if isinstance(answer, dict) else None
        if not isinstance(answer, str) or not answer:
            return
        params["cursor"] = answer
    raise layout_changed(SOURCE, f"expected at most {MAX_PAGES} pages of {path}, the cursor goes on")


def parse(pages: Sequence[Page]) -> Iterator[Row]:
    """An on-demand quote per GPU plan, and a spot quote where a preemptible price is printed."""
    require_page(SOURCE, pages)
    plans = [plan for page in pages for plan in _plans(page)]
    require_fields(SOURCE, plans, ("id", "hourly_cost", "locations"), "plans")
    yield from with_quotes(SOURCE, each(plans, _plan_rows))


def _plans(page: Page) -> list[object]:
    answer = page.json()
    for _, key in LISTS:
        if isinstance(answer, dict) and isinstance(answer.get(key), list):
            return list(answer[key])
    raise layout_changed(SOURCE, f'expected a list "plans" or "plans_metal", found {str(answer)[:100]!r}')


def _plan_rows(raw: object) -> Iterator[Row]:
    """The quotes of one plan; none for a plan without GPUs."""
    plan = as_object(raw, "plan")
    metal = METAL_GPU.fullmatch(name(plan, "id"))
    if metal is not None:
        yield from _quotes(plan, metal["gpu"], count({"GPU count": metal["count"]}, "GPU count"), is_slice=False)
    elif plan.get("gpu_type"):
        gpu, memory = name(plan, "gpu_type"), count(plan, "gpu_vram_gb")
        if gpu not in GPU_MEMORY_GB:
            raise BadRow("gpu_type is not in the table of GPU memory")
        whole, rest = divmod(memory, GPU_MEMORY_GB[gpu])
        if whole and rest:
            raise BadRow("gpu_vram_gb is no multiple of the GPU's memory")
        yield from _quotes(plan, gpu, whole or 1, is_slice=not whole)


def _quotes(plan: Mapping[str, Any], gpu: str, gpu_count: int, *, is_slice: bool) -> Iterator[Row]:
    quote = partial(_quote, plan, gpu, gpu_count, is_slice)
    yield quote("on_demand", price(plan, "hourly_cost"))
    preemptible = optional_price(plan, "hourly_cost_preemptible")
    if preemptible is not None:
        yield quote("spot", preemptible)


def _quote(plan: Mapping[str, Any], gpu: str, gpu_count: int, is_slice: bool, tier: Tier, per_hour: Decimal) -> GpuQuote:
    return GpuQuote(
        provider="vultr",
        sku=name(plan, "id"),
        gpu=gpu,
        gpu_count=gpu_count,
        tier=tier,
        price=per_hour,
        per="node_hour",
        currency="USD",
        availability="listed" if plan.get("locations") else "unavailable",
        is_slice=is_slice,
    )
