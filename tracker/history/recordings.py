"""Recorded responses of live sources, read by the scrapers that read the live ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path

from scrapers import coreweave, oci, openrouter, runpod, scaleway
from scrapers.contract import FxQuote, GpuQuote, Licence, Page, Row, Skipped
from tracker.history.scaleway import ORIGIN as SCALEWAY_ORIGIN
from tracker.history.scaleway import URL as SCALEWAY_URL
from tracker.history.sightings import HistoryFileError, Sighting, exact_json, read_json, read_text

RUNPOD_URL = "https://www.runpod.io/pricing"
PLACEHOLDER_CENTS = 50  # RunPod prints 0.50 for clouds that do not have a GPU


def read_runpod(path: Path, at: datetime) -> Iterator[Sighting]:
    """An answer of the GraphQL API. Without its flags 0.50 may be a price or a placeholder, so it is refused."""
    for row in runpod.parse([Page(url=RUNPOD_URL, body=read_text(path).encode())]):
        if isinstance(row, GpuQuote) and row.trust == "unverified" and row.price * 100 == PLACEHOLDER_CENTS:
            yield _sighting(
                at, Skipped(reason="0.50 without the flag that tells a price from a placeholder", raw=row.sku), "runpod", "", ""
            )
        elif not isinstance(row, (FxQuote, Licence)):
            yield _sighting(at, row, "runpod", "runpod-api", RUNPOD_URL)


def read_coreweave(path: Path, at: datetime) -> Iterator[Sighting]:
    """A copy of the pricing page; it may hold a part of the page only."""
    url = "https://www.coreweave.com/pricing"
    return _all(coreweave.parse([Page(url=url, body=read_text(path).encode())]), at, "coreweave", "coreweave-page", url)


def read_openrouter(path: Path, at: datetime) -> Iterator[Sighting]:
    """A part of the answer of the models endpoint."""
    url = "https://openrouter.ai/models"
    return _all(openrouter.parse([Page(url=url, body=read_text(path).encode())]), at, "openrouter", "openrouter-api", url)


def read_oci(path: Path, at: datetime) -> Iterator[Sighting]:
    """Oracle's price list; it may hold a part of it only."""
    url = "https://www.oracle.com/cloud/compute/pricing/"
    return _all(oci.parse([Page(url=url, body=read_text(path).encode())]), at, "oci", "oci-cetools", url)


def read_scaleway(folder: Path) -> Iterator[Sighting]:
    """The price pages of the recorded zones. Each zone is listed whole: what older recordings showed and these do not is gone.

    The stock lists beside them are left alone: stock is true for an hour, and these prices are read months later.
    """
    pages = [_page(path) for path in sorted(folder.glob("products_servers_*.json")) if "_availability_" not in path.name]
    if not pages:
        raise HistoryFileError(f"{folder}: holds no recorded answer named products_servers_*.json")
    at = max(page.fetched_at for page in pages if page.fetched_at is not None)
    for sighting in _all(scaleway.parse(pages), at, "scaleway", SCALEWAY_ORIGIN, SCALEWAY_URL):
        quote = replace(sighting.quote, availability="listed") if isinstance(sighting.quote, GpuQuote) else sighting.quote
        yield replace(sighting, quote=quote, whole=True)


def _page(path: Path) -> Page:
    """A recording of address, headers and parsed body."""
    content = read_json(path)
    try:
        headers = {name.lower(): values[0] for name, values in content["_response_headers"].items()}
        fetched = parsedate_to_datetime(headers["date"]).astimezone(UTC)
        return Page(url=content["_request_url"], body=exact_json(content["body"]).encode(), headers=headers, fetched_at=fetched)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise HistoryFileError(f"{path}: expected _request_url, _response_headers with a Date, and body ({error!r})") from error


def _all(rows: Iterable[Row], at: datetime, names: str, origin: str, url: str) -> Iterator[Sighting]:
    return (_sighting(at, row, names, origin, url) for row in rows if not isinstance(row, (FxQuote, Licence)))


def _sighting(at: datetime, row: Row, names: str, origin: str, url: str) -> Sighting:
    assert not isinstance(row, (FxQuote, Licence))
    return Sighting(at=at, quote=row, names=names, origin=origin, source_url=url)
