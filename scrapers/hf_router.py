"""Hugging Face's router: what its inference providers ask per Mtok for open models, USD, passed on without a surcharge.

Docs: https://huggingface.co/docs/inference-providers and the answer of ``/v1/models`` (stored copies, read 2026-11-29). No key.
``data`` lists models with their ``providers``; ``pricing`` has input and output, never a cache price: those are unknown, not 0.
A provider that is not ``live`` sells nothing now. Quotes are of "huggingface_<provider>": the price through the router.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from scrapers.contract import Page, Row, TokenQuote
from scrapers.fields import BadRow, as_object, each, layout_changed, name, require_fields, require_page
from scrapers.token_fields import float_price, with_token_quotes

SOURCE = "hf_router"
PATH = "/v1/models"


def parse(pages: Sequence[Page]) -> Iterator[Row]:
    """One quote per model and provider."""
    answer = require_page(SOURCE, pages).json()
    models = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(models, list):
        raise layout_changed(SOURCE, 'expected an object with a list "data"')
    require_fields(SOURCE, models, ("id", "providers"), "models")
    return with_token_quotes(SOURCE, each(models, _model_rows))


def _model_rows(item: object) -> Iterator[Row]:
    fields = as_object(item, "model")
    model, providers = name(fields, "id"), fields.get("providers")
    if not isinstance(providers, list):
        raise BadRow("providers is not a list")
    yield from each(providers, lambda provider: _provider_rows(model, provider))


def _provider_rows(model: str, item: object) -> Iterator[Row]:
    fields = as_object(item, "provider")
    provider = name(fields, "provider")
    if fields.get("status") != "live":
        raise BadRow("provider is not live")
    if fields.get("pricing") is None:
        raise BadRow("no token price")
    pricing = as_object(fields["pricing"], "pricing")
    prices = {kind: float_price(pricing.get(kind), kind) for kind in ("input", "output")}
    yield TokenQuote(provider=f"huggingface_{provider}", model=model, prices=prices, per="mtok", currency="USD")
