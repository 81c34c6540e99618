"""The locks: whole for every Python from 3.11.0 on, Linux and macOS, every file hashed, no address of an index."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import pytest
from extras import extra
from packaging.markers import Marker, default_environment
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[1]
SETTINGS: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
LOCK = (ROOT / "requirements.lock").read_text(encoding="utf-8")
EXTRAS = (ROOT / "extras.lock").read_text(encoding="utf-8")  # what the heavy extras add
OPTIONAL: Mapping[str, list[str]] = SETTINGS["project"]["optional-dependencies"]
LIGHT = frozenset({"postgres"})  # extras that requirements.lock holds
PYTHONS = ("3.11.0", "3.11.2", "3.11.3", "3.11.4", "3.11.5", "3.11.15", "3.12.0", "3.12.12", "3.13.0", "3.13.11", "3.14.0", "3.14.2")
PLATFORMS = {
    "linux": {"sys_platform": "linux", "platform_system": "Linux", "os_name": "posix"},
    "darwin": {"sys_platform": "darwin", "platform_system": "Darwin", "os_name": "posix"},
}
MACHINES = {"linux": ("x86_64", "aarch64"), "darwin": ("x86_64", "arm64")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    name: str
    version: Version
    marker: Marker | None
    hashes: tuple[str, ...]


def pins(lock: str) -> list[Pin]:
    """The pinned packages of a lock; a line of any other kind is an error."""
    found = []
    for line in lock.replace("\\\n", " ").splitlines():
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        match = re.fullmatch(r"(?P<name>[A-Za-z0-9._-]+)==(?P<version>\S+)(?: ; (?P<marker>.*?))?(?P<hashes>(?:\s+--hash=\S+)*)\s*", line)
        if match is None:
            raise ValueError(f"expected name==version with hashes, found {line[:80]!r}")
        marker = Marker(match["marker"]) if match["marker"] else None
        hashes = tuple(match["hashes"].replace("--hash=", "").split())
        found.append(Pin(name=canonicalize_name(match["name"]), version=Version(match["version"]), marker=marker, hashes=hashes))
    return found


def environment(python: str, platform: str, machine: str) -> dict[str, str]:
    return {
        "python_version": ".".join(python.split(".")[:2]),
        "python_full_version": python,
        "implementation_name": "cpython",
        "implementation_version": python,
        "platform_python_implementation": "CPython",
        "platform_machine": machine,
        "platform_release": "",
        "platform_version": "",
        "extra": "",
        **PLATFORMS[platform],
    }


ENVIRONMENTS = [environment(python, platform, machine) for python in PYTHONS for platform in PLATFORMS for machine in MACHINES[platform]]


def roots(heavy: bool = False) -> list[str]:
    """What must be installable: the program, its light or all of its extras, its checks and its build backend."""
    project, groups = SETTINGS["project"], SETTINGS["dependency-groups"]
    extras = [text for name, texts in OPTIONAL.items() if heavy or name in LIGHT for text in texts]
    checks = [text for texts in groups.values() for text in texts if isinstance(text, str)]
    return [*project["dependencies"], *extras, *checks, *SETTINGS["build-system"]["requires"]]


Needs = tuple[Sequence[str], str]  # Requires-Dist lines and Requires-Python of one package
NEEDS_NOTHING: Needs = ([], "")


def needs_here(lock: str) -> dict[str, Needs]:
    """Needs of every pin by name==version. A pin whose marker is off here counts as needing nothing: pip and this test see
    it on the Pythons that it is for (CI runs on Debian's 3.11.2 too)."""
    here = {key: str(value) for key, value in default_environment().items()}
    found = {}
    for pin in pins(lock):
        if pin.marker is None or pin.marker.evaluate(here):
            installed = distribution(pin.name)
            found[f"{pin.name}=={installed.version}"] = (installed.requires or [], installed.metadata.get("Requires-Python", ""))
        else:
            found[f"{pin.name}=={pin.version}"] = NEEDS_NOTHING
    return found


def holes(lock: str, wanted: Iterable[str], env: dict[str, str], needs: Mapping[str, Needs]) -> list[str]:
    """What a resolver under ``env`` would miss in the lock, starting from ``wanted``; empty when the set is closed."""
    active: dict[str, Pin] = {}
    complaints = []
    for pin in pins(lock):
        if pin.marker is None or pin.marker.evaluate(env):
            if pin.name in active:
                complaints.append(f"{pin.name} is pinned twice")
            active[pin.name] = pin
    todo = [(need, "breakeven") for need in map(Requirement, wanted) if need.marker is None or need.marker.evaluate(env)]
    seen: set[tuple[str, str]] = set()
    while todo:
        requirement, by = todo.pop()
        name = canonicalize_name(requirement.name)
        if name not in active:
            complaints.append(f"{by} needs {requirement}: not in the lock")
            continue
        if not requirement.specifier.contains(active[name].version, prereleases=True):
            complaints.append(f"{by} needs {requirement}: the lock has {active[name].version}")
        for option in ("", *requirement.extras):
            if (name, option) not in seen:
                seen.add((name, option))
                todo += [(need, name) for need in _needs(active[name], option, env, needs, complaints)]
    return complaints


def _needs(pin: Pin, extra: str, env: dict[str, str], needs: Mapping[str, Needs], complaints: list[str]) -> list[Requirement]:
    """Requirements that ``pin[extra]`` adds under ``env``."""
    known = needs.get(f"{pin.name}=={pin.version}")
    if known is None:
        complaints.append(f"{pin.name}: the requirements of {pin.version} are unknown")
        return []
    lines, python = known
    if not SpecifierSet(python).contains(env["python_full_version"]):
        complaints.append(f"{pin.name} needs Python {python}")
    found = [Requirement(line) for line in lines]
    return [need for need in found if need.marker is None or need.marker.evaluate({**env, "extra": extra})]


@pytest.fixture(scope="module")
def needs() -> Mapping[str, Needs]:
    return needs_here(LOCK)


def _id(env: dict[str, str]) -> str:
    return f"{env['python_full_version']}-{env['sys_platform']}-{env['platform_machine']}"


@pytest.fixture(scope="module")
def all_needs() -> Mapping[str, Needs]:
    for pin in pins(EXTRAS):
        extra(pin.name)
    return needs_here(LOCK + EXTRAS)


@pytest.mark.parametrize("env", ENVIRONMENTS, ids=_id)
def test_nothing_is_missing_from_the_lock(env: dict[str, str], needs: Mapping[str, Needs]) -> None:
    assert holes(LOCK, roots(), env, needs) == []


@pytest.mark.parametrize("env", ENVIRONMENTS, ids=_id)
def test_nothing_is_missing_from_both_locks(env: dict[str, str], all_needs: Mapping[str, Needs]) -> None:
    assert holes(LOCK + EXTRAS, roots(heavy=True), env, all_needs) == []


def test_the_extras_lock_only_adds() -> None:
    assert {pin.name for pin in pins(LOCK)} & {pin.name for pin in pins(EXTRAS)} == set()


def test_the_first_lock_is_no_larger_than_the_program_needs() -> None:
    """A heavy extra in it would be installed by every `make run`."""
    heavy = {canonicalize_name(Requirement(text).name) for name, texts in OPTIONAL.items() if name not in LIGHT for text in texts}
    assert heavy
    assert heavy & {pin.name for pin in pins(LOCK)} == set()


HASH = "    --hash=sha256:" + "0" * 64
SMALL_LOCK = f"web==2.0 \\\n{HASH}\nbackport==1.0 ; python_full_version < '3.11.3' \\\n{HASH}\n"
SMALL_NEEDS: dict[str, Needs] = {
    "web==2.0": (['backport>=1; python_full_version < "3.11.3"', 'wheel>=1; extra == "fast"'], ">=3.11"),
    "backport==1.0": ([], ">=3.8"),
    "future==1": ([], ">=3.12"),
}


@pytest.mark.parametrize(
    ("lock", "wanted", "python", "complaint"),
    [
        (SMALL_LOCK, ["web>=2"], "3.11.2", None),
        (SMALL_LOCK, ["web>=2"], "3.14.0", None),
        (SMALL_LOCK.replace("3.11.3", "3.11.2"), ["web>=2"], "3.11.2", "web needs backport>=1"),
        (SMALL_LOCK.split("backport")[0], ["web>=2"], "3.11.0", "web needs backport>=1"),
        (SMALL_LOCK, ["web[fast]>=2"], "3.12.0", "web needs wheel>=1"),
        (SMALL_LOCK, ["web>=3"], "3.12.0", "breakeven needs web>=3: the lock has 2.0"),
        (SMALL_LOCK + SMALL_LOCK, ["web>=2"], "3.12.0", "web is pinned twice"),
        (f"future==1 \\\n{HASH}\n", ["future"], "3.11.9", "future needs Python >=3.12"),
        (f"other==1 \\\n{HASH}\n", ["other"], "3.11.9", "other: the requirements of 1 are unknown"),
    ],
)
def test_a_hole_is_seen(lock: str, wanted: list[str], python: str, complaint: str | None) -> None:
    found = holes(lock, wanted, environment(python, "linux", "x86_64"), SMALL_NEEDS)
    assert len(found) == (complaint is not None)
    assert all(text.startswith(complaint or "-") for text in found)


def test_every_pin_carries_sha256_hashes() -> None:
    unhashed = [
        pin.name for pin in pins(LOCK + EXTRAS) if not pin.hashes or not all(re.fullmatch("sha256:[0-9a-f]{64}", h) for h in pin.hashes)
    ]
    assert unhashed == []
    assert len(pins(LOCK)) > 40


@pytest.mark.parametrize(
    "line",
    [
        "--index-url https://example.org/simple",
        "-e .",
        "web>=1",
        "web @ https://example.org/web.whl",
        "--find-links wheels",
        "web==1 --pre",
    ],
)
def test_an_address_or_a_loose_line_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match="expected name==version"):
        pins(line)


def test_no_address_stands_in_the_lock() -> None:
    assert re.findall(r"\w+://|file:|--\w*(?:index|links)", LOCK + EXTRAS) == []


@pytest.mark.parametrize("name", ["hatchling", "pytest", "mypy", "ruff", "psycopg-binary", "httpx", "sqlmodel", "apscheduler"])
def test_the_lock_holds(name: str) -> None:
    assert name in {pin.name for pin in pins(LOCK)}


def test_the_build_backend_of_the_lock_is_the_one_that_builds() -> None:
    assert SETTINGS["dependency-groups"]["build"] == SETTINGS["build-system"]["requires"]


def test_this_environment_is_the_lock() -> None:
    """The tests run on the versions the lock names."""
    here = {key: str(value) for key, value in default_environment().items()}
    active = [pin for pin in pins(LOCK) if pin.marker is None or pin.marker.evaluate(here)]
    assert {pin.name: distribution(pin.name).version for pin in active} == {pin.name: str(pin.version) for pin in active}


def test_the_extras_here_are_those_of_their_lock(all_needs: Mapping[str, Needs]) -> None:
    here = {key: str(value) for key, value in default_environment().items()}
    active = [pin for pin in pins(EXTRAS) if pin.marker is None or pin.marker.evaluate(here)]
    assert {pin.name: distribution(pin.name).version for pin in active} == {pin.name: str(pin.version) for pin in active}
