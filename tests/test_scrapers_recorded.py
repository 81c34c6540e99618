"""Every recording under tests/recorded/<source>/<case> gives exactly the rows (or the error) written beside it."""

from __future__ import annotations

import dataclasses
import importlib
import json
import pkgutil
from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import scrapers
from scrapers.contract import FxQuote, GpuQuote, LayoutChanged, Licence, Page, Row, ScrapeError, Skipped, TokenQuote

RECORDED = Path(__file__).parent / "recorded"
KINDS: Mapping[str, type[Any]] = {"gpu": GpuQuote, "token": TokenQuote, "fx": FxQuote, "skipped": Skipped, "licence": Licence}
ERRORS: Mapping[str, type[ScrapeError]] = {"LayoutChanged": LayoutChanged}
REQUIRED_CASES = {"normal", "empty", "layout_changed", "bad_row", "hostile"}
CASES = sorted(path.parent for path in RECORDED.glob("*/*/pages.json"))
SOURCES = sorted({case.parent.name for case in CASES})


def load(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def read_pages(case: Path) -> list[Page]:
    return [read_page(case, entry) for entry in load(case / "pages.json")]


def read_page(case: Path, entry: dict[str, Any]) -> Page:
    assert set(entry) <= {"url", "file", "headers", "fetched_at"}, f"{case}: unknown key in pages.json"
    fetched_at = datetime.fromisoformat(entry["fetched_at"]) if "fetched_at" in entry else None
    return Page(url=entry["url"], body=(case / entry["file"]).read_bytes(), headers=entry.get("headers", {}), fetched_at=fetched_at)


def parse(source: str, pages: list[Page]) -> list[Row]:
    return list(importlib.import_module(f"scrapers.{source}").parse(pages))


def expected_fields(entry: dict[str, Any]) -> tuple[type[Any], dict[str, Any]]:
    """The row type and every field's expected value: as written, else the default of the dataclass."""
    written = dict(entry)
    row_type = KINDS[written.pop("row")]
    names = {field.name: field for field in dataclasses.fields(row_type)}
    assert set(written) <= set(names), f"{entry}: unknown field"
    fields = {name: convert(name, value) for name, value in written.items()}
    for name, field in names.items():
        if name not in fields and not (row_type is Skipped and name == "raw"):
            assert field.default is not dataclasses.MISSING, f"{entry}: {name} has no default and must be written"
            fields[name] = field.default
    return row_type, fields


def convert(name: str, value: Any) -> Any:
    if name in {"price", "scale", "memory_gb", "rate", "reliability"} and value is not None:
        assert isinstance(value, str), f"{name} {value!r}: write decimals as strings"
        return Decimal(value)
    if name == "parts":
        return tuple((part, None if price is None else convert("price", price)) for part, price in value.items())
    if name == "prices":
        return {kind: convert("price", price) for kind, price in value.items()}
    if name in {"valid_from", "valid_to"} and value is not None:
        return datetime.fromisoformat(value)
    return date.fromisoformat(value) if name == "day" else value


def differences(rows: list[Row], expected: list[dict[str, Any]]) -> list[str]:
    """What differs, one line each; empty when the rows are exactly the expected ones in order."""
    found = [] if len(rows) == len(expected) else [f"{len(rows)} rows, expected {len(expected)}: {rows}"]
    for number, (row, entry) in enumerate(zip(rows, expected, strict=False)):
        row_type, fields = expected_fields(entry)
        if type(row) is not row_type:
            found.append(f"row {number}: {row}, expected a {row_type.__name__}")
            continue
        actual = {key: getattr(row, key) for key in fields}
        found += [
            f"row {number}: {key} is {actual[key]!r}, expected {fields[key]!r}" for key in fields if not same(actual[key], fields[key])
        ]
    return found


def same(actual: Any, value: Any) -> bool:
    """Equal and of one type, so that 1.5 the float is not 1.5 the Decimal and True is not 1."""
    if isinstance(value, dict):
        return isinstance(actual, Mapping) and dict(actual) == value and all(isinstance(price, Decimal) for price in actual.values())
    return type(actual) is type(value) and bool(actual == value)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.parent.name}-{case.name}")
def test_recording_gives_what_is_written_beside_it(case: Path) -> None:
    expected = load(case / "expected.json")
    assert expected["about"], "say where the expected values come from"
    pages = read_pages(case)
    if "error" in expected:
        with pytest.raises(ERRORS[expected["error"]]) as raised:
            parse(case.parent.name, pages)
        assert expected["message"] in str(raised.value)
    else:
        assert differences(parse(case.parent.name, pages), expected["rows"]) == []


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.parent.name}-{case.name}")
def test_parse_is_pure(case: Path) -> None:
    """The same bytes give the same rows, and the pages are not consumed."""
    pages = read_pages(case)
    if "rows" in load(case / "expected.json"):
        assert parse(case.parent.name, pages) == parse(case.parent.name, pages)


@pytest.mark.parametrize("source", SOURCES)
def test_every_source_has_the_usual_cases(source: str) -> None:
    assert {case.name for case in CASES if case.parent.name == source} >= REQUIRED_CASES


def test_every_scraper_has_recordings() -> None:
    """Modules that read two lists in two languages have the usual cases of both."""
    modules = {module.name for module in pkgutil.iter_modules(scrapers.__path__)}
    readers = {name for name in modules if hasattr(importlib.import_module(f"scrapers.{name}"), "parse")}
    assert readers == set(SOURCES)
    assert {case.name for case in CASES if case.parent.name == "moonshot"} >= {f"cn_{case}" for case in REQUIRED_CASES}


def rows_of(case: Path, kind: str) -> int:
    return sum(entry["row"] == kind for entry in load(case / "expected.json").get("rows", []))


@pytest.mark.parametrize("source", SOURCES)
def test_the_usual_cases_are_what_they_are_called(source: str) -> None:
    """``normal`` has prices; ``empty`` and ``layout_changed`` fail the source; a bad and a hostile row are left out and others stay."""
    cases = RECORDED / source
    quotes = {case: sum(rows_of(cases / case, kind) for kind in ("gpu", "token", "fx")) for case in REQUIRED_CASES}
    assert quotes["normal"] and quotes["bad_row"] and quotes["hostile"]
    assert all(load(cases / case / "expected.json").get("error") == "LayoutChanged" for case in ("empty", "layout_changed"))
    assert rows_of(cases / "bad_row", "skipped")
    assert rows_of(cases / "hostile", "skipped")


QUOTE = GpuQuote(provider="p", sku="s", gpu="g", gpu_count=1, tier="on_demand", price=Decimal("1.50"), per="gpu_hour", currency="USD")
COMMON = {"tier": "on_demand", "per": "gpu_hour", "currency": "USD"}
WRITTEN = {"row": "gpu", "provider": "p", "sku": "s", "gpu": "g", "gpu_count": 1, "price": "1.5"} | COMMON


def test_equal_rows_do_not_differ() -> None:
    assert differences([QUOTE], [WRITTEN]) == []


@pytest.mark.parametrize(
    ("field", "value"),
    [("price", "1.51"), ("gpu_count", 2), ("region", "eu"), ("is_slice", True), ("max_gpu_count", 8), ("tier", "spot")],
)
def test_a_differing_field_is_found(field: str, value: object) -> None:
    assert len(differences([QUOTE], [WRITTEN | {field: value}])) == 1


def test_a_missing_row_an_extra_row_and_another_kind_are_found() -> None:
    assert differences([], [WRITTEN])
    assert differences([QUOTE, QUOTE], [WRITTEN])
    assert differences([Skipped(reason="x")], [WRITTEN])
    assert differences([dataclasses.replace(QUOTE, price=1.5)], [WRITTEN]), "a float is not a Decimal"  # type: ignore[arg-type]
