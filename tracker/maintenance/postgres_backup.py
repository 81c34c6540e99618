"""A backup of a book in PostgreSQL by pg_dump, and its way back by pg_restore: checked first, and in one transaction."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from shutil import copyfileobj
from tempfile import TemporaryFile
from typing import IO

from sqlalchemy import Connection, Engine, inspect, text
from sqlmodel import SQLModel

from tracker.database import derived_tables as derived_tables  # registers the tables, as the next line does
from tracker.database import tables as tables
from tracker.database.handle import migrate, revision, revisions
from tracker.maintenance.backup import BackupError, free_place, need_alone, part_of
from tracker.maintenance.postgres_programs import ProgramError, Server, last_words, run, server_of

VERSIONS = "alembic_version"
CHUNK = 1 << 20
PATIENCE_S = 10  # for a lock: who holds one for longer uses the book
_NUMBER = re.compile(r"^COPY public\.alembic_version .*\n(\w+)$", re.MULTILINE)


def backup(db: Engine, target: Path, *, replace: bool = False) -> int:
    """Dump the book to ``target`` as it is at one moment, without stopping who writes to it; returns the file's bytes."""
    server = server_of(db)
    with db.connect() as connection:
        if revision(connection) is None:
            raise BackupError(f"database {db.url.database}: there is no book yet")
    free_place(db, target, replace=replace)
    with part_of(target) as part:
        run(server, "pg_dump", "--format=custom", "--schema=public", "--no-password", f"--file={part}", f"--dbname={server.conninfo}")
        _schema_of(server, part)
        part.replace(target)
    return target.stat().st_size


def restore(db: Engine, found: Path, *, replace: bool = False) -> None:
    """Put a backup in the place of the book: all of it, or nothing is changed. It is brought to this program's schema then.

    It is refused where processes use the book, and without ``replace`` where there is anything in it.
    """
    if not found.is_file():
        raise BackupError(f"{found}: no such file")
    server = server_of(db)
    _schema_of(server, found)
    run(server, "pg_restore", "--file=/dev/null", found)  # reads every block: a damaged one is told before anything is touched
    with db.connect() as connection:
        _check_place(connection, str(db.url.database), replace)
        there = sorted(_ours(connection))
    db.dispose()
    _pour(server, found, there)
    migrate(db)


def _schema_of(server: Server, found: Path) -> str:
    """The schema of the book in a dump; BackupError where it is no dump of a book, or one of a newer program."""
    try:
        told = run(server, "pg_restore", "--data-only", f"--table={VERSIONS}", "--file=-", found)
        listed = run(server, "pg_restore", "--list", found)
    except ProgramError as error:
        raise BackupError(f"{found}: is no backup that pg_restore reads: {error}") from error
    number = _NUMBER.search(told)
    if number is None or " TABLE public sweep " not in listed:
        raise BackupError(f"{found}: is no book of breakeven")
    if number[1] not in revisions()[0]:
        raise BackupError(f"{found}: has schema {number[1]}, which is newer than this program; install the newer breakeven")
    return number[1]


def _check_place(connection: Connection, name: str, replace: bool) -> None:
    need_alone(connection)
    if not replace and any(connection.scalar(text(f"select exists (select 1 from {table})")) for table in _ours(connection) - {VERSIONS}):
        raise BackupError(f"database {name}: holds a book; --force puts the backup in its place, and what is there is gone")


def _ours(connection: Connection) -> set[str]:
    """The tables of the book that are there."""
    return set(inspect(connection).get_table_names(schema="public")) & {*SQLModel.metadata.tables, VERSIONS}


def _pour(server: Server, found: Path, there: list[str]) -> None:
    """What pg_restore writes, into psql, in one transaction that begins by dropping what was there.

    psql commits when its input ends: it is ended itself, and its transaction with it, where pg_restore did not end well.
    """
    drop = "".join(f"drop table if exists public.{table} cascade; " for table in there)
    first = f"set client_min_messages = warning; set local lock_timeout = '{PATIENCE_S}s'; {drop}"
    into: list[str | Path] = [
        server.program("psql"),
        "-X",
        "-q",
        "-1",
        "-w",
        "-v",
        "ON_ERROR_STOP=1",
        "-d",
        server.conninfo,
        "-c",
        first,
        "-f",
        "-",
    ]
    out_of: list[str | Path] = [server.program("pg_restore"), "--schema=public", "--no-owner", "--no-privileges", "--file=-", found]
    with TemporaryFile() as told, TemporaryFile() as complained:
        with (
            subprocess.Popen(into, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=told, env=server.environment) as writer,
            subprocess.Popen(out_of, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=complained, env=server.environment) as reader,
        ):
            whole = _copied(reader, writer)
            if not whole:
                writer.kill()
        if writer.returncode != 0 or not whole:
            why = last_words(_text(told) or _text(complained))
            raise BackupError(f"{found}: was not restored, and nothing was changed: {why}")


def _copied(reader: subprocess.Popen[bytes], writer: subprocess.Popen[bytes]) -> bool:
    """Whether all that the one writes went to the other, and the one ended well."""
    assert reader.stdout is not None and writer.stdin is not None
    try:
        copyfileobj(reader.stdout, writer.stdin, CHUNK)
        writer.stdin.flush()
    except BrokenPipeError:  # psql gave up, and says why
        reader.kill()
        return False
    return reader.wait() == 0


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")
