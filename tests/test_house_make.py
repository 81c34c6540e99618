"""`make` sets up once, says in one line what is wrong, and never takes an interrupted set-up for a whole one."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from repository import ROOT

MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
# A Python that suits, but only writes down what it is asked and makes an environment whose Python is itself.
STAND_IN = """#!/bin/sh
case "$*" in
"-c import"*) exit 0 ;;
--version) echo "Python 3.11.0"; exit 0 ;;
"-m venv"*) for last in "$@"; do :; done; rm -rf "$last"; mkdir -p "$last/bin"; cp "$0" "$last/bin/python" ;;
*) [ -e {place}/no-network ] && exit 1 ;;
esac
echo "$*" >> {place}/calls
"""


def programs(place: Path, **scripts: str) -> dict[str, str]:
    """An environment whose PATH holds the standard tools and these scripts, and no other Python."""
    folder = place / "programs"
    folder.mkdir()
    for name in ("sh", "dirname", "rm", "mkdir", "cp", "touch", "cat", "echo", "awk", "env", "make"):
        (folder / name).symlink_to(shutil.which(name) or pytest.fail(f"{name} is missing"))
    for name, text in scripts.items():
        (folder / name.replace("_", ".")).write_text(text, encoding="utf-8")
        (folder / name.replace("_", ".")).chmod(0o755)
    return {"PATH": str(folder), "HOME": str(place)}


def make(place: Path, env: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["make", "--no-print-directory", *words], cwd=place, env=env, capture_output=True, text=True, check=False)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    place = tmp_path / "checkout"
    shutil.copytree(ROOT / ".ci", place / ".ci")
    for name in ("Makefile", "pyproject.toml", "requirements.lock", "extras.lock"):
        shutil.copy(ROOT / name, place)
    return place


def calls(place: Path) -> list[str]:
    written = place / "calls"
    return written.read_text().splitlines() if written.exists() else []


def test_setting_up_happens_once(checkout: Path, tmp_path: Path) -> None:
    env = programs(tmp_path, python3_14=STAND_IN.format(place=tmp_path))
    first = make(checkout, env, ".venv/.ready")
    assert first.returncode == 0, first.stderr
    assert first.stdout.count("\n") == 1
    assert "Setting up .venv with Python 3.11.0" in first.stdout
    installs = [line for line in calls(tmp_path) if "pip install" in line]
    assert [("--require-hashes" in line, "--editable" in line, "--no-build-isolation" in line) for line in installs] == [
        (True, False, False),
        (False, True, True),
    ]
    assert "up to date" in make(checkout, env, ".venv/.ready").stdout
    assert len(calls(tmp_path)) == 3


def test_the_extras_are_added_only_when_asked_for(checkout: Path, tmp_path: Path) -> None:
    env = programs(tmp_path, python3=STAND_IN.format(place=tmp_path))
    assert make(checkout, env, "format").returncode != 0  # the stand-in has no ruff: what matters is what was installed before
    assert not [line for line in calls(tmp_path) if "extras.lock" in line]
    make(checkout, env, "format", "EXTRAS=yes")
    assert [line.split(" -r ")[1] for line in calls(tmp_path) if " -r " in line] == ["requirements.lock", "extras.lock"]
    assert "--require-hashes" in calls(tmp_path)[-1]
    later = (checkout / ".venv" / ".ready-extras").stat().st_mtime + 10
    os.utime(checkout / "requirements.lock", (later, later))
    make(checkout, env, "format", "EXTRAS=yes")
    assert [line.split(" -r ")[1] for line in calls(tmp_path) if " -r " in line] == ["requirements.lock", "extras.lock"] * 2


@pytest.mark.parametrize("changed", ["requirements.lock", "pyproject.toml"])
def test_a_changed_lock_sets_up_again(checkout: Path, tmp_path: Path, changed: str) -> None:
    env = programs(tmp_path, python3=STAND_IN.format(place=tmp_path))
    make(checkout, env, ".venv/.ready")
    later = (checkout / ".venv" / ".ready").stat().st_mtime + 10
    os.utime(checkout / changed, (later, later))
    assert make(checkout, env, ".venv/.ready").returncode == 0
    assert len(calls(tmp_path)) == 6


def test_an_interrupted_set_up_is_done_again(checkout: Path, tmp_path: Path) -> None:
    env = programs(tmp_path, python3=STAND_IN.format(place=tmp_path))
    assert make(checkout, env, ".venv/.ready").returncode == 0
    later = (checkout / ".venv" / ".ready").stat().st_mtime + 10
    os.utime(checkout / "requirements.lock", (later, later))
    (tmp_path / "no-network").touch()
    assert make(checkout, env, ".venv/.ready").returncode != 0
    assert not (checkout / ".venv" / ".ready").exists()
    (tmp_path / "no-network").unlink()
    os.utime(checkout / "requirements.lock", (1, 1))
    assert make(checkout, env, ".venv/.ready").returncode == 0
    assert (checkout / ".venv" / ".ready").exists()


OLD = "#!/bin/sh\nexit 1\n"
WITHOUT_VENV = '#!/bin/sh\ncase "$*" in *ensurepip*) exit 1 ;; esac\nexit 0\n'
SUITS = "#!/bin/sh\nexit 0\n"


@pytest.mark.parametrize(
    ("found", "asked", "said"),
    [
        ({}, "", "no Python 3.11 or newer found: install one"),
        ({"python3": OLD}, "", "no Python 3.11 or newer found: install one"),
        ({"python3": OLD}, "python3", "PYTHON=python3 is no Python 3.11 or newer"),
        ({"python3": SUITS}, "python9", "PYTHON=python9 is no Python 3.11 or newer"),
        ({"python3": WITHOUT_VENV}, "", "python3 cannot make a virtual environment: install its venv module"),
    ],
)
def test_a_missing_python_is_one_clear_line(checkout: Path, tmp_path: Path, found: dict[str, str], asked: str, said: str) -> None:
    done = make(checkout, programs(tmp_path, **found), "run", f"PYTHON={asked}")
    assert done.returncode != 0
    ours = [line for line in (done.stdout + done.stderr).splitlines() if not line.startswith("make: ***")]
    assert len(ours) == 1
    assert said in ours[0]


@pytest.mark.parametrize(
    ("found", "chosen"),
    [
        ({"python3_14": SUITS, "python3_11": SUITS, "python3": SUITS}, "python3.14"),
        ({"python3_13": OLD, "python3_12": WITHOUT_VENV, "python3_11": SUITS, "python3": SUITS}, "python3.11"),
        ({"python3_14": OLD, "python3": SUITS}, "python3"),
    ],
)
def test_the_newest_python_that_works_is_taken(checkout: Path, tmp_path: Path, found: dict[str, str], chosen: str) -> None:
    done = subprocess.run([".ci/python"], cwd=checkout, env=programs(tmp_path, **found), capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == (f"{chosen}\n", "")


def targets(makefile: str) -> set[str]:
    (phony,) = re.findall(r"^\.PHONY: (.*)$", makefile, re.M)
    return set(phony.split())


def test_help_is_the_default_and_lists_every_target(checkout: Path, tmp_path: Path) -> None:
    said = make(checkout, programs(tmp_path))
    assert said.returncode == 0, said.stderr
    assert set(re.findall(r"^  make (\w+) +\S", said.stdout, re.M)) == targets(MAKEFILE)
    assert {"run", "test", "check", "format", "lock", "bench", "clean"} <= targets(MAKEFILE)


def too_new(makefile: str) -> list[str]:
    """What GNU make 3.81 (the one of macOS) does not know or reads in another way."""
    later = re.compile(r"^\.ONESHELL|\$\(file |\$\(guile |^[A-Za-z_.]+ *(!=|::=|:::=)|^\.RECIPEPREFIX|&:|\$\(intcmp |\$\(let ")
    return [line for line in makefile.splitlines() if later.search(line)]


def test_the_makefile_is_readable_for_make_3_81() -> None:
    assert too_new(MAKEFILE) == []


@pytest.mark.parametrize("line", [".ONESHELL:", "X != date", "X ::= 1", "a b &: c", "$(file >x,y)"])
def test_a_newer_construct_is_seen(line: str) -> None:
    assert too_new(line) == [line]


def test_the_chosen_python_runs_these_tests() -> None:
    """The stand-ins above answer as a real interpreter does."""
    done = subprocess.run(
        [ROOT / ".ci" / "python"], env={**os.environ, "PYTHON": sys.executable}, capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == sys.executable
