"""The named SQL statements of the tag cloud's SQLite file. Tables: docs/data-layout.md.

Statements that write or read many rows are made for 1, 2, 4 ... 256 of them (`graph.sqlite.sql.for_rows`).
"""

from __future__ import annotations

from shoal.graph.migrations import Migration, short

MIGRATIONS: tuple[Migration, ...] = (
    short("""
    CREATE TABLE lock (
        one INTEGER PRIMARY KEY CHECK (one = 1),
        holder BLOB NOT NULL,
        until REAL NOT NULL,
        seconds REAL NOT NULL
    );
    CREATE TABLE state (
        one INTEGER PRIMARY KEY CHECK (one = 1),
        version INTEGER NOT NULL,
        at INTEGER NOT NULL,
        complete_to INTEGER NOT NULL,
        data BLOB NOT NULL
    );
    CREATE TABLE cloud (
        version INTEGER PRIMARY KEY,
        at INTEGER NOT NULL,
        data BLOB NOT NULL
    );
    CREATE TABLE increment (
        id BLOB PRIMARY KEY,
        at INTEGER NOT NULL
    ) WITHOUT ROWID;
    CREATE INDEX increment_by_time ON increment (at);
    CREATE TABLE mark (
        bucket INTEGER NOT NULL,
        version INTEGER NOT NULL,
        marks BLOB NOT NULL,
        PRIMARY KEY (bucket, version)
    );
    CREATE TABLE count (
        id INTEGER PRIMARY KEY,
        name TEXT NOT NULL,
        n INTEGER NOT NULL,
        hour REAL NOT NULL,
        day REAL NOT NULL,
        week REAL NOT NULL,
        data BLOB NOT NULL
    );
    CREATE TABLE author (
        day INTEGER NOT NULL,
        tag INTEGER NOT NULL,
        member INTEGER NOT NULL,
        n INTEGER NOT NULL,
        PRIMARY KEY (day, tag, member)
    ) WITHOUT ROWID;
    CREATE TABLE rule (
        name TEXT PRIMARY KEY,
        denied INTEGER NOT NULL,
        target TEXT NOT NULL
    ) WITHOUT ROWID;
    CREATE TABLE inbox (
        seq INTEGER PRIMARY KEY,
        id BLOB NOT NULL UNIQUE,
        body BLOB NOT NULL
    )
    """),
)
"""Schema versions in order, append-only; `PRAGMA user_version` is the number of applied ones."""

_LIST = "(SELECT value FROM json_each(?))"

# A lock with more time left than any new lock counts as free: the clock was set back (`contract.CLOCK_SLACK`).
LOCK = """
    INSERT INTO lock (one, holder, until, seconds) VALUES (1, :holder, :now + :seconds, :seconds)
    ON CONFLICT DO UPDATE SET holder = excluded.holder, until = excluded.until, seconds = excluded.seconds
    WHERE holder = :holder OR until <= :now OR until > :now + :slack * lock.seconds"""
RENEW = "UPDATE lock SET until = :now + :seconds, seconds = :seconds WHERE holder = :holder AND until > 0"
HELD = "SELECT 1 FROM lock WHERE holder = ? AND until > 0"
UNLOCK = "UPDATE lock SET until = 0 WHERE holder = ?"
UNLOCK_ANY = "UPDATE lock SET until = 0"

VERSION = "SELECT coalesce(max(version), 0) FROM state"
HEAD = "SELECT version, at, complete_to, c.data, s.data FROM state AS s JOIN cloud AS c USING (version, at)"
CLOUDS = "SELECT version, at, data FROM cloud ORDER BY version DESC LIMIT ?"
MARKS = """
    SELECT bucket, marks FROM json_each(?) CROSS JOIN mark ON bucket = value AND version > ?
    ORDER BY bucket, version"""
COUNTS = f"SELECT id, name, n, data FROM count WHERE id IN {_LIST}"
TOP = "SELECT id, name, n, data FROM count ORDER BY {column} DESC, id LIMIT ?"
SCAN = "SELECT id, name, n, data FROM count WHERE id > ? ORDER BY id LIMIT ?"
RULES = "SELECT name, denied, target FROM rule"
INBOX = "SELECT id, body FROM inbox ORDER BY seq LIMIT ?"
INBOX_PUT = "INSERT INTO inbox (id, body) VALUES (?, ?) ON CONFLICT DO NOTHING"
INBOX_SIZE = "SELECT count(*) FROM inbox"

# Statements for many rows. They use joins, because `(a, b) IN (VALUES ...)` would scan the whole table.
MERGED = "WITH wanted (id) AS (VALUES {rows}) SELECT i.id FROM wanted CROSS JOIN increment AS i USING (id)"
AUTHORS = """
    WITH wanted (day, tag, member) AS (VALUES {rows})
    SELECT tag, day, member, a.n FROM wanted CROSS JOIN author AS a USING (day, tag, member)"""
CROWDS = """
    WITH wanted (day, tag) AS (VALUES {rows})
    SELECT tag, day, a.member, a.n FROM wanted CROSS JOIN author AS a USING (day, tag)"""

STATE_PUT = """
    INSERT INTO state (one, version, at, complete_to, data) VALUES (1, ?, ?, ?, ?) ON CONFLICT DO UPDATE
    SET version = excluded.version, at = excluded.at, complete_to = excluded.complete_to, data = excluded.data"""
CLOUD_PUT = "INSERT INTO cloud (version, at, data) VALUES (?, ?, ?)"
CLOUD_FORGET = "DELETE FROM cloud WHERE version <= ?"
INCREMENT_PUT = "INSERT INTO increment (id, at) VALUES {rows} ON CONFLICT DO NOTHING"
INCREMENT_FORGET = "DELETE FROM increment WHERE at < ?"
MARK_PUT = "INSERT INTO mark (bucket, version, marks) VALUES {rows}"
COUNT_PUT = """
    INSERT INTO count (id, name, n, hour, day, week, data) VALUES {rows} ON CONFLICT DO UPDATE
    SET n = excluded.n, hour = excluded.hour, day = excluded.day, week = excluded.week, data = excluded.data"""
COUNT_FORGET = f"DELETE FROM count WHERE id IN {_LIST}"
AUTHOR_PUT = """
    INSERT INTO author (day, tag, member, n) VALUES {rows} ON CONFLICT DO UPDATE SET n = excluded.n"""
AUTHOR_FORGET = "DELETE FROM author WHERE day = ? AND tag = ? AND member = ?"
AUTHORS_FORGET = "DELETE FROM author WHERE day < ?"
RULE_PUT = """
    INSERT INTO rule (name, denied, target) VALUES {rows}
    ON CONFLICT DO UPDATE SET denied = excluded.denied, target = excluded.target"""
RULE_FORGET = f"DELETE FROM rule WHERE name IN {_LIST}"
INBOX_FORGET = "DELETE FROM inbox WHERE id IN (VALUES {rows})"
