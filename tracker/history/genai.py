"""Price files of pydantic/genai-prices (MIT): its data file, or a dump of the objects in its Python package. USD per Mtok.

A dump is a JSON list of dataclass fields with ``_type`` naming the class and decimals as strings; brought back to the data file's
shape it is read by the scraper of the live file, so both mean the same. A file lists every provider it knows whole.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

from scrapers import genai_prices
from scrapers.contract import FxQuote, LayoutChanged, Licence, Page
from tracker.history.sightings import HistoryFileError, Sighting, day_of, exact_json, read_text

URL = "https://github.com/pydantic/genai-prices"
PRICED = frozenset({"ModelPrice", "TieredPrices", "Tier"})  # classes whose strings are decimals


def read(path: Path, at: datetime | None = None) -> Iterator[Sighting]:
    """One sighting per model, sku, validity interval, hours and context tier; the file's day is ``at``, else that in its name."""
    when, text = at or day_of(path), read_text(path)
    try:
        page = Page(url=URL, body=_wire(text).encode())
        for row in genai_prices.parse([page]):
            if not isinstance(row, (FxQuote, Licence)):
                yield Sighting(at=when, quote=row, names=genai_prices.SOURCE, origin="genai-prices", whole=True, source_url=URL)
    except LayoutChanged as error:
        raise HistoryFileError(f"{path}: {error}") from error


def _wire(text: str) -> str:
    """The data file's JSON of a dump; anything else as it stands."""
    if '"_type"' not in text:
        return text
    try:
        return exact_json(_plain(json.loads(text, parse_float=Decimal), ""))
    except (ValueError, RecursionError, InvalidOperation) as error:
        raise LayoutChanged(f"no dump of genai-prices objects: {error}") from error


def _plain(value: Any, owner: str) -> Any:
    """``value`` without ``_`` fields, and with the decimals of prices as numbers again; ``owner`` is the class around it."""
    if isinstance(value, dict):
        kind = value.get("_type", "")
        return {key: _plain(item, kind) for key, item in value.items() if not key.startswith("_")}
    if isinstance(value, list):
        return [_plain(item, owner) for item in value]
    return Decimal(value) if isinstance(value, str) and owner in PRICED else value
