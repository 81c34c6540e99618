"""RunPod pod prices from the public GraphQL API, no key. Docs: https://docs.runpod.io/sdks/graphql/manage-pods and
https://docs.runpod.io/references/gpu-types (read 2026-11-29, from stored copies).

What a price means: USD for one GPU for one hour, without VAT, disks extra. A pod takes any count up to the maximum of its
cloud on one machine at the same price per GPU. The secure cloud (data centers) and the community cloud (vetted hosts) are
two offers of one GPU type. ``secureCloud`` and ``communityCloud`` decide whether a price counts: 0 and a placeholder of 0.5
are printed for clouds that do not have the GPU, and 0.5 can be a real price. Where an answer lacks the flags its prices
are unverified. Savings plans (one, three and six months) are sold in the secure cloud and have no minimum beyond the term.
A stock level answers for one count, so the offer of 8 GPUs stands beside the offer of fewer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import Any, Literal

from scrapers.contract import Availability, Client, GpuQuote, LayoutChanged, Page, Row, Tier, Trust
from scrapers.fields import (
    BadRow,
    as_object,
    each,
    layout_changed,
    name,
    optional_count,
    optional_memory,
    optional_price,
    require_fields,
    require_page,
    skipped,
    with_quotes,
)

SOURCE = "runpod"
PATH = "/graphql"
FULL_MACHINE = 8
QUERY = """query GpuPrices {
  gpuTypes {
    id displayName manufacturer memoryInGb secureCloud communityCloud
    securePrice communityPrice secureSpotPrice communitySpotPrice oneMonthPrice threeMonthPrice sixMonthPrice
    maxGpuCount maxGpuCountSecureCloud maxGpuCountCommunityCloud
    secureStock: lowestPrice(input: {gpuCount: 1, secureCloud: true}) { stockStatus }
    communityStock: lowestPrice(input: {gpuCount: 1, secureCloud: false}) { stockStatus }
    secureStock8: lowestPrice(input: {gpuCount: 8, secureCloud: true}) { stockStatus }
    communityStock8: lowestPrice(input: {gpuCount: 8, secureCloud: false}) { stockStatus }
  }
}"""
IN_STOCK = frozenset({"High", "Medium", "Low"})
TERMS = {"oneMonthPrice": 1, "threeMonthPrice": 3, "sixMonthPrice": 6}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cloud:
    """The field names of one of the two clouds."""

    label: Literal["secure", "community"]
    trust: Trust
    flag: str
    max_count: str


CLOUDS = (
    Cloud(label="secure", trust="datacenter", flag="secureCloud", max_count="maxGpuCountSecureCloud"),
    Cloud(label="community", trust="community", flag="communityCloud", max_count="maxGpuCountCommunityCloud"),
)


def fetch(client: Client, secrets: Mapping[str, str]) -> list[Page]:
    """One POST answers for both clouds, their spot prices and their stock."""
    return [client.post(PATH, json={"query": QUERY})]


def parse(pages: Sequence[Page]) -> Iterator[Row]:
    """Quotes per GPU type and cloud: on demand (up to 7 GPUs, and 8 where sold), spot, and the terms of the secure cloud."""
    types = _gpu_types(require_page(SOURCE, pages).json())
    require_fields(SOURCE, types, ("id", "securePrice", "communityPrice"), "gpuTypes")
    yield from with_quotes(SOURCE, each(types, _type_rows))


def _gpu_types(answer: Any) -> list[object]:
    """``data.gpuTypes``; an answer of errors and no data says the first error's message."""
    data = answer.get("data") if isinstance(answer, dict) else None
    types = data.get("gpuTypes") if isinstance(data, dict) else None
    if isinstance(types, list):
        return types
    raise _no_data(answer)


def _no_data(answer: Any) -> LayoutChanged:
    errors = answer.get("errors") if isinstance(answer, dict) else None
    if isinstance(errors, list) and errors and isinstance(errors[0], dict):
        return layout_changed(SOURCE, f"expected data.gpuTypes, the API answered with an error: {str(errors[0].get('message'))[:200]!r}")
    return layout_changed(SOURCE, f"expected data.gpuTypes, found {type(answer).__name__} without it")


def _type_rows(item: object) -> Iterator[Row]:
    gpu_type = as_object(item, "gpuType")
    if name(gpu_type, "id") == "unknown":
        raise BadRow("id is unknown")
    for cloud in CLOUDS:
        yield from each([gpu_type], partial(_cloud_rows, cloud))


def _cloud_rows(cloud: Cloud, item: Mapping[str, Any]) -> Iterator[Row]:
    """What one cloud sells of one GPU type; nothing where it does not offer it."""
    sold = item.get(cloud.flag)
    if not isinstance(sold, bool | None):
        raise BadRow(f"{cloud.flag} is no flag")
    if sold is False:
        if optional_price(item, f"{cloud.label}Price") is not None:
            yield skipped(f"price printed for the {cloud.label} cloud, which does not offer this GPU", item)
        return
    yield from each([item], partial(_on_demand, cloud))
    yield from each([item], partial(_other_tier, cloud, f"{cloud.label}SpotPrice", "spot", None))
    for field, months in TERMS.items() if cloud.label == "secure" else ():
        yield from each([item], partial(_other_tier, cloud, field, "reserved", months))


def _on_demand(cloud: Cloud, item: Mapping[str, Any]) -> Iterator[Row]:
    """One quote per count the stock was asked for: 1 to 7, and 8 to the maximum."""
    price = optional_price(item, f"{cloud.label}Price")
    if price is None:
        if item.get(cloud.flag) is True:
            raise BadRow(f"no price for the {cloud.label} cloud, which offers this GPU")
        return
    most = _max_count(item, cloud)
    few, full = f"{cloud.label}Stock", f"{cloud.label}Stock{FULL_MACHINE}"
    if full not in item or most is None or most < FULL_MACHINE:
        yield _quote(item, cloud, price, max_gpu_count=most, availability=_stock(item, few))
        return
    yield _quote(item, cloud, price, max_gpu_count=FULL_MACHINE - 1, availability=_stock(item, few))
    yield _quote(item, cloud, price, gpu_count=FULL_MACHINE, max_gpu_count=most, availability=_stock(item, full))


def _other_tier(cloud: Cloud, field: str, tier: Tier, months: int | None, item: Mapping[str, Any]) -> Iterator[Row]:
    """A spot or reserved quote; nothing where no price is printed. Their stock is not stated."""
    price = optional_price(item, field)
    if price is not None:
        most = _max_count(item, cloud)
        yield _quote(item, cloud, price, tier=tier, term_months=months, max_gpu_count=most, availability="listed")


def _max_count(item: Mapping[str, Any], cloud: Cloud) -> int | None:
    """The most GPUs of one pod in this cloud: its own maximum where stated, else that of the type."""
    return optional_count(item, cloud.max_count) or optional_count(item, "maxGpuCount")


def _stock(item: Mapping[str, Any], alias: str) -> Availability:
    """Stock of the count the alias asked for: a level is available, null is not; an answer that did not ask only lists."""
    if alias not in item:
        return "listed"
    lowest = item[alias]
    if lowest is None:
        return "unavailable"
    if not isinstance(lowest, dict) or "stockStatus" not in lowest:
        return "unknown"
    status = lowest["stockStatus"]
    return "unavailable" if status is None else "available" if isinstance(status, str) and status in IN_STOCK else "unknown"


def _quote(item: Mapping[str, Any], cloud: Cloud, price: Decimal, *, tier: Tier = "on_demand", gpu_count: int = 1, **rest: Any) -> GpuQuote:
    verified = item.get(cloud.flag) is True
    label = name(item, "id")
    return GpuQuote(
        provider="runpod",
        # without the flags both clouds are unverified: their names keep them apart
        sku=(label if verified else f"{label} ({cloud.label})") + (f" x{gpu_count}" if gpu_count > 1 else ""),
        gpu=label,
        gpu_count=gpu_count,
        memory_gb=optional_memory(item, "memoryInGb"),
        tier=tier,
        price=price,
        per="gpu_hour",
        currency="USD",
        trust=cloud.trust if verified else "unverified",
        is_slice=" MIG " in label,
        **rest,
    )
