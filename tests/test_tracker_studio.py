"""The process that draws: what it draws, what it never sees, and that nothing that befalls it befalls the daemon."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from time import monotonic
from typing import Any

import httpx
import pytest
from extras import extra
from sqlalchemy import Engine
from waiting import until
from watching import CHEAPER, watch_with

from tracker.pictures.chart import Chart, Line, Panel, Step
from tracker.pictures.drawing import png
from tracker.pictures.studio import INHERITED, ROOT, NotDrawn, Studio
from tracker.service.serving import Serving, listen

START = datetime(2026, 11, 1, tzinfo=UTC)
TRACK = '[track]\nmodels = ["large-60b"]\nworkload = "turns"\n\n[fetch]\nuser_agent = "breakeven-tests"\n'
# A process in the place of the one that draws. What it does stands in the chart's title: a word, and a file that it makes when it begins.
ACTOR = """
import json, os, pickle, signal, sys
from tracker.pictures.messages import read_message, write_message
source, sink = open(0, "rb", buffering=0), open(1, "wb", buffering=0)
while (body := read_message(source)) is not None:
    act, _, mark = pickle.loads(body).title.partition(" ")
    first = not os.path.exists(mark) if mark else True
    if mark:
        open(mark, "w").close()
    if act == "wait" and first:
        signal.pause()
    elif act == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    elif act == "fail":
        sys.exit(3)
    elif act == "look":
        write_message(sink, json.dumps([sorted(os.listdir("/proc/self/fd"), key=int), dict(os.environ)]).encode())
    else:
        write_message(sink, b"drawn by %d" % os.getpid())
"""


def chart(title: str = "A price", hours: int = 50) -> Chart:
    steps = tuple(Step(START + timedelta(hours=h), START + timedelta(hours=h + 1), Decimal(2 + h % 3)) for h in range(hours))
    return of(steps, title, START + timedelta(hours=hours))


def of(steps: Any, title: str, end: datetime) -> Chart:
    panel = Panel(unit="USD per hour", lines=(Line(label="x", steps=steps),))
    return Chart(title=title, panels=(panel,), start=START, end=end, changed_at=end)


@pytest.fixture
def studio() -> Iterator[Studio]:
    extra("pillow")
    found = Studio()
    yield found
    found.close()


@pytest.fixture
def acting(tmp_path: Path) -> Iterator[Callable[..., Studio]]:
    """Studios whose process does what a chart's title says."""
    (tmp_path / "actor.py").write_text(ACTOR, encoding="utf-8")
    made: list[Studio] = []

    def make(**how: float) -> Studio:
        made.append(Studio(worker=(sys.executable, "-P", str(tmp_path / "actor.py")), **how))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for one in made:
        one.close()


def is_there(pid: int) -> bool:
    """Whether a process runs; one that has ended and was not waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


needs_proc = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at processes under /proc")


def test_it_draws_what_the_daemon_would(studio: Studio) -> None:
    assert studio.pid is None  # until there is something to draw
    assert studio.png(chart()) == png(chart())
    pid = studio.pid
    assert pid not in (None, os.getpid())
    assert studio.png(chart(hours=5000)) == png(chart(hours=5000))  # much more than a pipe holds
    assert studio.pid == pid


def test_many_at_once_are_drawn_by_one_process(studio: Studio) -> None:
    wanted = [chart(f"Chart {number}") for number in range(6)]
    with ThreadPoolExecutor(6) as pool:
        drawn = list(pool.map(lambda one: (studio.png(one), studio.pid), wanted))
    assert [found for found, _ in drawn] == [png(one) for one in wanted]
    assert len({pid for _, pid in drawn}) == 1


@needs_proc
def test_the_daemon_does_not_grow_by_drawing(tmp_path: Path) -> None:
    """Pillow alone is some 10 MB."""
    extra("pillow")
    code = (
        "import sys\nsys.path[:0] = sys.argv[1:]\nfrom test_tracker_studio import chart\nfrom tracker.pictures.studio import Studio\n"
        "studio = Studio()\nfor _ in range(3):\n    assert studio.png(chart())\n"
        "print(sorted(name for name in sys.modules if name.startswith('PIL')))\nstudio.close()"
    )
    words = [sys.executable, "-c", code, str(ROOT), str(ROOT / "tests")]
    ran = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60)
    assert ran.stdout == "[]\n"


@needs_proc
def test_it_sees_no_file_no_socket_and_no_secret_of_the_daemon(
    acting: Callable[..., Studio], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BREAKEVEN_TEST_KEY", "secret")
    with (tmp_path / "book.db").open("w") as file, socket.socket() as bound:
        for held in (file.fileno(), bound.fileno()):
            os.set_inheritable(held, True)
        files, environment = json.loads(acting().png(chart("look")))
    assert files == ["0", "1", "2", "3"]  # the last is the look itself
    assert "secret" not in environment.values()
    assert set(environment) <= {*INHERITED, "PYTHONPATH", "LC_CTYPE"}  # Python sets the last one itself


def begun(studio: Studio, pool: ThreadPoolExecutor, mark: Path) -> tuple[Callable[[], bytes], int]:
    """A drawing that is under way, and the process that is at it."""
    drawing = pool.submit(studio.png, chart(f"wait {mark}"))
    until(mark.exists)
    pid = studio.pid
    assert pid is not None
    return drawing.result, pid


def test_a_process_killed_in_mid_drawing_is_started_again_and_the_picture_comes(acting: Callable[..., Studio], tmp_path: Path) -> None:
    studio = acting()
    with ThreadPoolExecutor(1) as pool:
        result, pid = begun(studio, pool, tmp_path / "mark")
        os.kill(pid, signal.SIGKILL)
        drawn = result()
    assert drawn == b"drawn by %d" % (studio.pid or 0)
    assert studio.pid != pid


def test_one_that_is_killed_again_and_again_is_given_up_and_the_next_is_drawn(acting: Callable[..., Studio]) -> None:
    studio = acting()
    with pytest.raises(NotDrawn, match="the drawing process was ended"):
        studio.png(chart("die"))
    assert studio.png(chart("draw")).startswith(b"drawn by ")


def test_a_chart_that_cannot_be_drawn_says_so_and_the_next_is_drawn(acting: Callable[..., Studio], tmp_path: Path) -> None:
    studio = acting()
    with pytest.raises(NotDrawn, match="failed with exit code 3"):
        studio.png(chart(f"fail {tmp_path / 'mark'}"))
    assert studio.png(chart("draw")).startswith(b"drawn by ")


def test_a_fault_in_the_real_process_is_a_fault_of_that_chart_alone(studio: Studio, capfd: pytest.CaptureFixture[str]) -> None:
    broken = of(("no step",), "x", START)
    with pytest.raises(NotDrawn, match="failed with exit code 1"):
        studio.png(broken)
    assert "AttributeError" in capfd.readouterr().err
    assert studio.png(chart()) == png(chart())


def test_a_drawing_that_takes_too_long_is_ended_with_its_process(acting: Callable[..., Studio], tmp_path: Path) -> None:
    studio = acting(within_s=1.0)
    before = monotonic()
    with pytest.raises(NotDrawn, match="not drawn within 1 s"):
        studio.png(chart(f"wait {tmp_path / 'mark'}"))
    assert monotonic() - before < 10
    assert studio.pid is None
    assert studio.png(chart("draw")).startswith(b"drawn by ")


def test_a_process_that_reads_nothing_holds_nobody_up(acting: Callable[..., Studio], tmp_path: Path) -> None:
    studio = acting(within_s=1.0)
    studio.png(chart("draw"))
    os.kill(studio.pid or 0, signal.SIGSTOP)
    with pytest.raises(NotDrawn, match="not drawn within 1 s"):
        studio.png(chart("draw", hours=20_000))


def test_no_more_than_so_many_wait(acting: Callable[..., Studio], tmp_path: Path) -> None:
    studio = acting(waiting=1)
    with ThreadPoolExecutor(1) as pool:
        result, pid = begun(studio, pool, tmp_path / "mark")
        with pytest.raises(NotDrawn, match="too many pictures"):
            studio.png(chart("draw"))
        os.kill(pid, signal.SIGKILL)
        result()


@needs_proc
def test_it_ends_when_idle_leaves_nothing_behind_and_comes_back() -> None:
    extra("pillow")
    studio = Studio(idle_s=0.1)
    try:
        first = studio.png(chart())
        pid = studio.pid
        until(lambda: studio.pid is None)
        assert pid is None or not Path(f"/proc/{pid}").exists()  # waited for: no zombie
        assert studio.png(chart()) == first
    finally:
        studio.close()


@needs_proc
def test_it_ends_with_a_daemon_that_is_killed() -> None:
    extra("pillow")
    code = (
        "import sys\nsys.path[:0] = sys.argv[1:]\nfrom test_tracker_studio import chart\nfrom tracker.pictures.studio import Studio\n"
        "studio = Studio()\nassert studio.png(chart())\nprint(studio.pid, flush=True)\nsys.stdin.read()"
    )
    words = [sys.executable, "-c", code, str(ROOT), str(ROOT / "tests")]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as daemon:
        assert daemon.stdout is not None
        pid = int(daemon.stdout.readline())
        assert is_there(pid)
        daemon.kill()
    until(lambda: not is_there(pid))


def test_ctrl_c_is_for_the_daemon(studio: Studio) -> None:
    studio.png(chart())
    pid = studio.pid
    os.kill(pid or 0, signal.SIGINT)
    assert studio.png(chart()) == png(chart())
    assert studio.pid == pid


def test_a_stop_ends_what_is_being_drawn(acting: Callable[..., Studio], tmp_path: Path) -> None:
    studio = acting()
    with ThreadPoolExecutor(1) as pool:
        result, _ = begun(studio, pool, tmp_path / "mark")
        studio.close()
        with pytest.raises(NotDrawn, match="the program stops"):
            result()
    assert studio.pid is None
    with pytest.raises(NotDrawn, match="the program stops"):
        studio.png(chart("draw"))


# --- over HTTP ------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def serving(db: Engine, tmp_path: Path) -> Iterator[tuple[Serving, str]]:
    """A web server over a book in which a cheaper setup was told, and the address of its picture."""
    watch = watch_with(db, tmp_path, CHEAPER, tracker_toml=TRACK)
    for price in ("2.00", "1.80", "1.80"):
        watch.look(price)
    found = Serving(watch.world, watch.db, now=lambda: watch.at)
    bound = listen("127.0.0.1", 0)
    thread = found.serve(bound)
    yield found, f"http://127.0.0.1:{bound.getsockname()[1]}/api/v1/alerts/1/history.png"
    found.close()
    thread.join(10)


def ask(url: str) -> httpx.Response:
    return httpx.get(url, timeout=30, trust_env=False)


@pytest.mark.loopback
def test_pictures_over_http_are_drawn_outside_and_go_on_after_a_kill(serving: tuple[Serving, str]) -> None:
    extra("pillow")
    found, url = serving
    with ThreadPoolExecutor(3) as pool:
        answers = list(pool.map(ask, [url] * 3))
    assert [answer.status_code for answer in answers] == [200] * 3
    assert len({answer.content for answer in answers}) == 1
    assert answers[0].content.startswith(b"\x89PNG")
    pid = found._studio.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    assert ask(url).content == answers[0].content
    assert found._studio.pid != pid


@pytest.mark.loopback
def test_over_http_too_a_kill_in_mid_drawing_costs_a_moment(
    serving: tuple[Serving, str], acting: Callable[..., Studio], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    extra("pillow")  # the address says so where it is not there
    found, url = serving
    found._studio, mark = acting(), tmp_path / "mark"
    draw = found._studio.png
    monkeypatch.setattr(found._studio, "png", lambda _chart: draw(chart(f"wait {mark}")))
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(ask, url)
        until(mark.exists)
        assert httpx.get(url.partition("/api")[0] + "/metrics", timeout=10, trust_env=False).status_code == 200  # meanwhile
        os.kill(found._studio.pid or 0, signal.SIGKILL)
        assert answer.result().content.startswith(b"drawn by ")


@pytest.mark.loopback
def test_no_picture_is_an_answer_that_says_why(serving: tuple[Serving, str]) -> None:
    extra("pillow")
    found, url = serving
    found._studio.close()
    answer = ask(url)
    assert (answer.status_code, answer.json()) == (503, {"detail": "no picture now: the program stops"})
    assert answer.headers["retry-after"] == "10"
