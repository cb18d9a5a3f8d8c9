"""Where associations lie in an SQLite store: in `association`, or in `displaced`. `sql.BY_ID` says why there are two.

Each is in one of them at a time. So a list is the two read together, and nothing has to be left out of either.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable

from shoal.graph.resolve import Triple
from shoal.graph.sqlite import sql

Row = tuple[int, int, int, int, bool, bytes]
"""id1, type, id2, time, whether it is alive, data."""

_BY_ID = frozenset(sql.BY_ID)


def put_links(write: sqlite3.Connection, rows: Iterable[Row], displaced: Collection[Triple]) -> None:
    """Store associations in the transaction that is open; `displaced` names those that may be in that table now."""
    here: list[sql.Row] = []
    there: list[sql.Row] = []
    # In the order of their table: neighbours share a page.
    for row in sorted(rows):
        id1, atype, id2, moment, alive, data = row
        if atype not in _BY_ID:
            here.append(row)
        elif alive and moment == id2:
            here.append((id1, atype, id2, moment, sql.IN_PLACE, data))
        else:
            there.append(row)
    for statement, part in ((sql.LINK_PUT, here), (sql.DISPLACED_PUT, there)):
        for prepared, values in sql.in_rows(statement, part, 6):
            write.execute(prepared, values)
    write.executemany(sql.LINK_DELETE, [row[:3] for row in there])
    if displaced:
        write.executemany(sql.DISPLACED_DELETE, [row[:3] for row in here if row[:3] in displaced])


def remove_links(write: sqlite3.Connection, triples: Collection[Triple]) -> None:
    """Take associations away, in the transaction that is open."""
    write.executemany(sql.LINK_DELETE, triples)
    write.executemany(sql.DISPLACED_DELETE, [triple for triple in triples if triple[1] in _BY_ID])
