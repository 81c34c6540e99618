"""What sources answered is kept once, bounded, without secrets, and never at the cost of a sweep; read again it shows what differs."""

from __future__ import annotations

import hashlib
import json
import logging
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from databases import BOTH, new_book, opened
from homes import run
from small_world import FILES, T0, fx, small_world
from small_world import sweep as record
from sqlalchemy import Engine, text
from upstream import Upstream
from worlds import SIX, ecb_xml, runpod_answer, serve_case, serve_six, write_user_config

from scrapers import runpod
from scrapers.contract import GpuQuote, LayoutChanged, Page, Row
from scrapers.http import HostGate
from tracker.config import BodiesSettings
from tracker.database.handle import reading, writing
from tracker.sweeps.bodies import keep_bodies, kept_sweeps, pages_of, zstd
from tracker.sweeps.collect import Collector, collect_source
from tracker.sweeps.rederive import Rederived, rederive
from tracker.sweeps.store import SweepReport
from tracker.world import World

HOUR = timedelta(hours=1)
ANSWER = runpod_answer({"TEST 141GB": "2.30", "TEST 80GB": "1.10"})


@pytest.fixture(params=BOTH)
def db(request: pytest.FixtureRequest) -> Iterator[Engine]:
    yield from opened(new_book(request, request.param))


def rows(db: Engine, query: str) -> list[tuple[Any, ...]]:
    with reading(db) as connection:
        return [tuple(row) for row in connection.execute(text(query))]


def report(at: datetime, status: str = "ok", source: str = "rents") -> SweepReport:
    return SweepReport(source=source, started_at=at, finished_at=at, status=status)


def noise(size: int, seed: int) -> bytes:
    """Bytes that no compression makes smaller."""
    return random.Random(seed).randbytes(size)


def read(
    db: Engine, at: datetime, *found: bytes, settings: BodiesSettings | None = None, status: str = "ok", source: str = "rents"
) -> None:
    """A recorded sweep that read these bodies."""
    record(db, source, at, status=status, rows=0, complete=False)
    pages = [Page(url=f"https://x.example/{place}", body=body, fetched_at=at) for place, body in enumerate(found)]
    keep_bodies(db, settings or BodiesSettings(), report(at, status, source), pages)


# --- keeping -------------------------------------------------------------------------------------------------------------


def test_a_body_is_kept_once_under_its_sha256(db: Engine) -> None:
    body = b'{"price": 1}' * 1000
    read(db, T0, body, b"stock")
    read(db, T0 + HOUR, body, b"other stock")
    assert {row[:2] for row in rows(db, "select sha256, size from body")} == {
        (hashlib.sha256(found).hexdigest(), len(found)) for found in (body, b"stock", b"other stock")
    }
    (stored,) = rows(db, "select stored from body where size = 12000")[0]
    assert stored < 200
    with reading(db) as connection:
        first, second = kept_sweeps(connection, T0)
        assert [[page.body for page in pages_of(connection, sweep)] for sweep in (first, second)] == [
            [body, b"stock"],
            [body, b"other stock"],
        ]
        assert (first.at, pages_of(connection, first)[1].url, pages_of(connection, first)[1].fetched_at) == (T0, "https://x.example/1", T0)


def test_unchanged_sweeps_prolong_the_one_that_read_the_same(db: Engine) -> None:
    read(db, T0, b"same")
    for hours in range(1, 5):
        read(db, T0 + hours * HOUR, b"same", status="unchanged")
    with reading(db) as connection:
        (kept,) = kept_sweeps(connection, T0 + 4 * HOUR)
    assert (kept.at, kept.read_until) == (T0, T0 + 4 * HOUR)
    read(db, T0 + 5 * HOUR, b"other")
    assert rows(db, "select count(*) from kept_sweep") == [(2,)]


def test_secrets_are_not_kept(db: Engine) -> None:
    record(db, "rents", T0, rows=0, complete=False)
    page = Page(
        url="https://x.example/v1?api_key=hunter2hunter2&page=1",
        body=b'{"error": "no rights for zebra-zebra"}',
        headers={"link": "<https://x.example/v1?page=2&t=zebra-zebra>", "set-cookie": "session=hunter2hunter2", "content-type": "text/x"},
    )
    keep_bodies(db, BodiesSettings(), report(T0), [page], ["zebra-zebra"])
    ((url, headers),) = rows(db, "select url, headers from kept_page")
    assert url == "https://x.example/v1?api_key=***&page=1"
    assert json.loads(headers) == {"link": "<https://x.example/v1?page=2&t=***>", "content-type": "text/x"}
    with reading(db) as connection:
        (kept,) = kept_sweeps(connection, T0)
        assert [page.body for page in pages_of(connection, kept)] == [b'{"error": "no rights for ***"}']


@pytest.mark.parametrize("seed", range(3))
def test_the_oldest_sweeps_go_first_and_the_bound_holds_always(db: Engine, seed: int) -> None:
    """Whatever is read, what is kept never exceeds the bound, and what is there is what was read last."""
    dice, settings = random.Random(seed), BodiesSettings(max_bytes=10_000)
    read_at: list[tuple[int, list[bytes]]] = []
    for number in range(40):
        found = [noise(dice.randint(100, 2_500), dice.randint(0, 60)) for _ in range(dice.randint(1, 3))]
        read(db, T0 + number * HOUR, *found, settings=settings)
        read_at.append((number, found))
        assert rows(db, "select coalesce(sum(length(zstd)), 0) from body")[0][0] <= 10_000
        assert rows(db, "select count(*) from body where sha256 not in (select sha256 from kept_page)") == [(0,)]
    with reading(db) as connection:
        kept = kept_sweeps(connection, T0)
        newest = len(kept)
        assert 1 < newest < 40
        for sweep, (number, found) in zip(kept, read_at[-newest:], strict=True):
            assert sweep.at == T0 + number * HOUR
            assert [page.body for page in pages_of(connection, sweep)] == found


def test_days_too_bound_what_is_kept(db: Engine) -> None:
    settings = BodiesSettings(days=2)
    for day in range(5):
        read(db, T0 + timedelta(days=day), str(day).encode(), settings=settings)
    with reading(db) as connection:
        assert [sweep.at for sweep in kept_sweeps(connection, T0)] == [T0 + timedelta(days=day) for day in (2, 3, 4)]
    assert rows(db, "select count(*) from body") == [(3,)]


@pytest.mark.parametrize(
    ("settings", "found"),
    [
        (BodiesSettings(max_body_bytes=50), {b"small"}),
        (BodiesSettings(max_bytes=40), set()),  # all of a sweep or nothing
        (BodiesSettings(max_bytes=0), set()),
        (BodiesSettings(days=0), set()),
    ],
)
def test_what_is_too_large_is_not_kept(db: Engine, settings: BodiesSettings, found: set[bytes]) -> None:
    read(db, T0, b"small", noise(51, 1), settings=settings)
    assert {row[0] for row in rows(db, "select sha256 from body")} == {hashlib.sha256(body).hexdigest() for body in found}


def test_a_sweep_larger_than_the_bound_lets_go_of_nothing(db: Engine) -> None:
    settings = BodiesSettings(max_bytes=10_000)
    for number in range(5):
        read(db, T0 + number * HOUR, noise(1_000, number), settings=settings, source=f"small-{number}")
    read(db, T0 + 6 * HOUR, noise(15_000, 99), settings=settings, source="large")
    assert rows(db, "select count(*) from body") == [(5,)]


def test_a_bound_that_was_lowered_holds_from_the_next_sweep_on(db: Engine) -> None:
    for number in range(10):
        read(db, T0 + number * HOUR, noise(1_000, number))
    read(db, T0 + 10 * HOUR, noise(1_000, 9), settings=BodiesSettings(max_bytes=3_500))
    assert rows(db, "select count(*) from body") == [(3,)]
    read(db, T0 + 11 * HOUR, noise(1_000, 9), settings=BodiesSettings(max_bytes=500))
    assert rows(db, "select count(*) from body") == [(0,)]


# --- in a sweep ----------------------------------------------------------------------------------------------------------

Collect = Callable[[datetime], SweepReport]


@pytest.fixture
def home(upstream: Upstream, tmp_path: Path) -> Callable[..., World]:
    """A function that makes the small world against the upstream; its keywords replace files."""

    def made(**changed: str) -> World:
        sources = FILES["sources.toml"].replace("http://127.0.0.1:9", upstream.url)
        tracker = FILES["tracker.toml"].replace("[fetch]\n", "[fetch]\nattempts = 1\nhost_spacing_s = 0\n")
        return small_world(tmp_path / "small", **({"sources_toml": sources, "tracker_toml": tracker} | changed))

    return made


@pytest.fixture
def collect(db: Engine, home: Callable[..., World]) -> Collect:
    """A function that collects the rental source of the small world at a time."""
    world = home()

    def collected(at: datetime) -> SweepReport:
        collector = Collector(world=world, db=db, now=lambda: at, gate=HostGate(monotonic=monotonic))
        found = collect_source(collector, world.config.source("rents"))
        assert found is not None
        return found

    return collected


@pytest.mark.loopback
@pytest.mark.parametrize("answer", [ANSWER, '{"errors": [{"message": "no more"}]}'])
def test_a_sweep_keeps_what_it_read_also_where_it_cannot_read_it(collect: Collect, upstream: Upstream, db: Engine, answer: str) -> None:
    upstream.add(runpod.PATH, answer, method="POST")
    status = collect(T0).status
    assert status == ("ok" if answer == ANSWER else "failed")
    with reading(db) as connection:
        (kept,) = kept_sweeps(connection, T0)
        (page,) = pages_of(connection, kept)
    assert (kept.source, kept.status, page.body) == ("rents", status, answer.encode())
    assert page.url == upstream.url + runpod.PATH


@pytest.mark.loopback
def test_a_body_that_cannot_be_kept_costs_no_sweep(
    collect: Collect, upstream: Upstream, db: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    upstream.add(runpod.PATH, ANSWER, method="POST")
    with writing(db) as connection:
        connection.execute(text("drop table kept_page"))
    with caplog.at_level(logging.WARNING, "breakeven.bodies"):
        assert collect(T0).status == "ok"
    assert rows(db, "select source, status from sweep") == [("rents", "ok")]
    assert [record.message.startswith("rents: bodies not kept: ") for record in caplog.records if record.name == "breakeven.bodies"] == [
        True
    ]
    assert rows(db, "select count(*) from kept_sweep") == [(0,)]  # all of it or nothing


# --- read again ----------------------------------------------------------------------------------------------------------


def again(db: Engine, world: World) -> Rederived:
    (found,) = rederive(db, world, T0)
    return found


@pytest.mark.loopback
def test_today_s_parser_finds_what_was_stored(collect: Collect, upstream: Upstream, db: Engine, home: Callable[..., World]) -> None:
    upstream.add(runpod.PATH, ANSWER, method="POST")
    stored = collect(T0)
    before = rows(db, "select * from offer_point"), rows(db, "select * from sweep")
    found = again(db, home())
    assert (found.source, found.at, found.differences, found.not_read) == ("rents", T0, (), "")
    assert found.equal == stored.rows == 4
    assert (rows(db, "select * from offer_point"), rows(db, "select * from sweep")) == before


@pytest.mark.loopback
def test_sweeps_after_the_moment_that_is_asked_about_are_not_read_again(
    collect: Collect, upstream: Upstream, db: Engine, home: Callable[..., World]
) -> None:
    upstream.add(runpod.PATH, ANSWER, method="POST")
    collect(T0)
    upstream.add(runpod.PATH, ANSWER.replace("2.30", "2.31"), method="POST")
    collect(T0 + HOUR)
    moments = (T0 - timedelta(seconds=1), T0, T0 + HOUR - timedelta(seconds=1), T0 + HOUR)
    assert [[one.at for one in rederive(db, home(), T0, until=at)] for at in moments] == [[], [T0], [T0], [T0, T0 + HOUR]]


MENDED = FILES["gpu_names.toml"].replace('"TEST 141GB" = "test-141"', '"TEST 141GB" = "test-80"')


@pytest.mark.loopback
def test_a_mended_mapping_shows_its_difference(collect: Collect, upstream: Upstream, db: Engine, home: Callable[..., World]) -> None:
    """The name meant another GPU after all: what was stored as a 141 GB one would be an 80 GB one today."""
    upstream.add(runpod.PATH, runpod_answer({"TEST 141GB": "2.30"}), method="POST")
    collect(T0)
    differences = again(db, home(gpu_names_toml=MENDED)).differences
    assert {(d.kind, d.what, d.name) for d in differences} == {
        ("added", "offer", "runpod TEST 141GB 1 x test-80 on_demand"),
        ("added", "offer", "runpod TEST 141GB x8 8 x test-80 on_demand"),
        ("gone", "offer", "runpod TEST 141GB 1 x test-141 on_demand"),
        ("gone", "offer", "runpod TEST 141GB x8 8 x test-141 on_demand"),
    }
    assert [d.old["price"] for d in differences if d.kind == "gone" and " 1 x" in d.name] == [Decimal("2.30")]


@pytest.mark.loopback
def test_a_name_that_means_nothing_any_more_is_told_as_the_reason(
    collect: Collect, upstream: Upstream, db: Engine, home: Callable[..., World]
) -> None:
    upstream.add(runpod.PATH, ANSWER, method="POST")
    collect(T0)
    without = FILES["gpu_names.toml"].replace('"TEST 141GB" = "test-141"', "")
    differences = again(db, home(gpu_names_toml=without)).differences
    assert {(d.kind, d.reason) for d in differences} == {("gone", "unmapped gpu")}
    assert len(differences) == 2


def doubling(pages: Sequence[Page]) -> Iterator[Row]:
    """A parser that knows better: the price was for two hours."""
    return (replace(row, price=row.price * 2) if isinstance(row, GpuQuote) else row for row in PARSE(pages))


PARSE = runpod.parse


@pytest.mark.loopback
def test_a_mended_parser_shows_old_and_new_price(
    collect: Collect, upstream: Upstream, db: Engine, home: Callable[..., World], monkeypatch: pytest.MonkeyPatch
) -> None:
    upstream.add(runpod.PATH, runpod_answer({"TEST 141GB": "2.30"}), method="POST")
    collect(T0)
    monkeypatch.setattr(runpod, "parse", doubling)
    found = again(db, home())
    assert sorted((d.kind, d.name, d.old["price"], d.new["price"]) for d in found.differences) == [
        ("changed", "runpod TEST 141GB 1 x test-141 on_demand", Decimal("2.30"), Decimal("4.60")),
        ("changed", "runpod TEST 141GB x8 8 x test-141 on_demand", Decimal("18.40"), Decimal("36.80")),
    ]
    assert found.equal == 0


@pytest.mark.loopback
def test_what_could_not_be_read_then_and_now_can_is_added(
    collect: Collect, upstream: Upstream, db: Engine, home: Callable[..., World], monkeypatch: pytest.MonkeyPatch
) -> None:
    upstream.add(runpod.PATH, ANSWER.replace("gpuTypes", "gpuKinds"), method="POST")
    assert collect(T0).status == "failed"
    assert again(db, home()).differences == ()  # as unreadable as it was
    monkeypatch.setattr(runpod, "parse", lambda pages: PARSE([replace(p, body=p.body.replace(b"gpuKinds", b"gpuTypes")) for p in pages]))
    assert [d.kind for d in again(db, home()).differences] == ["added"] * 4


@pytest.mark.loopback
def test_what_was_read_then_and_now_cannot_is_one_difference(
    collect: Collect, upstream: Upstream, db: Engine, home: Callable[..., World], monkeypatch: pytest.MonkeyPatch
) -> None:
    upstream.add(runpod.PATH, ANSWER, method="POST")
    collect(T0)

    def changed(pages: Sequence[Page]) -> Iterator[Row]:
        raise LayoutChanged("runpod: expected another answer")

    monkeypatch.setattr(runpod, "parse", changed)
    assert [(d.kind, d.reason) for d in again(db, home()).differences] == [("unreadable", "runpod: expected another answer")]

    def tripped(pages: Sequence[Page]) -> Iterator[Row]:
        raise KeyError("price")

    monkeypatch.setattr(runpod, "parse", tripped)  # a fault of the parser hides no other sweep
    assert [(d.kind, d.reason) for d in again(db, home()).differences] == [("unreadable", "unexpected KeyError: 'price'")]


@pytest.mark.loopback
def test_what_the_guard_held_back_is_no_difference(collect: Collect, upstream: Upstream, db: Engine, home: Callable[..., World]) -> None:
    """Ten times the price in one sweep is doubted, seen again it is believed; read again, both say what the sweep stored."""
    for hours, (price, other) in enumerate((("2.30", "1.10"), ("23", "1.10"), ("23", "1.11"), ("23", "1.12"))):
        upstream.add(runpod.PATH, runpod_answer({"TEST 141GB": price, "TEST 80GB": other}), method="POST")
        collect(T0 + hours * HOUR)
    assert rows(db, "select count(*) from quarantine where kind = 'offer'")[0][0] > 0
    found = list(rederive(db, home(), T0))
    assert [(one.held > 0, one.differences) for one in found] == [(False, ()), (True, ()), (False, ()), (False, ())]


@pytest.mark.loopback
def test_a_price_that_was_missing_once_is_no_difference(
    collect: Collect, upstream: Upstream, db: Engine, home: Callable[..., World]
) -> None:
    for hours, prices in enumerate(({"TEST 141GB": "2.30", "TEST 80GB": "1.10"}, {"TEST 141GB": "2.30"}, {"TEST 141GB": "2.31"})):
        upstream.add(runpod.PATH, runpod_answer(prices), method="POST")
        collect(T0 + hours * HOUR)
    assert [(one.equal, one.differences) for one in rederive(db, home(), T0)] == [(4, ()), (2, ()), (2, ())]


@pytest.mark.loopback
def test_a_sweep_whose_body_is_missing_or_damaged_says_so(
    collect: Collect, upstream: Upstream, db: Engine, home: Callable[..., World]
) -> None:
    upstream.add(runpod.PATH, ANSWER, method="POST")
    collect(T0)
    with writing(db) as connection:
        connection.execute(text("update body set zstd = :other"), {"other": zstd.compress(b"other")})
    assert again(db, home()).not_read.endswith("its kept body is damaged: another hash")
    with writing(db) as connection:
        connection.execute(text("delete from body"))
    assert "was too large to be kept" in again(db, home()).not_read


def test_reference_rates_too_are_read_again(db: Engine, world: World) -> None:
    record(db, "ecb", T0, rows=2, fx=fx(date(2026, 10, 30), USD="1.25", GBP="0.875"))
    answer = ecb_xml(date(2026, 10, 30), {"USD": "1.25", "GBP": "0.885", "CNY": "8.75"}).encode()
    keep_bodies(db, BodiesSettings(), report(T0, source="ecb"), [Page(url="https://x.example/", body=answer, fetched_at=T0)])
    found = again(db, world)
    assert {(d.kind, d.what, d.name, d.old.get("rate"), d.new["rate"]) for d in found.differences} == {
        ("changed", "fx", "GBP 2026-10-30", Decimal("0.875"), Decimal("0.885")),
        ("added", "fx", "CNY 2026-10-30", None, Decimal("8.75")),
    }
    assert found.equal == 1


# --- the command ---------------------------------------------------------------------------------------------------------


@pytest.mark.loopback
def test_the_command_ends_with_1_where_something_differs(upstream: Upstream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    serve_case(upstream, "runpod")
    write_user_config(tmp_path / "config", upstream.url, sources=["runpod"])
    assert run(tmp_path, "rederive", "--since", "1h").out.startswith("no bodies kept since 1h; [bodies]")
    assert run(tmp_path, "collect", "runpod").code == 0
    same = run(tmp_path, "rederive", "--since", "1h", "--source", "runpod")
    assert (same.code, same.err) == (0, "")
    assert same.out.endswith(" equal, 0 differ\n")
    monkeypatch.setattr(runpod, "parse", doubling)
    differs = run(tmp_path, "rederive", "--since", "1h")
    assert (differs.code, differs.err) == (1, "")
    assert "  changed offer runpod NVIDIA A100-SXM4-80GB 1 x nvidia-a100-sxm-80 on_demand: price 1.59 -> price 3.18\n" in differs.out
    (sweep,) = json.loads(run(tmp_path, "rederive", "--since", "1h", "--json").out)
    assert {d["kind"] for d in sweep["differences"]} == {"changed"}
    assert {(d["old"]["price"], d["new"]["price"]) for d in sweep["differences"]} >= {("1.59", "3.18"), ("3.99", "7.98")}
    assert "no source named 'runpot' (did you mean runpod?)" in run(tmp_path, "rederive", "--since", "1h", "--source", "runpot").err


@pytest.mark.loopback
def test_six_sources_are_read_again_without_a_difference(upstream: Upstream, tmp_path: Path) -> None:
    """Pages by Link headers, HTML, JSON and XML: what a parser reads of a page is what was kept of it."""
    serve_six(upstream)
    write_user_config(tmp_path / "config", upstream.url)
    swept = {sweep["source"]: sweep["rows"] for sweep in json.loads(run(tmp_path, "collect", "--json").out)}
    told = run(tmp_path, "rederive", "--since", "1h", "--json")
    found = {sweep["source"]: (sweep["not_read"], sweep["differences"], sweep["equal"] + sweep["held"]) for sweep in json.loads(told.out)}
    assert found == {name: ("", [], rows) for name, rows in swept.items()}
    assert set(swept) == set(SIX)
    assert sorted(swept.values())[1] > 0  # no model of the recorded genai_prices is one of ours: still none
