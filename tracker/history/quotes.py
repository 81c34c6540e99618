"""Prices as somebody read them: two tables anybody can write, one of rentals and one of token prices.

A row says who printed the price, when it was read and in which unit; ``origin`` is a short id of where it was read, the file's name
where there is no such column. A row vouches for itself only. The unit is a word of the scrapers' contract: gpu_hour, node_hour,
node_month, token, mtok and so on. GPUs and models go by our ids or by the names their provider uses. A table of another's making
is read as it is: told which of its columns is which, and what holds for all of its rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, get_args

from engine.rates import TOKEN_KINDS
from scrapers.contract import Availability, GpuQuote, PriceKind, RentUnit, Skipped, Tier, TokenQuote, TokenUnit, Trust
from tracker.errors import UnknownName, did_you_mean
from tracker.facts.values import OWN_IDS, Catalogue
from tracker.history.sightings import Line, Sighting, read_table

OFFER_COLUMNS = (
    "observed", "origin", "provider", "sku", "gpu", "gpu_count", "max_gpu_count", "region", "tier", "term_months", "trust",
    "availability", "price_kind", "price", "per", "currency", "source_url",
)  # fmt: skip
RATE_COLUMNS = ("observed", "origin", "provider", "model", "sku", "region", *TOKEN_KINDS, "per", "currency", "source_url")
# What says nothing wrong where it is not said; a price without any of the others would be a guess.
OFFER_OPTIONAL: dict[str, str] = {
    "origin": "", "sku": "", "max_gpu_count": "", "region": "", "term_months": "", "trust": "datacenter", "availability": "unknown",
    "price_kind": "list", "source_url": "",
}  # fmt: skip
RATE_OPTIONAL: dict[str, str] = {"origin": "", "sku": "", "region": "", "source_url": "", **dict.fromkeys(TOKEN_KINDS, "")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """How a table differs from ours: which of its columns is which of ours, and what stands in ours for every row."""

    columns: Mapping[str, str] = field(default_factory=dict)  # ours -> theirs
    constants: Mapping[str, str] = field(default_factory=dict)  # ours -> the value of every row

    def __post_init__(self) -> None:
        known = {*OFFER_COLUMNS, *RATE_COLUMNS, "names"}
        for name in (*self.columns, *self.constants):
            if name not in known:
                raise UnknownName(f"no column named {name!r}{did_you_mean(name, known)}; there are {', '.join(sorted(known))}")


OURS = Shape()


def read_offers(path: Path, catalogue: Catalogue, shape: Shape = OURS) -> Iterator[Sighting]:
    """One sighting per row of a rental table."""
    for line in _lines(path, OFFER_COLUMNS, OFFER_OPTIONAL, shape):
        yield _sighting(line, _offer(line), line.text("gpu") in catalogue.gpus)


def read_rates(path: Path, catalogue: Catalogue, shape: Shape = OURS) -> Iterator[Sighting]:
    """One sighting per row of a token price table."""
    for line in _lines(path, RATE_COLUMNS, RATE_OPTIONAL, shape):
        yield _sighting(line, _rate(line), line.text("model") in catalogue.models)


def _lines(path: Path, ours: Sequence[str], optional: Mapping[str, str], shape: Shape) -> Iterator[Line]:
    """The lines of a table under our names of its columns."""
    stated = {name: shape.columns.get(name, name) for name in ours if name not in shape.constants}
    needed = [theirs for name, theirs in stated.items() if name not in optional or name in shape.columns]
    for line in read_table(path, needed):
        own = {name: line.cells[theirs] for name, theirs in stated.items() if theirs in line.cells}
        missing = {"origin": path.name.partition(".")[0]} if "origin" not in {*own, *shape.constants} else {}
        yield Line(path, line.number, {**line.cells, **optional, **own, **missing, **shape.constants})


def _sighting(line: Line, quote: GpuQuote | TokenQuote | Skipped, is_own_id: bool) -> Sighting:
    origin = line.text("origin")
    if not origin:
        raise line.wrong("origin", "a short id of where the price was read")
    names = line.text("names") or (OWN_IDS if is_own_id else line.text("provider"))
    return Sighting(at=line.moment("observed"), quote=quote, names=names, origin=origin, source_url=line.text("source_url"))


def _word(line: Line, column: str, known: Sequence[str]) -> Any:
    value = line.text(column)
    if value not in known:
        raise line.wrong(column, f"one of {', '.join(known)}{did_you_mean(value, known)}")
    return value


def _offer(line: Line) -> GpuQuote | Skipped:
    price = line.price("price")
    if price is None:
        return Skipped(reason="no price", raw=f"{line.text('provider')} {line.text('sku')}")
    return GpuQuote(
        provider=line.text("provider"),
        sku=line.text("sku") or line.text("gpu"),
        gpu=line.text("gpu"),
        gpu_count=line.count("gpu_count"),
        max_gpu_count=line.optional_count("max_gpu_count"),
        region=line.text("region"),
        tier=_word(line, "tier", get_args(Tier)),
        term_months=line.optional_count("term_months"),
        trust=_word(line, "trust", get_args(Trust)),
        availability=_word(line, "availability", get_args(Availability)),
        price_kind=_word(line, "price_kind", get_args(PriceKind)),
        price=price,
        per=_word(line, "per", get_args(RentUnit)),
        currency=line.text("currency"),
    )


def _rate(line: Line) -> TokenQuote | Skipped:
    prices: dict[str, Decimal] = {kind: price for kind in TOKEN_KINDS if (price := line.price(kind)) is not None}
    return TokenQuote(
        provider=line.text("provider"),
        model=line.text("model"),
        sku=line.text("sku") or "standard",
        region=line.text("region"),
        prices=prices,
        per=_word(line, "per", get_args(TokenUnit)),
        currency=line.text("currency"),
    )
