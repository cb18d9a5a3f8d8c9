"""Parts of an import into an empty network, in the order of their tables: each row goes to the page that the last one went to."""

from __future__ import annotations

import sqlite3

from shoal.graph.loading import LoadPart, Occupied, Table
from shoal.graph.sqlite import sql


def load(write: sqlite3.Connection, part: LoadPart) -> None:
    """Store a part in the transaction that is open. Raises `Occupied`."""
    try:
        for statement, rows, width in ((sql.NEW_OBJECTS, part.objects, 3), (sql.NEW_KEYS, part.keys, 4)):
            for prepared, values in sql.in_rows(statement, rows, width):
                write.execute(prepared, values)
        _links(write, part.links)
        write.executemany(sql.NEW_COUNT, part.counts.tolist())
    except sqlite3.IntegrityError as error:
        raise Occupied("a row is there already") from error


def _links(write: sqlite3.Connection, links: Table) -> None:
    """Many rows in a statement take half the time of many statements."""
    whole = len(links) - len(links) % sql.ROWS_AT_ONCE
    for start in range(0, whole, sql.ROWS_AT_ONCE):
        write.execute(sql.NEW_LINKS, links[start : start + sql.ROWS_AT_ONCE].ravel().tolist())
    write.executemany(sql.NEW_LINK, links[whole:].tolist())
