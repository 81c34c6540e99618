"""What may go wrong with a page on its way to us: seeded corruptions of bodies and of the rows read from them.

A corruption of bodies stands for a source that answers badly, one of rows for a page whose figures mean something else than they
did: another unit, another currency, one row in the place of another. ``None`` for rows: nothing to corrupt in this way.
"""

from __future__ import annotations

import csv
import io
import json
import random
import re
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

from scrapers.contract import FxQuote, GpuQuote, Page, Row, TokenQuote

Rows = list[Row]
Dice = random.Random


# --- bodies ------------------------------------------------------------------------------------------------------------------


def truncated(body: bytes, dice: Dice) -> bytes:
    return body[: dice.randint(1, max(1, len(body) - 2))]


def empty(body: bytes, dice: Dice) -> bytes:
    return b""


def html_page(body: bytes, dice: Dice) -> bytes:
    return b"<!doctype html><html><head><title>503</title></head><body><h1>Checking your browser</h1><p>$0.10 per hour</p></body></html>"


def utf16(body: bytes, dice: Dice) -> bytes:
    return body.decode("utf-8", "replace").encode("utf-16")


def high_bytes(body: bytes, dice: Dice) -> bytes:
    place = dice.randrange(len(body) + 1)
    return body[:place] + b"\xff\xfe\xfa" + body[place:]


def backwards(body: bytes, dice: Dice) -> bytes:
    return body[::-1]


def noise(body: bytes, dice: Dice) -> bytes:
    found = bytearray(body)
    for _ in range(max(1, len(found) // 50)):
        found[dice.randrange(len(found))] = dice.randrange(256)
    return bytes(found)


def deep(body: bytes, dice: Dice) -> bytes:
    return b"[" * 100_000 + b"]" * 100_000


def long_number(body: bytes, dice: Dice) -> bytes:
    """Every number becomes one of 5,000 digits: exponents and digits beyond what a program expects."""
    return re.sub(rb"(?<=[:\s\"$>,])\d+(\.\d+)?(?=[\"\s,}<])", b"9" * 5000, body, count=50)


def not_numbers(body: bytes, dice: Dice) -> bytes:
    return re.sub(rb"(?<=[:\s])-?\d+\.\d+(?=[\s,}])", b"NaN", body)


def shifted_fields(body: bytes, dice: Dice) -> bytes | None:
    """In every object of a JSON document each value stands in the place of the next one, as cells do after a column was added."""
    try:
        return json.dumps(_shifted(json.loads(body))).encode()
    except (ValueError, RecursionError):
        return None


def _shifted(value: Any) -> Any:
    if isinstance(value, list):
        return [_shifted(item) for item in value]
    if not isinstance(value, dict):
        return value
    keys = [key for key, item in value.items() if not isinstance(item, dict | list)]
    turned = dict(zip(keys, [value[key] for key in keys[1:] + keys[:1]], strict=True))
    return {key: turned[key] if key in turned else _shifted(item) for key, item in value.items()}


def shifted_cells(body: bytes, dice: Dice) -> bytes | None:
    """In every line of a table of the page the cells move one to the left."""
    if b"<td" not in body:
        return None
    return re.sub(rb"(<tr[^>]*>\s*)<td[^>]*>.*?</td>", rb"\1", body, flags=re.S)


def shifted_columns(body: bytes, dice: Dice) -> bytes | None:
    """In every line of a CSV file, or of those in an archive, each cell stands in the place of the next one; the header stays."""
    if body.startswith(b"PK"):
        return _shifted_archive(body)
    lines = list(csv.reader(io.StringIO(body.decode("utf-8", "replace"))))
    width = max(map(len, lines), default=0)
    if width < MOST_COLUMNS_OF_PROSE or body.lstrip()[:1] in (b"{", b"[", b"<"):
        return None
    header = next(number for number, line in enumerate(lines) if len(line) == width)
    file = io.StringIO()
    csv.writer(file).writerows([*lines[: header + 1], *(line[1:] + line[:1] for line in lines[header + 1 :])])
    return file.getvalue().encode()


MOST_COLUMNS_OF_PROSE = 8


def _shifted_archive(body: bytes) -> bytes:
    shifted = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(body)) as old, zipfile.ZipFile(shifted, "w") as new:
        for name in old.namelist():
            new.writestr(name, shifted_columns(old.read(name), random.Random(0)) or old.read(name))
    return shifted.getvalue()


BODIES: dict[str, Callable[[bytes, Dice], bytes | None]] = {
    "truncated": truncated,
    "empty": empty,
    "html for data": html_page,
    "utf-16": utf16,
    "broken utf-8": high_bytes,
    "backwards": backwards,
    "noise": noise,
    "nested bomb": deep,
    "number bomb": long_number,
    "NaN": not_numbers,
    "shifted fields": shifted_fields,
    "shifted cells": shifted_cells,
    "shifted columns": shifted_columns,
}


# --- rows --------------------------------------------------------------------------------------------------------------------


def scaled(row: Row, factor: Decimal) -> Row:
    """A row whose prices are ``factor`` times what they were."""
    if isinstance(row, GpuQuote):
        return replace(row, price=row.price * factor)
    if isinstance(row, TokenQuote):
        return replace(row, prices={kind: price * factor for kind, price in row.prices.items()})
    return replace(row, rate=row.rate * factor) if isinstance(row, FxQuote) else row


def times(factor: str) -> Callable[[Rows, Dice], Rows]:
    return lambda rows, dice: [scaled(row, Decimal(factor)) for row in rows]


def some_times(factor: str) -> Callable[[Rows, Dice], Rows]:
    return lambda rows, dice: [scaled(row, Decimal(factor)) if dice.random() < 0.2 else row for row in rows]


def one_times(factor: str) -> Callable[[Rows, Dice], Rows]:
    def corrupt(rows: Rows, dice: Dice) -> Rows:
        place = dice.randrange(len(rows))
        return [scaled(row, Decimal(factor)) if number == place else row for number, row in enumerate(rows)]

    return corrupt


def one_gpu_for_the_node(rows: Rows, dice: Dice) -> Rows | None:
    changed = [replace(r, price=r.price / r.gpu_count) if isinstance(r, GpuQuote) and r.per.startswith("node") else r for r in rows]
    return changed if changed != rows else None


def node_for_one_gpu(rows: Rows, dice: Dice) -> Rows | None:
    changed = [replace(r, price=r.price * r.gpu_count) if isinstance(r, GpuQuote) else r for r in rows]
    return changed if changed != rows else None


def wrong_unit(rows: Rows, dice: Dice) -> Rows:
    """What is told per hour is read as per month, per token as per Mtok, and the other way round."""
    units = {"gpu_hour": "gpu_month", "node_hour": "node_month", "gpu_month": "gpu_hour", "node_month": "node_hour", "token": "mtok",
             "mtok": "ktok", "ktok": "token", "node_minute": "node_hour", "gpu_minute": "gpu_hour"}  # fmt: skip
    return [replace(r, per=units.get(r.per, r.per)) if isinstance(r, GpuQuote | TokenQuote) else r for r in rows]  # type: ignore[arg-type]


def other_currency(code: str) -> Callable[[Rows, Dice], Rows]:
    return lambda rows, dice: [replace(row, currency=code) if isinstance(row, GpuQuote | TokenQuote) else row for row in rows]


def some_other_currency(rows: Rows, dice: Dice) -> Rows:
    return [replace(r, currency="JPY") if isinstance(r, GpuQuote | TokenQuote) and dice.random() < 0.3 else r for r in rows]


def dropped(share: float) -> Callable[[Rows, Dice], Rows | None]:
    def corrupt(rows: Rows, dice: Dice) -> Rows | None:
        kept = dice.sample(rows, max(1, round(len(rows) * (1 - share))))
        return kept if len(kept) < len(rows) else None

    return corrupt


def doubled_tenfold(rows: Rows, dice: Dice) -> Rows:
    return [*rows, *(scaled(row, Decimal(10)) for row in rows)]


def doubled(rows: Rows, dice: Dice) -> Rows:
    return [*rows, *rows]


def reordered(rows: Rows, dice: Dice) -> Rows:
    return dice.sample(rows, len(rows))


def odd_numbers(text: str) -> Callable[[Rows, Dice], Rows]:
    def corrupt(rows: Rows, dice: Dice) -> Rows:
        number = Decimal(text)
        return [
            replace(r, price=number)
            if isinstance(r, GpuQuote)
            else replace(r, prices=dict.fromkeys(r.prices, number))
            if isinstance(r, TokenQuote)
            else replace(r, rate=number)
            if isinstance(r, FxQuote)
            else r
            for r in rows
        ]

    return corrupt


HOSTILE = "\x1b[2J\u202e<script>alert(1)</script>'; drop table offer; --\x00" + "\U0001f4a9" * 3


def hostile_names(rows: Rows, dice: Dice) -> Rows:
    """Names that turn terminals, pages and databases against us, beside the true rows."""
    odd = [
        replace(r, sku=HOSTILE, region=HOSTILE) if isinstance(r, GpuQuote) else replace(r, model=HOSTILE, sku=HOSTILE)
        for r in rows
        if isinstance(r, GpuQuote | TokenQuote)
    ]
    return [*rows, *odd[:3]]


def endless_names(rows: Rows, dice: Dice) -> Rows:
    long = "x" * 10_000
    odd = [replace(r, sku=long) for r in rows if isinstance(r, GpuQuote | TokenQuote)]
    return [*rows, *odd[:3]]


def other_gpus_prices(rows: Rows, dice: Dice) -> Rows | None:
    """Every GPU has the price of the next one that costs at least four times more or less."""
    quotes = [row for row in rows if isinstance(row, GpuQuote)]
    far = {
        id(a): b.price
        for a in quotes
        for b in quotes
        if a.gpu != b.gpu and a.per == b.per and max(a.price, b.price) >= 4 * min(a.price, b.price) > 0
    }
    return [replace(row, price=far[id(row)]) if isinstance(row, GpuQuote) and id(row) in far else row for row in rows] if far else None


def swapped_kinds(rows: Rows, dice: Dice) -> Rows | None:
    """Input and output stand in each other's place."""
    if not any(isinstance(row, TokenQuote) for row in rows):
        return None
    names = {"input": "output", "output": "input"}
    return [replace(r, prices={names.get(k, k): p for k, p in r.prices.items()}) if isinstance(r, TokenQuote) else r for r in rows]


def one_component(factor: str) -> Callable[[Rows, Dice], Rows | None]:
    def corrupt(rows: Rows, dice: Dice) -> Rows | None:
        if not any(isinstance(row, TokenQuote) for row in rows):
            return None
        times_of = {"input": Decimal(factor)}
        return [
            replace(r, prices={k: p * times_of.get(k, 1) for k, p in r.prices.items()}) if isinstance(r, TokenQuote) else r for r in rows
        ]

    return corrupt


def free_of_charge(rows: Rows, dice: Dice) -> Rows | None:
    if not any(isinstance(row, TokenQuote) for row in rows):
        return None
    return [replace(r, prices=dict.fromkeys(r.prices, Decimal(0))) if isinstance(r, TokenQuote) else r for r in rows]


def lost_kind(rows: Rows, dice: Dice) -> Rows | None:
    found = [replace(r, prices={k: p for k, p in r.prices.items() if k != "cache_read"}) if isinstance(r, TokenQuote) else r for r in rows]
    return found if found != rows and all(r.prices for r in found if isinstance(r, TokenQuote)) else None


def spot_as_on_demand(rows: Rows, dice: Dice) -> Rows | None:
    found: Rows = [replace(r, tier="on_demand") if isinstance(r, GpuQuote) and r.tier == "spot" else r for r in rows]
    return found if found != rows else None


def one_gpu_counts(rows: Rows, dice: Dice) -> Rows | None:
    """Nodes counted as single GPUs at the node's price."""
    found: Rows = [replace(r, gpu_count=1, max_gpu_count=None) if isinstance(r, GpuQuote) and r.gpu_count > 1 else r for r in rows]
    return found if found != rows else None


ROWS: dict[str, Callable[[Rows, Dice], Rows | None]] = {
    "x10": times("10"),
    "x100 (cents)": times("100"),
    "x1000 (per 1K)": times("1000"),
    "x730 (month)": times("730"),
    "/10": times("0.1"),
    "/100": times("0.01"),
    "/1000": times("0.001"),
    "/730": times("0.00137"),
    "some x10": some_times("10"),
    "some /10": some_times("0.1"),
    "one x10": one_times("10"),
    "one /10": one_times("0.1"),
    "one GPU for the node": one_gpu_for_the_node,
    "node for one GPU": node_for_one_gpu,
    "nodes as one GPU": one_gpu_counts,
    "wrong unit": wrong_unit,
    "currency EUR": other_currency("EUR"),
    "currency CNY": other_currency("CNY"),
    "currency XXX": other_currency("XXX"),
    "some currency JPY": some_other_currency,
    "half dropped": dropped(0.5),
    "one row left": dropped(1.0),
    "doubled": doubled,
    "doubled at x10": doubled_tenfold,
    "reordered": reordered,
    "prices NaN": odd_numbers("NaN"),
    "prices infinite": odd_numbers("Infinity"),
    "prices huge": odd_numbers("1E+30"),
    "prices tiny": odd_numbers("1E-30"),
    "prices negative": odd_numbers("-1"),
    "prices zero": odd_numbers("0"),
    "prices one cent": odd_numbers("0.01"),
    "hostile names": hostile_names,
    "endless names": endless_names,
    "another GPU's price": other_gpus_prices,
    "input and output swapped": swapped_kinds,
    "input /10 alone": one_component("0.1"),
    "input x10 alone": one_component("10"),
    "free of charge": free_of_charge,
    "a kind is lost": lost_kind,
    "spot as on demand": spot_as_on_demand,
}


def corrupt_pages(kind: str, pages: Sequence[Page], dice: Dice) -> list[Page] | None:
    """The pages with their bodies corrupted, or None where this kind does not apply."""
    bodies = [BODIES[kind](page.body, dice) if page.body else page.body for page in pages]
    if all(body is None for body in bodies):
        return None
    return [replace(page, body=page.body if body is None else body) for page, body in zip(pages, bodies, strict=True)]
