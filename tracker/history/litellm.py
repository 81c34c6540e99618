"""The model price map of BerriAI/litellm (MIT) and its copies (tokencostauto, MIT): one JSON snapshot a file, USD a token.

Read by the scraper of the live map, so both mean the same. The copies never drop a model, so a missing one says nothing and a
present one may be gone. Some rows are in the wrong unit (dollars per 1,000 tokens or per Mtok): the guard's band refuses them.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from scrapers import litellm
from scrapers.contract import FxQuote, LayoutChanged, Licence, Page
from tracker.history.sightings import HistoryFileError, Sighting, day_of, read_text

URL = "https://github.com/BerriAI/litellm"


def read(path: Path, at: datetime | None = None) -> Iterator[Sighting]:
    """One sighting per model, sku, context tier and part of the week; the snapshot's day is ``at``, else the one in the file's name."""
    when = at or day_of(path)
    page = Page(url=str(path), body=read_text(path).encode())
    try:
        for row in litellm.parse([page]):
            if not isinstance(row, (FxQuote, Licence)):
                yield Sighting(at=when, quote=row, names=litellm.SOURCE, origin="litellm", source_url=URL)
    except LayoutChanged as error:
        raise HistoryFileError(f"{path}: {error}") from error
