"""The picture of the price history that an alert is about, for those whose message holds a link to it. Drawn as a mail shows it."""

from __future__ import annotations

from collections.abc import Callable

from fastapi import FastAPI, HTTPException, Path, Response
from sqlalchemy import Engine, select

from tracker.alerting.gallery import charts_of, why_none
from tracker.alerting.ledger import ALERT
from tracker.book.timeline import MAX_ID
from tracker.database.handle import reading
from tracker.pictures.chart import Chart
from tracker.pictures.studio import NotDrawn
from tracker.web.past import Budget
from tracker.world import World


def add_to(app: FastAPI, world: World, db: Engine, budget: Budget, draw: Callable[[Chart], bytes]) -> None:
    """Register the route."""

    @app.get("/api/v1/alerts/{number}/history.png", response_class=Response)
    def history_png(number: int = Path(ge=1, le=MAX_ID)) -> Response:
        """The price history of an alert as a PNG, as it was known when the alert was told; of a digest its first one."""
        if missing := why_none():
            raise HTTPException(501, detail=missing)
        with budget.turn():
            with reading(db) as connection:
                row = connection.execute(select(ALERT).where(ALERT.c.id == number)).mappings().first()
                if row is None:
                    raise HTTPException(404, detail=f"no alert {number}")
                budget.spend()
                charts = charts_of(connection, world, row)
            if not charts:
                raise HTTPException(404, detail=f"alert {number} is about no price, or nothing of it is known any more")
            try:
                drawn = draw(next(iter(charts.values())))
            except NotDrawn as error:
                raise HTTPException(503, detail=f"no picture now: {error}", headers={"Retry-After": "10"}) from error
        return Response(drawn, media_type="image/png", headers={"Cache-Control": "max-age=3600"})
