"""Lambda: the key, and the documented answer."""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from scrapers import lambda_labs
from scrapers.contract import GpuQuote, MissingKey, Page

DOCUMENT = Path(__file__).parents[2] / "shared/recorded/gpu-markets/documented/lambda_instance_types_openapi.json"


class FakeClient:
    def __init__(self) -> None:
        self.asked: list[tuple[str, Mapping[str, str]]] = []

    def get(self, path: str, *, params: Mapping[str, str | int] | None = None, headers: Mapping[str, str] | None = None) -> Page:
        self.asked.append((path, headers or {}))
        return Page(url=path, body=b"{}")

    def post(self, path: str, *, json: Any, headers: Mapping[str, str] | None = None) -> Page:
        raise AssertionError(f"unexpected POST {path}")


@pytest.mark.parametrize("secrets", [{}, {"key": ""}, {"other": "x"}])
def test_without_a_key_nothing_is_asked(secrets: dict[str, str]) -> None:
    client = FakeClient()
    with pytest.raises(MissingKey, match="lambda_labs: no key; set the environment variable"):
        lambda_labs.fetch(client, secrets)
    assert client.asked == []


def test_the_key_is_sent_as_a_bearer_token() -> None:
    client = FakeClient()
    lambda_labs.fetch(client, {"key": "s3cret"})
    assert client.asked == [("/api/v1/instance-types", {"Authorization": "Bearer s3cret"})]


@pytest.mark.shared
def test_the_documented_answer() -> None:
    """Read in the document: one example type, eight GPUs of 40 GB for 1592 cents an hour, with capacity in one region."""
    if not DOCUMENT.exists():
        pytest.skip(f"{DOCUMENT} is not here")
    example = json.loads(DOCUMENT.read_text())["InstanceTypes"]["example"]
    (quote,) = lambda_labs.parse([Page(url="", body=json.dumps({"data": example}).encode())])
    assert isinstance(quote, GpuQuote)
    assert (quote.sku, quote.gpu_count, quote.memory_gb, quote.availability) == ("gpu_8x_example", 8, 40, "available")
    assert quote.price * quote.scale == Decimal("15.92")
