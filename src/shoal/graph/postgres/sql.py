"""The named SQL statements of the PostgreSQL store. Its tables and functions: `schema`.

A query for many rows is one statement whose arguments are arrays.
"""

from __future__ import annotations

from shoal.graph.schema import ASSOC_TYPES, UNSWEPT, WITH_HISTORY

HISTORY_TYPES = f"({', '.join(map(str, sorted(WITH_HISTORY)))})"
UNSWEPT_TYPES = f"({', '.join(map(str, sorted(UNSWEPT)))})"
ENDED_LISTED_TYPES = f"({', '.join(str(atype.number) for atype in ASSOC_TYPES.values() if atype.ended_listed)})"
COVERED_TYPES = f"({', '.join(str(atype.number) for atype in ASSOC_TYPES.values() if atype.covered)})"
"""Indexes name these types, so adding a type that existing stores contain needs a new schema version."""

LOCK_MIGRATION = "SELECT pg_advisory_xact_lock(hashtext('shoal.migration'))"
AWAIT_MIGRATION = "SELECT pg_advisory_xact_lock_shared(hashtext('shoal.migration'))"
STATE = """
    SELECT to_regnamespace('shoal') IS NOT NULL AS schema, to_regclass('shoal.version') IS NOT NULL AS ours,
        current_setting('server_encoding') AS encoding"""
IS_THERE = "SELECT to_regclass($1) IS NOT NULL"
VERSIONS = "CREATE TABLE IF NOT EXISTS shoal.{} (applied integer PRIMARY KEY, readable_from integer)"
# Tables of the first releases lack `readable_from`. Look for it first: `ADD COLUMN IF NOT EXISTS` waits for every transaction that
# has read the table, even if the column exists.
LACKS_READABLE_FROM = """
    SELECT NOT EXISTS (SELECT FROM pg_attribute WHERE attrelid = to_regclass($1) AND attname = 'readable_from')"""
ADD_READABLE_FROM = "ALTER TABLE shoal.{} ADD COLUMN readable_from integer"
VERSION = "SELECT coalesce(max(applied), 0) FROM shoal.{}"
APPLIED = "INSERT INTO shoal.{} (applied, readable_from) VALUES ($1, $2)"
# The result is null if the newest applied version has no `readable_from`: then no older code can read that version.
READABLE_FROM = """
    SELECT max(readable_from) FROM shoal.{0}
    WHERE EXISTS (SELECT FROM shoal.{0} WHERE applied = $1 AND readable_from IS NOT NULL)"""
# This lock is held for the duration of an online upgrade.
KEEP_MIGRATION = "SELECT pg_try_advisory_lock(hashtext('shoal.upgrade'))"
LET_MIGRATE = "SELECT pg_advisory_unlock(hashtext('shoal.upgrade'))"
MAY_MIGRATE = "SELECT pg_try_advisory_xact_lock_shared(hashtext('shoal.upgrade'))"
SESSIONS = (
    "SELECT application_name FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE $1"
)
# The view `pg_locks` shows the 64-bit key of an advisory lock in two columns.
UNNAMED_OWNER = """
    SELECT EXISTS (
        SELECT FROM pg_locks AS l JOIN pg_database AS d ON d.oid = l.database JOIN pg_stat_activity AS a USING (pid)
        WHERE d.datname = current_database() AND l.locktype = 'advisory' AND l.objsubid = 1
            AND (l.classid::bigint << 32 | l.objid::bigint) = hashtext('shoal.owner') AND a.application_name NOT LIKE $1)"""
SHORT_LOCKS = "SET LOCAL lock_timeout = '4s'"
IS_VALID_INDEX = "SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass($1)"
INDEX_PROGRESS = """
    SELECT phase, CASE WHEN tuples_total > 0 THEN tuples_done ELSE blocks_done END AS done,
        greatest(CASE WHEN tuples_total > 0 THEN tuples_total ELSE blocks_total END, 1) AS total
    FROM pg_stat_progress_create_index WHERE pid = $1"""

OWN_ALONE = "SELECT pg_try_advisory_lock(hashtext('shoal.owner'))"
OWN_SHARED = "SELECT pg_try_advisory_lock_shared(hashtext('shoal.owner'))"
OWNER = "SELECT id FROM shoal.owner"
OWNER_LOCK = "LOCK TABLE shoal.owner IN ACCESS EXCLUSIVE MODE"
OWNER_SET = "UPDATE shoal.owner SET id = $1"
LOG_HISTORY = "SELECT shoal.log_history()"
DISOWN = "SELECT pg_advisory_unlock_all()"

OBJ_GET = "SELECT data FROM shoal.object WHERE id = ANY ($1::bigint[])"
OBJ_SCAN = "SELECT data FROM shoal.object WHERE id > $1 ORDER BY id LIMIT $2"

# LATERAL with OFFSET 0: one index lookup for each row, whatever the planner's statistics say.
KEY_GET = """
    SELECT k.space, k.name, k.id, k.until FROM unnest($1::text[], $2::text[]) AS w (space, name)
    CROSS JOIN LATERAL (SELECT * FROM shoal.key WHERE space = w.space AND name = w.name OFFSET 0) AS k"""
ASSOC_GET = """
    SELECT atype, id2, time, data FROM shoal.association
    WHERE id1 = $1 AND atype = ANY ($2::smallint[]) AND id2 = ANY ($3::bigint[]) AND alive"""
ASSOC_ENDED = ASSOC_GET.replace("AND alive", "AND NOT alive")
# Statements list the types of the partial index to use. From the parameter $2 alone, the planner cannot see that the index applies.
OF_INDEX = {True: f"IN {COVERED_TYPES}", False: f"NOT IN {COVERED_TYPES}"}
_RANGE = """
    SELECT id2, time, data FROM shoal.association
    WHERE id1 = $1 AND atype = $2 AND atype {} AND alive AND time < $3 AND time > $4 ORDER BY time DESC, id2 DESC LIMIT $5"""
# Row comparisons prevent the planner from using an index on time alone, which would read the tombstones of all members.
_ENDED_RANGE = """
    SELECT id2, time, data FROM shoal.association
    WHERE (id1, atype, time) < ($1::bigint, $2::smallint, $3::bigint)
        AND (id1, atype, time) > ($1::bigint, $2::smallint, $4::bigint)
        AND NOT alive AND atype IN {} ORDER BY id1 DESC, atype DESC, time DESC, id2 DESC LIMIT $5"""
ASSOC_ENDED_RANGE = _ENDED_RANGE.format(ENDED_LISTED_TYPES)
ASSOC_ENDED_RANGE_OLDEST = ASSOC_ENDED_RANGE.replace("DESC", "ASC")
_RANGES = """
    SELECT w.id1, a.id2, a.time, a.data FROM unnest($1::bigint[]) AS w (id1)
    CROSS JOIN LATERAL (
        SELECT id2, time, data FROM shoal.association
        WHERE id1 = w.id1 AND atype = $2 AND atype {} AND alive AND time < $3 AND time > $4
        ORDER BY time DESC, id2 DESC LIMIT $5
    ) AS a"""
# A statement for each pair: whether the type is `covered`, and whether the oldest entries come first.
ASSOC_RANGE, ASSOC_RANGES = (
    {
        (covered, oldest_first): statement.format(types).replace("DESC", "ASC" if oldest_first else "DESC")
        for covered, types in OF_INDEX.items()
        for oldest_first in (False, True)
    }
    for statement in (_RANGE, _RANGES)
)
ASSOC_SCAN = """
    SELECT id1, atype, id2, time, alive, data FROM shoal.association
    WHERE (id1, atype, id2) > ($1::bigint, $2::bigint, $3::bigint) ORDER BY id1, atype, id2 LIMIT $4"""
COUNT_GET = """
    SELECT atype, id1, n FROM shoal.count
    WHERE id1 = ANY ($1::bigint[]) AND atype = ANY ($2::smallint[]) AND n <> 0"""
COUNT_SCAN = """
    SELECT id1, atype, n FROM shoal.count
    WHERE (id1, atype) > ($1::bigint, $2::bigint) ORDER BY id1, atype LIMIT $3"""

# Loads all rows that the batches of a group commit read or write, in one result with the same columns for three kinds of rows.
LOAD = """
    SELECT 1 AS kind, o.revision, o.id, o.version::bigint, 0::bigint, 0::bigint, false, ''::bytea, '', ''
    FROM shoal.object AS o WHERE o.id = ANY ($1::bigint[])
    UNION ALL
    SELECT 2, a.revision, a.id1, a.atype, a.id2, a.time, a.alive, a.data, '', ''
    FROM unnest($2::bigint[], $3::smallint[], $4::bigint[]) AS w (id1, atype, id2)
    CROSS JOIN LATERAL (
        SELECT * FROM shoal.association WHERE id1 = w.id1 AND atype = w.atype AND id2 = w.id2 OFFSET 0) AS a
    UNION ALL
    SELECT 3, k.revision, k.id, k.until, 0, 0, false, '', k.space, k.name
    FROM unnest($5::text[], $6::text[]) AS w (space, name)
    CROSS JOIN LATERAL (SELECT * FROM shoal.key WHERE space = w.space AND name = w.name OFFSET 0) AS k"""

COMMIT = f"SELECT shoal.commit({', '.join(f'${number}' for number in range(1, 38))})"
COMMIT_LOGGED = f"SELECT shoal.commit_logged({', '.join(f'${number}' for number in range(1, 44))})"
CURRENT_LOG = "SELECT log FROM shoal.owner WHERE id = $1"

COUNT_SET = """
    WITH watched AS (
        SELECT shoal.watch('{}', '{}', '{}', '{}', ARRAY[$1::bigint], ARRAY[$2::smallint], '{}', '{}', '{}')
    )
    INSERT INTO shoal.count (id1, atype, n) SELECT $1, $2, $3 FROM watched
    ON CONFLICT (id1, atype) DO UPDATE SET n = excluded.n"""
KEY_WATCH = "SELECT shoal.watch('{}', '{}', '{}', '{}', '{}', '{}', $1::text[], $2::text[], $3::smallint[])"
# Rows of shards that are being moved are skipped: the target store deletes them. A page starts at the time at which the
# previous one ended, so that it does not read the dead index entries of the rows that were just deleted.
_SWEEP = """
    WITH dead AS (
        SELECT id1, atype, id2 FROM shoal.association
        WHERE NOT alive AND time >= $1 AND time < $2 AND atype {}
            AND NOT EXISTS (SELECT FROM shoal.moving WHERE shard = shoal.shard_of(id1))
        ORDER BY time LIMIT $3 FOR UPDATE SKIP LOCKED
    ), swept AS (
        DELETE FROM shoal.association AS a USING dead AS d
        WHERE a.id1 = d.id1 AND a.atype = d.atype AND a.id2 = d.id2 RETURNING time
    ) SELECT count(*), max(time) FROM swept"""
ASSOC_SWEEP = _SWEEP.format(f"NOT IN {UNSWEPT_TYPES}")
HISTORY_SWEEP = _SWEEP.format(f"IN {HISTORY_TYPES}")
KEY_SWEEP = """
    WITH dead AS (
        SELECT space, name FROM shoal.key
        WHERE until > 0 AND until >= $1 AND until <= $2
            AND NOT EXISTS (SELECT FROM shoal.moving WHERE shard = shoal.key_shard(space, name, id))
        ORDER BY until LIMIT $3 FOR UPDATE SKIP LOCKED
    ), swept AS (
        DELETE FROM shoal.key AS k USING dead AS d WHERE k.space = d.space AND k.name = d.name RETURNING until
    ) SELECT count(*), max(until) FROM swept"""

SETTLE = "SELECT shoal.settle($1::bigint[], $2, $3, $4, $5, $6, $7)"
CLAIM = "SELECT seq, event, step, mark, attempt FROM shoal.claim($1::bigint[], $2, $3, $4, $5, $6, $7, $8, $9)"
LET_GO = "UPDATE shoal.outbox SET ready_at = now(), leased = false, holder = NULL WHERE holder = $1"
LET_GO_BUT = LET_GO + " AND leased AND NOT seq = ANY ($2::bigint[])"
OUTBOX_SIZE = "SELECT count(*) FROM shoal.outbox"
# The lowest numbers are the oldest events, except for the few that were parked and resumed.
OUTBOX_LAG = """
    SELECT extract(epoch FROM now() - min(since))::double precision
    FROM (SELECT since FROM shoal.outbox ORDER BY seq LIMIT 1000) AS first"""
PARK = """
    WITH done AS (DELETE FROM shoal.outbox WHERE seq = $1)
    INSERT INTO shoal.buried (seq, event, step, mark, attempt, error) VALUES ($1, $2, $3, $4, $5, $6)
    ON CONFLICT (seq) DO UPDATE SET
        step = excluded.step, mark = excluded.mark, attempt = excluded.attempt, error = excluded.error"""
PARKED = "SELECT seq, event, step, mark, attempt, error FROM shoal.buried ORDER BY seq"
UNPARK = """
    WITH given AS (DELETE FROM shoal.buried WHERE seq = ANY ($1::bigint[]) RETURNING seq, event, step, mark)
    INSERT INTO shoal.outbox (seq, ready_at, event, step, mark) OVERRIDING SYSTEM VALUE
    SELECT seq, now(), event, step, mark FROM given ON CONFLICT (seq) DO NOTHING RETURNING seq"""
