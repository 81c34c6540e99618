"""The change that CONTRIBUTING.md shows for a new source applies to this repository as it stands, and passes what it must."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from repository import ROOT, copy_to

TESTS = ("tests/test_scrapers_recorded.py", "tests/test_config_sources.py")


def shown_diff() -> str:
    """The diff of CONTRIBUTING.md."""
    (diff,) = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").split("```diff\n")[1:]
    return diff.partition("```")[0]


def run(where: Path, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """A command in a copy of the repository, which is what it imports."""
    env = os.environ | {"PYTHONPATH": str(where), "GIT_CEILING_DIRECTORIES": str(where.parent)}
    return subprocess.run(words, cwd=where, input=stdin, capture_output=True, text=True, check=False, env=env)


def checks(where: Path) -> list[subprocess.CompletedProcess[str]]:
    """Format, lint, and the tests of sources that speak of the new one."""
    ruff = str(Path(sys.executable).parent / "ruff")
    chosen = ("-k", "northwind or readme_lists or every_scraper or outlast", "-p", "no:cacheprovider", "-q")
    return [
        run(where, ruff, "format", "--check", "--no-cache", "scrapers/northwind.py"),
        run(where, ruff, "check", "--no-cache", "scrapers/northwind.py"),
        run(where, sys.executable, "-m", "pytest", *chosen, *TESTS),
    ]


@pytest.mark.packaging
def test_the_shown_change_applies_and_passes(tmp_path: Path) -> None:
    where = copy_to(tmp_path / "copy")
    applied = run(where, "git", "apply", "-", stdin=shown_diff())
    assert applied.returncode == 0, applied.stderr
    done = checks(where)
    assert [check.returncode for check in done] == [0, 0, 0], "".join(check.stdout for check in done)
    passed = int(done[2].stdout.split(" passed")[0].split()[-1])
    assert passed >= 5 + 5 + 2  # its five cases twice, the usual cases, and its names


@pytest.mark.packaging
def test_a_wrong_change_is_found(tmp_path: Path) -> None:
    """A price of another unit than its recording states."""
    where = copy_to(tmp_path / "copy")
    wrong = shown_diff().replace('+        per="gpu_hour",', '+        per="node_hour",')
    assert wrong != shown_diff()
    assert run(where, "git", "apply", "-", stdin=wrong).returncode == 0
    assert checks(where)[2].returncode == 1


def test_a_change_that_no_longer_fits_is_found(tmp_path: Path) -> None:
    where = copy_to(tmp_path / "copy")
    readme = where / "README.md"
    readme.write_text(readme.read_text(encoding="utf-8").replace("| `hyperstack` |", "| `other` |"), encoding="utf-8")
    assert run(where, "git", "apply", "-", stdin=shown_diff()).returncode != 0
