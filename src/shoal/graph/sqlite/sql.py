"""The named SQL statements of the embedded store. Tables: docs/data-layout.md.

Statements that write many rows are made for 1, 2, 4 ... 256 rows, so that a group of commits needs a handful of statements and
each stays prepared. Lists of ids are passed as one JSON array.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from shoal.graph.migrations import Migration, TableIndex, Walk, short
from shoal.graph.schema import (
    ASSOC_TYPES,
    CELL_OF,
    COMMENTED_BY,
    OWNS,
    POSTED,
    POSTED_TO_FOLLOWERS,
    PUBLISHED,
    TAG_OF,
    THREAD,
    UNSWEPT,
    WITH_HISTORY,
)

Row = tuple[Any, ...]

BY_ID = tuple(
    atype.number for atype in (POSTED, COMMENTED_BY, TAG_OF, OWNS, PUBLISHED, POSTED_TO_FOLLOWERS, THREAD, CELL_OF)
)
"""Types of lists whose entries usually have their id as their time. The primary key of `association` orders the live entries, so an
entry writes one page instead of two. Tombstones and entries with another time are in `displaced`, so that reads of a list do not
read past them. Adding a type that existing stores contain needs a new schema version that moves its rows, as the third version
does.
"""
IN_PLACE = 2
"""The value of `alive` of live rows that the primary key of `association` orders; live rows in the index by time have 1."""
COUNTS = -1
"""The value of `alive` in the count row, which is the last row of a list: its `id2` is `LAST`, and its `time` is the number of live
entries. So a post at the end of a list changes the count on the page that it changes anyway.
"""
LAST = "9e999"
"""Infinity, which SQLite sorts after every id."""
FOREVER = 2**63 - 1
_BY_ID = ", ".join(map(str, BY_ID))
_DISPLACED = f"atype IN ({_BY_ID}) AND (alive = 0 OR time != id2)"

_REMEMBERED = f"({', '.join(map(str, sorted(WITH_HISTORY)))})"
_ENDED_LISTED = f"({', '.join(str(atype.number) for atype in ASSOC_TYPES.values() if atype.ended_listed)})"
"""Indexes name these types, so adding a type that existing stores contain needs a new schema version. None is in `BY_ID`."""
_OMITTED = {1, 2, 16, 17, 85, 86, 92, 93}
# The condition of the indexes of sweeps, which existing files have. A sweep reads and skips tombstones of the later types.
_SWEEPABLE = f"alive = 0 AND atype NOT IN ({', '.join(map(str, sorted(_OMITTED)))})"
_SWEPT = f"{_SWEEPABLE} AND atype NOT IN ({', '.join(map(str, sorted(UNSWEPT - _OMITTED)))})"
"""The condition for old tombstones that `sweep` deletes."""
_PAST = f"alive = 0 AND atype IN {_REMEMBERED}"

RANKED = tuple(atype.number for atype in ASSOC_TYPES.values() if atype.ranked)
"""Types of lists that are read by rank; they are all in `BY_ID`."""
LEVELS = (0, 1, 2)


def _counted(table: str) -> str:
    def moves(row: str, by: str) -> str:
        return "".join(
            f"""
            UPDATE block SET n = n {by} 1 WHERE {row}.alive > 0
                AND id1 = {row}.id1 AND atype = {row}.atype AND level = {level} AND upto = (
                    SELECT min(b.upto) FROM block AS b WHERE b.id1 = {row}.id1 AND b.atype = {row}.atype
                        AND b.level = {level} AND b.upto >= {row}.time);"""
            for level in LEVELS
        )

    def within(row: str) -> str:
        return f"""{row}.alive > 0 AND EXISTS (
                SELECT 1 FROM block WHERE id1 = {row}.id1 AND atype = {row}.atype AND level = 0 AND upto >= {row}.time)"""

    ranked = f"IN ({', '.join(map(str, RANKED))})"
    return f"""
    CREATE TRIGGER {table}_begins AFTER INSERT ON {table}
        WHEN NEW.atype {ranked} AND {within("NEW")}
        BEGIN {moves("NEW", "+")}
        END;
    CREATE TRIGGER {table}_ends AFTER DELETE ON {table}
        WHEN OLD.atype {ranked} AND {within("OLD")}
        BEGIN {moves("OLD", "-")}
        END;
    CREATE TRIGGER {table}_changes AFTER UPDATE OF time, alive ON {table}
        WHEN OLD.atype {ranked} AND ({within("OLD")} OR {within("NEW")})
        BEGIN {moves("OLD", "-")} {moves("NEW", "+")}
        END;"""


MIGRATIONS: tuple[Migration, ...] = (
    short("""
    CREATE TABLE object (
        id INTEGER PRIMARY KEY,
        version INTEGER NOT NULL,
        data BLOB NOT NULL
    );
    CREATE TABLE association (
        id1 INTEGER NOT NULL,
        atype INTEGER NOT NULL,
        id2 INTEGER NOT NULL,
        time INTEGER NOT NULL,
        alive INTEGER NOT NULL,
        data BLOB NOT NULL,
        PRIMARY KEY (id1, atype, id2)
    ) WITHOUT ROWID;
    CREATE INDEX association_by_time ON association (id1, atype, time) WHERE alive = 1;
    CREATE INDEX association_ended ON association (time) WHERE alive = 0;
    CREATE TABLE count (
        id1 INTEGER NOT NULL,
        atype INTEGER NOT NULL,
        n INTEGER NOT NULL,
        PRIMARY KEY (id1, atype)
    ) WITHOUT ROWID;
    CREATE TABLE key (
        space TEXT NOT NULL,
        name TEXT NOT NULL,
        id INTEGER NOT NULL,
        until INTEGER NOT NULL,
        PRIMARY KEY (space, name)
    ) WITHOUT ROWID;
    CREATE INDEX key_by_end ON key (until) WHERE until > 0;
    CREATE TABLE outbox (
        seq INTEGER PRIMARY KEY,
        event BLOB NOT NULL,
        step INTEGER NOT NULL DEFAULT 0,
        mark INTEGER NOT NULL DEFAULT 0,
        attempt INTEGER NOT NULL DEFAULT 0
    );
    CREATE TABLE buried (
        seq INTEGER PRIMARY KEY,
        event BLOB NOT NULL,
        step INTEGER NOT NULL,
        mark INTEGER NOT NULL,
        attempt INTEGER NOT NULL,
        error TEXT NOT NULL
    );
    """),
    short("""
    ALTER TABLE outbox ADD COLUMN at INTEGER NOT NULL DEFAULT 0;
    UPDATE outbox SET at = CAST(strftime('%s', 'now') AS INTEGER) * 1000;
    """),
    Migration(
        (
            """
    CREATE TABLE displaced (
        id1 INTEGER NOT NULL,
        atype INTEGER NOT NULL,
        id2 INTEGER NOT NULL,
        time INTEGER NOT NULL,
        alive INTEGER NOT NULL,
        data BLOB NOT NULL,
        PRIMARY KEY (id1, atype, id2)
    ) WITHOUT ROWID;
    CREATE INDEX displaced_by_time ON displaced (id1, atype, time) WHERE alive = 1;
    CREATE INDEX displaced_ended ON displaced (time) WHERE alive = 0;
    """,
            Walk(
                "association",
                ("id1", "atype", "id2"),
                (
                    f"INSERT INTO displaced SELECT * FROM association WHERE {{batch}} AND {_DISPLACED}",
                    f"DELETE FROM association WHERE {{batch}} AND {_DISPLACED}",
                    f"UPDATE association SET alive = {IN_PLACE} WHERE {{batch}} AND atype IN ({_BY_ID})",
                ),
                "lists in the order of their ids",
            ),
        )
    ),
    Migration(
        (
            Walk(
                "count",
                ("id1", "atype"),
                (f"INSERT INTO association SELECT id1, atype, {LAST}, n, {COUNTS}, x'' FROM count WHERE {{batch}}",),
                "counts at the ends of lists",
            ),
            "DROP TABLE count",
        )
    ),
    short(f"""
    CREATE TABLE block (
        id1 INTEGER NOT NULL,
        atype INTEGER NOT NULL,
        level INTEGER NOT NULL,
        upto INTEGER NOT NULL,
        n INTEGER NOT NULL,
        PRIMARY KEY (id1, atype, level, upto)
    ) WITHOUT ROWID;
    {_counted("association")}
    {_counted("displaced")}
    """),
    Migration(
        (
            "DROP INDEX association_ended",
            TableIndex("association_ended", f"association (time) WHERE alive = 0 AND atype NOT IN {_REMEMBERED}"),
            TableIndex("association_past", f"association (time) WHERE {_PAST}"),
            TableIndex(
                "association_ended_by_time",
                f"association (id1, atype, time) WHERE alive = 0 AND atype IN {_ENDED_LISTED}",
            ),
        )
    ),
    # Tombstones of `positional` types (`AssocType`) are kept permanently. These indexes omit them, so that sweeps do
    # not read them.
    Migration(
        (
            TableIndex("association_sweepable", f"association (time) WHERE {_SWEEPABLE}"),
            TableIndex("displaced_sweepable", f"displaced (time) WHERE {_SWEEPABLE}"),
            "DROP INDEX association_ended; DROP INDEX displaced_ended",
        )
    ),
    # This index has all columns that are read from a list. In the table, each new entry of a long list is on a different page.
    Migration(
        (
            TableIndex("association_listed", "association (id1, atype, time, id2, data, alive) WHERE alive = 1"),
            "DROP INDEX association_by_time",
        )
    ),
    # Older code can use the store while its event log is off (`event_log.switch`).
    short(
        """
    CREATE TABLE event_log (
        position INTEGER PRIMARY KEY,
        at INTEGER NOT NULL,
        kind INTEGER NOT NULL,
        subject INTEGER NOT NULL,
        object INTEGER NOT NULL,
        other INTEGER NOT NULL,
        version INTEGER NOT NULL
    );
    CREATE TABLE event_log_state (
        one INTEGER PRIMARY KEY CHECK (one = 1),
        log INTEGER NOT NULL
    );
    INSERT INTO event_log_state (one, log) VALUES (1, 0);
    """,
        8,
    ),
)
"""Schema versions in order, append-only. `PRAGMA user_version` is the number of applied versions."""

_IDS = "(SELECT value FROM json_each(?))"
# Name the columns in every write: a newer Shoal may have added some.
_LINK = "association (id1, atype, id2, time, alive, data)"

OBJ_GET = f"SELECT data FROM object WHERE id IN {_IDS}"
OBJ_VERSIONS = f"SELECT id, version FROM object WHERE id IN {_IDS}"
OBJ_SCAN = "SELECT data FROM object WHERE id > ? ORDER BY id LIMIT ?"
OBJ_DELETE = f"DELETE FROM object WHERE id IN {_IDS}"

# Combine the two short lists, then look up each pair in the index. This takes a third less time than two IN lists.
ASSOC_GET = f"""
    SELECT a.atype, a.id2, a.time, a.data
    FROM json_each(?2) AS atypes CROSS JOIN json_each(?3) AS wanted CROSS JOIN association AS a
    WHERE a.id1 = ?1 AND a.atype = atypes.value AND a.id2 = wanted.value AND a.alive > 0
    UNION ALL SELECT a.atype, a.id2, a.time, a.data
    FROM json_each(?2) AS atypes CROSS JOIN json_each(?3) AS wanted CROSS JOIN displaced AS a
    WHERE atypes.value IN ({_BY_ID})
        AND a.id1 = ?1 AND a.atype = atypes.value AND a.id2 = wanted.value AND a.alive = 1"""

ASSOC_ENDED = ASSOC_GET.replace("a.alive > 0", "a.alive = 0").replace("a.alive = 1", "a.alive = 0")


class _Part(NamedTuple):
    """A table of list entries: the index to use, the value of `alive` in live entries, and the column that orders entries."""

    table: str
    using: str
    alive: int
    place: str

    def range(self) -> str:
        return f"""
    SELECT id2, {self.place} AS place, data FROM {self.table} {self.using}
    WHERE id1 = ?1 AND atype = ?2 AND alive = {self.alive} AND {self.place} < ?3 AND {self.place} > ?4"""

    def ranges(self, *, oldest_first: bool) -> str:
        """Return SQL that reads a range of many lists.

        For each list, an index lookup finds the first entry beyond the limit, and a scan reads the entries before it.
        """
        beyond = f"""coalesce((
        SELECT b.{self.place} FROM {self.table} AS b {self.using}
        WHERE b.id1 = wanted.value AND b.atype = ?2 AND b.alive = {self.alive} AND b.{self.place} < ?3 AND b.{self.place} > ?4
        ORDER BY b.{self.place} {"ASC" if oldest_first else "DESC"} LIMIT 1 OFFSET ?5), {"?3" if oldest_first else "?4"})"""
        before, after = (beyond, "?4") if oldest_first else ("?3", beyond)
        return f"""
    SELECT a.id1, a.id2, a.{self.place} AS place, a.data
    FROM json_each(?1) AS wanted CROSS JOIN {self.table} AS a {self.using}
    WHERE a.id1 = wanted.value AND a.atype = ?2 AND a.alive = {self.alive}
        AND a.{self.place} < {before} AND a.{self.place} > {after}"""


_BY_TIME = (_Part("association", "INDEXED BY association_listed", 1, "time"),)
# The entries of these lists are in two tables, which SQLite merges while reading.
_IN_TWO = (_Part("association", "", IN_PLACE, "id2"), _Part("displaced", "INDEXED BY displaced_by_time", 1, "time"))

# A statement for each pair: whether the type is in `BY_ID`, and whether the oldest entries come first.
ASSOC_RANGE = {
    (by_id, oldest_first): " UNION ALL ".join(part.range() for part in parts)
    + f" ORDER BY place {'ASC' if oldest_first else 'DESC'} LIMIT ?5"
    for by_id, parts in ((False, _BY_TIME), (True, _IN_TWO))
    for oldest_first in (False, True)
}
# These results are unordered. For lists that are stored in two tables, they have up to `limit` entries of each table.
ASSOC_RANGES = {
    (by_id, oldest_first): " UNION ALL ".join(part.ranges(oldest_first=oldest_first) for part in parts)
    for by_id, parts in ((False, _BY_TIME), (True, _IN_TWO))
    for oldest_first in (False, True)
}

_SCAN = "SELECT id1, atype, id2, time, alive, data FROM {} WHERE (id1, atype, id2) > (?1, ?2, ?3) AND alive >= 0"
ASSOC_SCAN = f"""
    {_SCAN.format("association")} UNION ALL {_SCAN.format("displaced")} ORDER BY id1, atype, id2 LIMIT ?4"""
ASSOC_ENDED_RANGE = {
    oldest_first: f"""
    SELECT id2, time, data FROM association INDEXED BY association_ended_by_time
    WHERE id1 = ?1 AND atype = ?2 AND alive = 0 AND atype IN {_ENDED_LISTED} AND time < ?3 AND time > ?4
    ORDER BY time {"ASC" if oldest_first else "DESC"} LIMIT ?5"""
    for oldest_first in (False, True)
}
# Each statement deletes at most as many rows as its second value, so that commits can run in between.
_SWEEP = """
    DELETE FROM {0} WHERE (id1, atype, id2) IN (
        SELECT id1, atype, id2 FROM {0} INDEXED BY {1} WHERE {2} AND time < ? LIMIT ?)"""
ASSOC_SWEEPS = (
    _SWEEP.format("association", "association_sweepable", _SWEPT),
    _SWEEP.format("displaced", "displaced_sweepable", _SWEPT),
)
HISTORY_SWEEP = _SWEEP.format("association", "association_past", _PAST)

COUNT_GET = f"""
    SELECT atype, id1, time FROM association
    WHERE id1 IN {_IDS} AND atype IN {_IDS} AND id2 = {LAST} AND alive = {COUNTS} AND time != 0"""
COUNT_SCAN = f"""
    SELECT id1, atype, time FROM association
    WHERE (id1, atype, id2) > (?, ?, {LAST}) AND alive = {COUNTS} ORDER BY id1, atype LIMIT ?"""
COUNT_SET = f"""
    INSERT INTO {_LINK} VALUES (?, ?, {LAST}, ?, {COUNTS}, x'')
    ON CONFLICT DO UPDATE SET time = excluded.time"""
COUNT_DELETE = f"DELETE FROM association WHERE id1 = ? AND atype = ? AND id2 = {LAST}"

KEY_DELETE = "DELETE FROM key WHERE space = ? AND name = ?"
KEY_SWEEP = """
    DELETE FROM key WHERE (space, name) IN (
        SELECT space, name FROM key INDEXED BY key_by_end WHERE until > 0 AND until <= ? LIMIT ?)"""

OUTBOX_NEXT = "SELECT seq, event, step, mark, attempt, at FROM outbox WHERE seq > ? ORDER BY seq LIMIT ?"
OUTBOX_LAST = "SELECT max(coalesce((SELECT max(seq) FROM outbox), 0), coalesce((SELECT max(seq) FROM buried), 0))"
OUTBOX_DELETE = f"DELETE FROM outbox WHERE seq IN {_IDS}"
OUTBOX_KEEP = "UPDATE outbox SET step = ?, mark = ?, attempt = ? WHERE seq = ?"
OUTBOX_SIZE = "SELECT count(*) FROM outbox"
OUTBOX_OLDEST = "SELECT min(at) FROM outbox"
PARK = "INSERT OR REPLACE INTO buried (seq, event, step, mark, attempt, error) VALUES (?, ?, ?, ?, ?, ?)"
PARKED = "SELECT seq, event, step, mark, attempt, error FROM buried ORDER BY seq"
UNPARK = f"""
    INSERT OR IGNORE INTO outbox (seq, event, step, mark, attempt, at)
    SELECT seq, event, step, mark, 0, ? FROM buried WHERE seq IN {_IDS}"""
DELETE_PARKED = f"DELETE FROM buried WHERE seq IN {_IDS}"

# Templates for many rows at once: {rows} becomes (?, ?), (?, ?) ... The reads are joins, because `(a, b) IN (VALUES ...)` would
# scan the whole table.
KEY_GET = """
    WITH wanted (space, name) AS (VALUES {rows})
    SELECT space, name, k.id, k.until FROM wanted CROSS JOIN key AS k USING (space, name)"""
LINKS_GET = f"""
    WITH wanted (id1, atype, id2) AS (VALUES {{rows}})
    SELECT a.id1, a.atype, a.id2, a.time, a.alive, a.data, 0
    FROM wanted CROSS JOIN association AS a USING (id1, atype, id2)
    UNION ALL SELECT a.id1, a.atype, a.id2, a.time, a.alive, a.data, 1
    FROM wanted CROSS JOIN displaced AS a USING (id1, atype, id2) WHERE wanted.atype IN ({_BY_ID})"""
OBJ_PUT = """
    INSERT INTO object (id, version, data) VALUES {rows}
    ON CONFLICT DO UPDATE SET version = excluded.version, data = excluded.data"""
LINK_PUT = f"""
    INSERT INTO {_LINK} VALUES {{rows}}
    ON CONFLICT DO UPDATE SET time = excluded.time, alive = excluded.alive, data = excluded.data"""
DISPLACED_PUT = LINK_PUT.replace("association", "displaced")
LINK_DELETE = "DELETE FROM association WHERE id1 = ? AND atype = ? AND id2 = ?"
DISPLACED_DELETE = LINK_DELETE.replace("association", "displaced")
COUNT_ADD = f"""
    INSERT INTO {_LINK} SELECT column1, column2, {LAST}, column3, {COUNTS}, x'' FROM (VALUES {{rows}}) WHERE true
    ON CONFLICT DO UPDATE SET time = time + excluded.time"""
KEY_PUT = """
    INSERT INTO key (space, name, id, until) VALUES {rows} ON CONFLICT DO UPDATE SET id = excluded.id, until = excluded.until"""
OUTBOX_PUT = "INSERT INTO outbox (seq, event, at) VALUES {rows}"
# The newest row is never deleted, so SQLite gives each new row the next position, and no position twice.
LOG_PUT = "INSERT INTO event_log (at, kind, subject, object, other, version) VALUES {rows}"

ROWS_AT_ONCE = 256

# Imports only insert new rows, so these statements need no ON CONFLICT.
NEW_OBJECTS = "INSERT INTO object (id, version, data) VALUES {rows}"
NEW_KEYS = "INSERT INTO key (space, name, id, until) VALUES {rows}"
NEW_LINK = f"INSERT INTO {_LINK} VALUES (?, ?, ?, ?, 1, x'')"
NEW_LINKS = NEW_LINK + ", (?, ?, ?, ?, 1, x'')" * (ROWS_AT_ONCE - 1)
NEW_COUNT = f"INSERT INTO {_LINK} VALUES (?, ?, {LAST}, ?, {COUNTS}, x'')"


def json_list(values: Collection[int] | Collection[str]) -> str:
    return msgspec.json.encode(values).decode()


def for_rows(statement: str, count: int, width: int) -> str:
    row = f"({', '.join('?' * width)})"
    return statement.format(rows=", ".join([row] * count))


def in_rows(statement: str, rows: Sequence[Row], width: int) -> Iterator[tuple[str, list[Any]]]:
    """Split the rows into parts, and yield a statement with its values for each. The size of a part is a power of two."""
    start = 0
    while start < len(rows):
        count = min(ROWS_AT_ONCE, 1 << (len(rows) - start).bit_length() - 1)
        yield _prepared(statement, count, width), [value for row in rows[start : start + count] for value in row]
        start += count


_prepared = lru_cache(maxsize=256)(for_rows)
