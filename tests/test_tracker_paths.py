"""Where configuration and data live, by variable, XDG and system."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tracker import paths

ROOT = Path(__file__).resolve().parents[1]
Ask = Callable[[], Path]
ASKED = [
    (paths.data_dir, "BREAKEVEN_DATA", "XDG_DATA_HOME", ".local/share/breakeven"),
    (paths.user_config_dir, "BREAKEVEN_CONFIG", "XDG_CONFIG_HOME", ".config/breakeven"),
]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for _, own, xdg, _ in ASKED:
        monkeypatch.delenv(own, raising=False)
        monkeypatch.delenv(xdg, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr("sys.platform", "linux")
    return tmp_path


def test_a_checkout_reads_its_own_config() -> None:
    assert paths.config_dir() == ROOT / "config"


def test_a_wheel_reads_what_it_carries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "_config").mkdir()
    monkeypatch.setattr(paths, "HERE", tmp_path)
    assert paths.config_dir() == tmp_path / "_config"


@pytest.mark.parametrize(("ask", "own", "xdg", "usual"), ASKED)
def test_the_first_that_is_set_decides(ask: Ask, own: str, xdg: str, usual: str, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ask() == home / usual
    monkeypatch.setenv(xdg, "relative/is/ignored")
    assert ask() == home / usual
    monkeypatch.setenv(xdg, str(home / "xdg"))
    assert ask() == home / "xdg" / "breakeven"
    monkeypatch.setenv(own, "")
    assert ask() == home / "xdg" / "breakeven"
    monkeypatch.setenv(own, "~/prices")
    assert ask() == home / "prices"


@pytest.mark.parametrize(("ask", "own", "xdg", "usual"), ASKED)
def test_macos_has_one_place(ask: Ask, own: str, xdg: str, usual: str, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "darwin")
    assert ask() == home / "Library" / "Application Support" / "breakeven"


def test_nothing_is_created_by_asking(home: Path) -> None:
    assert [ask() for ask, *_ in ASKED]
    assert list(home.iterdir()) == []
