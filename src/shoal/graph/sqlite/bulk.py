"""Whole rows in and out of an SQLite store, for moving a network and for seeing how it lies."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any

from shoal.graph.rows import ASSOC_BYTES, MEMBER_MARK, POST_MARK, KeyRow, Rows, Spread
from shoal.graph.schema import encode_node
from shoal.graph.sqlite import sql
from shoal.graph.sqlite.links import put_links, remove_links

KEYS_SCAN = "SELECT space, name, id, until FROM key WHERE (space, name) > (?, ?) ORDER BY space, name LIMIT ?"

_PUT = (
    "INSERT OR REPLACE INTO object (id, version, data) VALUES (?, ?, ?)",
    sql.COUNT_SET,
    "INSERT OR REPLACE INTO key (space, name, id, until) VALUES (?, ?, ?, ?)",
)
_REMOVE = (
    "DELETE FROM object WHERE id = ?",
    sql.COUNT_DELETE,
    "DELETE FROM key WHERE space = ? AND name = ?",
)

# An id is 10 bits of sequence, 7 of shard within its data source, and 6 of data source.
_OBJECTS = """
    SELECT id >> 17 & 63, sum(instr(substr(data, 1, 32), ?) > 0), sum(instr(substr(data, 1, 32), ?) > 0), sum(length(data))
    FROM object GROUP BY 1"""
_ASSOCS = "SELECT id1 >> 17 & 63, 0, 0, sum(length(data) + ?) FROM {} WHERE alive >= 0 GROUP BY 1"


def keys_after(read: sqlite3.Connection, after: tuple[str, str], limit: int) -> list[KeyRow]:
    """A page of keys."""
    return [KeyRow._make(row) for row in read.execute(KEYS_SCAN, (*after, limit))]


def put_rows(write: sqlite3.Connection, rows: Rows) -> None:
    """Store rows as they stand, in the transaction that is open."""
    objects = [(node.id, node.version, encode_node(node)) for node in rows.objects]
    _each(write, _PUT, (objects, rows.counts, rows.keys))
    put_links(write, rows.assocs, {row[:3] for row in rows.assocs})


def remove_rows(write: sqlite3.Connection, rows: Rows) -> None:
    """Take rows away, in the transaction that is open."""
    objects = [(node.id,) for node in rows.objects]
    counts, keys = ([row[:2] for row in part] for part in (rows.counts, rows.keys))
    _each(write, _REMOVE, (objects, counts, keys))
    remove_links(write, [row[:3] for row in rows.assocs])


def _each(write: sqlite3.Connection, statements: Sequence[str], parts: Sequence[Sequence[Any]]) -> None:
    for statement, part in zip(statements, parts, strict=True):
        if part:
            write.executemany(statement, part)


def spread(read: sqlite3.Connection) -> dict[int, Spread]:
    """How much lies on each data source."""
    held: dict[int, Spread] = {}
    rows = read.execute(_OBJECTS, (MEMBER_MARK, POST_MARK)).fetchall()
    for table in ("association", "displaced"):
        rows += read.execute(_ASSOCS.format(table), (ASSOC_BYTES,))
    for source, *part in rows:
        held[source] = held.get(source, Spread()).plus(Spread(*part))
    return held
