"""What every test stands on: no network beyond this machine, no directory of the user, real servers where CI has them."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

ROOT = Path(__file__).resolve().parents[1]
pytest_plugins = ("upstream", "small_world", "servers", "databases", "histories")
SERVER_DIRS = (*sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True), Path("/usr/sbin"))  # Debian: not on PATH
LOOPBACK = ("127.", "::1", "localhost")

settings.register_profile("house", deadline=None)  # a slow machine is no failure
settings.load_profile("house")


class OutsideCall(BaseException):
    """A test tried to reach another machine. No Exception, so that no handler under test can swallow it."""


def _refuse_outside(event: str, args: tuple[Any, ...]) -> None:
    if event == "socket.connect":
        target = args[1]
    elif event == "socket.getaddrinfo":
        target = args[:1]
    else:
        return
    host = target[0] if isinstance(target, tuple) else None  # a Unix socket's target is a path
    if host and not (host.decode() if isinstance(host, bytes) else str(host)).startswith(LOOPBACK):
        raise OutsideCall(f"tests stay on this machine: {event} {host!r}")


sys.addaudithook(_refuse_outside)


@pytest.fixture(autouse=True)
def _no_user_directories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every test has its own data and configuration directories and none of the caller's settings."""
    for name in [name for name in os.environ if name.startswith("BREAKEVEN_") and name != "BREAKEVEN_REQUIRE_REAL"]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("BREAKEVEN_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("BREAKEVEN_CONFIG", str(tmp_path / "config"))
    yield


@pytest.fixture(scope="session")
def shared() -> Path:
    """The recorded material beside the checkout; skips where there is none."""
    folder = ROOT.parent / "shared"
    if not folder.is_dir():
        pytest.skip("needs ../shared beside the checkout")
    return folder


@pytest.fixture(scope="session")
def require() -> Callable[[str], Path]:
    """A function that gives a program's path; a missing one skips the test, and fails it where BREAKEVEN_REQUIRE_REAL is 1 (CI)."""
    return find_program


def find_program(name: str) -> Path:
    path = os.pathsep.join([os.environ.get("PATH", ""), *map(str, SERVER_DIRS)])
    found = shutil.which(name, path=path)
    if found:
        return Path(found)
    if os.environ.get("BREAKEVEN_REQUIRE_REAL") == "1":
        pytest.fail(f"{name} is not installed, and BREAKEVEN_REQUIRE_REAL=1 asks for it")
    pytest.skip(f"needs {name}")
