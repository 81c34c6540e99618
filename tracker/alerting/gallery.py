"""The pictures of a stored message: at most four, each of at most 200 kB. A message never waits long for them, nor stays away without."""

from __future__ import annotations

import logging
from collections.abc import Callable

from sqlalchemy import Connection, Engine, RowMapping, select

from tracker.alerting.bounded import Bounded
from tracker.alerting.ledger import ALERT, message_of
from tracker.alerting.picture import Picture
from tracker.database.handle import reading
from tracker.pictures.chart import Chart
from tracker.pictures.drawing import can_draw, png
from tracker.pictures.subjects import chart_of
from tracker.world import World

log = logging.getLogger("breakeven.alerts")

MOST = 4  # of a digest, the first that have one
MOST_BYTES = 200_000
MOST_S = 5.0  # for all of a message
NEEDED = "messages carry no pictures of the price history: pip install 'breakeven[pictures]'"


def why_none() -> str:
    """What is missing to draw; empty when nothing is."""
    return "" if can_draw() else NEEDED


class Gallery:
    """Draws for one process, one message at a time."""

    def __init__(self, db: Engine, world: World, draw: Callable[[Chart], bytes] = png) -> None:
        self._db, self._world, self._draw = db, world, draw
        self._bounded = Bounded("pictures")
        self._last: tuple[int, tuple[Picture, ...]] | None = None

    def pictures(self, row: RowMapping) -> tuple[Picture, ...]:
        """Those of a stored alert, or of the first alerts of a digest; none where that fails or takes too long."""
        if not can_draw():
            return ()
        if self._last is None or self._last[0] != row["id"]:  # a message goes to its routes one after the other
            found = self._bounded.wait(lambda: self._drawn(row), MOST_S)
            if isinstance(found, Exception):
                log.warning("alert %s goes out without a picture: %s", row["key"], type(found).__name__)
                found = ()
            self._last = (row["id"], found)
        return self._last[1]

    def _drawn(self, row: RowMapping) -> tuple[Picture, ...]:
        with reading(self._db) as connection:
            charts = list(charts_of(connection, self._world, row).items())[:MOST]
        drawn = [Picture(f"history-{id_}.png", chart.title, self._draw(chart)) for id_, chart in charts]
        return tuple(picture for picture in drawn if len(picture.png) <= MOST_BYTES)


def charts_of(connection: Connection, world: World, row: RowMapping) -> dict[int, Chart]:
    """What to draw for a stored alert, or for each alert of a digest, by its number."""
    rows = [row]
    if row["kind"] == "digest":
        rows = [*connection.execute(select(ALERT).where(ALERT.c.digest == row["key"]).order_by(ALERT.c.id)).mappings()]
    found: dict[int, Chart] = {}
    for one in rows:
        chart = chart_of(connection, world, message_of(one), one["fired_at"]) if len(found) < MOST else None
        if chart is not None:
            found[one["id"]] = chart
    return found
