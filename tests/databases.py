"""PostgreSQL and PgBouncer on free ports of this machine, and books in them: the same tests run on both kinds of database."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from time import monotonic

import pytest
from servers import free_port
from sqlalchemy import Engine

from tracker.database.handle import migrate, open_database

USER = "breakeven"
SERVER_ACCOUNT = "postgres"  # PostgreSQL and PgBouncer refuse to run as root
BOTH = [pytest.param("sqlite", id="sqlite"), pytest.param("postgres", id="postgres", marks=pytest.mark.real)]


class Server:
    """A program that listens on ``port``, run as the servers' account where we are root; ended by its process id."""

    def __init__(self, command: list[object], port: int) -> None:
        self.port = port
        self._command = [*map(str, command)]
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - closed by close()
        self.start()

    def start(self) -> None:
        """Begin to listen, again after ``stop``."""
        account = _account()
        self.process = subprocess.Popen(self._command, stdout=self._log, stderr=self._log, cwd="/", **account)  # type: ignore[call-overload]
        end, pause = monotonic() + 30, threading.Event()
        while not self._answers():
            if self.process.poll() is not None or monotonic() > end:
                told = os.pread(self._log.fileno(), 100_000, 0).decode(errors="replace")
                raise AssertionError(f"{self._command[0]} does not listen on {self.port}:\n{told}")
            pause.wait(0.05)

    def _answers(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def stop(self) -> None:
        """End it as an administrator would, with its connections (SIGINT is PostgreSQL's fast shutdown)."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait(10)

    def close(self) -> None:
        """End it for good."""
        self.stop()
        self._log.close()


class Postgres(Server):
    """A running cluster of its own."""

    def __init__(self, command: list[object], port: int, psql: Path, is_ready: Path) -> None:
        self._psql, self._is_ready = psql, is_ready
        self._numbers = count()
        super().__init__(command, port)

    def _answers(self) -> bool:
        """It listens before it is ready."""
        return subprocess.run([self._is_ready, "-q", "-h", "127.0.0.1", "-p", str(self.port)], check=False, timeout=60).returncode == 0

    def url(self, database: str, *, port: int | None = None, user: str = USER) -> str:
        """Where the program finds ``database``."""
        return f"postgresql+psycopg://{user}@127.0.0.1:{port or self.port}/{database}"

    def make(self, template: str = "template0") -> str:
        """The name of a new database, a copy of ``template``."""
        name = f"book{next(self._numbers)}"
        self.psql("postgres", f"create database {name} template {template} strategy file_copy")
        return name

    def psql(self, database: str, *statements: str, user: str = USER) -> list[tuple[str, ...]]:
        """Rows of the last statement, as text, asked with PostgreSQL's own client."""
        words = [word for statement in statements for word in ("-c", statement)]
        where = ["-h", "127.0.0.1", "-p", str(self.port), "-U", user]
        command = [self._psql, *where, "-X", "-q", "-A", "-t", "-F", "\x1f", *words, database]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        return [tuple(line.split("\x1f")) for line in done.stdout.splitlines()]


@contextmanager
def run_postgres(require: Callable[[str], Path]) -> Iterator[Postgres]:
    """A cluster whose text order is that of a language, so that nothing can lean on the order of bytes."""
    server, initdb, psql, is_ready = (require(name) for name in ("postgres", "initdb", "psql", "pg_isready"))
    with _own_folder() as folder:
        data, port = folder / "data", free_port()
        locale = ("--no-locale", "--locale-provider=icu", "--icu-locale=en", "-E", "UTF8")
        _run_as_account([initdb, "-D", data, "-A", "trust", "-U", USER, "--no-sync", *locale])
        options = ("-p", port, "-h", "127.0.0.1", "-k", "", "-F", "-c", "log_min_messages=warning", "-c", "max_connections=200")
        started = Postgres([server, "-D", data, *options], port, psql, is_ready)
        try:
            yield started
        finally:
            started.close()


@contextmanager
def run_pgbouncer(require: Callable[[str], Path], postgres: Postgres, *, pool: int = 5) -> Iterator[int]:
    """PgBouncer in transaction mode before ``postgres``; its port. Few server connections, so that clients do share them."""
    program, port = require("pgbouncer"), free_port()
    with _own_folder() as folder:
        (folder / "users.txt").write_text(f'"{USER}" ""\n', encoding="utf-8")
        (folder / "pgbouncer.ini").write_text(
            f"[databases]\n* = host=127.0.0.1 port={postgres.port} user={USER}\n"
            f"[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\n"
            f"unix_socket_dir =\nauth_type = trust\nauth_file = {folder}/users.txt\npool_mode = transaction\ndefault_pool_size = {pool}\n"
            "max_client_conn = 200\nlog_connections = 0\nlog_disconnections = 0\n",
            encoding="utf-8",
        )
        started = Server([program, folder / "pgbouncer.ini"], port)
        try:
            yield port
        finally:
            started.close()


@contextmanager
def _own_folder() -> Iterator[Path]:
    """A folder that the servers' account owns and can reach, which those of pytest are not."""
    folder = Path(tempfile.mkdtemp(prefix="breakeven-server-"))
    if os.geteuid() == 0:
        shutil.chown(folder, SERVER_ACCOUNT, SERVER_ACCOUNT)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _account() -> dict[str, object]:
    """How to start a program: as we are, or, where we are root, as the servers' account."""
    return {"user": SERVER_ACCOUNT, "group": SERVER_ACCOUNT, "extra_groups": []} if os.geteuid() == 0 else {}


def _run_as_account(command: list[object]) -> None:
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=120, check=False, cwd="/", **_account())  # type: ignore[call-overload]
    assert done.returncode == 0, done.stdout + done.stderr


# --- fixtures ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def postgres(require: Callable[[str], Path]) -> Iterator[Postgres]:
    """One cluster for the whole run; every test makes databases of its own in it."""
    with run_postgres(require) as server:
        yield server


@pytest.fixture(scope="session")
def pgbouncer(require: Callable[[str], Path], postgres: Postgres) -> Iterator[int]:
    """The port of a PgBouncer in transaction mode before that cluster."""
    with run_pgbouncer(require, postgres) as port:
        yield port


@pytest.fixture(scope="session")
def empty_books(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Where the migrated empty book of each kind is, once it was made."""
    return {"sqlite": str(tmp_path_factory.mktemp("empty") / "book.db")}


@pytest.fixture(params=BOTH)
def empty(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    """A database without a table."""
    if request.param == "sqlite":
        yield from opened(f"sqlite:///{tmp_path / 'book.db'}")
    else:
        server: Postgres = request.getfixturevalue("postgres")
        yield from opened(server.url(server.make()))


def new_book(request: pytest.FixtureRequest, kind: str, name: str = "book") -> str:
    """The URL of a new migrated book of that kind: a copy of the one that was migrated first."""
    empty: dict[str, str] = request.getfixturevalue("empty_books")
    if kind == "sqlite":
        if not Path(empty["sqlite"]).exists():
            _migrate(f"sqlite:///{empty['sqlite']}")
        path = request.getfixturevalue("tmp_path") / f"{name}.db"
        return f"sqlite:///{shutil.copy(empty['sqlite'], path)}"
    server: Postgres = request.getfixturevalue("postgres")
    if "postgres" not in empty:
        empty["postgres"] = server.make()
        _migrate(server.url(empty["postgres"]))
    return server.url(server.make(empty["postgres"]))


def _migrate(url: str) -> None:
    handle = open_database(url)
    migrate(handle)
    handle.dispose()


def opened(url: str) -> Iterator[Engine]:
    """For a fixture: a handle that is closed afterwards."""
    handle = open_database(url)
    yield handle
    handle.dispose()
