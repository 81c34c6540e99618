"""Faults of Scaleway's, OVHcloud's and UpCloud's catalogues that are on record, as small inputs of our own with their right values.

The numbers in the names are those of the list of faults; each test says where the fault happened.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from faults import T0, quotes, read, skipped
from faults import catalogue as catalogue
from faults import db as db
from faults import watched as watched

from scrapers import ovhcloud, scaleway, upcloud
from scrapers.contract import Row
from scrapers.exchange import retry_after_s
from tracker.database.rows import OfferRow
from tracker.facts.catalogue import Catalogue
from tracker.sweeps.resolve import Refused, resolve_gpu


def scaleway_rows(**servers: dict[str, Any]) -> list[Row]:
    plain = {
        "gpu": 1,
        "gpu_info": {"gpu_name": "L4", "gpu_memory": 24 * 2**30},
        "hourly_price": 0.75,
        "mig_profile": None,
        "end_of_service": False,
    }
    listed = {name.replace("_", "-"): plain | told for name, told in servers.items()}
    return read(scaleway, {"servers": listed}, url="https://api/instance/v1/zones/fr-par-2/products/servers?page=1")


def test_case_42_a_placeholder_is_no_price() -> None:
    """Scaleway 2023-09-14: L4-1-24G at 0.01, and types TEST1-S, -M and -L with a GPU."""
    rows = scaleway_rows(L4_1_24G={"hourly_price": 0.01}, TEST1_S={"hourly_price": 0.5}, L4_2_24G={"gpu": 2, "hourly_price": 1.5})
    assert [q.sku for q in quotes(rows)] == ["L4-2-24G"]


def test_case_43_a_mig_slice_is_no_gpu(catalogue: Catalogue) -> None:
    """Scaleway 2023-09-14: H100-MIG-20G with gpu 1 at 0.98."""
    info = {"gpu_name": "H100-PCIe", "gpu_memory": 20 * 2**30}
    quote, _ = quotes(scaleway_rows(H100_MIG_20G={"mig_profile": "2g.20gb", "hourly_price": 0.98, "gpu_info": info}, L4_1_24G={}))
    assert quote.is_slice


def test_case_44_without_gpu_info_the_type_says_which_gpu(catalogue: Catalogue) -> None:
    """Scaleway until 2025: a count and no name."""
    found = {q.sku: q for q in quotes(scaleway_rows(H100_1_80G={"gpu_info": None, "hourly_price": 2.52}, NEW_1_80G={"gpu_info": None}))}
    row = resolve_gpu(found["H100-1-80G"], "scaleway", catalogue, "")
    assert isinstance(row, OfferRow)
    assert (row.gpu, row.native_per_hour) == ("nvidia-h100-pcie-80", Decimal("2.52"))
    assert isinstance(resolve_gpu(found["NEW-1-80G"], "scaleway", catalogue, ""), Refused)


def addon(
    plan: str, price: int, printed: str, *, unit: str = "hour", os: str = "linux", tags: Sequence[str] = ("active",)
) -> dict[str, Any]:
    technical = {"gpu": {"model": "A10", "number": 1, "memory": {"size": 24}}, "os": {"family": os}}
    return {
        "planCode": plan,
        "product": "publiccloud-instance",
        "pricings": [{"intervalUnit": unit, "price": price, "formattedPrice": printed}],
        "blobs": {"commercial": {"brick": "gpu"}, "tags": list(tags), "technical": technical},
    }


def ovh(*addons: dict[str, Any], currency: str = "EUR") -> list[Row]:
    return read(ovhcloud, {"locale": {"currencyCode": currency}, "plans": [], "addons": list(addons)})


def test_case_46_the_us_catalogue_has_no_interval(catalogue: Catalogue) -> None:
    """OVHcloud US 2026-08: intervalUnit "none", interval 0; the suffix of the plan decides."""
    (quote,) = quotes(ovh(addon("t2-45.consumption", 180_000_000, "$1.80 USD", unit="none"), currency="USD"))
    assert (quote.price * quote.scale, quote.per, quote.currency) == (Decimal("1.8"), "node_hour", "USD")


def test_case_47_windows_and_what_is_coming_soon_are_not_sold() -> None:
    """OVHcloud 2026-08: a10-45 at 0.76 coming soon, win-t1-45 at 0.9776 beside t1-45 at 0.70."""
    rows = ovh(
        addon("t1-45.consumption", 70_000_000, "0,70 €"),
        addon("win-t1-45.consumption", 97_760_000, "0,98 €", os="windows"),
        addon("a10-45.consumption", 76_000_000, "0,76 €", tags=("active", "coming_soon")),
        addon("t1-le-45.consumption", 50_000_000, "0,50 €", tags=()),
    )
    assert [q.sku for q in quotes(rows)] == ["t1-45"]


def test_case_48_the_printed_price_is_rounded() -> None:
    """OVHcloud US: 155,819,000 is shown as "$1.56 USD"; another scale would show."""
    rows = ovh(addon("t2-45.consumption", 155_819_000, "$1.56 USD"), addon("t3-45.consumption", 155_819_000, "$15.58 USD"), currency="USD")
    assert [(q.sku, q.price * q.scale) for q in quotes(rows)] == [("t2-45", Decimal("1.55819"))]
    assert skipped(rows) == ["price and formattedPrice differ"]


def test_case_49_a_zone_without_stock_sells_nothing() -> None:
    """SpareCores PR 101: UpCloud prices GPU plans in zones that have none."""
    plan = "GPU-8xCPU-64GB-1xL40S"
    prices = {
        "prices": {
            "currency": "EUR",
            "zone": [{"name": zone, f"server_plan_{plan}": {"amount": 1, "price": 111.1607}} for zone in ("fi-hel2", "au-syd1")],
        }
    }
    stock = {"fi-hel2": {"gpu_plans": {plan: {"amount": 1}}}, "au-syd1": {"gpu_plans": {plan: {"amount": 0}}}}
    rows = read(upcloud, prices, stock, urls=("https://api/1.3/price", "https://api/1.3/device/availability?type=gpu"))
    assert {q.region: q.availability for q in quotes(rows)} == {"fi-hel2": "available", "au-syd1": "unavailable"}
    assert {q.price * q.scale for q in quotes(rows)} == {Decimal("1.111607")}


def test_case_54_too_many_requests_says_when_to_ask_again() -> None:
    """skypilot 5438: GitHub limits catalogue downloads."""
    assert retry_after_s("120", T0) == 120
    assert retry_after_s("Sun, 29 Nov 2026 12:05:00 GMT", T0) == 300
