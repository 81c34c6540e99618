"""gpuhunt: the version first, then the catalogue of that version."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from scrapers import gpuhunt
from scrapers.contract import LayoutChanged, Page

ROOT = Path(__file__).parents[1]


class FakeClient:
    def __init__(self, version: bytes) -> None:
        self.version = version
        self.asked: list[str] = []

    def get(self, path: str, *, params: Mapping[str, str | int] | None = None, headers: Mapping[str, str] | None = None) -> Page:
        self.asked.append(path)
        return Page(url=path, body=self.version)

    def post(self, path: str, *, json: Any, headers: Mapping[str, str] | None = None) -> Page:
        raise AssertionError(f"unexpected POST {path}")


def test_the_catalogue_of_the_newest_version_is_read_for_every_provider() -> None:
    client = FakeClient(b"20261129-1234\n")
    pages = gpuhunt.fetch(client, {})
    assert [page.url for page in pages] == [f"/v3/{provider}/20261129-1234/catalog.zip" for provider in gpuhunt.PROVIDERS]
    assert client.asked[:2] == ["/v3/aws/version", "/v3/aws/20261129-1234/catalog.zip"]


@pytest.mark.parametrize("version", [b"", b"latest", b"../../secret", b"20261129-1/../x", b"<Error/>", b"20261129-1\n20261129-2"])
def test_a_version_that_is_none_is_never_part_of_an_address(version: bytes) -> None:
    client = FakeClient(version)
    with pytest.raises(LayoutChanged, match="expected a version"):
        gpuhunt.fetch(client, {})
    assert client.asked == ["/v3/aws/version"]


def test_clouds_with_a_source_of_their_own_are_believed_there_first() -> None:
    """The catalogue is a second opinion of them: by [precedence] the cloud's own source speaks."""
    order = tomllib.loads((ROOT / "config/tracker.toml").read_text(encoding="utf-8"))["precedence"]
    own = tomllib.loads((ROOT / "config/sources.toml").read_text(encoding="utf-8")).keys() & set(gpuhunt.PROVIDERS.values())
    assert {"azure", "oci", "runpod"} <= own
    assert all(order[cloud].index(cloud) < order[cloud].index("gpuhunt") for cloud in own)
