"""The SQL of the embedded store, in one place, named. Tables: docs/data-layout.md.

Statements that write many rows are made for 1, 2, 4 ... 256 rows, so that a group of commits costs a handful of statements
and each stays prepared. Ids to look up travel as one JSON array.
"""

from __future__ import annotations

MIGRATIONS: tuple[str, ...] = (
    """
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
    """,
    """
    ALTER TABLE outbox ADD COLUMN at INTEGER NOT NULL DEFAULT 0;
    UPDATE outbox SET at = CAST(strftime('%s', 'now') AS INTEGER) * 1000;
    """,
)
"""Schema versions in order; `PRAGMA user_version` says how many have been applied. They only ever grow at the end."""

_IDS = "(SELECT value FROM json_each(?))"

OBJ_GET = f"SELECT data FROM object WHERE id IN {_IDS}"
OBJ_VERSIONS = f"SELECT id, version FROM object WHERE id IN {_IDS}"
OBJ_SCAN = "SELECT data FROM object WHERE id > ? ORDER BY id LIMIT ?"
OBJ_DELETE = f"DELETE FROM object WHERE id IN {_IDS}"

# Two small tables joined in this order, then one descent a pair: a third less time than two lists behind IN.
ASSOC_GET = """
    SELECT a.atype, a.id2, a.time, a.data
    FROM json_each(?2) AS atypes CROSS JOIN json_each(?3) AS wanted CROSS JOIN association AS a
    WHERE a.id1 = ?1 AND a.atype = atypes.value AND a.id2 = wanted.value AND a.alive = 1"""
ASSOC_RANGE = """
    SELECT id2, time, data FROM association
    WHERE id1 = ? AND atype = ? AND alive = 1 AND time < ? AND time > ? ORDER BY time DESC LIMIT ?"""
ASSOC_RANGE_OLDEST = ASSOC_RANGE.replace("DESC", "ASC")
# The lower bound is the entry after the last wanted one, so each list costs one descent and a walk of `limit` entries.
ASSOC_RANGES = """
    SELECT a.id1, a.id2, a.time, a.data
    FROM json_each(?1) AS wanted CROSS JOIN association AS a INDEXED BY association_by_time
    WHERE a.id1 = wanted.value AND a.atype = ?2 AND a.alive = 1 AND a.time < ?3 AND a.time > coalesce((
        SELECT b.time FROM association AS b
        WHERE b.id1 = wanted.value AND b.atype = ?2 AND b.alive = 1 AND b.time < ?3 AND b.time > ?4
        ORDER BY b.time DESC LIMIT 1 OFFSET ?5), ?4)"""
ASSOC_RANGES_OLDEST = """
    SELECT a.id1, a.id2, a.time, a.data
    FROM json_each(?1) AS wanted CROSS JOIN association AS a INDEXED BY association_by_time
    WHERE a.id1 = wanted.value AND a.atype = ?2 AND a.alive = 1 AND a.time > ?4 AND a.time < coalesce((
        SELECT b.time FROM association AS b
        WHERE b.id1 = wanted.value AND b.atype = ?2 AND b.alive = 1 AND b.time < ?3 AND b.time > ?4
        ORDER BY b.time LIMIT 1 OFFSET ?5), ?3)"""
ASSOC_SCAN = """
    SELECT id1, atype, id2, time, alive, data FROM association
    WHERE (id1, atype, id2) > (?, ?, ?) ORDER BY id1, atype, id2 LIMIT ?"""
ASSOC_SWEEP = f"DELETE FROM association WHERE alive = 0 AND time < ? AND atype NOT IN {_IDS}"

COUNT_GET = f"SELECT atype, id1, n FROM count WHERE id1 IN {_IDS} AND atype IN {_IDS} AND n != 0"
COUNT_SCAN = "SELECT id1, atype, n FROM count WHERE (id1, atype) > (?, ?) ORDER BY id1, atype LIMIT ?"
COUNT_SET = "INSERT INTO count VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET n = excluded.n"

KEY_DELETE = "DELETE FROM key WHERE space = ? AND name = ?"
KEY_SWEEP = "DELETE FROM key WHERE until > 0 AND until <= ?"

OUTBOX_NEXT = "SELECT seq, event, step, mark, attempt, at FROM outbox WHERE seq > ? ORDER BY seq LIMIT ?"
OUTBOX_LAST = "SELECT max(coalesce((SELECT max(seq) FROM outbox), 0), coalesce((SELECT max(seq) FROM buried), 0))"
OUTBOX_DELETE = f"DELETE FROM outbox WHERE seq IN {_IDS}"
OUTBOX_KEEP = "UPDATE outbox SET step = ?, mark = ?, attempt = ? WHERE seq = ?"
OUTBOX_SIZE = "SELECT count(*) FROM outbox"
OUTBOX_OLDEST = "SELECT min(at) FROM outbox"
BURY = "INSERT OR REPLACE INTO buried VALUES (?, ?, ?, ?, ?, ?)"
BURIED = "SELECT seq, event, step, mark, attempt, error FROM buried ORDER BY seq"
UNBURY = f"""
    INSERT OR IGNORE INTO outbox (seq, event, step, mark, attempt, at)
    SELECT seq, event, step, mark, 0, ? FROM buried WHERE seq IN {_IDS}"""
UNBURIED = f"DELETE FROM buried WHERE seq IN {_IDS}"

# Written for many rows at once: {rows} becomes (?, ?), (?, ?) ...
# A join, for `(a, b) IN (VALUES ...)` would read the whole table.
KEY_GET = """
    WITH wanted (space, name) AS (VALUES {rows})
    SELECT space, name, k.id, k.until FROM wanted CROSS JOIN key AS k USING (space, name)"""
LINKS_GET = """
    WITH wanted (id1, atype, id2) AS (VALUES {rows})
    SELECT a.id1, a.atype, a.id2, a.time, a.alive, a.data
    FROM wanted CROSS JOIN association AS a USING (id1, atype, id2)"""
OBJ_PUT = """
    INSERT INTO object VALUES {rows}
    ON CONFLICT DO UPDATE SET version = excluded.version, data = excluded.data"""
LINK_PUT = """
    INSERT INTO association VALUES {rows}
    ON CONFLICT DO UPDATE SET time = excluded.time, alive = excluded.alive, data = excluded.data"""
COUNT_ADD = "INSERT INTO count VALUES {rows} ON CONFLICT DO UPDATE SET n = n + excluded.n"
KEY_PUT = "INSERT INTO key VALUES {rows} ON CONFLICT DO UPDATE SET id = excluded.id, until = excluded.until"
OUTBOX_PUT = "INSERT INTO outbox (seq, event, at) VALUES {rows}"

ROWS_AT_ONCE = 256


def for_rows(statement: str, count: int, width: int) -> str:
    """A many-row statement made for `count` rows of `width` values."""
    row = f"({', '.join('?' * width)})"
    return statement.format(rows=", ".join([row] * count))
