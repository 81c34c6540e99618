"""The last answer of each address, kept from sweep to sweep to ask a source "changed since?" (RFC 9110, 13.1)."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from scrapers.contract import Page

_KEPT_HEADERS = ("content-type", "link", "x-total-count")  # a 304 may leave them out, and scrapers page by them


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPage:
    """One whole answer. ``url`` is as shown, without credentials; ``etag`` and ``last_modified`` are empty where not sent."""

    url: str
    etag: str
    last_modified: str
    headers: Mapping[str, str]  # those a scraper may read; lost, a source that pages by Link would end at its first page
    body: bytes
    fetched_at: datetime

    @property
    def sha256(self) -> str:
        """Hash of the body, in hex."""
        return hashlib.sha256(self.body).hexdigest()


def conditions(last: StoredPage | None) -> dict[str, str]:
    """Request headers that let the source answer 304 instead of sending the same body again."""
    if last is None:
        return {}
    asked = {"If-None-Match": last.etag, "If-Modified-Since": last.last_modified}
    return {name: value for name, value in asked.items() if value}


def keep(url: str, page: Page) -> StoredPage | None:
    """What to keep of a page; None where the source named nothing to recognise it by."""
    etag, last_modified = page.headers.get("etag", ""), page.headers.get("last-modified", "")
    if page.fetched_at is None or not (etag or last_modified):
        return None
    headers = {name: page.headers[name] for name in _KEPT_HEADERS if name in page.headers}
    return StoredPage(url=url, etag=etag, last_modified=last_modified, headers=headers, body=page.body, fetched_at=page.fetched_at)


def renewed(last: StoredPage, headers: Mapping[str, str]) -> dict[str, str]:
    """Headers of a page that was answered with 304: the kept ones, renewed by those of the answer."""
    told = {"etag": last.etag, "last-modified": last.last_modified}
    return {**{name: value for name, value in told.items() if value}, **last.headers, **headers}
