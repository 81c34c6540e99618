"""What the tests of faults on record share: a parser's rows from a few bytes, the shipped catalogue, and a small guarded book."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from guarded import Watched
from sqlalchemy import Engine

from scrapers.contract import GpuQuote, Page, Row, Skipped
from tracker.database.handle import migrate, open_database
from tracker.facts.catalogue import Catalogue, load_catalogue
from tracker.paths import config_dir

T0 = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
RECORDED = Path(__file__).parent / "recorded"


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return load_catalogue(config_dir())


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Engine]:
    handle = open_database(f"sqlite:///{tmp_path / 'book.db'}")
    migrate(handle)
    yield handle
    handle.dispose()


@pytest.fixture
def watched(db: Engine) -> Watched:
    return Watched(db)


def read(module: ModuleType, *bodies: Any, url: str = "https://x/y", urls: Sequence[str] = ()) -> list[Row]:
    """Rows of a parser from bodies: text, bytes, or values written as JSON."""
    raw = [b if isinstance(b, bytes) else b.encode() if isinstance(b, str) else json.dumps(b).encode() for b in bodies]
    pages = [Page(url=u, body=body, fetched_at=T0) for u, body in zip(urls or [url] * len(raw), raw, strict=True)]
    return list(module.parse(pages))


def recorded(name: str, case: str, module: ModuleType) -> list[Row]:
    """Rows of a parser from a recording of ours."""
    pages = json.loads((RECORDED / name / case / "pages.json").read_text(encoding="utf-8"))
    at = [datetime.fromisoformat(p["fetched_at"]) if p.get("fetched_at") else T0 for p in pages]
    bodies = [(RECORDED / name / case / p["file"]).read_bytes() for p in pages]
    return list(module.parse([Page(url=p["url"], body=b, fetched_at=t) for p, b, t in zip(pages, bodies, at, strict=True)]))


def quotes(rows: Sequence[Row]) -> list[GpuQuote]:
    return [row for row in rows if isinstance(row, GpuQuote)]


def skipped(rows: Sequence[Row]) -> list[str]:
    return [row.reason for row in rows if isinstance(row, Skipped)]
