"""OpenRouter endpoints: one request a model, and a model that answers 404 does not stop the others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from scrapers import openrouter_endpoints
from scrapers.contract import FetchError, Page


class FakeClient:
    """Answers for ``sold`` models, 404 for the others."""

    def __init__(self, sold: set[str]) -> None:
        self.sold = sold
        self.asked: list[str] = []

    def get(self, path: str, *, params: Mapping[str, str | int] | None = None, headers: Mapping[str, str] | None = None) -> Page:
        self.asked.append(path)
        if path.removeprefix("/api/v1/models/").removesuffix("/endpoints") not in self.sold:
            raise FetchError(f"GET {path}: 404")
        return Page(url=path, body=b"{}")

    def post(self, path: str, *, json: Any, headers: Mapping[str, str] | None = None) -> Page:
        raise AssertionError(f"unexpected POST {path}")


def test_a_model_that_answers_404_does_not_stop_the_others() -> None:
    client = FakeClient(sold={"moonshotai/kimi-k3", "meta/muse-spark-open"})
    pages = openrouter_endpoints.fetch(client, {})
    assert [page.url for page in pages] == ["/api/v1/models/moonshotai/kimi-k3/endpoints", "/api/v1/models/meta/muse-spark-open/endpoints"]
    assert len(client.asked) == len(openrouter_endpoints.MODELS)


def test_no_answer_at_all_is_a_failure() -> None:
    with pytest.raises(FetchError, match="404"):
        openrouter_endpoints.fetch(FakeClient(sold=set()), {})
