"""The checks themselves: linter and import contracts refuse what they are there to refuse, and pass what is fine."""

from __future__ import annotations

import ast
import functools
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
BIN = Path(sys.executable).parent
ROOMS = ("engine", "scrapers", "tracker")
SETTINGS: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
CONTRACTS: dict[str, dict[str, Any]] = {contract["id"]: contract for contract in SETTINGS["tool"]["importlinter"]["contracts"]}
# What arithmetic needs of the standard library; everything else is out, also what no contract has thought of.
ENGINE_MAY_IMPORT = {
    *("__future__", "abc", "bisect", "collections", "dataclasses", "datetime", "decimal", "enum", "fractions", "functools", "heapq"),
    *("itertools", "math", "operator", "re", "statistics", "types", "typing", "engine"),
}


# --- ruff ---------------------------------------------------------------------------------------------------------------


def lint(code: str, as_file: str) -> set[str]:
    """Rules that ruff, with our settings, sees broken by the code at that place."""
    done = subprocess.run(
        [BIN / "ruff", "check", "--quiet", "--no-cache", "--output-format=concise", "--stdin-filename", as_file, "-"],
        cwd=ROOT,
        input=code,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr
    return set(re.findall(r": ([A-Z]+\d+)", done.stdout))


CLOCK_READS = [
    "from datetime import UTC, datetime\n\nNOW = datetime.now(UTC)\n",
    "import datetime\n\nNOW = datetime.datetime.now(datetime.UTC)\n",
    "import datetime as dt\n\nNOW = dt.datetime.utcnow()\n",
    "from datetime import datetime\n\nNOW = datetime.today()\n",
    "from datetime import date\n\nNOW = date.today()\n",
    "import time\n\nNOW = time.time()\n",
    "from time import time_ns\n\nNOW = time_ns()\n",
    "import time\n\nNOW = time.gmtime()\n",
    "import time\n\nNOW = time.localtime()\n",
]


@pytest.mark.parametrize("room", ["engine", "scrapers"])
@pytest.mark.parametrize("code", CLOCK_READS)
def test_the_clock_is_out_of_engine_and_scrapers(code: str, room: str) -> None:
    assert "TID251" in lint(code, f"{room}/prices.py")


def test_a_time_that_is_handed_in_passes() -> None:
    code = (
        "from datetime import datetime, timedelta\n\n\ndef age(now: datetime, seen_at: datetime) -> timedelta:\n    return now - seen_at\n"
    )
    assert lint(code, "engine/prices.py") == set()


def test_the_composition_root_may_read_the_clock() -> None:
    assert lint("from datetime import UTC, datetime\n\nNOW = datetime.now(UTC)\n", "tracker/service/daemon.py") == set()


@pytest.mark.parametrize(
    ("rule", "code"),
    [
        ("BLE001", "try:\n    x = 1\nexcept Exception:\n    x = 2\n"),
        ("E722", "try:\n    x = 1\nexcept:\n    x = 2\n"),
        ("DTZ001", "from datetime import datetime\n\nX = datetime(2026, 11, 29)\n"),
        ("S113", 'import httpx\n\nX = httpx.get("http://127.0.0.1", timeout=None)\n'),
        ("PGH003", "x: int = 1  # type: ignore\n"),
        ("TID252", "from .units import GB\n\nX = GB\n"),
        ("FIX002", "x = 1  # TO" + "DO later\n"),
        ("B006", "def f(x: list[int] = []) -> list[int]:\n    return x\n"),
        ("C901", "def f(x: int) -> int:\n" + "".join(f"    if x == {n}:\n        return {n}\n" for n in range(13)) + "    return x\n"),
    ],
)
def test_the_linter_refuses(rule: str, code: str) -> None:
    assert rule in lint(code, "tracker/prices.py")


def suppressions(code: str) -> list[str]:
    """Lint exceptions without a reason on the same line."""
    exception = re.compile(r"# (?:noqa|type: ignore)(?:: ?[A-Z0-9, ]+|\[[a-z, -]+\])?(?P<rest>.*)")
    found = [(line.strip(), match["rest"].strip(" #-:")) for line in code.splitlines() if (match := exception.search(line))]
    return [line for line, reason in found if len(reason.split()) < 2]


def test_no_lint_exception_without_a_reason() -> None:
    assert [line for room in ROOMS for path in (ROOT / room).rglob("*.py") for line in suppressions(path.read_text(encoding="utf-8"))] == []


def test_a_lint_exception_without_a_reason_is_seen() -> None:
    assert suppressions("x = f()  # noqa: BLE001\n") == ["x = f()  # noqa: BLE001"]
    assert suppressions("x = f()  # type: ignore[attr-defined]\n") == ["x = f()  # type: ignore[attr-defined]"]
    assert suppressions("x = f()  # noqa: BLE001 -- a job must not end the daemon\n") == []
    assert suppressions("x = f()  # type: ignore[attr-defined]  # carries no types\n") == []


# --- imports ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The three packages and their contracts, to be broken."""
    place = tmp_path_factory.mktemp("rooms")
    for room in ROOMS:
        shutil.copytree(ROOT / room, place / room, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", place)
    return place


def broken_contracts(place: Path) -> str:
    """What lint-imports says about the copy; empty when every contract is kept."""
    done = subprocess.run(
        [BIN / "lint-imports", "--no-cache"], cwd=place, capture_output=True, text=True, check=False, env={"PYTHONPATH": "."}
    )
    assert done.returncode in (0, 1), done.stderr
    assert "Contracts:" in done.stdout, done.stdout + done.stderr
    return "" if done.returncode == 0 else done.stdout.split("Broken contracts", 1)[1]


def breaking(copy: Path, name: str, imports: list[str]) -> str:
    path = copy / name
    path.write_text("".join(f"import {module}\n" for module in imports), encoding="utf-8")
    try:
        return broken_contracts(copy)
    finally:
        path.unlink()


def test_the_contracts_are_kept(copy: Path) -> None:
    assert broken_contracts(copy) == ""


@pytest.mark.parametrize("contract", ["engine-pure", "scrapers-translate"])
def test_every_forbidden_import_breaks_the_contract(copy: Path, contract: str) -> None:
    room = CONTRACTS[contract]["source_modules"][0]
    forbidden = CONTRACTS[contract]["forbidden_modules"]
    said = breaking(copy, f"{room}/intruder.py", forbidden)
    assert CONTRACTS[contract]["name"].split(":")[0] in said.replace("\n", " ")
    assert [module for module in forbidden if f"{room}.intruder -> {module} " not in said] == []


@pytest.mark.parametrize("contract", [name for name in CONTRACTS if name not in ("rooms", "engine-pure", "scrapers-translate")])
def test_no_room_of_tracker_imports_what_stands_on_it(copy: Path, contract: str) -> None:
    for module in CONTRACTS[contract]["source_modules"]:
        forbidden = CONTRACTS[contract]["forbidden_modules"]
        said = breaking(copy, f"{module.replace('.', '/')}/intruder.py", forbidden)
        assert CONTRACTS[contract]["name"] in " ".join(said.split())
        assert [above for above in forbidden if f"{module}.intruder -> {above} " not in said] == []


@pytest.mark.parametrize(
    ("lower", "upper"), [("engine", "tracker"), ("scrapers", "tracker"), ("engine", "scrapers"), ("scrapers", "engine")]
)
def test_the_direction_is_kept(copy: Path, lower: str, upper: str) -> None:
    said = breaking(copy, f"{lower}/intruder.py", [upper])
    assert f"{lower}.intruder -> {upper} " in said
    assert "tracker is above engine and scrapers" in said


# The HTTP client in the room of scrapers: (module, what it alone may import).
CLIENT = {tuple(line.split(" -> ")) for line in CONTRACTS["scrapers-translate"]["ignore_imports"]}


def test_only_the_modules_of_the_client_reach_the_network(copy: Path) -> None:
    assert "scrapers.intruder -> httpx " in breaking(copy, "scrapers/intruder.py", ["httpx"])
    assert {module for module, _ in CLIENT} == {"scrapers.http", "scrapers.exchange", "scrapers.wire", "scrapers.pace"}
    assert {module for module, what in CLIENT if what == "socket"} == {"scrapers.wire"}
    assert {what for _, what in CLIENT} & {"os", "pathlib", "random", "subprocess", "sqlalchemy"} == set()


def import_names(requirements: list[str]) -> set[str]:
    """Top-level packages that the distributions of these requirements install."""
    wanted = {re.split(r"[\[<>=!~; ]", text, maxsplit=1)[0].lower() for text in requirements}
    installed = packages_distributions()
    return {name for name, owners in installed.items() if wanted & {owner.lower().replace("_", "-") for owner in owners} and name[0] != "_"}


def test_every_dependency_is_forbidden_to_engine_and_all_but_the_parser_to_scrapers() -> None:
    assert {"httpx", "bs4", "currency_converter", "psycopg"} <= declared()
    everything = declared() | heavy()
    assert everything - set(CONTRACTS["engine-pure"]["forbidden_modules"]) == set()
    assert everything - set(CONTRACTS["scrapers-translate"]["forbidden_modules"]) == {"bs4"}


SOURCE_MAY_IMPORT = {
    *("__future__", "ast", "base64", "codecs", "collections", "csv", "dataclasses", "datetime", "decimal", "enum", "functools", "gzip"),
    *("html", "io", "itertools", "json", "math", "re", "string", "types", "typing", "unicodedata", "urllib.parse", "xml.etree"),
    *("zipfile", "bs4", "scrapers"),
}


def modules(code: str) -> set[str]:
    """Full names of the modules that the code imports (``from a import b`` counts as a, and as a.b below our own packages)."""
    found = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module in ROOMS:
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module or "")
    return found


def beyond_translation(code: str) -> set[str]:
    """Imports of a source (a module with ``parse``) that saying what a page says does not need."""
    functions = {node.name for node in ast.parse(code).body if isinstance(node, ast.FunctionDef)}
    if "parse" not in functions:
        return set()
    wanted = modules(code)
    return {
        module
        for module in wanted
        if module in {by for by, _ in CLIENT} or not any(f"{module}.".startswith(f"{name}.") for name in SOURCE_MAY_IMPORT)
    }


def test_a_source_only_translates() -> None:
    texts = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "scrapers").rglob("*.py")}
    assert {name: found for name, text in texts.items() if (found := beyond_translation(text))} == {}


def test_a_source_that_does_more_is_seen() -> None:
    parse = "\n\ndef parse(pages):\n    yield from ()\n"
    assert beyond_translation("import urllib.request" + parse) == {"urllib.request"}
    assert beyond_translation("from scrapers import wire" + parse) == {"scrapers.wire"}
    assert beyond_translation("from engine import units" + parse) == {"engine.units"}
    assert beyond_translation("from scrapers.http import Client" + parse) == {"scrapers.http"}
    assert beyond_translation("import random\nimport collections.abc\nfrom scrapers.contract import Row" + parse) == {"random"}
    assert beyond_translation("import socket\n") == set()


LOADED_BY_NAME = {"psycopg", "currency_converter"}  # by SQLAlchemy from the database URL; by tracker.book.exchange, which reads its data


@functools.cache
def declared() -> set[str]:
    """Import names of the dependencies that pyproject.toml names."""
    project = SETTINGS["project"]
    return import_names([*project["dependencies"], *project["optional-dependencies"]["postgres"]])


def heavy() -> set[str]:
    """Import names of the heavy extras, installed or not: all but one are imported by the name of their distribution."""
    extras = SETTINGS["project"]["optional-dependencies"]
    names = {re.split(r"[\[<>=!~; ]", text, maxsplit=1)[0] for name, texts in extras.items() if name != "postgres" for text in texts}
    return {{"pillow": "PIL"}.get(name, name) for name in names}


NEWER = {"compression"}  # of Python's own library since 3.14, imported behind a look at the version


def undeclared(code: str) -> set[str]:
    """Third-party packages that the code imports and pyproject.toml does not name itself."""
    return set(imported(code)) - declared() - heavy() - set(sys.stdlib_module_names) - NEWER - set(ROOMS)


def test_every_package_we_import_is_declared() -> None:
    texts = {path: path.read_text(encoding="utf-8") for room in ROOMS for path in (ROOT / room).rglob("*.py")}
    assert {path.name: found for path, text in texts.items() if (found := undeclared(text))} == {}


def test_every_dependency_is_imported() -> None:
    used = {name for room in ROOMS for path in (ROOT / room).rglob("*.py") for name in imported(path.read_text(encoding="utf-8"))}
    assert declared() - used - LOADED_BY_NAME == set()


def test_a_package_that_comes_with_another_is_undeclared() -> None:
    assert undeclared("import anyio\nimport httpx\nimport json\nfrom engine import units\n") == {"anyio"}


def imported(code: str) -> Iterator[str]:
    """Top-level names of all imports in the code, those inside functions too."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield (node.module or "").split(".")[0]


def impure(code: str) -> set[str]:
    """Imports and built-in calls that arithmetic has no use for."""
    calls = {node.func.id for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    return (set(imported(code)) - ENGINE_MAY_IMPORT) | (calls & {"open", "print", "input", "eval", "exec", "__import__", "breakpoint"})


def test_engine_uses_nothing_but_arithmetic() -> None:
    files = sorted((ROOT / "engine").rglob("*.py"))
    assert len(files) > 1
    assert {path.name: found for path in files if (found := impure(path.read_text(encoding="utf-8")))} == {}


def test_anything_else_in_engine_is_seen() -> None:
    assert impure("import mmap\nfrom os.path import join\n\ndef f(x):\n    import csv\n    print(open(x))\n") == {
        "mmap",
        "os",
        "csv",
        "print",
        "open",
    }


# --- types --------------------------------------------------------------------------------------------------------------


def test_types_are_checked_strictly_in_all_rooms() -> None:
    settings = SETTINGS["tool"]["mypy"]
    assert settings["strict"] is True
    assert settings["packages"] == list(ROOMS)
    loosened = [key for override in settings["overrides"] for key in override if key not in {"module", "ignore_missing_imports"}]
    assert loosened == []


def test_warnings_are_errors_and_markers_are_declared() -> None:
    settings = SETTINGS["tool"]["pytest"]["ini_options"]
    assert settings["filterwarnings"][0] == "error"
    assert {"--strict-markers", "--strict-config"} <= set(settings["addopts"])
