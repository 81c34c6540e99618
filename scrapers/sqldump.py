"""Tables of an SQL text dump, as SQLite's shell and Python write it: rows by the column names of CREATE TABLE, never by position alone.

The dump is read as text and never run: it may hold anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal

from scrapers.fields import BadRow

Value = str | Decimal | None
CREATE = re.compile(r'CREATE TABLE (?:IF NOT EXISTS )?"?(\w+)"? ?\(')
COLUMN = re.compile(r'\s*"?(\w+)"? [A-Z]+[^\n]*')
CONSTRAINTS = frozenset({"PRIMARY", "FOREIGN", "UNIQUE", "CHECK", "CONSTRAINT"})
INSERT = re.compile(r'INSERT INTO "?(\w+)"? VALUES ?\((.*)\);?')
VALUE = re.compile(r"(?:(NULL)|(-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,3})?)|'((?:[^']|'')*)')(?:,|$)")


class Tables:
    """Column names by table, from the lines of CREATE TABLE in the order they come."""

    def __init__(self) -> None:
        self.columns: dict[str, list[str]] = {}
        self._open = ""

    def define(self, line: str) -> bool:
        """Whether a line is part of a CREATE TABLE; its column is taken note of."""
        if created := CREATE.match(line):
            self._open = created[1]
            self.columns[self._open] = []
            return True
        if not self._open:
            return False
        column = COLUMN.fullmatch(line)
        if column and column[1] not in CONSTRAINTS:
            self.columns[self._open].append(column[1])
        elif line.startswith(")"):
            self._open = ""
        return True


def table_of(line: str) -> str:
    """The table an INSERT goes into; empty for another line."""
    found = INSERT.match(line)
    return found[1] if found else ""


def row_of(line: str, columns: Sequence[str]) -> dict[str, Value]:
    """The values of an INSERT by column; BadRow where it is not one row of that many literals."""
    found = INSERT.fullmatch(line)
    values = list(_values(found[2])) if found else []
    if len(values) != len(columns):
        raise BadRow("another number of values than the table has columns")
    return dict(zip(columns, values, strict=True))


def _values(text: str) -> Iterator[Value]:
    at = 0
    while at < len(text):
        found = VALUE.match(text, at)
        if found is None:
            raise BadRow("value is no literal")
        at = found.end()
        if found[3] is not None:
            yield found[3].replace("''", "'")
        else:
            yield None if found[1] else Decimal(found[2])


def rows(lines: Iterable[str], tables: Tables) -> Iterator[tuple[str, str]]:
    """Table and line of every INSERT; definitions go into ``tables``."""
    for line in lines:
        if not tables.define(line) and (table := table_of(line)):
            yield table, line
