"""The event log of a PostgreSQL store.

Concurrent transactions do not commit in the order in which they write. So an entry is at `(history, xid, n)`: the WAL timeline, the
id of its transaction, and its number there. A page ends before the oldest transaction that is still running, so nothing can appear
before an entry that was delivered. If a commit relies on another one, its rows were loaded after that one had committed, so its
transaction began later and has a greater id.

A promoted standby may lack the last commits, and uses their ids again, on a new timeline. The proof of a place is the end of the
WAL on disk when it was read: a place on a former timeline is valid only if that timeline ended behind it.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence

import asyncpg

from shoal.core.errors import InvalidInput
from shoal.graph.contract import CursorTooOld, LogEntry, LogPlace, StorePage
from shoal.graph.event_log import OFF, OTHER_LOG, TRIMMED
from shoal.graph.postgres import sql
from shoal.graph.postgres.connections import LONG_PATIENCE, ConnectionPool

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
    -- Where each WAL timeline began; 0/0 if the server was started again before its first entry.
    CREATE TABLE shoal.event_log_history (
        history bigint PRIMARY KEY,
        begun pg_lsn NOT NULL
    );
    -- The number of the log, 0 while it is off, and the position up to which it was trimmed.
    ALTER TABLE shoal.owner ADD COLUMN log bigint NOT NULL DEFAULT 0, ADD COLUMN log_trimmed bigint[] NOT NULL DEFAULT '{}';
    CREATE FUNCTION shoal.log(
        kinds smallint[], subjects bigint[], objects bigint[], others bigint[], versions bigint[]
    ) RETURNS void LANGUAGE plpgsql AS $$
    DECLARE
        now_history bigint := shoal.history();
    BEGIN
        INSERT INTO shoal.event_log (history, xid, n, at, kind, subject, object, other, version)
        SELECT now_history, pg_current_xact_id()::text::bigint, e.n, extract(epoch FROM clock_timestamp()) * 1000,
            e.kind, e.subject, e.object, e.other, e.version
        FROM unnest(kinds, subjects, objects, others, versions)
            WITH ORDINALITY AS e (kind, subject, object, other, version, n);
        IF NOT EXISTS (SELECT FROM shoal.event_log_history WHERE history = now_history) THEN
            INSERT INTO shoal.event_log_history VALUES (now_history, coalesce(pg_last_wal_replay_lsn(), '0/0'))
            ON CONFLICT DO NOTHING;
        END IF;
    END $$;
    -- The marker of a move, unless the shards are open in this store already: then it was written before.
    CREATE FUNCTION shoal.log_moved(shards smallint[], from_log bigint, from_history bigint, from_xid bigint)
    RETURNS void LANGUAGE plpgsql AS $$
    BEGIN
        IF EXISTS (SELECT FROM shoal.owner WHERE log <> 0)
            AND EXISTS (SELECT FROM shoal.moving WHERE shard = ANY (shards) AND state = 'away' AND until IS NULL)
        THEN
            PERFORM shoal.log('{0}', ARRAY[from_log], ARRAY[from_history], ARRAY[from_xid], '{0}');
        END IF;
    END $$;
"""

# A copy of the database on another server has other transaction ids, so its log has another number.
# `ended` is where the timeline $1 ended, if the next one is known: on a promoted server, the end of what it had replayed.
_STATE = """
    SELECT CASE WHEN o.log = 0 THEN 0 ELSE (o.log # c.system_identifier) & 4611686018427387903 END AS log,
        o.log_trimmed AS trimmed, h.now AS timeline, pg_snapshot_xmin(pg_current_snapshot())::text::bigint AS horizon,
        pg_snapshot_xmax(pg_current_snapshot())::text::bigint AS beyond,
        (pg_current_wal_flush_lsn() - '0/0'::pg_lsn)::bigint AS wal_end,
        (coalesce(
            (SELECT begun FROM shoal.event_log_history WHERE history = $1::bigint + 1),
            CASE WHEN h.now = $1 + 1 THEN pg_last_wal_replay_lsn() END
        ) - '0/0'::pg_lsn)::bigint AS ended
    FROM shoal.owner AS o, pg_control_system() AS c, shoal.history() AS h (now)"""
# Both parts are constants.
_PAGE = f"""
    SELECT s.*, e.* FROM ({_STATE}) AS s LEFT JOIN LATERAL (
        SELECT l.history, l.xid, l.n, l.at, l.kind, l.subject, l.object, l.other, l.version FROM shoal.event_log AS l
        WHERE (l.history, l.xid, l.n) > ($1::bigint, $2::bigint, $3::bigint) AND l.xid < s.horizon
        ORDER BY l.history, l.xid, l.n LIMIT $4
    ) AS e ON true ORDER BY e.history, e.xid, e.n"""  # noqa: S608
_TRIM = """
    WITH oldest AS (
        SELECT history, xid, n, bool_and(at < $1) OVER (ORDER BY history, xid, n) AS old
        FROM (SELECT * FROM shoal.event_log ORDER BY history, xid, n LIMIT $2) AS first
    ), gone AS (
        DELETE FROM shoal.event_log AS l USING oldest AS o
        WHERE o.old AND l.history = o.history AND l.xid = o.xid AND l.n = o.n RETURNING l.history, l.xid, l.n
    ), trimmed AS (
        UPDATE shoal.owner SET log_trimmed = (
            SELECT ARRAY[history, xid, n] FROM gone ORDER BY history DESC, xid DESC, n DESC LIMIT 1)
        WHERE EXISTS (SELECT FROM gone)
    ) SELECT count(*) FROM gone"""
_TRIMMED_AT_ONCE = 5_000
_POSITION = 3
"""Numbers in a position."""
_LOG = "SELECT log FROM shoal.owner"
_SWITCH = "UPDATE shoal.owner SET log = $1, log_trimmed = '{}'"
_CLOSE_TO_OLDER = (
    "UPDATE shoal.version SET readable_from = applied WHERE applied = (SELECT max(applied) FROM shoal.version)"
)
MOVED = "SELECT shoal.log_moved($1::smallint[], $2, $3, $4)"


async def switch(connection: asyncpg.Connection, *, on: bool) -> None:
    """Turn the event log on, with a new number, or off, which deletes it. Does nothing if it is so already.

    While it is on, code that does not know it cannot use the store: its commits would be missing.
    """
    if bool(await connection.fetchval(_LOG)) is on:
        return
    async with connection.transaction():
        # Waits for running commits. Later ones notice that the number has changed.
        await connection.execute(sql.OWNER_LOCK)
        if bool(await connection.fetchval(_LOG)) is on:
            return
        await connection.execute("TRUNCATE shoal.event_log, shoal.event_log_history")
        await connection.execute(_SWITCH, secrets.randbits(62) + 1 if on else 0)
        if on:
            await connection.execute(_CLOSE_TO_OLDER)


async def end(pool: ConnectionPool) -> StorePage:
    """Return an empty page at the end of the log. Every transaction that commits later has an id from its `xid` on."""
    state = (await pool.ask(_STATE, 0))[0]
    if not state["log"]:
        raise InvalidInput(OFF)
    return StorePage(state["log"], (), LogPlace((state["timeline"], state["horizon"], 0), state["wal_end"]))


async def handover(pool: ConnectionPool) -> tuple[int, int, int] | None:
    """Return the log, the timeline and a transaction id above those of all commits so far; None if the log is off."""
    state = (await pool.ask(_STATE, 0))[0]
    return (state["log"], state["timeline"], state["beyond"]) if state["log"] else None


async def page(pool: ConnectionPool, places: Mapping[int, LogPlace], limit: int) -> StorePage:
    log = (await pool.ask(_STATE, 0))[0]["log"]
    place = places.get(log)
    after: Sequence[int] = place.position if place is not None else (0, 0, 0)
    if len(after) != _POSITION:
        raise CursorTooOld(OTHER_LOG)
    rows = await pool.ask(_PAGE, *after, limit + 1)
    state = rows[0]
    if not log:
        raise InvalidInput(OFF)
    if state["log"] != log:
        raise CursorTooOld(OTHER_LOG)
    if place is not None:
        _check(place, state)
    entries = [LogEntry(log, (row[7], row[8], row[9]), *row[10:]) for row in rows if row[7] is not None]
    more, proof = len(entries) > limit, state["wal_end"]
    entries = entries[:limit]
    if more:
        return StorePage(log, entries, LogPlace(entries[-1].position, proof), more=True, proof=proof)
    # All earlier transactions have ended, and their entries are in this page or were delivered before.
    reached = max(tuple(after), (state["timeline"], state["horizon"], 0))
    return StorePage(log, entries, LogPlace(reached, proof if entries or place is None else place.proof), proof=proof)


def _check(place: LogPlace, state: asyncpg.Record) -> None:
    """Raise `CursorTooOld` if entries after the place were trimmed, or entries before it may be lost."""
    if place.position < tuple(state["trimmed"]):
        raise CursorTooOld(TRIMMED)
    history, now, ended = place.position[0], state["timeline"], state["ended"]
    if history > now or (history < now and (ended is None or place.proof > ended)):
        raise CursorTooOld(OTHER_LOG)


async def trim(pool: ConnectionPool, before: int) -> int:
    trimmed, page = 0, _TRIMMED_AT_ONCE
    while page == _TRIMMED_AT_ONCE:
        page = (await pool.ask(_TRIM, before, _TRIMMED_AT_ONCE, patience=LONG_PATIENCE))[0][0]
        trimmed += page
    return trimmed
