"""Linode: as many pages as the answer says."""

from __future__ import annotations

import pytest
from asked import Asked

from scrapers import linode
from scrapers.contract import LayoutChanged


@pytest.mark.parametrize(("stated", "asked"), [(1, 1), (3, 3), (0, 1), ("many", 1), (None, 1)])
def test_every_page_is_read(stated: object, asked: int) -> None:
    client = Asked({"data": [], "pages": stated})
    assert len(linode.fetch(client, {})) == asked
    assert [params["page"] for _, _, params, _ in client.asked] == list(range(1, asked + 1))


def test_too_many_pages_are_an_error() -> None:
    with pytest.raises(LayoutChanged, match="at most 10 pages"):
        linode.fetch(Asked({"data": [], "pages": 10**9}), {})
