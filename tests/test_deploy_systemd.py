"""What systemd is told: readiness, status, signs of life, the end; and that the unit file is sound and confined."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from time import monotonic

import pytest
from deployed import DEPLOY
from processes import Running
from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError
from upstream import Upstream
from worlds import serve_market, write_user_config

from tracker.database.handle import migrate, open_database, writing
from tracker.paths import config_dir
from tracker.service import daemon as daemon_module
from tracker.service.daemon import Daemon
from tracker.service.systemd import STUCK_S, Pulse, Supervisor, supervisor
from tracker.world import load_world

UNIT = DEPLOY / "systemd" / "breakeven.service"
EXPOSURE = 1.5  # of systemd-analyze security, 0 to 10


class Listener:
    """A supervisor's end of the socket. ``heard`` waits for one more datagram and gives its lines."""

    def __init__(self, name: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(name)
        self.socket.settimeout(60)

    def heard(self) -> list[str]:
        return self.socket.recv(4096).decode().split("\n")

    def close(self) -> None:
        self.socket.close()


@pytest.fixture
def listener(tmp_path: Path) -> Iterator[Listener]:
    with closing(Listener(str(tmp_path / "notify"))) as found:
        yield found


def at(listener: Listener, watchdog_s: float = 0) -> Supervisor:
    return Supervisor(address=listener.socket.getsockname(), watchdog_s=watchdog_s)


def test_the_environment_says_who_listens_and_how_often() -> None:
    assert supervisor({}) == Supervisor(address="", watchdog_s=0)
    assert supervisor({"NOTIFY_SOCKET": "@a", "WATCHDOG_USEC": "120000000"}) == Supervisor(address="@a", watchdog_s=120)
    ours, another = str(os.getpid()), str(os.getppid())
    assert supervisor({"WATCHDOG_USEC": "5000000", "WATCHDOG_PID": ours}).watchdog_s == 5
    assert supervisor({"WATCHDOG_USEC": "5000000", "WATCHDOG_PID": another}).watchdog_s == 0
    assert supervisor({"WATCHDOG_USEC": "soon"}).watchdog_s == 0


def test_lines_are_one_datagram(listener: Listener) -> None:
    assert at(listener).say("READY=1", "STATUS=two\nlines")
    assert listener.heard() == ["READY=1", "STATUS=two lines"]


@pytest.mark.skipif(not hasattr(socket, "SO_PEERCRED"), reason="abstract socket names are Linux's")
def test_an_abstract_name_is_reached(tmp_path: Path) -> None:
    name = f"breakeven-{tmp_path.name}-{os.getpid()}"
    with closing(Listener(f"\0{name}")) as listener:
        assert Supervisor(address=f"@{name}", watchdog_s=0).say("READY=1")
        assert listener.heard() == ["READY=1"]


def test_nobody_there_is_no_error(tmp_path: Path) -> None:
    assert not Supervisor(address="", watchdog_s=0).say("READY=1")
    assert not Supervisor(address=str(tmp_path / "nobody"), watchdog_s=0).say("READY=1")


def test_signs_of_life_come_at_half_the_time_and_only_while_there_is_life(listener: Listener) -> None:
    pulses = iter([Pulse(alive=True, status="first"), Pulse(alive=True, status="well"), Pulse(alive=False, status="stuck")])
    stop, began = threading.Event(), monotonic()

    def pulse() -> Pulse:
        found = next(pulses)
        if not found.alive:
            stop.set()
        return found

    at(listener, watchdog_s=0.2).watch(stop, pulse)
    assert monotonic() - began >= 0.2
    assert listener.heard() == ["READY=1", "STATUS=first"]
    assert listener.heard() == ["WATCHDOG=1", "STATUS=well"]
    assert listener.heard() == ["STATUS=stuck"]
    assert listener.heard() == ["STOPPING=1", "STATUS=stopping"]


# --- the daemon ---------------------------------------------------------------------------------------------------------------


@pytest.fixture
def still_daemon(tmp_path: Path) -> Iterator[Daemon]:
    """A daemon over an empty book that serves and schedules nothing."""
    db = open_database(f"sqlite:///{tmp_path / 'book.db'}")
    migrate(db)
    yield Daemon(load_world(config_dir(), tmp_path / "none"), db)
    db.dispose()


def test_a_daemon_without_its_web_server_is_not_alive(still_daemon: Daemon) -> None:
    assert still_daemon.pulse() == Pulse(alive=False, status="the web server has ended")


def test_a_daemon_that_recomputes_no_more_is_not_alive(still_daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    serving = threading.Event()
    still_daemon.serving._web = threading.Thread(target=serving.wait, daemon=True)
    still_daemon.serving._web.start()
    assert still_daemon.pulse().alive
    assert re.fullmatch(r"\d+ sources, \d+ stale; answers of \d\d:\d\d:\d\d UTC", still_daemon.pulse().status)
    later = monotonic() + STUCK_S + 1
    monkeypatch.setattr(daemon_module, "monotonic", lambda: later)
    assert still_daemon.pulse() == Pulse(alive=False, status=f"no recompute for {STUCK_S} s: stuck")
    still_daemon.refresh()
    assert still_daemon.pulse().alive
    serving.set()


def test_a_recompute_that_fails_is_a_sign_of_life(still_daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    """A database that is away is not mended by a restart."""
    later = monotonic() + STUCK_S + 1
    monkeypatch.setattr(daemon_module, "monotonic", lambda: later)
    with writing(still_daemon.db) as connection:
        connection.execute(text("drop table rate"))
    with suppress(SQLAlchemyError):
        still_daemon.refresh()
    assert still_daemon._beat == later


@pytest.mark.loopback
def test_the_daemon_reports_from_start_to_stop(upstream: Upstream, tmp_path: Path, listener: Listener) -> None:
    serve_market(upstream)
    write_user_config(tmp_path / "config", upstream.url)
    told = {"NOTIFY_SOCKET": listener.socket.getsockname(), "WATCHDOG_USEC": "400000"}
    with Running(tmp_path, env=told) as daemon:
        ready = listener.heard()
        assert ready[0] == "READY=1"
        assert daemon.get("/readyz").json()["ready"] is True
        signs = [listener.heard() for _ in range(3)]
        assert {sign[0] for sign in signs} == {"WATCHDOG=1"}
        assert all(re.fullmatch(r"STATUS=6 sources, \d stale; answers of [\d:]+ UTC", sign[1]) for sign in [ready, *signs])
        assert daemon.stop() == 0
        last = signs[-1]
        while last[0] != "STOPPING=1":
            assert last[0] == "WATCHDOG=1"
            last = listener.heard()


# --- the unit file ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def unit(tmp_path: Path) -> Path:
    """The unit with a program that is there: it is judged before it is installed."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("needs systemd-analyze")
    text = UNIT.read_text(encoding="utf-8")
    assert text.count("ExecStart=/opt/breakeven/bin/breakeven run\n") == 1
    (tmp_path / "breakeven.service").write_text(text.replace("/opt/breakeven/bin/breakeven", str(shutil.which("true"))), encoding="utf-8")
    return tmp_path / "breakeven.service"


def analyze(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["systemd-analyze", *words], capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.real
def test_systemd_finds_no_fault_in_the_unit(unit: Path) -> None:
    done = analyze("verify", "--man=no", unit)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    unit.write_text(unit.read_text(encoding="utf-8").replace("WatchdogSec", "WatchDogSec"), encoding="utf-8")
    assert "'WatchDogSec'" in analyze("verify", "--man=no", unit).stderr


@pytest.mark.real
def test_the_service_can_reach_little(unit: Path) -> None:
    done = analyze("security", "--offline=true", f"--threshold={int(EXPOSURE * 10)}", "--no-pager", unit)
    assert done.returncode == 0, done.stdout
    (score,) = re.findall(r"Overall exposure level for breakeven\.service: ([\d.]+)", done.stdout)
    assert float(score) <= EXPOSURE
    bare = re.sub(
        r"^(Protect|Private|Restrict|SystemCall|NoNew|Capability|Dynamic)\w+=.*\n", "", unit.read_text(encoding="utf-8"), flags=re.M
    )
    unit.write_text(bare, encoding="utf-8")
    assert analyze("security", "--offline=true", f"--threshold={int(EXPOSURE * 10)}", "--no-pager", unit).returncode != 0


def test_the_unit_waits_longer_than_the_daemon_needs() -> None:
    times = dict(re.findall(r"^(\w+Sec)=(\d+)s$", UNIT.read_text(encoding="utf-8"), re.M))
    assert int(times["TimeoutStopSec"]) > daemon_module.STOP_WITHIN_S
