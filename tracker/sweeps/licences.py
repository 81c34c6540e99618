"""Licences that sources state in their own data: kept with the day they were read, and shown beside the source."""

from __future__ import annotations

from datetime import datetime
from functools import cache
from typing import Any

from sqlalchemy import Connection, Select, bindparam, func, insert, select, update

from scrapers.contract import Licence
from tracker.database.rows import to_s
from tracker.database.schema import TABLES

TABLE = TABLES["source_licence"]
STATED = ("name", "url", "publisher", "terms")


def keep_licence(connection: Connection, source: str, licence: Licence, at: int) -> None:
    """Note what a sweep at ``at`` read: a new row where it says another thing than before, else the day its data was published."""
    last = connection.execute(_newest().where(TABLE.c.source == source), {"at": at}).mappings().first()
    if last is not None and all(last[name] == getattr(licence, name) for name in STATED):
        same = (TABLE.c.source == source, TABLE.c.since == last["since"])
        connection.execute(update(TABLE).where(*same).values(published_at=licence.published_at))
    else:
        values = {name: getattr(licence, name) for name in (*STATED, "published_at")}
        connection.execute(insert(TABLE).values(source=source, since=at, **values))


def licence_texts(connection: Connection, at: datetime) -> dict[str, str]:
    """The licence in force at a moment, as text, of each source that states one."""
    found = connection.execute(_newest(), {"at": to_s(at)}).mappings().all()
    return {row["source"]: _text(row["name"], row["url"], row["publisher"], row["published_at"], row["terms"]) for row in found}


@cache
def _newest() -> Select[Any]:
    """The last row of each source by ``at``; built once, as it is asked with every look."""
    until: Any = bindparam("at", type_=TABLE.c.since.type)
    last = func.max(TABLE.c.since).label("since")
    newest = select(TABLE.c.source, last).where(TABLE.c.since <= until).group_by(TABLE.c.source).subquery()
    return select(TABLE).join(newest, (TABLE.c.source == newest.c.source) & (TABLE.c.since == newest.c.since))


def _text(name: str, url: str, publisher: str, published_at: str, terms: str) -> str:
    who = ", ".join(part for part in (publisher, published_at[:10]) if part)
    return name + (f" <{url}>" if url else "") + (f", {who}" if who else "") + (f"; {terms}" if terms else "")
