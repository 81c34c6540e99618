"""The wheel carries config/; an editable install reads the checkout's and leaves no copy. Built and installed for real, offline."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest
from repository import copy_to, files

pytestmark = pytest.mark.packaging

TRACKED = "tracker.toml"  # the shipped file that is edited after the install
PRINT_CONFIG = f"from tracker.paths import config_dir; print(config_dir()); print((config_dir() / '{TRACKED}').read_text())"


def run(command: list[str | Path], **where: Path) -> str:
    """Output of a command that must succeed."""
    quiet = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PYTHONWARNINGS": "", "PYTHONPATH": ""}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=quiet, **where)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


class Environment:
    """A fresh virtual environment that sees this one's packages, but not this one's editable install."""

    def __init__(self, place: Path) -> None:
        run([sys.executable, "-m", "venv", "--without-pip", place])
        self.python = place / "bin" / "python"
        self.site = Path(run([self.python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]).strip())
        (self.site / "packages_of_the_lock.pth").write_text(sysconfig.get_path("purelib") + "\n")  # a path, whose own .pth are not read

    def install(self, *what: str | Path) -> None:
        run(
            [
                sys.executable,
                "-m",
                "pip",
                "--python",
                self.python,
                "install",
                "-qq",
                "--no-index",
                "--no-deps",
                "--no-build-isolation",
                *what,
            ]
        )

    def shipped_config(self, elsewhere: Path) -> tuple[Path, str]:
        """(directory, text of the shipped file) as the installed program finds them, started in another directory."""
        where, text = run([self.python, "-c", PRINT_CONFIG], cwd=elsewhere).split("\n", 1)
        return Path(where), text

    def copies_of_config(self) -> list[str]:
        """Files below site-packages that are named like one of config/."""
        names = {Path(name).name for name in files() if name.startswith("config/")}
        ours = [path for path in self.site.rglob("*") if "breakeven" in str(path) or "tracker" in path.parts or "config" in path.parts]
        return sorted(str(path.relative_to(self.site)) for path in ours if path.name in names)


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_to(tmp_path_factory.mktemp("checkout"))


@pytest.fixture(scope="module")
def wheel(checkout: Path) -> Path:
    run([sys.executable, "-m", "hatchling", "build", "-t", "wheel"], cwd=checkout)
    (built,) = (checkout / "dist").glob("*.whl")
    return built


def names_in(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_the_wheel_holds_the_rooms_and_all_of_config(wheel: Path) -> None:
    wanted = {
        name.replace("config/", "tracker/_config/", 1)
        for name in files()
        if name.startswith(("engine/", "scrapers/", "tracker/", "config/"))
    }
    held = {name for name in names_in(wheel) if ".dist-info/" not in name}
    assert held == wanted
    assert f"tracker/_config/{TRACKED}" in held


def test_the_wheel_carries_licence_notice_and_command(wheel: Path) -> None:
    extra = {name.split(".dist-info/")[1] for name in names_in(wheel) if ".dist-info/" in name}
    assert {"licenses/LICENSE", "licenses/NOTICE", "entry_points.txt"} <= extra
    with zipfile.ZipFile(wheel) as archive:
        (metadata,) = (archive.read(name).decode() for name in archive.namelist() if name.endswith("entry_points.txt"))
    assert "breakeven = tracker.cli:main" in metadata


def test_the_source_distribution_builds_the_same_wheel(checkout: Path, wheel: Path, tmp_path: Path) -> None:
    run([sys.executable, "-m", "hatchling", "build", "-t", "sdist"], cwd=checkout)
    (source,) = (checkout / "dist").glob("*.tar.gz")
    run(["tar", "-xzf", source, "-C", tmp_path])
    (unpacked,) = tmp_path.iterdir()
    run([sys.executable, "-m", "hatchling", "build", "-t", "wheel"], cwd=unpacked)
    (built,) = (unpacked / "dist").glob("*.whl")
    assert names_in(built) == names_in(wheel)


def test_an_installed_wheel_reads_its_own_config(checkout: Path, wheel: Path, tmp_path: Path) -> None:
    installed = Environment(tmp_path / "venv")
    installed.install(wheel)
    where, text = installed.shipped_config(tmp_path)
    assert where == (installed.site / "tracker" / "_config").resolve()
    assert text.strip() == (checkout / "config" / TRACKED).read_text(encoding="utf-8").strip()


def test_an_editable_install_reads_the_checkout_after_an_edit(tmp_path: Path) -> None:
    checkout = copy_to(tmp_path / "checkout")
    installed = Environment(tmp_path / "venv")
    installed.install("--editable", checkout)
    edited = checkout / "config" / TRACKED
    edited.write_text(edited.read_text(encoding="utf-8") + "# edited after the install\n", encoding="utf-8")
    where, text = installed.shipped_config(tmp_path)
    assert where == (checkout / "config").resolve()
    assert "# edited after the install" in text
    assert installed.copies_of_config() == []


def test_a_copy_in_site_packages_would_be_seen(tmp_path: Path) -> None:
    """force-include is the way that leaves one: the check above must notice it."""
    checkout = copy_to(tmp_path / "checkout")
    settings = checkout / "pyproject.toml"
    before = settings.read_text(encoding="utf-8")
    forced = before.replace("[tool.hatch.build.targets.wheel.sources]\n", "[tool.hatch.build.targets.wheel.force-include]\n")
    assert forced != before
    settings.write_text(forced, encoding="utf-8")
    installed = Environment(tmp_path / "venv")
    installed.install("--editable", checkout)
    assert f"tracker/_config/{TRACKED}" in installed.copies_of_config()
