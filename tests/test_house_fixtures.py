"""What conftest.py promises: no call to another machine, no directory of the user, no silent skip in CI."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

Require = Callable[[str], Path]


@pytest.mark.parametrize(
    "call",
    [
        lambda: socket.create_connection(("192.0.2.1", 9), timeout=1),  # RFC 5737: documentation, never routed
        lambda: socket.getaddrinfo("example.org", 443),
        lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).connect(("198.51.100.1", 9)),
    ],
    ids=["tcp", "name", "udp"],
)
@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
def test_a_call_to_another_machine_is_refused(call: Callable[[], object]) -> None:
    with pytest.raises(BaseException, match="tests stay on this machine"):
        call()


@pytest.mark.loopback
def test_this_machine_may_be_called() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname(), timeout=5) as client:
        assert client.getpeername() == server.getsockname()


def test_data_and_configuration_are_the_tests_own(tmp_path: Path) -> None:
    assert os.environ["BREAKEVEN_DATA"] == str(tmp_path / "data")
    assert os.environ["BREAKEVEN_CONFIG"] == str(tmp_path / "config")


def test_a_missing_server_skips_here_and_fails_in_ci(require: Require, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BREAKEVEN_REQUIRE_REAL", raising=False)
    with pytest.raises(pytest.skip.Exception, match="needs no-such-server"):
        require("no-such-server")
    monkeypatch.setenv("BREAKEVEN_REQUIRE_REAL", "1")
    with pytest.raises(pytest.fail.Exception, match="no-such-server is not installed"):
        require("no-such-server")


def test_a_program_is_found(require: Require) -> None:
    assert os.access(require("sh"), os.X_OK)
