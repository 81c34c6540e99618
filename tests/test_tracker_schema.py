"""``tracker.database.schema`` names the columns that ``tables`` declares, and nothing that reads or writes builds a model."""

from __future__ import annotations

import ast
import subprocess
import sys
import textwrap
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from repository import ROOT
from sqlalchemy import Table, create_engine, insert, select
from sqlmodel import SQLModel
from sqlmodel.sql.sqltypes import AutoString, UTCDateTime

from tracker.database import derived_tables as derived_tables  # registers the tables, as the next line does
from tracker.database import tables as tables
from tracker.database.column_types import Moment
from tracker.database.schema import COLUMNS, KINDS, TABLES

# What makes or compares whole schemas reads the models; whatever else does would mix two tables of one name in a query.
OF_MODELS = {
    *("database/tables.py", "database/derived_tables.py", "alerting/rehearsal.py"),
    *("maintenance/dump.py", "maintenance/stats.py", "maintenance/postgres_backup.py"),
}
KIND = {kind: name for name, kind in KINDS.items()} | {AutoString: "str", UTCDateTime: "moment"}


def told(table: Table) -> str:
    """The columns of a table as ``tracker.database.schema`` writes them."""
    columns = []
    for column in table.columns:
        mark = "" if not column.primary_key else "+" if column is table.autoincrement_column else "*"
        columns.append(f"{mark}{column.name} {KIND[type(column.type)]}")
    return "\n".join(textwrap.wrap(f"{table.name}: {', '.join(columns)}", 136, subsequent_indent="  "))


def test_every_column_is_that_of_the_models() -> None:
    """Where it is not: COLUMNS is to be what stands on the left."""
    models = "\n".join(told(table) for table in SQLModel.metadata.tables.values())
    assert models == COLUMNS.strip()


@pytest.mark.parametrize("name", sorted(SQLModel.metadata.tables))
def test_a_table_is_built_as_it_is_written(name: str) -> None:
    ours, theirs = TABLES[name], SQLModel.metadata.tables[name]
    assert told(ours) == told(theirs)
    assert [column.name for column in ours.primary_key] == [column.name for column in theirs.primary_key]
    assert TABLES[name] is ours


def test_the_program_builds_no_models() -> None:
    found = {
        str(path.relative_to(ROOT / "tracker"))
        for path in (ROOT / "tracker").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if (isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "sqlmodel")
        or (isinstance(node, ast.Import) and any(name.name.split(".")[0] == "sqlmodel" for name in node.names))
    }
    assert {name for name in found if not name.startswith("migrations/")} == OF_MODELS


def test_a_start_builds_none() -> None:
    code = "import sys, tracker.cli.run\nprint([name for name in sys.modules if name.split('.')[0] == 'sqlmodel'])"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert ran.stdout == "[]\n"


def test_a_moment_is_what_the_models_make_of_it(tmp_path: Path) -> None:
    db = create_engine(f"sqlite:///{tmp_path / 'x.db'}")
    page, model = TABLES["page"], SQLModel.metadata.tables["page"]
    there = datetime(2026, 11, 29, 14, 0, tzinfo=timezone(timedelta(hours=2)))
    with db.begin() as connection:
        model.create(connection)
        for table in (page, model):
            values = dict.fromkeys(("etag", "last_modified", "headers"), "")
            connection.execute(insert(table).values(source="x", url=str(id(table)), body=b"", fetched_at=there, **values))
        read = [connection.execute(select(table.c.fetched_at)).scalars().all() for table in (page, model)]
    db.dispose()
    assert read == [[datetime(2026, 11, 29, 12, 0, tzinfo=UTC)] * 2] * 2
    assert {moment.tzinfo for moments in read for moment in moments} == {UTC}
    with pytest.raises(ValueError, match="has no zone"):
        Moment().process_bind_param(datetime.fromisoformat("2026-11-29T12:00"), None)
