"""From quotes as printed to rows of the book: units, names, hostile text, and every reason to refuse."""

from __future__ import annotations

import ast
import inspect
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest
from small_world import T0, small_world, sweep
from sqlalchemy import Engine, text

from scrapers.contract import GpuQuote, TokenQuote
from tracker.book.bookstore import export_book, import_book
from tracker.database.handle import reading
from tracker.database.limits import MAX_NAME, clean
from tracker.database.rows import OfferRow, RateRow
from tracker.sweeps import resolve
from tracker.sweeps.resolve import Refused, resolve_gpu, resolve_tokens
from tracker.sweeps.store import stored_pages, unmapped_names
from tracker.world import World

GPU = GpuQuote(
    provider="cloud", sku="8x", gpu="TEST 80GB", gpu_count=8, tier="on_demand", price=Decimal("2.00"), per="gpu_hour", currency="USD"
)
TOKENS = TokenQuote(provider="vendor", model="large", prices={"input": Decimal(2), "output": Decimal(10)}, per="mtok", currency="USD")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return small_world(tmp_path_factory.mktemp("small"))


def offer_of(world: World, source: str = "rents", **changed: object) -> OfferRow:
    found = resolve_gpu(replace(GPU, **changed), source, world.catalogue, "https://cloud.example/prices")  # type: ignore[arg-type]
    assert isinstance(found, OfferRow), found
    return found


def rate_of(world: World, source: str = "tokens", **changed: object) -> RateRow:
    quote = replace(TOKENS, **changed)  # type: ignore[arg-type]
    found = resolve_tokens(quote, source, world.catalogue, "https://vendor.example", world.provider_ids)
    assert isinstance(found, RateRow), found
    return found


# --- units ----------------------------------------------------------------------------------------------------------------

# 8 GPUs. A month is 730 hours, and nothing is rounded before the ninth decimal of the hour, half to even.
RENTS = [
    ("2.00", "gpu_hour", "1", "16.00"),
    ("16.00", "node_hour", "1", "16.00"),
    ("1460", "gpu_month", "1", "16"),  # 1460 / 730 = 2 a GPU
    ("11680", "node_month", "1", "16"),  # 11680 / 730
    ("1000", "node_month", "1", "1.369863014"),  # 1000 / 730 = 1.36986301369863...
    (
        "1000",
        "gpu_month",
        "1",
        "10.958904110",
    ),  # 8000 / 730 = 10.958904109589...: a share is not rounded before it is taken 8 times
    ("0.05", "gpu_minute", "1", "24"),  # 0.05 * 60 * 8
    ("0.25", "node_minute", "1", "15"),
    ("0.0006", "gpu_second", "1", "17.28"),  # 0.0006 * 3600 * 8
    ("0.005", "node_second", "1", "18"),
    ("200", "gpu_hour", "0.01", "16"),  # cents
    ("0.0000000025", "node_hour", "1", "0.000000002"),
    ("0.0000000035", "node_hour", "1", "0.000000004"),
]


@pytest.mark.parametrize(("price", "per", "scale", "native_per_hour"), RENTS)
def test_a_rent_is_the_native_price_of_the_whole_offer_an_hour(
    world: World, price: str, per: str, scale: str, native_per_hour: str
) -> None:
    row = offer_of(world, price=Decimal(price), per=per, scale=Decimal(scale), currency="EUR")
    assert (row.native_per_hour, row.currency, row.gpu_count) == (Decimal(native_per_hour), "EUR", 8)


TOKEN_PRICES = [("0.000002", "token", "1", "2"), ("0.002", "ktok", "1", "2"), ("2", "mtok", "1", "2"), ("200", "mtok", "0.01", "2")]


@pytest.mark.parametrize(("price", "per", "scale", "per_mtok"), [*TOKEN_PRICES, ("0.0000000000000149", "token", "1", "0.0000000149")])
def test_a_token_price_is_native_money_per_million_tokens(world: World, price: str, per: str, scale: str, per_mtok: str) -> None:
    row = rate_of(world, prices={"output": Decimal(price)}, per=per, scale=Decimal(scale), currency="CNY")
    assert (row.native.output, row.native.input, row.currency) == (Decimal(per_mtok), None, "CNY")


def test_a_stated_zero_stays_zero_and_what_is_not_stated_stays_unknown(world: World) -> None:
    row = rate_of(world, prices={"input": Decimal(2), "cache_write_5m": Decimal(0)})
    assert (row.native.cache_write_5m, row.native.cache_write_1h, row.native.output) == (Decimal(0), None, None)


# --- names ----------------------------------------------------------------------------------------------------------------

GPU_NAMES = [
    ("rents", "TEST 80GB", None, "test-80"),
    ("rents", "T141", None, "test-141"),
    ("elsewhere", "T141", None, None),  # a name of another catalogue
    ("rents", "TEST", "141", "test-141"),
    ("rents", "TEST", "79.6", "test-80"),  # as 81,559 MiB is sold as 80 GB
    ("rents", "TEST", "100", None),
    ("rents", "TEST", None, None),
    ("rents", "TEST 80GB PCIe", None, None),  # holds a known name, and is another GPU
    ("rents", "test 80gb", None, None),
    ("rents", "", None, None),
]


@pytest.mark.parametrize(("source", "name", "memory", "gpu"), GPU_NAMES)
def test_a_gpu_is_known_by_its_exact_name_or_not_at_all(world: World, source: str, name: str, memory: str | None, gpu: str | None) -> None:
    quote = replace(GPU, gpu=name, memory_gb=None if memory is None else Decimal(memory))
    found = resolve_gpu(quote, source, world.catalogue, "")
    if gpu is None:
        assert found == Refused(reason="unmapped gpu", detail=f"cloud 8x {name}".strip(), unmapped=("gpu", name))
    else:
        assert isinstance(found, OfferRow)
        assert found.gpu == gpu


@pytest.mark.parametrize(("sku", "gpu"), [("whole.8x", "test-80"), ("slice.1x", None), ("rumour.4x", None), ("other.8x", "test-141")])
def test_an_instance_type_decides_before_the_name_does(world: World, sku: str, gpu: str | None) -> None:
    found = resolve_gpu(replace(GPU, sku=sku, gpu="TEST 141GB"), "rents", world.catalogue, "")
    assert (found.gpu if isinstance(found, OfferRow) else None) == gpu


def test_a_slice_is_kept_apart_and_says_so(world: World) -> None:
    assert (offer_of(world, is_slice=True).is_slice, offer_of(world).is_slice) == (True, False)


MODELS = [
    # source, provider, model, printed sku, printed region -> model, sku, region
    ("tokens", "vendor", "large", "standard", "", ("large-60b", "standard", "")),
    ("tokens", "vendor", "large", "batch", "us", ("large-60b", "batch", "us")),
    ("tokens", "vendor", "large-highspeed", "standard", "", ("large-60b", "highspeed", "")),
    ("tokens", "vendor", "large-highspeed", "highspeed", "", ("large-60b", "highspeed", "")),
    ("tokens", "vendor", "large-highspeed", "batch", "", ("large-60b", "highspeed-batch", "")),
    ("tokens", "vendor", "eu.large", "standard", "", ("large-60b", "standard", "eu")),
    ("tokens", "aws", "global.large", "standard", "us-east-1", ("large-60b", "highspeed", "global")),  # the source's ids name the provider
    ("tokens", "other", "small", "standard", "", ("small-8b", "standard", "")),
]


@pytest.mark.parametrize(("source", "provider", "model", "sku", "region", "found"), MODELS)
def test_a_spelling_may_be_another_sku_or_region_of_its_model(
    world: World, source: str, provider: str, model: str, sku: str, region: str, found: tuple[str, str, str]
) -> None:
    row = rate_of(world, source, provider=provider, model=model, sku=sku, region=region)
    assert (row.model, row.sku, row.region, row.source_model) == (*found, model)


@pytest.mark.parametrize("model", ["Large", "large ", "larg", "large-highspeed-2", "vendor/large:free"])
def test_a_model_nobody_listed_is_unmapped_and_named(world: World, model: str) -> None:
    found = resolve_tokens(replace(TOKENS, model=model), "tokens", world.catalogue, "", world.provider_ids)
    name = f"vendor {model}".strip()
    assert found == Refused(reason="unmapped model", detail=name, unmapped=("model", name))


@pytest.mark.parametrize(
    ("printed", "provider"), [("vendor-ai", "vendor"), ("Vendor.AI", "vendor"), ("vendor", "vendor"), ("VENDOR", "VENDOR")]
)
def test_a_provider_has_one_id_whatever_a_source_calls_it(world: World, printed: str, provider: str) -> None:
    assert rate_of(world, provider=printed, model="vendor/large").provider == provider


def test_what_else_a_quote_says_is_kept_as_it_is(world: World) -> None:
    start, end = datetime(2026, 12, 1, tzinfo=UTC), datetime(2027, 1, 1, 8, 30, tzinfo=UTC)
    row = rate_of(
        world,
        min_prompt_tokens=200_000,
        tier_inclusive=True,
        hours_utc="16:30-00:30,06:00-08:00",
        weekdays="67",
        valid_from=start,
        valid_to=end,
    )
    assert (row.min_prompt_tokens, row.tier_inclusive, row.hours_utc, row.weekdays) == (200_000, True, "16:30-00:30,06:00-08:00", "67")
    assert (row.valid_from, row.valid_to) == (1_796_083_200, 1_798_792_200)  # seconds: date -u -d 2026-12-01 +%s
    rent = offer_of(world, tier="reserved", term_months=36, trust="verified", availability="listed", price_kind="ask", max_gpu_count=16)
    assert (rent.tier, rent.term_months, rent.trust, rent.availability, rent.price_kind, rent.max_gpu_count) == (
        "reserved", 36, "verified", 1, "ask", 16,
    )  # fmt: skip
    assert rent.source_url == "https://cloud.example/prices"


# --- hostile text ---------------------------------------------------------------------------------------------------------

HOSTILE = [
    ("a\x00b", "ab"),  # PostgreSQL takes no NUL
    ("\x1b[31mred\x07", "[31mred"),
    ("two\r\nlines\ttab", "twolinestab"),
    ("\x9bcsi", "csi"),  # C1 control
    ("\u202eesrever\u202c", "esrever"),
    ("\u2066isolate\u2069", "isolate"),
    ("\u200b\ufeffzero width\u200f", "zero width"),
    ("half \ud83d of a character", "half  of a character"),  # JSON can say it; no encoding can
    ('=HYPERLINK("http://x","y")', '=HYPERLINK("http://x","y")'),  # the book keeps it; a spreadsheet gets it quoted
    ("<script>alert(1)</script>", "<script>alert(1)</script>"),
    ("'; drop table offer; --", "'; drop table offer; --"),
    ("[bold]markup[/bold]", "[bold]markup[/bold]"),
    ("H200 \N{SNOWMAN}\u00a0", "H200 \N{SNOWMAN}"),
]


@pytest.mark.parametrize(("printed", "kept"), HOSTILE)
def test_hostile_text_reaches_the_book_without_what_breaks_it(world: World, db: Engine, tmp_path: Path, printed: str, kept: str) -> None:
    row = offer_of(world, sku=printed, region=printed, provider=printed, interconnect=printed)
    assert (row.sku, row.region, row.provider, row.interconnect) == (kept,) * 4
    sweep(db, "rents", T0, row)
    with reading(db) as connection:
        assert connection.execute(text("select sku from offer")).scalars().all() == [kept]
    export_book(db, tmp_path / "book")
    assert import_book(db, tmp_path / "book", world.catalogue, T0).rows == 1


def test_a_name_is_refused_when_nothing_readable_is_left_or_it_is_too_long_to_keep(world: World) -> None:
    for sku, reason in (("\x00\u202e \u200b", "sku is empty"), ("x" * 10_000, "name too long"), ("x" * 301, "name too long")):
        found = resolve_gpu(replace(GPU, sku=sku), "rents", world.catalogue, "")
        assert isinstance(found, Refused)
        assert (found.reason, len(found.detail) <= MAX_NAME) == (reason, True)
    assert offer_of(world, sku="x" * 300).sku == "x" * 300


def test_what_is_shown_of_a_hostile_name_is_clean_too(world: World, db: Engine) -> None:
    found = resolve_tokens(replace(TOKENS, model="a\x00\ud800\u202eb" + "x" * 290), "tokens", world.catalogue, "", world.provider_ids)
    assert isinstance(found, Refused)
    assert found.detail == "vendor ab" + "x" * 290
    assert found.unmapped is not None
    sweep(db, "tokens", T0, unmapped=[found.unmapped])
    assert [row["name"] for row in unmapped_names(db)] == [found.detail]
    assert stored_pages(db, "tokens") == {}


def test_clean_cuts_where_it_is_told_to() -> None:
    assert (clean("x" * 400), clean("a\nb" * 3, 4), clean(" a ")) == ("x" * 300, "abab", "a")


# --- refusals -------------------------------------------------------------------------------------------------------------

NAIVE = datetime(2026, 12, 1)  # noqa: DTZ001
GPU_REFUSALS: list[tuple[str, dict[str, object]]] = [
    ("price is no finite number", {"price": Decimal("NaN")}),
    ("price is no finite number", {"price": Decimal("-Infinity")}),
    ("price is no finite number", {"price": 2.0}),
    ("price is not above 0", {"price": Decimal("0.00")}),
    ("price is not above 0", {"price": Decimal(-1)}),
    ("price out of range", {"price": Decimal("1e999999")}),
    ("price out of range", {"price": Decimal("9223372037"), "per": "node_hour"}),  # 2**63 of 1e-9 is 9,223,372,036.85
    ("price out of range", {"price": Decimal("0.0000000001"), "per": "node_hour"}),  # would be kept as 0
    ("price out of range", {"price": Decimal("1e-999999"), "is_slice": True}),
    ("gpu count out of range", {"gpu_count": 0}),
    ("gpu count out of range", {"gpu_count": True}),
    ("gpu count out of range", {"gpu_count": Decimal("0.5")}),
    ("gpu count out of range", {"gpu_count": 10_001}),
    ("max gpu count out of range", {"max_gpu_count": 7}),
    ("max gpu count out of range", {"max_gpu_count": 0}),
    ("max gpu count out of range", {"max_gpu_count": 10_001}),
    ("currency unknown", {"currency": "usd"}),
    ("currency unknown", {"currency": "$"}),
    ("tier unknown", {"tier": "preemptible"}),
    ("term out of range", {"term_months": -12}),
    ("term out of range", {"term_months": 121}),
    ("trust unknown", {"trust": "friend"}),
    ("availability unknown word", {"availability": "maybe"}),
    ("price kind unknown", {"price_kind": "auction"}),
    ("sku is empty", {"sku": " "}),
    ("provider is empty", {"provider": ""}),
    ("name too long", {"gpu": "x" * 301}),
    ("name too long", {"region": "x" * 301}),
    ("name too long", {"provider": "x" * 301}),
    ("name too long", {"interconnect": "x" * 301}),
    ("time without zone", {"valid_from": NAIVE}),
    ("unit unknown", {"per": "gpu_day"}),
    ("unit unknown", {"per": "rack_hour"}),
    ("unit unknown", {"per": "hour"}),
    ("unmapped gpu", {"gpu": "TEST 81GB"}),
    ("gpu count is not that of the type", {"sku": "whole.8x", "gpu_count": 12}),  # vCPUs / 8
]
TOKEN_REFUSALS: list[tuple[str, dict[str, object]]] = [
    ("no price", {"prices": {}}),
    ("token kind unknown", {"prices": {"input": Decimal(1), "thinking": Decimal(1)}}),
    ("price is no finite number", {"prices": {"input": Decimal("Infinity")}}),
    ("price is no finite number", {"prices": {"input": 1}}),
    ("price is below 0", {"prices": {"input": Decimal(2), "output": Decimal(-1)}}),  # OpenRouter's "no price"
    ("price out of range", {"prices": {"input": Decimal("9223373")}}),  # 2**63 of 1e-12 is 9,223,372.04
    ("price out of range", {"prices": {"input": Decimal("1e999999")}}),
    ("price out of range", {"prices": {"input": Decimal("1e-13")}}),  # would be kept as 0, and free is a price of its own
    ("currency unknown", {"currency": "US"}),
    ("unit unknown", {"per": "character"}),
    ("model or provider is empty", {"model": "\x00"}),
    ("model or provider is empty", {"provider": " "}),
    ("name too long", {"model": "x" * 301}),
    ("name too long", {"sku": "x" * 301}),
    ("name too long", {"provider": "x" * 301}),
    ("name too long", {"region": "x" * 301}),
    ("context tier out of range", {"min_prompt_tokens": -1}),
    ("context tier out of range", {"min_prompt_tokens": 10**9 + 1}),
    ("hours are not HH:MM-HH:MM", {"hours_utc": "6-10"}),
    ("hours are not HH:MM-HH:MM", {"hours_utc": "25:00-26:00"}),
    ("weekdays are not ISO digits", {"weekdays": "0123"}),
    ("time without zone", {"valid_from": NAIVE}),
    ("time without zone", {"valid_to": NAIVE}),
    ("unmapped model", {"model": "gigantic"}),
]


def test_a_type_tells_its_count_where_a_source_counted_none(world: World) -> None:
    found = resolve_gpu(replace(GPU, sku="whole.8x", gpu_count=0), "rents", world.catalogue, "")
    assert isinstance(found, OfferRow)
    assert (found.gpu_count, found.native_per_hour) == (8, Decimal(16))


@pytest.mark.parametrize(("reason", "changed"), GPU_REFUSALS)
def test_a_rental_quote_that_cannot_be_used_is_refused_with_its_reason(world: World, reason: str, changed: dict[str, object]) -> None:
    found = resolve_gpu(replace(GPU, **changed), "rents", world.catalogue, "")  # type: ignore[arg-type]
    assert isinstance(found, Refused)
    assert found.reason == reason
    assert (found.unmapped is not None) == reason.startswith("unmapped")


@pytest.mark.parametrize(("reason", "changed"), TOKEN_REFUSALS)
def test_a_token_quote_that_cannot_be_used_is_refused_with_its_reason(world: World, reason: str, changed: dict[str, object]) -> None:
    found = resolve_tokens(replace(TOKENS, **changed), "tokens", world.catalogue, "", world.provider_ids)  # type: ignore[arg-type]
    assert isinstance(found, Refused)
    assert found.reason == reason
    assert (found.unmapped is not None) == reason.startswith("unmapped")


def stated_reasons(source: str) -> set[str]:
    """Every reason written in the code: the second of a pair in a table of checks, a returned text, or ``reason=``."""
    found: set[object] = set()
    for node in ast.walk(ast.parse(source)):
        value: ast.AST | None = None
        if isinstance(node, ast.Tuple) and len(node.elts) == 2 and not isinstance(node.elts[0], ast.Constant):
            value = node.elts[1]
        elif isinstance(node, ast.Return) or (isinstance(node, ast.keyword) and node.arg == "reason"):
            value = node.value
        if isinstance(value, ast.Constant):
            found.add(value.value)
    return {reason for reason in found if isinstance(reason, str)}


def test_every_reason_is_shown_above() -> None:
    assert stated_reasons('checks = ((x, "a"),)\ndef f():\n    return "b"\nRefused(reason="c")') == {"a", "b", "c"}
    assert stated_reasons(inspect.getsource(resolve)) == {reason for reason, _ in GPU_REFUSALS + TOKEN_REFUSALS}
