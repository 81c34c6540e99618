"""Vast.ai marketplace asks, no key. Docs: https://docs.vast.ai/api-reference/search/search-offers (read 2026-11-29, from
stored copies).

What a price means: ``dph_total`` is USD per hour for the whole offer (all ``num_gpus`` GPUs) with the disk asked for in the
query, without VAT, traffic extra; on demand, from hosts of every kind, for at most ``duration`` seconds. An offer id lives for
hours, so an offer is named by host, machine and count. Datacenter hosts and verified hosts are told apart; a host that is not
stated to be verified, or fails more than one hour in twenty, is unverified. The search answers with 64 offers at most and allows
ten calls a minute: one call a GPU, and one a group of GPUs for the larger machines.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

from scrapers.contract import Availability, Client, GpuQuote, Page, Row, Trust
from scrapers.fields import (
    BadRow,
    as_object,
    clean_name,
    count,
    each,
    layout_changed,
    name,
    optional_memory,
    optional_number,
    price,
    require_fields,
    require_page,
    with_quotes,
)

SOURCE = "vast"
PATH = "/api/v0/bundles/"
DISK_GB = 8  # the documented default; dph_total holds it
GROUPS = (
    ("B300", "B200", "H200", "H200 NVL"),
    ("H100 SXM", "H100 NVL", "MI300X"),
    ("A100 SXM4", "A100 PCIE", "RTX PRO 6000 S", "RTX PRO 6000 WS"),
)
LARGE_COUNT = 4
MIN_RELIABILITY = Decimal("0.95")
MIN_SECONDS = 86_400  # an offer that ends within a day holds no setup
DATACENTER = 1  # hosting_type
GIB_PER_MIB = Decimal(1) / 1024


def fetch(client: Client, secrets: Mapping[str, str]) -> list[Page]:
    """One search per GPU, and one per group of GPUs for machines with four or more of them."""
    searches = [_search({"eq": gpu}, 1) for group in GROUPS for gpu in group]
    searches += [_search({"in": list(group)}, LARGE_COUNT) for group in GROUPS]
    return [client.post(PATH, json=search) for search in searches]


def _search(gpu: dict[str, Any], gpus: int) -> dict[str, Any]:
    """The cheapest verified, free, on-demand offers; left out, ``verified`` is not the default it is documented to be."""
    return {
        "gpu_name": gpu,
        "num_gpus": {"gte": gpus},
        "type": "on-demand",
        "verified": {"eq": True},
        "rentable": {"eq": True},
        "rented": {"eq": False},
        "allocated_storage": DISK_GB,
        "order": [["dph_total", "asc"]],
        "limit": 64,
    }


def parse(pages: Sequence[Page]) -> Iterator[Row]:
    """The cheapest ask per host, machine, GPU and count; the searches overlap."""
    require_page(SOURCE, pages)
    offers = [offer for page in pages for offer in _offers(page)]
    require_fields(SOURCE, offers, ("gpu_name", "num_gpus", "dph_total"), "offers")
    yield from with_quotes(SOURCE, _cheapest(each(offers, _offer_rows)))


def _offers(page: Page) -> list[object]:
    answer = page.json()
    offers = answer.get("offers") if isinstance(answer, dict) else None
    if isinstance(offers, list):
        return offers
    message = answer.get("msg") or answer.get("error") if isinstance(answer, dict) else type(answer).__name__
    raise layout_changed(SOURCE, f'expected a list "offers", found {str(message)[:100]!r}')


def _cheapest(rows: Iterator[Row]) -> Iterator[Row]:
    """Skipped rows as they come, then one quote per offer: the same machine is asked at several ids and in several searches."""
    best: dict[tuple[str, str, Trust], GpuQuote] = {}
    for row in rows:
        if not isinstance(row, GpuQuote):
            yield row
            continue
        key = (row.sku, row.region, row.trust)
        if key not in best or row.price < best[key].price:
            best[key] = row
    yield from best.values()


def _offer_rows(item: object) -> Iterator[Row]:
    offer = as_object(item, "offer")
    if offer.get("is_bid") is True:
        raise BadRow("a bid, not an ask")
    if offer.get("resource_type", "gpu") != "gpu":
        raise BadRow("no GPU rental")
    if (seconds := optional_number(offer, "duration")) is not None and seconds < MIN_SECONDS:
        raise BadRow("ends within a day")
    gpu, gpu_count = name(offer, "gpu_name"), count(offer, "num_gpus")
    yield GpuQuote(
        provider="vast",
        sku=clean_name(_sku(offer, gpu, gpu_count), "host and machine"),
        gpu=gpu,
        gpu_count=gpu_count,
        memory_gb=optional_memory(offer, "gpu_ram", unit=GIB_PER_MIB),
        region=_region(offer),
        tier="on_demand",
        price=price(offer, "dph_total"),
        per="node_hour",
        currency="USD",
        trust=_trust(offer),
        availability=_availability(offer),
        price_kind="ask",
        host=_host(offer),
        reliability=optional_number(offer, "reliability2"),
        interconnect="nvlink" if (optional_number(offer, "bw_nvlink") or 0) > 0 else "unknown",
    )


def _sku(offer: Mapping[str, Any], gpu: str, gpu_count: int) -> str:
    """Host, machine and count; an answer without these ids names the GPU, its memory and the count."""
    host, machine = offer.get("host_id"), offer.get("machine_id")
    if isinstance(host, int) and isinstance(machine, int):
        return f"host {host} machine {machine} x{gpu_count}"
    return f"{gpu} {offer.get('gpu_ram')} MiB x{gpu_count}"


def _host(offer: Mapping[str, Any]) -> str:
    """Number of the host; empty where there is none. Asks are counted by host: one may flood the list."""
    host = offer.get("host_id")
    return str(host) if isinstance(host, int) and not isinstance(host, bool) else ""


def _region(offer: Mapping[str, Any]) -> str:
    """Their place name, "Virginia, US" or ", CN"; empty where there is none to read."""
    place = offer.get("geolocation")
    return clean_name(place.strip(", "), "geolocation") if isinstance(place, str) and place.strip(", ") else ""


def _trust(offer: Mapping[str, Any]) -> Trust:
    if offer.get("verification") != "verified" or (optional_number(offer, "reliability2") or 0) < MIN_RELIABILITY:
        return "unverified"
    return "datacenter" if offer.get("hosting_type") == DATACENTER else "verified"


def _availability(offer: Mapping[str, Any]) -> Availability:
    if offer.get("rentable") is False or offer.get("rented") is True:
        return "unavailable"
    return "available" if offer.get("rentable") is True else "unknown"
