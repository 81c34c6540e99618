"""``breakeven health``: what a container's health check runs. Yes is exit code 0; anything else is 1 with a reason in one line."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest
from processes import Running, breakeven
from servers import free_port
from upstream import Upstream
from worlds import write_user_config

from tracker.cli.health import address

pytestmark = pytest.mark.loopback


@pytest.mark.parametrize(
    ("listens", "asked"),
    [
        ("127.0.0.1", "http://127.0.0.1:10733"),
        ("0.0.0.0", "http://127.0.0.1:10733"),
        ("::", "http://[::1]:10733"),
        ("::1", "http://[::1]:10733"),
        ("tracker", "http://tracker:10733"),
    ],
)
def test_one_that_listens_everywhere_is_asked_here(listens: str, asked: str) -> None:
    assert address(listens, 10733) == asked


def test_a_running_daemon_is_healthy_on_its_configured_port(tmp_path: Path) -> None:
    port = free_port()
    web = f'[fetch]\nuser_agent = "breakeven-tests"\n[web]\nhost = "0.0.0.0"\nport = {port}\n'
    write_user_config(tmp_path / "config", "http://127.0.0.1:9", tracker=web)
    with Running(tmp_path, "--port", str(port)) as daemon:
        daemon.wait_for("collecting")
        done = breakeven(tmp_path, "health")
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith("ready; answers are ")
        assert json.loads(breakeven(tmp_path, "health", "--json").stdout)["ready"] is True
        with sqlite3.connect(tmp_path / "data" / "breakeven.db", timeout=20) as connection:
            connection.execute("alter table alembic_version rename to gone")
        connection.close()
        done = breakeven(tmp_path, "health", "--host", "127.0.0.1", "--port", str(port))
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
        assert "not ready: database" in done.stderr


@pytest.mark.parametrize(
    ("body", "status", "reason"),
    [
        ('{"ready": false, "reason": "database: its file is gone"}', 503, "not ready: database: its file is gone"),
        ('{"ready": true, "snapshot_at": "2026-11-29T12:00:00Z"}', 503, "not ready: HTTP 503"),
        ('{"ready": true, "snapshot_at": "2020-01-01T00:00:00Z"}', 200, "s old; recomputing has stopped"),
        ('{"ready": true}', 200, "not ready: HTTP 200"),
        ("[]", 200, "not ready: HTTP 200"),
        ("<html>", 200, "HTTP 200 without JSON; another program answers there"),
    ],
)
def test_any_other_answer_is_not_healthy(upstream: Upstream, tmp_path: Path, body: str, status: int, reason: str) -> None:
    upstream.add("/readyz", body, status=status)
    host, port = upstream.address
    done = breakeven(tmp_path, "health", "--host", host, "--port", str(port))
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert reason in done.stderr


def test_silence_and_nobody_are_not_healthy(upstream: Upstream, tmp_path: Path) -> None:
    upstream.add("/readyz", b"", lasting_fault="hang")
    done = breakeven(tmp_path, "health", "--port", str(upstream.address[1]), "--timeout", "0.5")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "no answer (timed out)" in done.stderr
    done = breakeven(tmp_path, "health", "--port", str(free_port()))
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "Connection refused); is breakeven running?" in done.stderr
