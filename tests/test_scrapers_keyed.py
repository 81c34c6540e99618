"""Sources with a key: without one they are off, with one it travels in the header their documentation names and nowhere else."""

from __future__ import annotations

from base64 import b64encode
from types import ModuleType
from typing import Any

import pytest
from asked import Asked

from scrapers import digitalocean, gcp, primeintellect, shadeform, upcloud
from scrapers.contract import MissingKey

KEYED: list[tuple[ModuleType, Any, dict[str, str]]] = [
    (digitalocean, {"sizes": []}, {"Authorization": "Bearer k-1:x"}),
    (gcp, {"skus": []}, {"X-Goog-Api-Key": "k-1:x"}),
    (primeintellect, {"items": [], "totalCount": 0}, {"Authorization": "Bearer k-1:x"}),
    (shadeform, {"instance_types": []}, {"X-API-KEY": "k-1:x"}),
    (upcloud, {"prices": {}}, {"Authorization": f"Basic {b64encode(b'k-1:x').decode()}"}),
]


@pytest.mark.parametrize(("module", "answer", "headers"), KEYED, ids=lambda value: getattr(value, "SOURCE", ""))
def test_the_key_is_sent_in_its_header_only(module: ModuleType, answer: Any, headers: dict[str, str]) -> None:
    client = Asked(answer)
    module.fetch(client, {"key": "k-1:x"})
    for _, path, params, sent in client.asked:
        assert sent == headers
        assert "k-1" not in path and "k-1" not in str(params)


@pytest.mark.parametrize(("module", "answer", "headers"), KEYED, ids=lambda value: getattr(value, "SOURCE", ""))
def test_without_a_key_nothing_is_asked(module: ModuleType, answer: Any, headers: dict[str, str]) -> None:
    client = Asked(answer)
    for secrets in ({}, {"key": ""}):
        with pytest.raises(MissingKey, match="key_env"):
            module.fetch(client, secrets)
    assert client.asked == []


def test_a_key_is_hidden_in_every_message_about_these_sources() -> None:
    """The client hides values of headers whose name says so; these are the names the five sources use."""
    from scrapers.redact import is_secret_name

    assert all(is_secret_name(name) for _, _, headers in KEYED for name in headers)
