"""The tables and named SQL statements of the tag cloud in PostgreSQL. Tables: docs/data-layout.md.

They are in the schema `shoal`, next to the graph's if they share a database. Rows are passed as arrays, one for each column.
"""

from __future__ import annotations

from shoal.graph.migrations import Migration, short

MIGRATIONS: tuple[Migration, ...] = (
    short("""
    CREATE TABLE shoal.tag_lock (
        one boolean PRIMARY KEY DEFAULT true CHECK (one),
        holder bytea NOT NULL,
        until timestamptz NOT NULL,
        seconds double precision NOT NULL
    ) WITH (fillfactor = 50);
    CREATE TABLE shoal.tag_state (
        one boolean PRIMARY KEY DEFAULT true CHECK (one),
        version bigint NOT NULL DEFAULT 0,
        at bigint NOT NULL DEFAULT 0,
        complete_to bigint NOT NULL DEFAULT 0,
        before_day bigint NOT NULL DEFAULT 0,
        data bytea NOT NULL DEFAULT ''
    );
    CREATE TABLE shoal.tag_cloud (
        version bigint PRIMARY KEY,
        at bigint NOT NULL,
        data bytea NOT NULL
    );
    CREATE TABLE shoal.tag_increment (
        at bigint NOT NULL,
        id bytea PRIMARY KEY
    );
    CREATE INDEX tag_increment_by_time ON shoal.tag_increment (at);
    CREATE TABLE shoal.tag_mark (
        bucket bigint NOT NULL,
        version bigint NOT NULL,
        marks bytea NOT NULL,
        PRIMARY KEY (bucket, version)
    );
    CREATE TABLE shoal.tag_count (
        id bigint PRIMARY KEY,
        n bigint NOT NULL,
        hour double precision NOT NULL,
        day double precision NOT NULL,
        week double precision NOT NULL,
        name text COLLATE "C" NOT NULL,
        data bytea NOT NULL
    ) WITH (fillfactor = 80);
    CREATE TABLE shoal.tag_author (
        tag bigint NOT NULL,
        member bigint NOT NULL,
        day integer NOT NULL,
        n integer NOT NULL,
        PRIMARY KEY (day, tag, member)
    );
    CREATE TABLE shoal.tag_rule (
        name text COLLATE "C" PRIMARY KEY,
        denied boolean NOT NULL,
        target text NOT NULL
    );
    CREATE TABLE shoal.tag_inbox (
        seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        id bytea NOT NULL UNIQUE,
        body bytea NOT NULL
    );
    """),
)
"""Schema versions in order, append-only; the greatest number in `shoal.tag_version` is the number of applied ones."""


# Use the server's clock, because clocks of processes may differ. A lock with more time left than any new lock counts as
# free: the clock was set back (`contract.CLOCK_SLACK`).
LOCK = """
    INSERT INTO shoal.tag_lock AS held (holder, until, seconds)
    VALUES ($1, clock_timestamp() + make_interval(secs => $2::double precision), $2)
    ON CONFLICT (one) DO UPDATE SET holder = excluded.holder, until = excluded.until, seconds = excluded.seconds
    WHERE held.holder = $1 OR held.until <= clock_timestamp()
        OR held.until > clock_timestamp() + make_interval(secs => $3 * held.seconds)
    RETURNING 1"""
RENEW = """
    UPDATE shoal.tag_lock SET until = clock_timestamp() + make_interval(secs => $2::double precision), seconds = $2
    WHERE holder = $1 AND until > '-infinity' RETURNING 1"""
# Locks the row: between this check and the end of the transaction, no other process can take the lock.
HELD = "SELECT 1 FROM shoal.tag_lock WHERE holder = $1 AND until > '-infinity' FOR UPDATE"
UNLOCK = "UPDATE shoal.tag_lock SET until = '-infinity' WHERE holder = $1"

VERSION = "SELECT version FROM shoal.tag_state"
HEAD = """
    SELECT s.version, s.at, s.complete_to, c.data, s.data
    FROM shoal.tag_state AS s JOIN shoal.tag_cloud AS c ON c.version = s.version"""
CLOUDS = "SELECT version, at, data FROM shoal.tag_cloud ORDER BY version DESC LIMIT $1"
MERGED = """
    SELECT i.id FROM unnest($1::bytea[]) AS w (id)
    CROSS JOIN LATERAL (SELECT * FROM shoal.tag_increment WHERE id = w.id OFFSET 0) AS i"""
MARKS = """
    SELECT w.bucket, m.marks FROM unnest($1::bigint[]) AS w (bucket)
    CROSS JOIN LATERAL (SELECT * FROM shoal.tag_mark WHERE bucket = w.bucket AND version > $2 OFFSET 0) AS m
    ORDER BY w.bucket, m.version"""
COUNTS = """
    SELECT c.id, c.name, c.n, c.data FROM unnest($1::bigint[]) AS w (id)
    CROSS JOIN LATERAL (SELECT * FROM shoal.tag_count WHERE id = w.id OFFSET 0) AS c"""
TOP = "SELECT id, name, n, data FROM shoal.tag_count ORDER BY {column} DESC, id LIMIT $1"
SCAN = "SELECT id, name, n, data FROM shoal.tag_count WHERE id > $1 ORDER BY id LIMIT $2"
# Exclude expired days, which may not have been deleted yet.
AUTHORS = """
    SELECT a.tag, a.day, a.member, a.n FROM unnest($1::integer[], $2::bigint[], $3::bigint[]) AS w (day, tag, member)
    CROSS JOIN LATERAL (
        SELECT * FROM shoal.tag_author WHERE day = w.day AND tag = w.tag AND member = w.member OFFSET 0) AS a
    WHERE a.day >= (SELECT before_day FROM shoal.tag_state)"""
CROWDS = """
    SELECT a.tag, a.day, a.member, a.n FROM unnest($1::integer[], $2::bigint[]) AS w (day, tag)
    CROSS JOIN LATERAL (SELECT * FROM shoal.tag_author WHERE day = w.day AND tag = w.tag OFFSET 0) AS a
    WHERE a.day >= (SELECT before_day FROM shoal.tag_state)"""
RULES = "SELECT name, denied, target FROM shoal.tag_rule"
INBOX = "SELECT id, body FROM shoal.tag_inbox ORDER BY seq LIMIT $1"
INBOX_PUT = "INSERT INTO shoal.tag_inbox (id, body) VALUES ($1, $2) ON CONFLICT (id) DO NOTHING"
INBOX_SIZE = "SELECT count(*) FROM shoal.tag_inbox"

# Creates or locks the row of the version, so a second writer of the version waits here for the first. The server terminates a
# transaction that is idle for $1 ms, so a paused writer does not keep other writers waiting any longer.
VERSION_LOCK = """
    INSERT INTO shoal.tag_state (one) VALUES (true) ON CONFLICT (one) DO UPDATE SET one = true
    RETURNING version, set_config('idle_in_transaction_session_timeout', $1, true)"""
STATE_PUT = """
    UPDATE shoal.tag_state SET version = $1, at = $2, complete_to = $3, before_day = $4, data = $5"""
CLOUD_PUT = "INSERT INTO shoal.tag_cloud VALUES ($1, $2, $3)"
CLOUD_FORGET = "DELETE FROM shoal.tag_cloud WHERE version <= $1"
INCREMENT_PUT = """
    INSERT INTO shoal.tag_increment (id, at) SELECT id, $2 FROM unnest($1::bytea[]) AS w (id)
    ON CONFLICT (id) DO NOTHING"""
INCREMENT_FORGET = "DELETE FROM shoal.tag_increment WHERE at < $1"
MARK_PUT = """
    INSERT INTO shoal.tag_mark (version, bucket, marks)
    SELECT $1, bucket, marks FROM unnest($2::bigint[], $3::bytea[]) AS w (bucket, marks)"""
COUNT_PUT = """
    INSERT INTO shoal.tag_count (id, name, n, hour, day, week, data)
    SELECT * FROM unnest($1::bigint[], $2::text[], $3::bigint[],
        $4::double precision[], $5::double precision[], $6::double precision[], $7::bytea[])
    ON CONFLICT (id) DO UPDATE SET
        n = excluded.n, hour = excluded.hour, day = excluded.day, week = excluded.week, data = excluded.data"""
COUNT_FORGET = "DELETE FROM shoal.tag_count WHERE id = ANY ($1::bigint[])"
AUTHOR_PUT = """
    INSERT INTO shoal.tag_author (day, tag, member, n)
    SELECT * FROM unnest($1::integer[], $2::bigint[], $3::bigint[], $4::integer[])
    ON CONFLICT (day, tag, member) DO UPDATE SET n = excluded.n"""
AUTHOR_FORGET = """
    DELETE FROM shoal.tag_author AS a USING unnest($1::integer[], $2::bigint[], $3::bigint[]) AS w (day, tag, member)
    WHERE a.day = w.day AND a.tag = w.tag AND a.member = w.member"""
AUTHORS_FORGET = """
    DELETE FROM shoal.tag_author WHERE (day, tag, member) IN (
        SELECT day, tag, member FROM shoal.tag_author WHERE day < $1 ORDER BY day, tag, member LIMIT $2)"""
RULE_PUT = """
    INSERT INTO shoal.tag_rule SELECT * FROM unnest($1::text[], $2::boolean[], $3::text[])
    ON CONFLICT (name) DO UPDATE SET denied = excluded.denied, target = excluded.target"""
RULE_FORGET = "DELETE FROM shoal.tag_rule WHERE name = ANY ($1::text[])"
INBOX_FORGET = "DELETE FROM shoal.tag_inbox WHERE id = ANY ($1::bytea[])"
