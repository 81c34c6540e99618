"""Single prices as somebody read them: two tables anybody can write, one of rentals and one of token prices.

A row says who printed the price, when it was read and in which unit; ``origin`` is a short id of where it was read. A row vouches
for itself only. The unit is a word of the scrapers' contract: gpu_hour, node_hour, node_month, token, mtok and so on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, get_args

from engine.rates import TOKEN_KINDS
from scrapers.contract import Availability, GpuQuote, PriceKind, RentUnit, Skipped, Tier, TokenQuote, TokenUnit, Trust
from tracker.catalogue import Catalogue
from tracker.errors import did_you_mean
from tracker.history.sightings import Line, Sighting, read_table

OFFER_COLUMNS = (
    "observed", "origin", "provider", "sku", "gpu", "gpu_count", "max_gpu_count", "region", "tier", "term_months", "trust",
    "availability", "price_kind", "price", "per", "currency", "source_url",
)  # fmt: skip
RATE_COLUMNS = ("observed", "origin", "provider", "model", "sku", "region", *TOKEN_KINDS, "per", "currency", "source_url")


def read_offers(path: Path, catalogue: Catalogue) -> Iterator[Sighting]:
    """One sighting per row of a rental table."""
    return (_sighting(line, _offer(line)) for line in read_table(path, OFFER_COLUMNS))


def read_rates(path: Path, catalogue: Catalogue) -> Iterator[Sighting]:
    """One sighting per row of a token price table."""
    return (_sighting(line, _rate(line)) for line in read_table(path, RATE_COLUMNS))


def _sighting(line: Line, quote: GpuQuote | TokenQuote | Skipped) -> Sighting:
    origin = line.text("origin")
    if not origin:
        raise line.wrong("origin", "a short id of where the price was read")
    names = line.text("names") or line.text("provider")
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
        sku=line.text("sku"),
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
