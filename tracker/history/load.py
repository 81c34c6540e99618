"""``breakeven import history KIND FILE``: reads a recorded series and adds it to the history, all or none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path

from sqlalchemy import Engine

from scrapers.contract import Skipped
from tracker.book.bookstore import add_dated
from tracker.book.exchange import load_exchange, load_shipped
from tracker.book.newest import SKEW
from tracker.database.handle import writing
from tracker.database.rows import from_s
from tracker.errors import UnknownName, did_you_mean
from tracker.facts.values import Catalogue
from tracker.history import aws, azure, gcp, genai, litellm, portkey, quotes, scaleway
from tracker.history.held import keep_held, recalled
from tracker.history.quotes import OURS, Shape
from tracker.history.runs import Judge, span_of, to_runs
from tracker.history.sightings import HistoryFileError, Sighting
from tracker.world import World

# Tables whose rows carry their own times.
SERIES: Mapping[str, Callable[[Path, Catalogue], Iterator[Sighting]]] = {
    "aws": aws.read,
    "azure": azure.read,
    "gcp": gcp.read,
    "scaleway": scaleway.read,
}
# Tables of anybody's making.
TABLES: Mapping[str, Callable[[Path, Catalogue, Shape], Iterator[Sighting]]] = {"offers": quotes.read_offers, "rates": quotes.read_rates}
# Files that show one moment: it stands in their name, or is told.
SNAPSHOTS: Mapping[str, Callable[[Path, datetime | None], Iterator[Sighting]]] = {
    "genai-prices": genai.read,
    "litellm": litellm.read,
    "portkey": portkey.read,
}
KINDS = tuple(sorted([*SERIES, *SNAPSHOTS, *TABLES]))


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryReport:
    """What an import found and did. ``rows`` are runs of equal prices; ``new_points`` is 0 when they were known already; ``held`` are
    prices that are not believed and wait in quarantine, by reason."""

    kind: str
    files: int
    sightings: int
    rows: int
    new_points: int
    refused: Mapping[str, int]
    examples: Mapping[str, str]
    unmapped: Mapping[tuple[str, str], int]
    held: Mapping[str, int]
    first: datetime | None
    last: datetime | None


def read_history(kind: str, path: Path, catalogue: Catalogue, at: datetime | None = None, shape: Shape = OURS) -> Iterator[Sighting]:
    """The sightings of a file, or of all files of a folder as one history. ``at`` dates a snapshot whose name does not; ``shape``
    says how a table of offers or rates differs from ours."""
    if shape != OURS and kind not in TABLES:
        raise UnknownName(f"columns are named for {' and '.join(TABLES)}; the shape of {kind} is its own")
    for file in files_of(path):
        if kind in SERIES:
            yield from SERIES[kind](file, catalogue)
        elif kind in TABLES:
            yield from TABLES[kind](file, catalogue, shape)
        elif kind in SNAPSHOTS:
            yield from SNAPSHOTS[kind](file, at)
        else:
            raise UnknownName(f"no series named {kind!r}{did_you_mean(kind, KINDS)}; known: {', '.join(KINDS)}")


def _observed(sightings: Iterable[Sighting], latest: datetime) -> Iterator[Sighting]:
    """The sightings, those of later than that refused: nobody has seen a price that is to come, and no other is missing from it."""
    for sighting in sightings:
        if sighting.at <= latest:
            yield sighting
        else:
            shown = f"{sighting.origin} {sighting.at:%Y-%m-%d %H:%M}"
            yield replace(sighting, quote=Skipped(reason="observed in the future", raw=shown), whole=False)


def files_of(path: Path) -> list[Path]:
    """``path``, or the files in it by name."""
    if not path.is_dir():
        return [path]
    found = sorted(file for file in path.iterdir() if file.is_file())
    if not found:
        raise HistoryFileError(f"{path}: holds no file")
    return found


def import_history(
    db: Engine,
    kind: str,
    path: Path,
    world: World,
    now: datetime,
    *,
    at: datetime | None = None,
    shape: Shape = OURS,
) -> HistoryReport:
    """Add a recorded series to the history; what is there already changes nothing.

    That an offer is gone shows between the snapshots of one import: several files of snapshots are imported as one folder.
    """
    with writing(db) as connection:
        load_shipped(connection, now)
        exchange = load_exchange(connection)
    with writing(db) as connection:
        judge = Judge(world=world, exchange=exchange, recall=partial(recalled, connection, now))
        runs = to_runs(_observed(read_history(kind, path, world.catalogue, at, shape), now + SKEW), judge)
        imported = add_dated(connection, runs.dated, now)
        keep_held(connection, runs.held, runs.listed, now)
    span = span_of(runs.dated)
    return HistoryReport(
        kind=kind,
        files=len(files_of(path)),
        sightings=runs.sightings,
        rows=imported.rows,
        new_points=imported.new_points,
        refused=dict(runs.refused),
        examples=runs.examples,
        unmapped=dict(runs.unmapped),
        held=dict(Counter(held.doubt.reason for held in runs.held)),
        first=from_s(span[0]) if span else None,
        last=from_s(span[1]) if span else None,
    )
