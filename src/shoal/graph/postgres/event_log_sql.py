"""The tables, functions and statements of the event log in a PostgreSQL store: `event_log`."""

from __future__ import annotations

MIGRATION = """
    CREATE TABLE shoal.event_log (
        history bigint NOT NULL,
        xid bigint NOT NULL,
        n integer NOT NULL,
        kind smallint NOT NULL,
        at bigint NOT NULL,
        subject bigint NOT NULL,
        object bigint NOT NULL,
        other bigint NOT NULL,
        version bigint NOT NULL,
        PRIMARY KEY (history, xid, n)
    );
    -- The end of the WAL at which each timeline began; 0/0 if it is unknown.
    CREATE TABLE shoal.event_log_history (
        history bigint PRIMARY KEY,
        begun pg_lsn NOT NULL
    );
    -- The number of the log, 0 while it is off, and the position up to which it was trimmed.
    ALTER TABLE shoal.owner ADD COLUMN log bigint NOT NULL DEFAULT 0, ADD COLUMN log_trimmed bigint[] NOT NULL DEFAULT '{}';
    -- A promoted server reports its last replayed position until it is restarted. Recovery after a crash sets this position
    -- too, but no time of a replayed commit.
    CREATE FUNCTION shoal.log_begun() RETURNS pg_lsn LANGUAGE sql VOLATILE AS $$
        SELECT CASE WHEN pg_last_xact_replay_timestamp() IS NULL THEN '0/0'
            ELSE coalesce(pg_last_wal_replay_lsn(), '0/0') END
    $$;
    CREATE FUNCTION shoal.log_history() RETURNS void LANGUAGE sql VOLATILE AS $$
        INSERT INTO shoal.event_log_history
        SELECT h.now, shoal.log_begun() FROM shoal.history() AS h (now)
        WHERE EXISTS (SELECT FROM shoal.owner WHERE log <> 0)
            AND NOT EXISTS (SELECT FROM shoal.event_log_history WHERE history = h.now)
        ON CONFLICT DO NOTHING
    $$;
    CREATE FUNCTION shoal.log(
        kinds smallint[], subjects bigint[], objects bigint[], others bigint[], versions bigint[]
    ) RETURNS void LANGUAGE plpgsql AS $$
    BEGIN
        INSERT INTO shoal.event_log (history, xid, n, at, kind, subject, object, other, version)
        SELECT shoal.history(), pg_current_xact_id()::text::bigint, e.n, extract(epoch FROM clock_timestamp()) * 1000,
            e.kind, e.subject, e.object, e.other, e.version
        FROM unnest(kinds, subjects, objects, others, versions)
            WITH ORDINALITY AS e (kind, subject, object, other, version, n);
    END $$;
    -- The marker of a move, unless the shards are open in this store already: then it was written before. It is durable before a
    -- reader sees it: see `event_log`.
    CREATE FUNCTION shoal.log_moved(shards smallint[], from_log bigint, from_history bigint, from_xid bigint)
    RETURNS void LANGUAGE plpgsql AS $$
    BEGIN
        IF EXISTS (SELECT FROM shoal.owner WHERE log <> 0)
            AND EXISTS (SELECT FROM shoal.moving WHERE shard = ANY (shards) AND state = 'away' AND until IS NULL)
        THEN
            PERFORM set_config('synchronous_commit', 'on', true);
            PERFORM shoal.log('{0}', ARRAY[from_log], ARRAY[from_history], ARRAY[from_xid], '{0}');
        END IF;
    END $$;
"""

# A copy of the database has other transaction ids, so its log has another number: it depends on the server and the database.
# The constant is 2^62 - 1.
STATE = """
    SELECT CASE WHEN o.log = 0 THEN 0 ELSE (o.log # c.system_identifier # d.oid::bigint) & 4611686018427387903 END AS log,
        o.log_trimmed AS trimmed, h.now AS timeline, pg_snapshot_xmin(pg_current_snapshot())::text::bigint AS horizon,
        pg_snapshot_xmax(pg_current_snapshot())::text::bigint AS beyond,
        (pg_current_wal_flush_lsn() - '0/0'::pg_lsn)::bigint AS wal_end
    FROM shoal.owner AS o, pg_control_system() AS c, shoal.history() AS h (now), pg_database AS d
    WHERE d.datname = current_database()"""
_ENDED = """
    (coalesce(
        (SELECT begun FROM shoal.event_log_history WHERE history - 1 = {0}),
        CASE WHEN s.timeline - 1 = {0} THEN shoal.log_begun() END
    ) - '0/0'::pg_lsn)::bigint"""
# The values are arrays with the log, the timeline, the transaction id, the number and the timeline of the proof of each place.
# `proof_ended` is where the timeline of the proof ended, if the following timeline is known. Both row comparisons limit the range
# of the primary key: timelines that have ended have smaller transaction ids.
PAGE = f"""
    SELECT s.log, s.trimmed, s.timeline, s.horizon, s.wal_end, {_ENDED.format("p.proof_history")} AS proof_ended,
        (SELECT c.at FROM shoal.event_log AS c WHERE (c.history, c.xid, c.n) = (p.history, p.xid, p.n)) AS proof_at, e.*
    FROM ({STATE}) AS s
    LEFT JOIN unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[])
        AS p (log, history, xid, n, proof_history) ON p.log = s.log
    LEFT JOIN LATERAL (
        SELECT l.history, l.xid, l.n, l.at, l.kind, l.subject, l.object, l.other, l.version FROM shoal.event_log AS l
        WHERE (l.history, l.xid, l.n) > (coalesce(p.history, 0), coalesce(p.xid, 0), coalesce(p.n, 0))
            AND (l.history, l.xid) < (s.timeline, s.horizon)
        ORDER BY l.history, l.xid, l.n LIMIT $6
    ) AS e ON true ORDER BY e.history, e.xid, e.n"""  # noqa: S608  # all parts are constants
END = f"""
    SELECT s.*, e.* FROM ({STATE}) AS s LEFT JOIN LATERAL (
        SELECT l.history, l.xid, l.n, l.at FROM shoal.event_log AS l WHERE (l.history, l.xid) < (s.timeline, s.horizon)
        ORDER BY l.history DESC, l.xid DESC, l.n DESC LIMIT 1
    ) AS e ON true"""  # noqa: S608
# One process trims at a time. The lock comes first, as in `event_log.switch`. The position only rises.
TRIM = """
    WITH mine AS (
        SELECT id FROM shoal.owner FOR UPDATE SKIP LOCKED
    ), oldest AS (
        SELECT l.history, l.xid, l.n, bool_and(l.at < $1) OVER (ORDER BY l.history, l.xid, l.n) AS old
        FROM mine CROSS JOIN LATERAL (SELECT * FROM shoal.event_log ORDER BY history, xid, n LIMIT $2) AS l
    ), gone AS (
        DELETE FROM shoal.event_log AS l USING oldest AS o
        WHERE o.old AND l.history = o.history AND l.xid = o.xid AND l.n = o.n RETURNING l.history, l.xid, l.n
    ), newest AS (
        SELECT ARRAY[history, xid, n] AS position FROM gone ORDER BY history DESC, xid DESC, n DESC LIMIT 1
    ), trimmed AS (
        UPDATE shoal.owner SET log_trimmed = newest.position FROM newest WHERE log_trimmed < newest.position
    ) SELECT count(*) FROM gone"""
LOG = "SELECT log FROM shoal.owner"
CLEAR = "TRUNCATE shoal.event_log, shoal.event_log_history"
SWITCH = "UPDATE shoal.owner SET log = $1, log_trimmed = '{}'"
READABLE_FROM = "UPDATE shoal.version SET readable_from = $1 WHERE applied = $2"
MOVED = "SELECT shoal.log_moved($1::smallint[], $2, $3, $4)"
