"""The page, the JSON API and the operators' addresses: over ASGI, and the page in a real browser."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, NoReturn

import httpx
import pytest
from asgi import Served
from processes import Running
from small_world import FILES, T0, VITALS, fill, offer, small_world, sweep
from sqlalchemy import Engine, text
from upstream import Upstream
from worlds import serve_market, write_user_config

from tracker.answers.recompute import Sizer, recompute
from tracker.database.handle import writing
from tracker.metrics.families import families
from tracker.present import age
from tracker.web import scrape
from tracker.web.front import make_front
from tracker.world import World

NOW = T0 + timedelta(hours=1)
SCRIPT = "<script>alert('x')</script>"
OPEN_METRICS = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5"
PATHS = (
    "/", "/style.css", "/favicon.ico", "/metrics", "/healthz", "/readyz", "/nowhere", "/api/v1/models", "/api/v1/models/large-60b",
    "/api/v1/models/nobody", "/api/v1/alerts", "/api/v1/budgets", "/api/v1/offers", "/api/v1/rates", "/api/v1/sources",
    "/api/v1/openapi.json",
)  # fmt: skip


@pytest.fixture
def served(db: Engine, world: World) -> Served:
    fill(db)
    return Served(world, db, recompute(db, world, Sizer(world), NOW), lambda: NOW)


def get(served: Served, path: str, method: str = "GET", **headers: str) -> httpx.Response:
    """An answer of the application, as a client over the network would have it."""

    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(make_front(served))
        async with httpx.AsyncClient(transport=transport, base_url="http://breakeven.test") as client:
            return await client.request(method, path, headers=headers)

    return asyncio.run(ask())


def body(served: Served, path: str) -> Any:
    """An answer's JSON; money that is no string fails."""
    return json.loads(get(served, path).text, parse_float=_no_float, parse_constant=_no_float)


def _no_float(value: str) -> NoReturn:
    raise AssertionError(f"{value} is a float")


def cells(page: str) -> list[list[str]]:
    """The text of the table's cells by row."""
    rows = re.findall(r"<tr[^>]*>(.*?)</tr>", page, re.DOTALL)
    return [[re.sub(r"<[^>]+>", "", cell).strip() for cell in re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row, re.DOTALL)] for row in rows]


# --- the page -------------------------------------------------------------------------------------------------------------


def test_the_page_shows_the_table_of_tracked_models(served: Served) -> None:
    """The figures are those of ``fill``: $2.30 x 730 = $1,679.00, 1.46 billion tokens; $0.95 x 730 = $693.50, 5.84 billion."""
    page = get(served, "/")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    header, large, why_large, small, why_small = cells(page.text)
    assert header[:5] == ["model", "cheapest setup", "$/h", "$/month", "API $/Mtok"]
    assert large == [
        "large-60b", "1 x test-141, bf16, cloud 141x1", "2.30", "1,679.00", "1.1500 (vendor)", "1.5 billion", "self-host",
        "rent 1 h, rate 55 min",
    ]  # fmt: skip
    assert small[:7] == ["small-8b", "1 x test-80, bf16, euro-cloud 80x1", "0.95", "693.50", "0.1188 (other)", "5.8 billion", "unknown"]
    assert "the API bill is $9,200.00 a month against $3,358.00 for 2 replicas" in why_large[-1]  # 500,000 requests each
    assert "what the setup can serve is unknown" in why_small[-1]


def test_the_page_says_what_is_asked_and_how_each_source_does(served: Served) -> None:
    page = get(served, "/").text
    assert "1,000,000 requests a month" in page
    lines = re.findall(r"<li[^>]*>(.*?)</li>", page)
    assert lines == [
        "ecb: last read 2 h ago, 2 prices",
        "keyed: off (no key: set TEST_ONLY_KEY in the environment)",
        "rents: last read 1 h ago, 8 prices",
        "tokens: last read 55 min ago, 6 prices",
    ]


def test_a_stale_price_is_shown_with_its_age(served: Served) -> None:
    served.snapshot = recompute(served.db, served.world, Sizer(served.world), T0 + timedelta(hours=30))
    page = get(served, "/").text
    assert page.count('<tr class="stale">') == 2
    assert "rent 30 h (stale), rate 29 h" in page
    assert '<li class="stale">rents: last read 30 h ago, 8 prices (stale)</li>' in page
    assert "<li>tokens: last read 29 h ago, 6 prices</li>" in page


def test_an_empty_book_is_a_page_too(db: Engine, world: World) -> None:
    empty = Served(world, db, recompute(db, world, Sizer(world), NOW), lambda: NOW)
    _, large, why, *_ = cells(get(empty, "/").text)
    assert large == ["large-60b", *["-"] * 7]
    assert why[-1] == "no offer in the book holds it; no API rate in the book"


def test_the_page_is_of_the_snapshot_of_the_moment(served: Served) -> None:
    app = make_front(served)

    async def twice() -> list[str]:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://breakeven.test") as client:
            first = await client.get("/")
            served.snapshot = replace(served.snapshot, answers=())
            return [first.text, (await client.get("/")).text]

    first, second = asyncio.run(twice())
    assert ("large-60b" in first, "large-60b" in second) == (True, False)


def test_hostile_text_is_text_on_the_page(db: Engine, tmp_path: Path) -> None:
    workloads = FILES["workloads.toml"].replace('name = "Turns of a test"', f'name = "{SCRIPT}"')
    world = small_world(tmp_path / "hostile", workloads_toml=workloads)
    fill(db)
    named = SCRIPT.replace("script", "ScRiPt")
    sweep(db, "rents", T0 + timedelta(minutes=1), offer("1.00", provider=named, sku='"><img src=x onerror=alert(1)>', region="{{ 7 * 7 }}"))
    sweep(db, "rents", T0 + timedelta(minutes=2), status="failed", error=f"found {SCRIPT}")
    page = get(Served(world, db, recompute(db, world, Sizer(world), NOW), lambda: NOW), "/").text
    assert not re.search(r"<script|<img|onerror=[^&]*>", page, re.IGNORECASE)
    assert page.count("&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;") == 2  # the workload and the error
    assert "&lt;ScRiPt&gt;" in page
    assert "{{ 7 * 7 }}" in page


AGES = [
    (0, "0 s"), (59, "59 s"), (60, "1 min"), (3599, "59 min"), (3600, "1 h"), (47 * 3600, "47 h"), (48 * 3600, "2 days"), (-5, "0 s"),
]  # fmt: skip


@pytest.mark.parametrize(("seconds", "shown"), AGES)
def test_an_age_is_told_in_the_largest_unit_that_fits(seconds: int, shown: str) -> None:
    assert age(timedelta(seconds=seconds)) == shown


# --- headers --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", PATHS)
def test_every_answer_is_locked_down(served: Served, path: str) -> None:
    headers = get(served, path).headers
    policy = dict(part.strip().partition(" ")[::2] for part in headers["content-security-policy"].split(";"))
    assert policy == {
        "default-src": "'none'", "style-src": "'self'", "img-src": "'self'", "base-uri": "'none'", "form-action": "'self'",
        "frame-ancestors": "'none'",
    }  # fmt: skip
    assert (headers["x-content-type-options"], headers["referrer-policy"]) == ("nosniff", "no-referrer")


def test_the_page_needs_nothing_its_policy_forbids(served: Served) -> None:
    page = get(served, "/").text
    assert not re.search(r"<script|<iframe|\sstyle=|\son\w+=|javascript:|<style", page, re.IGNORECASE)
    for address in re.findall(r'(?:href|src)="([^"]+)"', page):
        assert address.startswith("/")
        assert get(served, address).status_code == 200
    assert get(served, "/style.css").headers["content-type"] == "text/css; charset=utf-8"


@pytest.mark.parametrize("path", PATHS)
def test_nothing_can_be_posted(served: Served, path: str) -> None:
    assert get(served, path, "POST").status_code in (404, 405)


# --- for operators --------------------------------------------------------------------------------------------------------


def test_metrics_answer_at_once_in_the_form_that_is_asked_for(served: Served) -> None:
    plain, modern = get(served, "/metrics"), get(served, "/metrics", accept=OPEN_METRICS)
    assert (plain.status_code, plain.is_redirect) == (200, False)
    assert plain.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert modern.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
    assert (plain.text.endswith("# EOF\n"), modern.text.endswith("# EOF\n")) == (False, True)
    assert 'breakeven_best_setup_usd_per_hour{model="large-60b",policy="studiotv",workload="turns"} 2.3' in plain.text


@pytest.mark.parametrize("accept", ["text/plain", OPEN_METRICS])
def test_metrics_in_gzip_are_the_same(served: Served, accept: str) -> None:
    plain, packed = (get(served, "/metrics", accept=accept, **{"accept-encoding": how}) for how in ("identity", "gzip"))
    assert (plain.headers.get("content-encoding"), packed.headers["content-encoding"]) == (None, "gzip")
    assert plain.headers["vary"] == packed.headers["vary"] == "Accept, Accept-Encoding"
    assert int(packed.headers["content-length"]) < len(packed.content) / 3
    assert plain.content == packed.content


def test_the_head_of_the_metrics_is_that_of_the_whole(served: Served) -> None:
    head, whole = get(served, "/metrics", "HEAD"), get(served, "/metrics")
    assert (head.status_code, head.content) == (200, b"")
    assert dict(head.headers) == dict(whole.headers)
    assert get(served, "/metrics", "DELETE").headers["allow"] == "GET, HEAD"


def test_a_snapshot_is_written_once_and_a_new_one_is_seen_at_once(served: Served, db: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many ask for it, in whatever form, and all at the same time."""
    written = []
    monkeypatch.setattr(scrape, "families", lambda snapshot: written.append(snapshot) or families(snapshot))
    app = make_front(served)

    async def ask(count: int) -> list[httpx.Response]:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://breakeven.test") as client:
            forms = [{"accept": form, "accept-encoding": how} for form in ("text/plain", OPEN_METRICS) for how in ("gzip", "identity")]
            return list(await asyncio.gather(*(client.get("/metrics", headers=forms[n % 4]) for n in range(count))))

    first = asyncio.run(ask(20))
    assert (len(written), {answer.status_code for answer in first}) == (1, {200})
    sweep(db, "rents", NOW, offer("1.75"))
    served.snapshot = recompute(db, served.world, Sizer(served.world), NOW + timedelta(minutes=1))
    second = asyncio.run(ask(20))
    assert len(written) == 2
    line = 'breakeven_best_setup_usd_per_hour{model="large-60b",policy="studiotv",workload="turns"} '
    assert [{line + price in answer.text for answer in found} for found, price in ((first, "2.3"), (second, "1.75"))] == [{True}, {True}]


def test_alive_and_ready(served: Served) -> None:
    assert get(served, "/healthz").text == "ok\n"
    ready = get(served, "/readyz")
    assert (ready.status_code, ready.json()) == (200, {"ready": True, "snapshot_at": "2026-11-02T13:00:00Z"})


def test_a_start_answers_before_it_is_ready(served: Served) -> None:
    served.starting = True
    answer = get(served, "/readyz")
    assert answer.status_code == 503
    assert answer.json() == {"ready": False, "reason": "starting: pages and metrics are answered, and nothing is collected yet"}
    assert [get(served, path).status_code for path in ("/healthz", "/metrics", "/", "/api/v1/models")] == [200] * 4
    served.starting = False
    assert get(served, "/readyz").status_code == 200


def test_not_ready_when_the_database_file_is_gone_and_it_is_not_made_anew(served: Served, tmp_path: Path) -> None:
    for path in tmp_path.glob("book.db*"):
        path.unlink()
    answer = get(served, "/readyz")
    assert (answer.status_code, answer.json()) == (503, {"ready": False, "reason": "database: its file is gone"})
    assert list(tmp_path.glob("book.db*")) == []
    assert get(served, "/healthz").status_code == 200  # restarting would not mend it


def test_not_ready_when_the_database_is_no_database(served: Served, tmp_path: Path) -> None:
    served.db.dispose()
    for path in tmp_path.glob("book.db*"):
        path.write_bytes(b"no database " * 1000)
    answer = get(served, "/readyz")
    assert (answer.status_code, answer.json()["reason"]) == (503, "database: it is damaged")


def test_not_ready_without_a_schema(served: Served) -> None:
    with writing(served.db) as connection:
        connection.execute(text("drop table alembic_version"))
    assert get(served, "/readyz").json()["reason"] == "database: OperationalError"


# --- the API --------------------------------------------------------------------------------------------------------------


def test_money_is_a_decimal_string_and_time_is_utc(served: Served) -> None:
    found = body(served, "/api/v1/models/large-60b")
    assert (found["model"], found["workload"], found["policy"], found["at"]) == (
        "large-60b", "turns", "studiotv", "2026-11-02T13:00:00Z",
    )  # fmt: skip
    setup, rate = found["setup"], found["rate"]
    assert (setup["usd_per_hour"], Decimal(setup["usd_per_month"]), setup["gpu_count_rented"]) == ("2.3", 1679, 1)
    assert (setup["offer"]["seen_at"], setup["offer"]["source"], setup["fresh"]) == ("2026-11-02T12:00:00Z", "rents", True)
    assert (Decimal(rate["usd_per_month"]), Decimal(rate["usd_per_mtok"])) == (9200, Decimal("1.15"))
    assert (rate["prices"]["input"], rate["prices"]["cache_write_1h"], rate["upper_bound"]) == ("2", None, False)
    assert (Decimal(found["break_even"]["tokens"]), found["break_even"]["status"]) == (1_460_000_000, "feasible")
    assert (found["verdict"]["answer"], Decimal(found["verdict"]["self_host_usd_per_month"])) == ("self_host", 3358)
    assert (found["capacity"]["kind"], Decimal(found["capacity"]["requests_per_month"])) == ("config", 500_000)


def test_all_models_offers_rates_and_sources(served: Served) -> None:
    models = body(served, "/api/v1/models")["models"]
    assert [(m["model"], m["verdict"]["answer"], m["rate"]["upper_bound"]) for m in models] == [
        ("large-60b", "self_host", False), ("small-8b", "unknown", True),
    ]  # fmt: skip
    offers = body(served, "/api/v1/offers")["offers"]
    assert [(o["provider"], o["sku"], o["tier"], Decimal(o["usd_per_hour"])) for o in offers] == [
        ("cloud", "141x1", "on_demand", Decimal("0.10")),  # community; the list hides nothing
        ("cloud", "slice", "on_demand", Decimal("0.20")),
        ("cloud", "sold out", "on_demand", Decimal("0.50")),
        ("cloud", "as low as", "on_demand", Decimal("0.60")),
        ("euro-cloud", "80x1", "on_demand", Decimal("0.95")),
        ("cloud", "141x1", "spot", Decimal("1.00")),
        ("cloud", "80x2", "on_demand", Decimal("3.00")),  # 1.50 a GPU
        ("cloud", "141x1", "on_demand", Decimal("2.30")),
    ]
    euro = offers[4]
    assert (euro["native_per_hour"], euro["currency"], euro["fx_rate"], euro["fx_day"]) == ("0.76", "EUR", "0.8", "2026-10-30")
    rates = body(served, "/api/v1/rates")["rates"]
    assert [(r["provider"], r["model"], r["usd"]["input"]) for r in rates if r["sku"] == "free"] == [("other", "large-60b", "0")]
    assert len(rates) == 6
    sources = get(served, "/api/v1/sources").json()["sources"]
    assert {s["id"]: (s["status"], s["sweeps"], s["failures"], s["enabled"]) for s in sources} == {
        "ecb": ("ok", 1, 0, True), "keyed": ("never", 0, 0, False), "rents": ("ok", 2, 1, True), "tokens": ("ok", 1, 0, True),
    }  # fmt: skip


def test_active_alerts_are_on_the_page_and_in_the_api(served: Served) -> None:
    assert "Active alerts" not in get(served, "/").text
    assert body(served, "/api/v1/alerts")["alerts"] == []
    served.snapshot = replace(served.snapshot, vitals=VITALS)
    assert "2026-11-02 12:00 UTC: cheaper setup for large-60b: $2.30/h instead of $3.00/h" in get(served, "/").text
    (alert,) = body(served, "/api/v1/alerts")["alerts"]
    assert (alert["id"], alert["rule"], alert["kind"], alert["fired_at"]) == (7, "cheaper-setup", "cheaper_setup", "2026-11-02T12:00:00Z")


def test_lists_can_be_narrowed(served: Served) -> None:
    assert [o["sku"] for o in body(served, "/api/v1/offers?gpu=test-80&provider=cloud")["offers"]] == ["slice", "80x2"]
    assert body(served, "/api/v1/offers?gpu=nothing")["offers"] == []
    assert {r["model"] for r in body(served, "/api/v1/rates?model=small-8b")["rates"]} == {"small-8b"}
    assert [r["sku"] for r in body(served, "/api/v1/rates?provider=vendor-cn")["rates"]] == ["standard"]


def test_an_unknown_model_is_a_404_with_the_closest_name(served: Served) -> None:
    answer = get(served, "/api/v1/models/large-60")
    assert answer.status_code == 404
    assert answer.json()["detail"].startswith("no model named 'large-60' (did you mean large-60b?)")


def test_a_known_model_that_is_not_tracked_says_how_to_track_it(db: Engine, tmp_path: Path) -> None:
    world = small_world(tmp_path / "one", tracker_toml=FILES["tracker.toml"].replace('"large-60b", "small-8b"', '"large-60b"'))
    answer = get(Served(world, db, recompute(db, world, Sizer(world), NOW), lambda: NOW), "/api/v1/models/small-8b")
    assert answer.status_code == 404
    assert answer.json()["detail"] == "model 'small-8b' is known but not tracked; name it in [track] models of tracker.toml"


@pytest.mark.parametrize("name", ["..%2f..%2fetc%2fpasswd", "x" * 5000, "%F0%9F%92%A9", "%ff", "%3Cscript%3E", "'%20or%201=1--"])
def test_a_hostile_name_is_a_404_in_json(served: Served, name: str) -> None:
    answer = get(served, f"/api/v1/models/{name}")
    assert (answer.status_code, answer.headers["content-type"]) == (404, "application/json")


def test_the_api_describes_itself_and_no_page_loads_scripts_for_it(served: Served) -> None:
    paths = get(served, "/api/v1/openapi.json").json()["paths"]
    assert {"/api/v1/models", "/api/v1/models/{model}", "/api/v1/offers", "/api/v1/rates", "/api/v1/sources"} <= set(paths)
    assert [get(served, path).status_code for path in ("/docs", "/redoc")] == [404, 404]


# --- a real browser -------------------------------------------------------------------------------------------------------


@pytest.fixture
def browser(require: Callable[[str], Path], tmp_path: Path) -> Iterator[Callable[..., subprocess.CompletedProcess[str]]]:
    """A function that runs headless Chromium once, with a profile of its own and no calls of its own."""
    flags = (
        "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
        "--disable-component-update", "--disable-sync", "--hide-scrollbars", "--force-device-scale-factor=1", "--enable-logging=stderr",
    )  # fmt: skip

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [str(require("chromium")), *flags, f"--user-data-dir={tmp_path / 'profile'}", *words]
        return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True, cwd=tmp_path)

    yield run


@pytest.mark.real
@pytest.mark.loopback
def test_a_browser_shows_the_table(upstream: Upstream, tmp_path: Path, browser: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    serve_market(upstream)
    write_user_config(tmp_path / "config", upstream.url)
    with Running(tmp_path) as daemon:
        daemon.until(lambda: '"48.58"' in daemon.get("/api/v1/models/kimi-k3.1-pro").text)  # the last of the sources has it
        shown = browser("--dump-dom", daemon.url + "/")
        rows = {row[0]: row for row in cells(shown.stdout) if len(row) == 8}
        assert (rows["kimi-k3.1-pro"][2], rows["kimi-k3.1-pro"][6]) == ("48.58", "API")
        assert set(rows) == {"model", "kimi-k3.1-pro", "muse-spark-open"}
        assert "Content Security Policy" not in shown.stderr
        browser(f"--screenshot={tmp_path / 'page.png'}", "--window-size=1280,900", daemon.url + "/")
    width, height, lines = png_lines(tmp_path / "page.png")
    assert (width, height) == (1280, 900)
    assert len(set(lines)) > 100  # lines of text; a blank page repeats one


def png_lines(path: Path) -> tuple[int, int, list[bytes]]:
    """Width, height and the filtered scan lines of a PNG file."""
    data, place, packed, width, height = path.read_bytes(), 8, b"", 0, 0
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    while place < len(data):
        length, kind = int.from_bytes(data[place : place + 4], "big"), data[place + 4 : place + 8]
        chunk = data[place + 8 : place + 8 + length]
        if kind == b"IHDR":
            width, height = int.from_bytes(chunk[:4], "big"), int.from_bytes(chunk[4:8], "big")
        packed += chunk if kind == b"IDAT" else b""
        place += 12 + length
    raw = zlib.decompress(packed)
    step = len(raw) // height
    return width, height, [raw[at : at + step] for at in range(0, len(raw), step)]
