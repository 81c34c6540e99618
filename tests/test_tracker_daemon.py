"""The daemon as a process: what it prints and serves, how it stops, what it refuses, and that a kill loses nothing."""

from __future__ import annotations

import json
import random
import signal
import socket
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from processes import Running, breakeven
from upstream import Upstream
from worlds import runpod_answer, serve_market, write_user_config

from scrapers import runpod
from tracker.service.serving import listen

pytestmark = pytest.mark.loopback
KILLS = 50
needs_proc = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="looks at processes under /proc")
HISTORY = (
    "NVIDIA B300 SXM6 AC",
    "NVIDIA B200",
    "NVIDIA H200",
    "NVIDIA H100 80GB HBM3",
    "NVIDIA A100-SXM4-80GB",
    "NVIDIA L40S",
    "NVIDIA L4",
)


def collected(daemon: Running, sources: int = 6) -> Callable[[], bool]:
    """Whether that many sources were read."""
    return lambda: sum(s["last_success"] is not None for s in daemon.get("/api/v1/sources").json()["sources"]) == sources


def test_it_collects_serves_and_stops_on_sigterm(upstream: Upstream, tmp_path: Path) -> None:
    serve_market(upstream)
    write_user_config(tmp_path / "config", upstream.url)
    with Running(tmp_path) as daemon:
        daemon.until(collected(daemon))
        daemon.until(lambda: "breakeven_best_setup_usd_per_hour{" in daemon.get("/metrics").text)
        kimi = daemon.get("/api/v1/models/kimi-k3.1-pro").json()
        # by hand: 7 of RunPod's B300 at 6.94 hold it by layers (93 layers, 14 on the fullest); $7,560 is seed 002's bill
        assert (kimi["setup"]["usd_per_hour"], kimi["setup"]["gpu_count_rented"], kimi["setup"]["fresh"]) == ("48.58", 7, True)
        assert (kimi["rate"]["usd_per_month"].rstrip("0").rstrip("."), kimi["verdict"]["answer"]) == ("7560", "api")
        assert daemon.get("/healthz").text == "ok\n"
        assert daemon.get("/readyz").json()["ready"] is True
        page = daemon.get("/")
        assert "kimi-k3.1-pro" in page.text
        assert "default-src 'none'" in page.headers["content-security-policy"]
        assert daemon.get("/metrics").is_redirect is False
        assert daemon.get("/api/v1/models/kimi-k3").json()["detail"].startswith("model 'kimi-k3' is known but not tracked")
        assert daemon.stop() == 0
    assert "Traceback" not in "\n".join(daemon.lines)


def test_the_table_comes_before_the_network_and_offline_is_one_line_a_source(upstream: Upstream, tmp_path: Path) -> None:
    write_user_config(tmp_path / "config", "http://127.0.0.1:9")  # nobody listens there
    with Running(tmp_path) as daemon:
        daemon.wait_for("collecting; Ctrl-C stops")
        printed = list(daemon.lines)
        assert not any("failed" in line for line in printed[: printed.index("collecting; Ctrl-C stops")])
        daemon.until(lambda: sum("failed" in line for line in daemon.lines) == 6)
        assert {line.partition(":")[0] for line in daemon.lines if "failed" in line} == {
            "coreweave", "ecb", "genai_prices", "openrouter", "runpod", "scaleway",
        }  # fmt: skip
        assert "breakeven_best_setup_usd_per_hour{" not in daemon.get("/metrics").text
        assert daemon.stop(signal.SIGINT) == 0
    assert "Traceback" not in "\n".join(daemon.lines)
    assert rows(tmp_path, "select count(*) from alert") == [(0,)]


@pytest.mark.parametrize("fault", ["hang", "drip:0.2"])
def test_it_stops_within_ten_seconds_while_a_fetch_hangs(upstream: Upstream, tmp_path: Path, fault: str) -> None:
    serve_market(upstream)
    upstream.break_all(fault)
    write_user_config(tmp_path / "config", upstream.url)
    with Running(tmp_path) as daemon:
        daemon.until(lambda: len(upstream.seen) >= 3)
        assert daemon.stop(seconds=10) == 0


def test_a_second_start_continues_from_the_book(upstream: Upstream, tmp_path: Path) -> None:
    serve_market(upstream)
    write_user_config(tmp_path / "config", upstream.url)
    with Running(tmp_path) as daemon:
        daemon.until(collected(daemon))
        daemon.stop()
    before = rows(tmp_path, "select count(*) from offer_point")
    with Running(tmp_path) as daemon:
        assert "48.58" in daemon.wait_for(r"^ kimi-k3\.1-pro .*").group()
        daemon.until(lambda: sum("unchanged" in line for line in daemon.lines) == 6)
        daemon.stop()
    assert rows(tmp_path, "select count(*) from offer_point") == before


def test_a_second_daemon_and_a_taken_port_are_one_line_each(upstream: Upstream, tmp_path: Path) -> None:
    serve_market(upstream)
    write_user_config(tmp_path / "config", upstream.url)
    with Running(tmp_path) as daemon:
        port = daemon.url.rpartition(":")[2]
        second = breakeven(tmp_path, "run", "--port", "0")
        assert (second.returncode, second.stderr.count("\n")) == (1, 1)
        assert "another breakeven (process" in second.stderr
        taken = breakeven(tmp_path, "run", "--port", port)
        assert (taken.returncode, taken.stderr.count("\n")) == (1, 1)
        assert f"cannot listen on 127.0.0.1 port {port}: Address already in use" in taken.stderr


def caught(daemon: Running, number: int) -> bool:
    """Whether the process has a handler for that signal: SigCgt of proc(5)."""
    lines = Path(f"/proc/{daemon.process.pid}/status").read_text(encoding="ascii").splitlines()
    mask = next(line.split()[1] for line in lines if line.startswith("SigCgt"))
    return bool(int(mask, 16) >> (number - 1) & 1)


@needs_proc
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_start_ends_cleanly_before_it_has_begun_anything(tmp_path: Path, number: int) -> None:
    with Running(tmp_path) as daemon:
        daemon.until(lambda: caught(daemon, signal.SIGTERM))
        assert daemon.stop(number) == 0
        assert (daemon.lines, (tmp_path / "data").exists()) == ([], False)


def test_a_first_start_that_is_ended_halfway_is_made_up_for_by_the_next(tmp_path: Path) -> None:
    undisturbed, ended = tmp_path / "undisturbed", tmp_path / "ended"
    undisturbed.mkdir()
    with Running(ended) as daemon:
        daemon.until(lambda: (ended / "data" / "breakeven.db").exists())
        assert daemon.stop() == 0
        assert daemon.lines == []  # it was still making the database
    assert [breakeven(home, "rates", "kimi-k3.1-pro").returncode for home in (undisturbed, ended)] == [0, 0]
    for table in ("fx", "offer", "offer_point", "rate", "rate_point", "sweep"):
        counted = [rows(home, f"select count(*) from {table}") for home in (undisturbed, ended)]
        assert counted[0] == counted[1]


def rows(home: Path, query: str) -> list[tuple[object, ...]]:
    """An answer of the database, read with the standard library alone."""
    with sqlite3.connect(home / "data" / "breakeven.db") as connection:
        found = connection.execute(query).fetchall()
    connection.close()
    return found


def test_a_kill_at_any_moment_leaves_whole_sweeps_only(upstream: Upstream, tmp_path: Path) -> None:
    """Every price of a sweep is one number, and the next sweep's is another: a mixture would be a part of one."""
    write_user_config(tmp_path / "config", upstream.url, sources=["runpod"], interval_minutes=0.005)
    dice = random.Random(20261129)
    done = threading.Event()

    def reprice() -> None:
        number = 0
        while not done.wait(0.02):
            number += 1
            upstream.add(runpod.PATH, runpod_answer(dict.fromkeys(HISTORY, f"5.{number:05d}")), method="POST")

    changing = threading.Thread(target=reprice, daemon=True)
    changing.start()
    kept = 0
    for _ in range(KILLS):
        with Running(tmp_path) as daemon:
            asked = len(upstream.seen) + dice.randint(1, 3)
            daemon.until(lambda asked=asked: len(upstream.seen) >= asked)  # type: ignore[misc]
            threading.Event().wait(dice.random() * 0.15)  # a sweep is read, written and answered from within that time
            daemon.process.kill()
            daemon.process.wait(10)
        kept = check_whole(tmp_path, kept)
    done.set()
    changing.join(5)
    assert kept > KILLS / 2


def check_whole(home: Path, least: int) -> int:
    """All sweeps are whole, none that was there is lost; returns how many there are."""
    assert rows(home, "pragma integrity_check") == [("ok",)]
    sweeps = rows(home, "select at, changed, rows from sweep where source = 'runpod' and status = 'ok'")
    points = dict(
        rows(
            home,
            "select p.at, count(*) || '/' || count(distinct case when o.gpu_count = 1 then p.price end) "
            "from offer_point p join offer o on o.id = p.offer_id where o.source = 'runpod' group by p.at",
        )
    )
    assert len(sweeps) >= least
    for at, changed, _ in sweeps:
        assert points.get(at, "0/0") in (f"{changed}/1", "0/0")
    assert set(points) <= {at for at, _, _ in sweeps}
    return len(sweeps)


def test_metrics_of_the_api_are_the_numbers_of_the_command_line(upstream: Upstream, tmp_path: Path) -> None:
    serve_market(upstream)
    write_user_config(tmp_path / "config", upstream.url)
    with Running(tmp_path) as daemon:
        daemon.until(collected(daemon))
        daemon.until(lambda: "breakeven_best_setup_usd_per_hour{" in daemon.get("/metrics").text)
        text = daemon.get("/metrics").text
        shown = json.loads(breakeven(tmp_path, "cheapest", "muse-spark-open", "--json").stdout)
        daemon.stop()
    (line,) = [x for x in text.splitlines() if x.startswith('breakeven_best_setup_usd_per_hour{model="muse-spark-open"')]
    assert float(line.split()[-1]) == float(shown["setup"]["usd_per_hour"])


def test_small_answers_do_not_wait_for_the_reader_s_acknowledgement() -> None:
    """asyncio switches Nagle's algorithm off on accepted sockets that say they are TCP; others hold a body back for 40 ms."""
    with listen("127.0.0.1", 0) as bound, socket.create_connection(bound.getsockname()):
        accepted, _ = bound.accept()
        with accepted:
            assert accepted.proto == socket.IPPROTO_TCP
