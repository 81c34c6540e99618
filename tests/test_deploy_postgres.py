"""The script that makes Grafana's role, run on a real PostgreSQL as its image runs it: Grafana reads what the daemon writes, no more."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from deployed import DEPLOY
from processes import COMMAND, environment
from servers import free_port
from worlds import write_user_config

pytestmark = pytest.mark.real
OWNER, READER = "owner's $ecret", "reader's $ecret"


@contextmanager
def postgresql(require: Callable[[str], Path]) -> Iterator[dict[str, str]]:
    """A server that asks for passwords; the variables that lead its clients to the database breakeven as its owner."""
    as_user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"] if os.geteuid() == 0 else []  # it refuses root
    home, port = Path(tempfile.mkdtemp(prefix="breakeven-")), str(free_port())
    (home / "password").write_text(OWNER + "\n", encoding="utf-8")
    if as_user:
        for path in (home, home / "password"):
            shutil.chown(path, "postgres", "postgres")
    control = [*as_user, require("pg_ctl"), "-D", home / "data"]
    options = f"-c port={port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={home} -c fsync=off"
    make = [*as_user, require("initdb"), "-D", home / "data", "-U", "breakeven", f"--pwfile={home / 'password'}", "-A", "scram-sha-256"]
    try:
        subprocess.run(make, check=True, capture_output=True, cwd="/")
        subprocess.run([*control, "-w", "-l", home / "log", "-o", options, "start"], check=True, stdout=subprocess.DEVNULL, cwd="/")
        login = {"PGHOST": "127.0.0.1", "PGPORT": port, "PGPASSWORD": OWNER, "PATH": os.environ["PATH"]}
        subprocess.run([require("createdb"), "-U", "breakeven", "breakeven"], check=True, env=login, cwd="/")
        yield login
    finally:
        subprocess.run([*control, "-m", "immediate", "stop"], check=False, capture_output=True, cwd="/")
        shutil.rmtree(home)


def query(require: Callable[[str], Path], login: dict[str, str], sql: str) -> subprocess.CompletedProcess[str]:
    """An answer to Grafana's role."""
    reader = login | {"PGPASSWORD": READER, "PGUSER": "grafana", "PGDATABASE": "breakeven"}
    return subprocess.run([require("psql"), "-qAt", "-c", sql], env=reader, capture_output=True, text=True, check=False, cwd="/")


def test_grafana_reads_what_the_daemon_wrote_and_writes_nothing(require: Callable[[str], Path], tmp_path: Path) -> None:
    with postgresql(require) as login:
        script = ["sh", DEPLOY / "postgres" / "10-reader.sh"]
        names = {"POSTGRES_USER": "breakeven", "POSTGRES_DB": "breakeven"}
        assert "no role" in subprocess.run(script, env=login | names, capture_output=True, text=True, check=True).stdout
        subprocess.run(script, env=login | names | {"GRAFANA_DATABASE_PASSWORD": READER}, capture_output=True, check=True)
        write_user_config(tmp_path / "config", "http://127.0.0.1:9")
        shipped = (DEPLOY / "settings" / "postgres" / "tracker.toml").read_text(encoding="utf-8")
        with (tmp_path / "config" / "tracker.toml").open("a", encoding="utf-8") as file:
            file.write(shipped.replace("@postgres/", f"@127.0.0.1:{login['PGPORT']}/"))
        own = environment(tmp_path, PGPASSWORD=OWNER)
        done = subprocess.run([*COMMAND, "sources"], env=own, capture_output=True, text=True, check=False, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert int(query(require, login, "select count(*) from offer").stdout) > 0
        refused = query(require, login, "set transaction_read_only = off; delete from offer")
        assert (refused.returncode, "permission denied" in refused.stderr) == (1, True)
        assert "permission denied" in query(require, login, "set transaction_read_only = off; create table mine (id int)").stderr
