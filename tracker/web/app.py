"""Pages and the JSON API: they read the current snapshot and nothing else; ``/readyz`` alone asks the database."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from fastapi import FastAPI, HTTPException, Query, Request, Response
from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape

from tracker.alerting.decisions import active_alerts
from tracker.answers.plan_facts import setup_plain
from tracker.answers.questions import tracked
from tracker.answers.snapshot import ActiveAlert, ModelAnswer, Snapshot
from tracker.book.book import Listed
from tracker.book.offer_search import OfferSearch
from tracker.book.row_fields import SELLER
from tracker.database.handle import reading
from tracker.errors import UnknownName
from tracker.plain import as_json, plain
from tracker.present import HEADER, rows, source_line
from tracker.service.readiness import not_ready
from tracker.web import budgets, pictures, series
from tracker.web.asked import asked, question_facts
from tracker.web.front import HEADERS, Served
from tracker.web.past import Past, asked_moment

SnapshotAt = Callable[[str], Snapshot]  # what ``?at=`` names; the current one where it is empty
STARTING = "starting: pages and metrics are answered, and nothing is collected yet"
STYLE = Path(__file__).parent / "style.css"


def make_app(served: Served) -> FastAPI:
    """The pages over a running daemon; they stand behind ``tracker.web.front``."""
    app = FastAPI(title="breakeven", docs_url=None, redoc_url=None, openapi_url="/api/v1/openapi.json")
    app.middleware("http")(_secured)
    past = Past(served.world, served.db, served.now)

    def seen(at: str) -> Snapshot:
        return past.snapshot(asked_moment(at, served.now())) if at else served.snapshot

    _operations(app, served)
    _page(app, served, seen)
    _api(app, served, seen)
    series.add_to(app, served.world, served.db, served.now, past.budget)
    budgets.add_to(app, served.world, served.db, served.now, lambda: served.snapshot, past.budget)
    pictures.add_to(app, served.world, served.db, past.budget, served.draw)
    return app


async def _secured(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
    asked = request.scope["path"] + unquote(request.url.query)
    response = await call_next(request) if "\0" not in asked else _json({"detail": "the address holds a NUL character"}, status=400)
    response.headers.update(HEADERS)
    return response


def _operations(app: FastAPI, served: Served) -> None:
    @app.get("/readyz", include_in_schema=False)
    def readyz() -> Response:
        if reason := STARTING if served.starting else not_ready(served.db, served.snapshot.at, served.trouble):
            return _json({"ready": False, "reason": reason}, status=503)
        return _json({"ready": True, "snapshot_at": served.snapshot.at})


def _page(app: FastAPI, served: Served, seen: SnapshotAt) -> None:
    pages = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"), autoescape=select_autoescape(), undefined=StrictUndefined
    )  # fmt: skip

    @app.get("/", include_in_schema=False)
    def index(at: str = "", workload: str = "", policy: str = "") -> HTMLResponse:
        now = seen(at)
        found = asked(served.world, now, workload, policy)
        sources = [{"line": source_line(s, now.at), "troubled": s.stale or s.status == "failed"} for s in now.sources]
        page = pages.get_template("index.html")
        return HTMLResponse(
            page.render(
                header=HEADER, rows=rows(found.answers, now.at), sources=sources, at=now.at, asked=found,
                alerts=active(served, now), known=now.book.known, today=served.now(), past=f"at={minute(now.at)}" if at else "",
            )
        )  # fmt: skip

    @app.get("/style.css", include_in_schema=False)
    def style() -> Response:
        return Response(STYLE.read_bytes(), headers={"Content-Type": "text/css; charset=utf-8", "Cache-Control": "max-age=3600"})

    @app.get("/favicon.ico", include_in_schema=False)
    def favicon() -> Response:
        return Response(status_code=204)


def _api(app: FastAPI, served: Served, seen: SnapshotAt) -> None:
    search = OfferSearch()

    @app.get("/api/v1/models")
    def models(at: str = "", workload: str = "", policy: str = "") -> Response:
        """Every tracked model: cheapest setup, rate, break-even and verdict; as the default question has it unless another is named."""
        now = seen(at)
        answers = asked(served.world, now, workload, policy).answers
        return _json({**when(now), "models": [answer_facts(answer) for answer in answers]})

    @app.get("/api/v1/models/{model}")
    def model(model: str, at: str = "", workload: str = "", policy: str = "") -> Response:
        """One tracked model."""
        now = seen(at)
        for answer in asked(served.world, now, workload, policy).answers:
            if answer.model.id == model:
                return _json({**when(now), **answer_facts(answer)})
        raise HTTPException(404, detail=_unknown(served, model))

    @app.get("/api/v1/questions")
    def questions() -> Response:
        """What is asked about the tracked models, the default question first."""
        return _json({"questions": [question_facts(question) for question in tracked(served.world)]})

    @app.get("/api/v1/offers")
    def offers(
        gpu: str = "", gpu_count: int = Query(0, ge=0), tier: str = "", provider: str = "", limit: int = Query(0, ge=0), at: str = ""
    ) -> Response:
        """Rental offers of the book, cheapest per GPU first; ``gpu_count`` wants those sold at that count, ``limit`` the first so many."""
        now = seen(at)
        found = search.find(now.book, gpu=gpu, gpu_count=gpu_count, tier=tier, provider=provider, limit=limit)
        return _json({**when(now), "offers": [listed_facts(entry) for entry in found]})

    @app.get("/api/v1/rates")
    def rates(model: str = "", provider: str = "", at: str = "") -> Response:
        """Token rates in force."""
        now = seen(at)
        rates = now.book.rates_of(model) if model else now.book.rates
        found = rates.of(row for row in rates.rows if provider in ("", row[SELLER]))
        return _json({**when(now), "rates": [listed_facts(entry) for entry in found]})

    @app.get("/api/v1/alerts")
    def alerts(at: str = "") -> Response:
        """Active alerts, newest first; breakeven alerts acknowledges them."""
        now = seen(at)
        return _json({**when(now), "alerts": active(served, now)})

    @app.get("/api/v1/sources")
    def sources(at: str = "") -> Response:
        """How each source is doing."""
        now = seen(at)
        return _json({**when(now), "sources": now.sources})


def when(snapshot: Snapshot) -> dict[str, Any]:
    """The moment an answer is of; and, where it uses more than was known then, when that was known."""
    known = snapshot.book.known
    return {"at": snapshot.at} | ({"known": known} if known > snapshot.at else {})


def minute(at: datetime) -> str:
    """A moment as a person types it, as short as it is exact."""
    text = str(plain(at))
    return text.replace(":00Z", "Z") if at.second == at.microsecond == 0 else text


def _unknown(served: Served, model: str) -> str:
    try:
        served.world.model(model)
    except UnknownName as error:
        return str(error)
    if model in served.world.settings.track.models:
        return f"model {model!r} is tracked, but not with that workload and policy; see models in [[track.also]] of tracker.toml"
    return f"model {model!r} is known but not tracked; name it in [track] models of tracker.toml"


def active(served: Served, snapshot: Snapshot) -> tuple[ActiveAlert, ...]:
    """Active alerts of the snapshot of a running daemon; of a past one those that were active then."""
    if snapshot is served.snapshot:
        return () if snapshot.vitals is None else snapshot.vitals.alerts or ()
    with reading(served.db) as connection:
        return active_alerts(connection, snapshot.at)


def listed_facts(entry: Listed[Any]) -> dict[str, Any]:
    """An offer or rate with its freshness, as JSON values."""
    facts: dict[str, Any] = plain(entry.value)
    return facts | {"fresh": entry.fresh, "imported": entry.imported, "origin": entry.origin}


def answer_facts(answer: ModelAnswer) -> dict[str, Any]:
    """An answer as JSON values, with the offer and the rate it stands on."""
    setup, rate, point, verdict = answer.setup, answer.rate, answer.break_even, answer.verdict
    return {
        "model": answer.model.id,
        "workload": answer.workload.id,
        "policy": answer.policy,
        "setup": None if setup is None else setup_plain(answer, setup),
        "per_gpu": [setup_plain(answer, other) for other in answer.per_gpu],
        "rate": None
        if rate is None
        else {
            "fresh": answer.rate_fresh,
            "usd_per_mtok": plain(rate.usd_per_mtok),
            "usd_per_month": plain(rate.usd_per_month),
            "upper_bound": rate.bill.cost.upper_bound,
            "prices": plain(rate.prices),
            "rate": plain(rate.rate),
        },
        "break_even": None if point is None else {k: v for k, v in plain(point).items() if k not in ("terms", "receipt")},
        "capacity": capacity_facts(answer),
        "baseline": baseline_facts(answer),
        "verdict": plain(verdict),
        "why_not": answer.why_not,
    }


def baseline_facts(answer: ModelAnswer) -> dict[str, Any] | None:
    """What is rented today, and the share of it the cheapest setup would save."""
    if answer.running_usd_per_hour is None:
        return None
    return {"usd_per_hour": plain(answer.running_usd_per_hour), "saving_ratio": plain(answer.saving_ratio)}


def capacity_facts(answer: ModelAnswer) -> dict[str, Any] | None:
    """What the setup serves a month, with the kind of figure that is: an estimate is no measurement."""
    found = answer.capacity
    if found is None:
        return None
    names = ("requests_per_month", "kind", "error_factor", "source", "reason")
    return {name: plain(getattr(found, name)) for name in names}


def _json(value: Any, status: int = 200) -> Response:
    return Response(as_json(value) + "\n", status_code=status, headers={"Content-Type": "application/json"})
