"""PostgreSQL's own programs: found in the version that the server needs, and told where to connect without showing a password."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from psycopg.conninfo import make_conninfo
from sqlalchemy import URL, Connection, Engine, text

from tracker.database.postgres import is_pooled
from tracker.errors import BreakevenError

INSTALLED = Path("/usr/lib/postgresql")  # where Debian and Ubuntu put every version beside the others
OF_PYTHON = ("context", "prepare_threshold")  # what the driver takes and the programs do not know
SECRETS = ("password", "sslpassword")  # other users of the machine read command lines
_VERSION = re.compile(r"\) (\d+)")


class ProgramError(BreakevenError):
    """A program of PostgreSQL is missing, too old, or failed: says which, why and what to do."""


@dataclass(frozen=True, slots=True)
class Server:
    """Where a book is, as the programs take it."""

    version: int  # major
    conninfo: str
    secrets: Mapping[str, str]  # environment

    def program(self, name: str) -> Path:
        """The program in the server's version or a newer one: an older pg_dump refuses to read it."""
        known = {path: _version(path) for path in _found(name)}
        fitting = sorted((version, str(path)) for path, version in known.items() if version is not None and version >= self.version)
        if fitting:
            return Path(fitting[0][1])
        package = f"install postgresql-client-{self.version} (or newer), or name its folder in PATH"
        if not known:
            raise ProgramError(f"{name} is not installed; {package}")
        newest = max((version for version in known.values() if version is not None), default="unknown")
        raise ProgramError(f"{name} is of version {newest}, older than the server's {self.version}; {package}")

    @property
    def environment(self) -> dict[str, str]:
        """That of this process, which the driver reads too, with the secrets. Faults are told in English."""
        return {**os.environ, **self.secrets, "LC_ALL": "C.UTF-8"}


def server_of(db: Engine) -> Server:
    """Where the book is; ProgramError where a pooler stands between, whose sessions are not its own."""
    with db.connect() as connection:
        if is_pooled(connection):
            raise ProgramError("a pooler stands before this database; name the server itself in [database] url for backups")
        return Server(_server_version(connection), _conninfo(db), _secrets(db.url))


def _server_version(connection: Connection) -> int:
    return int(connection.execute(text("show server_version_num")).scalar_one()) // 10_000


def _conninfo(db: Engine) -> str:
    """What the driver connects with, all hosts of it too, so that no program reads or replaces a book of another server."""
    told: dict[str, object] = {"connect_timeout": 10, **db.dialect.create_connect_args(db.url)[1]}
    return make_conninfo("", **{name: str(value) for name, value in told.items() if name not in (*SECRETS, *OF_PYTHON)})


def _secrets(url: URL) -> dict[str, str]:
    password = url.password or url.query.get("password")
    return {"PGPASSWORD": str(password)} if password else {}


def _found(name: str) -> list[Path]:
    """Every one there is: that of PATH, and all that Debian keeps side by side."""
    in_path = shutil.which(name)
    return [*([Path(in_path)] if in_path else []), *sorted(INSTALLED.glob(f"*/bin/{name}"))]


def _version(program: Path) -> int | None:
    """Its major version; None where it does not tell."""
    try:
        told = subprocess.run([program, "--version"], capture_output=True, text=True, check=False, timeout=30).stdout
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = _VERSION.search(told)
    return None if found is None else int(found[1])


def run(server: Server, name: str, *words: str | Path) -> str:
    """What the program writes; ProgramError with its last words where it fails."""
    done = subprocess.run(
        [server.program(name), *words], env=server.environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise ProgramError(f"{name}: {last_words(done.stderr)}")
    return done.stdout


def last_words(said: str) -> str:
    """What a program complained of, in a line."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    faults = [line for line in lines if "error:" in line.lower()] or lines[-1:]
    return re.sub(r"^\S+: (error|fatal):\s*", "", faults[0], flags=re.IGNORECASE) if faults else "failed without a word"
