"""The schema on both databases: from nothing, from an earlier one with data, back, from several processes, never from a newer one."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from alembic import command
from databases import Postgres
from processes import breakeven
from sqlalchemy import Engine, inspect, text

from tracker.database.handle import DatabaseProblem, alembic_config, migrate, open_database, reading, writing
from tracker.sweeps.leases import Lease, Terms, claim
from tracker.sweeps.store import last_counts


def shape(db: Engine) -> dict[str, object]:
    """Tables, columns with their types, keys and indexes, and the views."""
    found = inspect(db)
    tables: dict[str, object] = {
        name: (
            sorted((c["name"], str(c["type"]), c["nullable"]) for c in found.get_columns(name)),
            found.get_pk_constraint(name)["constrained_columns"],
            sorted((str(i["name"]), tuple(i["column_names"])) for i in found.get_indexes(name)),
        )
        for name in found.get_table_names()
    }
    return tables | {"views": sorted(found.get_view_names())}


def test_the_tables_are_those_the_program_describes(empty: Engine) -> None:
    migrate(empty)
    command.check(alembic_config(empty))  # raises where an operation would be needed


def test_down_and_up_again_is_the_same(empty: Engine) -> None:
    migrate(empty)
    before = shape(empty)
    command.downgrade(alembic_config(empty), "base")
    assert shape(empty) in ({"views": []}, {"views": [], "alembic_version": shape(empty).get("alembic_version")})
    migrate(empty)
    assert shape(empty) == before


def test_a_schema_has_the_views_it_always_had(empty: Engine) -> None:
    """How each finds the newest point of an offer. PostgreSQL puts its own words around it."""
    looks = {
        "sqlite": [
            ("0013", " join offer_point p"),
            ("0016", " join offer_point p"),
            *((n, "cross join offer_point p") for n in ("0017", "0018")),
        ],
        "postgresql": [("0013", "JOIN offer_point p ON"), ("0014", "JOIN offer_point p ON"), ("0015", "JOIN LATERAL ( SELECT")],
    }[empty.dialect.name]
    stored = {
        "sqlite": "select sql from sqlite_master where name = 'v_current_offers'",
        "postgresql": "select pg_get_viewdef('v_current_offers'::regclass)",
    }[empty.dialect.name]
    for way, change in ((looks, command.upgrade), (looks[-2::-1], command.downgrade)):
        for revision, look in way:
            change(alembic_config(empty), revision)
            with reading(empty) as connection:
                told = connection.exec_driver_sql(stored).scalar_one()
            assert look in told
            assert ("ateral" in told.lower() or "cross join offer_point" in told) is (look == looks[-1][1])


def test_data_of_the_first_schema_is_there_after_the_upgrade_and_after_the_way_back(empty: Engine) -> None:
    config = alembic_config(empty)
    command.upgrade(config, "0001")
    alert = (
        "insert into alert (key, kind, subject, fired_at, body, delivery, attempts, last_error) "
        "values ('k', 'cheaper_setup', 's', '2026-11-29 12:00:00', '{}', 'stored', 3, 'x')"
    )
    with writing(empty) as connection:
        connection.execute(text(alert))
    migrate(empty)
    with reading(empty) as connection:
        assert connection.execute(text("select alert_id, route, state, attempts, last_error from alert_delivery")).all() == [
            (1, "webhook", "stored", 3, "x")
        ]
        assert connection.execute(text("select key, over_at is null from alert")).all() == [("k", False)]  # it is history, not active
    now = datetime.now(UTC)  # a lease is checked against the server's clock
    assert isinstance(claim(empty, "runpod", "a", now, Terms(interval_s=900, lease_s=60), wait_s=900), Lease)
    command.downgrade(config, "0001")
    with reading(empty) as connection:
        assert connection.execute(text("select key, delivery, attempts, last_error from alert")).all() == [("k", "stored", 3, "x")]


def test_an_alert_that_had_nowhere_to_go_is_sent_to_nobody_after_the_upgrade(empty: Engine) -> None:
    command.upgrade(alembic_config(empty), "0005")
    with writing(empty) as connection:
        for key, attempts in (("never", 0), ("tried", 3)):
            alert = (
                "insert into alert (key, kind, subject, fired_at, body, delivery, attempts, last_error) "
                f"values ('{key}', 'cheaper_setup', 's', '2026-01-29 12:00:00', '{{}}', 'stored', {attempts}, '')"
            )
            connection.execute(text(alert))
    migrate(empty)
    kept = "select a.key from alert_delivery d join alert a on a.id = d.alert_id"
    with reading(empty) as connection:
        assert connection.execute(text(kept)).scalars().all() == ["tried"]
        assert connection.execute(text("select key from alert order by id")).scalars().all() == ["never", "tried"]


def test_data_of_the_second_schema_is_there_after_the_upgrade_and_after_the_way_back(empty: Engine) -> None:
    config = alembic_config(empty)
    command.upgrade(config, "0002")
    rows = (
        "insert into sweep (source, at, recorded_at, started_at, finished_at, status, complete, rows, changed, skipped, bytes, input_hash, "
        "error) values ('runpod', 1000, '2026-11-29 12:00:00', '2026-11-29 12:00:00', '2026-11-29 12:00:00', 'ok', true, 1, 1, '{}', 9, "
        "'h', '')",
        "insert into offer (id, key, source, origin, provider, sku, region, gpu, gpu_count, tier, term_months, trust, currency, is_slice, "
        "price_kind, interconnect, source_url) values (7, 'k', 'runpod', 'runpod', 'runpod', 'H200', '', 'nvidia-h200-sxm-141', 1, "
        "'on_demand', 0, 'datacenter', 'USD', false, 'list', 'unknown', 'https://x')",
        "insert into offer_point (offer_id, at, price, availability) values (7, 1000, 3590000000, 0)",
    )
    with writing(empty) as connection:
        for row in rows:
            connection.execute(text(row))
    migrate(empty)
    shown = "select provider, sku, price_nano, listed_to from v_price_history"
    for back, at in (("head", 1), ("0002", 1000)):  # a second is 1,000 of what that schema kept
        if back != "head":
            command.downgrade(config, back)
        with reading(empty) as connection:
            assert connection.execute(text(shown)).all() == [("runpod", "H200", 3_590_000_000, None)]
            assert connection.execute(text("select source, at, changed from sweep")).all() == [("runpod", at, 1)]


def test_sweeps_get_smaller_and_say_the_same(empty: Engine) -> None:
    command.upgrade(alembic_config(empty), "0018")
    sweep = (
        "insert into sweep (source, at, lag_ms, took_ms, status, complete, rows, changed, skipped, warned, bytes, input_hash, error) "
        "values ('s', :at, 0, 0, 'ok', true, 1, 1, :skipped, :warned, 9, :hash, '')"
    )
    before = [("{}", "{}", bytes(range(16))), ('{"no price": 2}', "{}", b""), ("{}", '{"odd": 1}', bytes(range(8)))]
    with writing(empty) as connection:
        for at, (skipped, warned, digest) in enumerate(before):
            connection.execute(text(sweep), {"at": at, "skipped": skipped, "warned": warned, "hash": digest})
    read = text("select skipped, warned, input_hash from sweep order by at")
    migrate(empty)
    after = [("", "", bytes(range(8))), ('{"no price": 2}', "", b""), ("", '{"odd": 1}', bytes(range(8)))]
    with reading(empty) as connection:
        assert [(skipped, warned, bytes(digest)) for skipped, warned, digest in connection.execute(read)] == after
    assert last_counts(empty, "s") == (1, {})
    command.downgrade(alembic_config(empty), "0018")
    with reading(empty) as connection:
        found = connection.execute(read).all()
    assert [(skipped, warned) for skipped, warned, _ in found] == [(skipped, warned) for skipped, warned, _ in before]


@pytest.mark.real
def test_processes_that_start_together_migrate_once(postgres: Postgres) -> None:
    url = postgres.url(postgres.make())
    program = (
        "import sys; from tracker.database.handle import migrate, open_database; db = open_database(sys.argv[1]); db.connect().close();"
        "print('ready', flush=True); sys.stdin.read(1); migrate(db)"
    )
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    started = [subprocess.Popen([sys.executable, "-c", program, url], **pipes) for _ in range(4)]
    assert [process.stdout.readline() for process in started if process.stdout] == [b"ready\n"] * 4
    for process in started:
        assert process.stdin is not None
        process.stdin.write(b"!")
        process.stdin.flush()
    told = [process.communicate(timeout=60)[1] for process in started]
    assert ([process.returncode for process in started], told) == ([0] * 4, [b""] * 4)
    db = open_database(url)
    command.check(alembic_config(db))
    db.dispose()


def test_a_newer_schema_is_refused(empty: Engine) -> None:
    migrate(empty)
    with writing(empty) as connection:
        connection.execute(text("update alembic_version set version_num = '9999'"))
    with pytest.raises(DatabaseProblem, match="has schema 9999, which is newer than this program; install the newer breakeven"):
        migrate(empty)


# --- what cannot be opened is one line ------------------------------------------------------------------------------------


def try_to_migrate(url: str) -> None:
    db = open_database(url)
    try:
        migrate(db)
    finally:
        db.dispose()


@pytest.mark.real
def test_a_database_that_cannot_keep_every_text_is_refused(postgres: Postgres) -> None:
    postgres.psql(
        "postgres", "create database ascii encoding 'SQL_ASCII' lc_collate 'C' lc_ctype 'C' locale_provider libc template template0"
    )
    with pytest.raises(DatabaseProblem, match="database ascii keeps text as SQL_ASCII; make it with encoding 'UTF8'"):
        try_to_migrate(postgres.url("ascii"))


@pytest.mark.real
@pytest.mark.parametrize(
    ("database", "user", "reason"),
    [
        ("nowhere", "breakeven", 'database "nowhere" does not exist'),
        ("postgres", "nobody-we-know", 'role "nobody-we-know" does not exist'),
    ],
)
def test_a_server_that_refuses_us_is_one_line(database: str, user: str, reason: str, postgres: Postgres) -> None:
    with pytest.raises(DatabaseProblem) as caught:
        try_to_migrate(postgres.url(database, user=user))
    line = str(caught.value)
    assert "\n" not in line
    assert "cannot be opened: " in line
    assert reason in line
    assert line.endswith("its server refuses us; check user, password, name and the number of connections")


def run_on(tmp_path: Path, url: str) -> tuple[int, str]:
    """Exit code and error of ``breakeven run`` on that database."""
    (tmp_path / "config").mkdir()
    (tmp_path / "config/tracker.toml").write_text(f'[database]\nurl = "{url}"\n', encoding="utf-8")
    done = breakeven(tmp_path, "run", "--port", "0")
    return done.returncode, done.stderr


def test_a_server_that_is_not_there_is_one_line_without_the_password(tmp_path: Path) -> None:
    pytest.importorskip("psycopg")
    code, told = run_on(tmp_path, "postgresql://user:pa55word@127.0.0.1:9/breakeven")
    assert (code, told.count("\n")) == (1, 1)
    assert told.startswith("breakeven: database postgresql+psycopg://user:***@127.0.0.1:9/breakeven cannot be opened: connection failed")
    assert told.endswith("; check that its server runs and can be reached\n")
    assert "pa55word" not in told


def test_a_missing_driver_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(
        DatabaseProblem, match=r"database postgres://user:\*\*\*@h/d needs the driver psycopg: pip install 'breakeven\[postgres\]'"
    ):
        open_database("postgres://user:pw@h/d")


def test_a_sqlite_that_is_too_old_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 26, 0))
    monkeypatch.setattr(sqlite3, "sqlite_version", "3.26.0")
    with pytest.raises(DatabaseProblem, match=r"^SQLite 3\.26\.0 is too old, 3\.31 is needed; use a newer Python, or PostgreSQL$"):
        open_database("sqlite:///x.db")


@pytest.mark.parametrize("url", ["mysql://h/d", "no url"])
def test_another_kind_of_database_is_one_line(url: str) -> None:
    with pytest.raises(DatabaseProblem, match=r"cannot be used: .*; expected sqlite:///FILE or postgresql"):
        open_database(url)
