"""OpenRouter endpoints: one request a model, and a model that answers 404 does not stop the others."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from scrapers import openrouter_endpoints
from scrapers.contract import FetchError, LayoutChanged, Page
from tracker.paths import config_dir
from tracker.sweeps.collect import tracked_names
from tracker.world import load_world


class FakeClient:
    """Answers for ``sold`` models, 404 for the others."""

    def __init__(self, sold: set[str]) -> None:
        self.sold = sold
        self.asked: list[str] = []
        self.tracked = ("meta/muse-spark-open", "moonshotai/kimi-k3", "moonshotai/kimi-k3.1-pro")

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
    assert [page.url for page in pages] == ["/api/v1/models/meta/muse-spark-open/endpoints", "/api/v1/models/moonshotai/kimi-k3/endpoints"]
    assert len(client.asked) == len(client.tracked)


def test_no_answer_at_all_is_a_failure() -> None:
    with pytest.raises(FetchError, match="404"):
        openrouter_endpoints.fetch(FakeClient(sold=set()), {})


def test_the_tracked_models_are_asked_for_as_openrouter_spells_them() -> None:
    """Those of [track] models in tracker.toml, and no sku that has an id of its own there."""
    world = load_world(config_dir())
    source = world.config.source("openrouter_endpoints")
    assert tracked_names(world, source) == ("meta/muse-spark-open", "moonshotai/kimi-k3.1-pro")
    more = world.settings.track.model_copy(update={"models": ("kimi-k3", "gpt-oss-120b")})
    other = replace(world, config=replace(world.config, settings=world.settings.model_copy(update={"track": more})))
    assert tracked_names(other, source) == ("moonshotai/kimi-k3", "openai/gpt-oss-120b")


@pytest.mark.parametrize(("id_", "fault"), [("", "is empty"), (" ", "is empty"), ("a\0b", "holds control characters")])
def test_endpoints_of_a_model_without_a_name_are_no_answer(id_: str, fault: str) -> None:
    body = json.dumps({"data": {"id": id_, "endpoints": [{"tag": "x/fp8", "pricing": {"prompt": "0.1", "completion": "0.2"}}]}})
    with pytest.raises(LayoutChanged, match=f"openrouter_endpoints: a model whose id {fault}; run"):
        list(openrouter_endpoints.parse([Page(url="x", body=body.encode())]))
