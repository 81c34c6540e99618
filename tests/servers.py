"""Real programs on free ports of this machine, each with a directory of its own, ended by their process id."""

from __future__ import annotations

import json
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from time import monotonic
from typing import Any, Self

import httpx
import pytest


def free_port() -> int:
    """A port nobody listens on at the moment."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


class Program:
    """A real program with a log in a directory of its own; ``close`` ends this process, and no other."""

    def __init__(self, home: Path, command: list[str]) -> None:
        self._log = (home / "log").open("w+", encoding="utf-8")
        self.process = subprocess.Popen(command, cwd=home, stdout=self._log, stderr=subprocess.STDOUT)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End this process, and no other."""
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(10)
        self._log.close()

    def until(self, holds: Callable[[], Any], what: str, seconds: float = 60) -> Any:
        """What ``holds`` gives once it is true; fails with the program's own log when time is up or it has ended."""
        end, pause = monotonic() + seconds, threading.Event()
        while not (found := holds()):
            if monotonic() > end or self.process.poll() is not None:
                self._log.seek(0)
                raise AssertionError(f"{what}: not within {seconds} s; the program said:\n{self._log.read()}")
            pause.wait(0.1)
        return found


class Prometheus(Program):
    """A Prometheus that scrapes ``target`` (host:port) every second, or does what ``config`` says. It answers until ``close``."""

    def __init__(
        self, program: Path, home: Path, target: str = "", *, config: Path | None = None, port: int = 0, flags: Sequence[str] = ()
    ) -> None:
        home.mkdir(parents=True, exist_ok=True)
        self.url = f"http://127.0.0.1:{port or free_port()}"
        if config is None:
            config = home / "prometheus.yml"
            job = {"job_name": "breakeven", "static_configs": [{"targets": [target]}]}
            settings = {"global": {"scrape_interval": "1s", "scrape_timeout": "1s"}, "scrape_configs": [job]}
            config.write_text(json.dumps(settings), encoding="utf-8")  # JSON is YAML
        command = [
            str(program), f"--config.file={config}", f"--storage.tsdb.path={home / 'data'}",
            f"--web.listen-address={self.url.removeprefix('http://')}", "--log.level=warn", *flags,
        ]  # fmt: skip
        super().__init__(home, command)

    def get(self, path: str, **parameters: str) -> Any:
        """The data of an API answer; None while it does not answer yet."""
        try:
            answer = httpx.get(f"{self.url}/api/v1/{path}", params=parameters, timeout=10, trust_env=False)
        except httpx.TransportError:
            return None
        return answer.json()["data"] if answer.is_success else None

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The instant vector of an expression now; empty while it does not answer yet."""
        found: list[dict[str, Any]] = (self.get("query", query=expression) or {"result": []})["result"]
        return found

    def wait_for(self, expression: str, count: int, seconds: float = 60) -> list[dict[str, Any]]:
        """The instant vector once it has ``count`` elements; fails with Prometheus's own log."""
        found: list[dict[str, Any]] = self.until(
            lambda: result if len(result := self.query(expression)) >= count else None, f"{count} x {expression}", seconds
        )
        return found

    def rules(self) -> list[dict[str, Any]]:
        """Every rule with its health and state; empty while it does not answer yet."""
        return [rule for group in (self.get("rules") or {"groups": []})["groups"] for rule in group["rules"]]

    def firing(self) -> set[tuple[str, str]]:
        """Alerts that fire now: name and the source or model they are about."""
        alerts = (self.get("alerts") or {"alerts": []})["alerts"]
        return {
            (alert["labels"]["alertname"], alert["labels"].get("source", alert["labels"].get("model", "")))
            for alert in alerts
            if alert["state"] == "firing"
        }


class Alertmanager(Program):
    """An Alertmanager of its own with ``config``; it gossips with nobody."""

    def __init__(self, program: Path, home: Path, config: Path, *, port: int = 0) -> None:
        home.mkdir(parents=True, exist_ok=True)
        self.url = f"http://127.0.0.1:{port or free_port()}"
        command = [
            str(program), f"--config.file={config}", f"--storage.path={home / 'data'}", "--cluster.listen-address=",
            f"--web.listen-address={self.url.removeprefix('http://')}", "--log.level=warn",
        ]  # fmt: skip
        super().__init__(home, command)

    def alerts(self) -> list[dict[str, Any]]:
        """What it holds at the moment, inhibited ones too; empty while it does not answer yet."""
        try:
            answer = httpx.get(f"{self.url}/api/v2/alerts", timeout=10, trust_env=False)
        except httpx.TransportError:
            return []
        found: list[dict[str, Any]] = answer.json() if answer.is_success else []
        return found


@pytest.fixture
def prometheus(require: Callable[[str], Path], tmp_path: Path) -> Iterator[Callable[[str], Prometheus]]:
    """A function that starts a Prometheus scraping a target; all of them end with the test."""
    started: list[Prometheus] = []

    def start(target: str) -> Prometheus:
        started.append(Prometheus(require("prometheus"), tmp_path / f"prometheus{len(started)}", target))
        return started[-1]

    yield start
    for one in started:
        one.close()
