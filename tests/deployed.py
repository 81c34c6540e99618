"""The files of deploy/ for tests: read, and rewritten so that real servers can load them on ports and in directories of a test."""

from __future__ import annotations

import importlib
import os
import re
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from repository import ROOT

DEPLOY = ROOT / "deploy"
PROMETHEUS = DEPLOY / "prometheus"
ALERTMANAGER = DEPLOY / "alertmanager" / "alertmanager.yml"
RULES = sorted((PROMETHEUS / "rules").glob("*.yml"))

# Days become seconds, so that a test sees an alert fire and resolve. A duration or limit that is not here is an error.
WAITS = {"5m": "1s", "1h": "1s", "2h": "1s"}  # for:
KEPT = {"30m": "6s", "1h": "2s"}  # keep_firing_for:
WINDOWS = {"[1h]": "[8s]", "[1d]": "[12s]", "[1d] offset 7d": "[6s] offset 6s"}
LIMITS = {"> 600": "> 4", "> 1800": "> 4", "> 3 * 3600": "> 20", "> 10e9": "> 24e6"}  # seconds, and bytes, in an expression
ROUTING = {"30s": "200ms", "5m": "200ms", "2h": "1h", "12h": "1h", "4d": "1h"}  # Alertmanager's waits and repeats


def module(name: str) -> ModuleType:
    """A module that only checks of deploy/ need; skips without it, and fails where BREAKEVEN_REQUIRE_REAL is 1 (CI)."""
    try:
        return importlib.import_module(name)
    except ImportError:
        if os.environ.get("BREAKEVEN_REQUIRE_REAL") == "1":
            pytest.fail(f"{name} is not installed, and BREAKEVEN_REQUIRE_REAL=1 asks for it")
        pytest.skip(f"needs the Python package {name}")


def program(name: str, require: Callable[[str], Path]) -> Path:
    """A program beside this Python (a package of PyPI brought it), else one of the system."""
    beside = Path(sys.executable).parent / name
    return beside if beside.exists() else require(name)


def documents(path: Path) -> list[Any]:
    """What a YAML file holds."""
    return list(module("yaml").safe_load_all(path.read_text(encoding="utf-8")))


def document(path: Path) -> Any:
    """The one document of a YAML file."""
    (found,) = documents(path)
    return found


def alert_names() -> set[str]:
    """Every alert that is shipped. The names stand at the beginnings of lines, so no YAML parser is needed."""
    return _named("alert")


def record_names() -> set[str]:
    """Every series that is recorded."""
    return _named("record")


def _named(kind: str) -> set[str]:
    return {name for path in RULES for name in re.findall(rf"^ +- {kind}: ([\w:]+)$", path.read_text(encoding="utf-8"), re.M)}


def place_prometheus(home: Path, hosts: Mapping[str, str], *, hurried: bool) -> Path:
    """deploy/prometheus in ``home`` with other addresses and a scrape a second; returns the configuration to start with.

    ``hurried`` also scales the rules by WAITS, KEPT, WINDOWS and LIMITS; else the rules are those of the repository.
    """
    shutil.copytree(PROMETHEUS, home, dirs_exist_ok=True)
    config = home / "prometheus.yml"
    text = _replaced(config.read_text(encoding="utf-8"), {**hosts, "_interval: 1m": "_interval: 1s", "_timeout: 10s": "_timeout: 1s"})
    config.write_text(text, encoding="utf-8")
    for path in (home / "rules").glob("*.yml") if hurried else ():
        path.write_text(hurried_rules(path.read_text(encoding="utf-8")), encoding="utf-8")
    return config


def hurried_rules(text: str) -> str:
    """Rules whose days are seconds."""
    text = re.sub(r"(?<= for: )(\w+)", lambda found: WAITS[found[1]], text)
    text = re.sub(r"(?<= keep_firing_for: )(\w+)", lambda found: KEPT[found[1]], text)
    text = re.sub(r"\[\d+[smhdw]\](?: offset \d+[smhdw])?", lambda found: WINDOWS[found[0]], text)
    text = re.sub(r"> \d+(?:e\d+)?(?: \* \d+)?(?=$)", lambda found: LIMITS[found[0]] if found[0] != "> 0" else found[0], text, flags=re.M)
    return text


def place_alertmanager(home: Path, hook: str) -> Path:
    """alertmanager.yml in ``home``: hurried, and every receiver posts to ``hook``/<receiver>."""
    home.mkdir(parents=True, exist_ok=True)
    text = ALERTMANAGER.read_text(encoding="utf-8")
    text = re.sub(r"(_(?:wait|interval): )(\w+)", lambda found: found[1] + ROUTING[found[2]], text)
    text = re.sub(r"^  - name: (\S+)$", rf"  - name: \1\n    webhook_configs: [{{url: {hook}/\1}}]", text, flags=re.M)
    (home / "alertmanager.yml").write_text(text, encoding="utf-8")
    return home / "alertmanager.yml"


def _replaced(text: str, pairs: Mapping[str, str]) -> str:
    """``text`` with every key replaced; a key that is not there is an error."""
    for old, new in pairs.items():
        if old not in text:
            raise AssertionError(f"{old!r} is not in the file any more")
        text = text.replace(old, new)
    return text
