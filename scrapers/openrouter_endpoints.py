"""OpenRouter's endpoints: what each host behind OpenRouter asks for a model, USD per token, with its quantization and tier.

Docs: https://openrouter.ai/docs/api/api-reference/endpoints/list-endpoints (stored copies, read 2026-11-29). No key. One request a
tracked model. ``tag`` names host and variant, "deepinfra/fp8", "openai/flex": with ``quantization``, where that is stated and the tag
does not end in it, it is the provider of the quote ("openrouter-deepinfra/fp8"), so that a cheap flex or FP4 endpoint never passes for
the standard one; ``flex``, ``priority`` and ``batch`` are skus. Prices are as in ``scrapers.openrouter``: "-1" is none, overrides
apply. A model can answer 404 although it is sold: the list of models has it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from scrapers.contract import FetchError, Page, Row, TokenQuote, TrackingClient
from scrapers.fields import BadRow, as_object, clean_name, each, layout_changed, name, require_fields, require_page
from scrapers.openrouter import pricing_rows
from scrapers.token_fields import with_token_quotes

SOURCE = "openrouter_endpoints"
PATH = "/api/v1/models/{model}/endpoints"
SKUS = ("flex", "priority", "batch")


def fetch(client: TrackingClient, secrets: Mapping[str, str]) -> list[Page]:
    """A page per tracked model that answers; FetchError when none does."""
    pages: list[Page] = []
    missing: list[FetchError] = []
    for model in client.tracked:
        try:
            pages.append(client.get(PATH.format(model=model)))
        except FetchError as error:
            missing.append(error)
    if missing and not pages:
        raise missing[0]
    return pages


def parse(pages: Sequence[Page]) -> Iterator[Row]:
    """One quote per model, endpoint, context tier and part of the week."""
    require_page(SOURCE, pages)
    found = [_model(page) for page in pages]
    require_fields(SOURCE, [endpoint for _, endpoints in found for endpoint in endpoints], ("tag", "pricing"), "endpoints")
    return with_token_quotes(SOURCE, (row for model, endpoints in found for row in _model_rows(model, endpoints)))


def _model(page: Page) -> tuple[str, list[object]]:
    answer = page.json()
    data = answer.get("data") if isinstance(answer, dict) else None
    model = data.get("id") if isinstance(data, dict) else None
    endpoints = data.get("endpoints") if isinstance(data, dict) else None
    if not isinstance(model, str) or not isinstance(endpoints, list):
        raise layout_changed(SOURCE, 'expected an object "data" with "id" and a list "endpoints"')
    try:
        return clean_name(model, "id"), endpoints
    except BadRow as error:
        raise layout_changed(SOURCE, f"a model whose {error}") from error


def _model_rows(model: str, endpoints: Sequence[object]) -> Iterator[Row]:
    yield from each(endpoints, lambda endpoint: _endpoint_rows(model, endpoint))


def _endpoint_rows(model: str, item: object) -> Iterator[Row]:
    fields = as_object(item, "endpoint")
    tag = name(fields, "tag")
    status = fields.get("status", 0)
    if isinstance(status, int) and status < 0:
        raise BadRow("endpoint is down")
    sku = next((variant for variant in tag.split("/")[1:] if variant in SKUS), "standard")
    quote = TokenQuote(
        provider=f"openrouter-{_host(tag, fields.get('quantization'))}", model=model, sku=sku, prices={}, per="token", currency="USD"
    )
    yield from pricing_rows(quote, fields.get("pricing"))


def _host(tag: str, quantization: object) -> str:
    """The tag with the quantization, once."""
    if not isinstance(quantization, str) or quantization in ("", "unknown") or quantization in tag.split("/")[1:]:
        return tag
    return clean_name(f"{tag}/{quantization}", "quantization")
