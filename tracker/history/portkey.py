"""Pricing files of Portkey-AI/models (MIT): changes between commits of one provider's file, or one version of that file.

The name begins with the provider: ``openrouter.changes.json``, ``openrouter.2026-08-18.9860d6ad.json``. Prices are US cents a
token. Changes are dated by day and say nothing about models that did not change; of several on one day the last one counts.
The entry ``default`` is a template, and a cache write at 0 says that none is billed apart: it is unknown here. A model priced 0
for input and output is free or unknown, the file does not say which.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from scrapers.contract import Skipped, TokenQuote
from scrapers.fields import BadRow, as_object
from scrapers.token_fields import number_price
from tracker.history.sightings import HistoryFileError, Sighting, day_of, read_json

URL = "https://github.com/Portkey-AI/models"
PROVIDERS = {"bedrock": "aws", "moonshot": "moonshotai"}  # as the other catalogues of token prices call them
KINDS = {
    "request_token": "input",
    "response_token": "output",
    "cache_read_input_token": "cache_read",
    "cache_write_input_token": "cache_write_5m",
}
CENT = Decimal("0.01")
TOKENS_PER_DOLLAR_PRICE = Decimal(100)  # cents for one token are dollars for a hundred


def read(path: Path, at: datetime | None = None) -> Iterator[Sighting]:
    """One sighting per change, or per model of a version; a version's day is ``at``, else the one in the file's name."""
    name = path.name.partition(".")[0]
    provider, content = PROVIDERS.get(name, name), read_json(path)
    whole = isinstance(content, dict)
    if isinstance(content, list):
        found = _changes(path, content)
    elif isinstance(content, dict):
        found = _version(content, at or day_of(path))
    else:
        raise HistoryFileError(f"{path}: expected a list of changes or an object by model, found {type(content).__name__}")
    for when, model, prices in found:
        quote = _quote(provider, model, prices)
        yield Sighting(at=when, quote=quote, names="portkey", origin="portkey", whole=whole, source_url=URL)


def _changes(path: Path, content: list[Any]) -> Iterator[tuple[datetime, str, object]]:
    """What each model cost after its last change of each day."""
    last: dict[tuple[datetime, str], object] = {}
    for number, change in enumerate(content):
        try:
            when = datetime.fromisoformat(change["date"]).replace(tzinfo=UTC)
            last[when, change["model"]] = change["after_cents_per_token"]
        except (KeyError, TypeError, ValueError) as error:
            raise HistoryFileError(f"{path}: change {number}: expected date, model and after_cents_per_token ({error!r})") from error
    for (when, model), prices in sorted(last.items(), key=lambda item: item[0][0]):
        yield when, model, prices


def _version(content: Mapping[str, Any], when: datetime) -> Iterator[tuple[datetime, str, object]]:
    for model, entry in content.items():
        if model != "default":
            yield when, model, _pay_as_you_go(entry)


def _pay_as_you_go(entry: Any) -> object:
    """The prices of a model of a whole version, in the shape a change has."""
    try:
        prices = entry["pricing_config"]["pay_as_you_go"]
        return {key: prices[key]["price"] for key in KINDS if key in prices}
    except (KeyError, TypeError):
        return None


def _quote(provider: str, model: str, prices: object) -> TokenQuote | Skipped:
    try:
        fields = as_object(prices, "prices")
        found = {kind: number_price(fields[key], key, tokens=TOKENS_PER_DOLLAR_PRICE) for key, kind in KINDS.items() if key in fields}
        if not found.get("cache_write_5m"):
            found.pop("cache_write_5m", None)
        if not found.get("input") and not found.get("output"):
            raise BadRow("priced 0: free or unknown" if found else "no token price")
    except BadRow as bad:
        return Skipped(reason=str(bad), raw=f"{provider} {model}"[:200])
    return TokenQuote(provider=provider, model=model, sku=_sku(model), prices=found, per="token", scale=CENT, currency="USD")


def _sku(model: str) -> str:
    """The suffix of a gateway's model name (``z-ai/glm-4.6:exacto``); a version after a colon (``titan-embed-text-v2:0``) is none."""
    suffix = model.partition(":")[2] if "/" in model else ""
    return suffix or "standard"
