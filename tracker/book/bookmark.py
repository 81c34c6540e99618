"""Which book files were imported: every start asks, few import."""

from __future__ import annotations

import hashlib
from pathlib import Path

from sqlalchemy import Connection, select

from tracker.book.asof import IMPORTED
from tracker.book.listing import SWEEP
from tracker.database.column_types import HASH_SIZE


def book_digest(folder: Path) -> str:
    """Hash of the book files in ``folder``, of 8 bytes."""
    digest = hashlib.sha256()
    for name in ("offers.csv", "rates.csv"):
        path = folder / name
        digest.update(path.read_bytes() if path.exists() else b"")
    return digest.hexdigest()[:HASH_SIZE]


def starter_is_loaded(connection: Connection, folder: Path) -> bool:
    """Whether exactly this book was imported before."""
    found = select(SWEEP.c.id).where(SWEEP.c.source == IMPORTED, SWEEP.c.input_hash == book_digest(folder))
    return connection.scalar(found.limit(1)) is not None
