"""The schema of the PostgreSQL store: its tables, and the functions that change many rows in one call.

Everything is in a separate schema. The `revision` of a row identifies the state on which a decision was based: it starts at a
random number, so that a row that was deleted and created again has another revision, and each change adds 1. Tables:
docs/data-layout.md.
"""

from __future__ import annotations

from shoal.graph.migrations import Migration, TableIndex, short
from shoal.graph.postgres.event_log_sql import MIGRATION as EVENT_LOG
from shoal.graph.postgres.moves_sql import BY_SHARD, EXTERNAL_IDS_BY_NAME
from shoal.graph.postgres.moves_sql import MIGRATION as MOVING
from shoal.graph.postgres.ranks import DIVIDE_BY_LISTED
from shoal.graph.postgres.ranks import MIGRATION as RANKS
from shoal.graph.postgres.sql import ENDED_LISTED_TYPES, HISTORY_TYPES, OF_INDEX, UNSWEPT_TYPES

_TABLES = """
    CREATE SCHEMA shoal;
    CREATE TABLE shoal.version (
        applied integer PRIMARY KEY
    );
    CREATE TABLE shoal.object (
        id bigint PRIMARY KEY,
        version integer NOT NULL,
        revision integer NOT NULL,
        data bytea NOT NULL
    ) WITH (fillfactor = 90);
    CREATE TABLE shoal.association (
        id1 bigint NOT NULL,
        id2 bigint NOT NULL,
        time bigint NOT NULL,
        revision integer NOT NULL,
        atype smallint NOT NULL,
        alive boolean NOT NULL,
        data bytea NOT NULL,
        PRIMARY KEY (id1, atype, id2)
    );
    CREATE INDEX association_by_time ON shoal.association (id1, atype, time, id2) WHERE alive;
    CREATE INDEX association_ended ON shoal.association (time) WHERE NOT alive;
    -- Counts change in place: the room for that is left in every page.
    CREATE TABLE shoal.count (
        id1 bigint NOT NULL,
        n bigint NOT NULL,
        atype smallint NOT NULL,
        PRIMARY KEY (id1, atype)
    ) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05);
    CREATE TABLE shoal.key (
        id bigint NOT NULL,
        until bigint NOT NULL,
        revision integer NOT NULL,
        source smallint NOT NULL,
        space text COLLATE "C" NOT NULL,
        name text COLLATE "C" NOT NULL,
        PRIMARY KEY (space, name)
    );
    CREATE INDEX key_by_end ON shoal.key (until) WHERE until > 0;
    -- Rows are short-lived and are found by due time: vacuum must remove dead rows soon, however many are alive.
    CREATE TABLE shoal.outbox (
        seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        ready_at timestamptz NOT NULL,
        since timestamptz NOT NULL DEFAULT now(),
        mark bigint NOT NULL DEFAULT 0,
        holder bigint,
        step integer NOT NULL DEFAULT 0,
        attempt integer NOT NULL DEFAULT 0,
        leased boolean NOT NULL DEFAULT false,
        event bytea NOT NULL
    ) WITH (
        autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0,
        autovacuum_vacuum_insert_threshold = -1, autovacuum_analyze_scale_factor = 0,
        autovacuum_analyze_threshold = 100000
    );
    CREATE INDEX outbox_due ON shoal.outbox (ready_at, seq);
    CREATE TABLE shoal.buried (
        seq bigint PRIMARY KEY,
        mark bigint NOT NULL,
        step integer NOT NULL,
        attempt integer NOT NULL,
        event bytea NOT NULL,
        error text NOT NULL
    );
    -- Who opened the store alone the last time; 0 after an opening that was shared.
    CREATE TABLE shoal.owner (
        one boolean PRIMARY KEY DEFAULT true CHECK (one),
        id bigint NOT NULL
    );
    INSERT INTO shoal.owner (id) VALUES (0);
    -- Data sources that are being moved to another store, and the names of the rows written during the move.
    CREATE TABLE shoal.moving (
        source smallint PRIMARY KEY CHECK (source BETWEEN 0 AND 63),
        state text NOT NULL CHECK (state IN ('copying', 'frozen'))
    );
    CREATE TABLE shoal.journal (
        seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        kind text NOT NULL CHECK (kind IN ('object', 'association', 'count', 'key')),
        a bigint,
        b bigint,
        c bigint,
        space text,
        name text
    );
    CREATE FUNCTION shoal.source_of(id bigint) RETURNS smallint LANGUAGE sql IMMUTABLE PARALLEL SAFE AS
        'SELECT (((id >> 10) & 8191) / 128)::smallint';
"""

# In the arguments of `commit`, a new row has a positive revision; a row that replaces revision r has -(r + 1). So one INSERT serves
# both, in the order of its rows, and its result shows whether every row was in the expected state: a new row that already existed
# is not returned, and a replacement whose old row was deleted keeps its negative revision. Rows that were only read are locked last
# and without waiting: sessions that hold their locks may be waiting for us.
#
# Reading `moving` or `owner` locks that table against changes until the end of the transaction. So when a change of the table has
# been committed, every running commit has read the changed table.
#
# A promoted standby may lack the last numbers of the outbox sequence and use them again. A worker that holds a lost event
# would then acknowledge the new event with its number. Therefore the high bits of an event number are the server's WAL timeline
# (`history`).
_HISTORY_OF_EVENTS = """
    CREATE FUNCTION shoal.history() RETURNS bigint LANGUAGE sql VOLATILE AS
        $$ SELECT ('x' || substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8))::bit(32)::bigint $$;
"""
_COMMIT = """
    CREATE OR REPLACE FUNCTION shoal.commit(
        owned_by bigint,
        object_ids bigint[], object_versions integer[], object_revisions integer[], object_data bytea[],
        gone_ids bigint[], gone_revisions integer[],
        link_id1s bigint[], link_atypes smallint[], link_id2s bigint[], link_times bigint[], link_revisions integer[],
        link_alive boolean[], link_data bytea[],
        count_id1s bigint[], count_atypes smallint[], count_ns bigint[],
        key_spaces text[], key_names text[], key_ids bigint[], key_untils bigint[], key_revisions integer[],
        key_sources smallint[],
        lost_spaces text[], lost_names text[], lost_revisions integer[], lost_sources smallint[],
        events bytea[], event_delays double precision[],
        expected_ids bigint[],
        seen_id1s bigint[], seen_atypes smallint[], seen_id2s bigint[], seen_revisions integer[],
        seen_spaces text[], seen_names text[], seen_key_revisions integer[]
    ) RETURNS bigint[] LANGUAGE plpgsql AS $$
    #variable_conflict use_column
    DECLARE
        fits boolean;
        seqs bigint[] := '{}';
        past bigint;
    BEGIN
        IF NOT EXISTS (SELECT FROM shoal.owner WHERE id = owned_by) THEN
            RAISE EXCEPTION 'others have the store' USING ERRCODE = 'SHOUT';
        END IF;
        IF EXISTS (SELECT FROM shoal.moving) THEN
            PERFORM shoal.watch(
                object_ids || gone_ids, link_id1s, link_atypes, link_id2s, count_id1s, count_atypes,
                key_spaces || lost_spaces, key_names || lost_names, key_sources || lost_sources);
        END IF;
        IF cardinality(object_ids) > 0 THEN
            WITH put AS (
                INSERT INTO shoal.object AS o (id, version, revision, data)
                SELECT * FROM unnest(object_ids, object_versions, object_revisions, object_data)
                ON CONFLICT (id) DO UPDATE
                SET version = excluded.version, revision = -excluded.revision, data = excluded.data
                WHERE o.revision = -excluded.revision - 1
                RETURNING revision
            ) SELECT count(*) FILTER (WHERE revision > 0) = cardinality(object_ids) INTO fits FROM put;
            IF NOT fits THEN
                RAISE EXCEPTION 'an object has changed' USING ERRCODE = 'SHOLD';
            END IF;
        END IF;
        IF cardinality(gone_ids) > 0 THEN
            WITH gone AS (
                DELETE FROM shoal.object WHERE id = ANY (gone_ids) RETURNING id, revision
            ) SELECT coalesce(array_agg(revision ORDER BY id), '{}') = gone_revisions INTO fits FROM gone;
            IF NOT fits THEN
                RAISE EXCEPTION 'an object has changed' USING ERRCODE = 'SHOLD';
            END IF;
        END IF;
        IF cardinality(link_id1s) > 0 THEN
            WITH put AS (
                INSERT INTO shoal.association AS a (id1, atype, id2, time, revision, alive, data)
                SELECT * FROM unnest(
                    link_id1s, link_atypes, link_id2s, link_times, link_revisions, link_alive, link_data)
                ON CONFLICT (id1, atype, id2) DO UPDATE
                SET time = excluded.time, revision = -excluded.revision, alive = excluded.alive, data = excluded.data
                WHERE a.revision = -excluded.revision - 1
                RETURNING revision
            ) SELECT count(*) FILTER (WHERE revision > 0) = cardinality(link_id1s) INTO fits FROM put;
            IF NOT fits THEN
                RAISE EXCEPTION 'an association has changed' USING ERRCODE = 'SHOLD';
            END IF;
        END IF;
        IF cardinality(key_ids) > 0 THEN
            WITH put AS (
                INSERT INTO shoal.key AS k (space, name, id, until, revision, source)
                SELECT * FROM unnest(key_spaces, key_names, key_ids, key_untils, key_revisions, key_sources)
                ON CONFLICT (space, name) DO UPDATE
                SET id = excluded.id, until = excluded.until, revision = -excluded.revision
                WHERE k.revision = -excluded.revision - 1
                RETURNING revision
            ) SELECT count(*) FILTER (WHERE revision > 0) = cardinality(key_ids) INTO fits FROM put;
            IF NOT fits THEN
                RAISE EXCEPTION 'a key has changed' USING ERRCODE = 'SHOLD';
            END IF;
        END IF;
        FOR i IN 1 .. cardinality(lost_names) LOOP
            DELETE FROM shoal.key
            WHERE space = lost_spaces[i] AND name = lost_names[i] AND revision = lost_revisions[i];
            IF NOT FOUND THEN
                RAISE EXCEPTION 'a key has changed' USING ERRCODE = 'SHOLD';
            END IF;
        END LOOP;
        IF cardinality(events) > 0 THEN
            past := (shoal.history() - 1) << 40;
            WITH put AS (
                INSERT INTO shoal.outbox (seq, ready_at, event) OVERRIDING SYSTEM VALUE
                SELECT past + nextval('shoal.outbox_seq_seq'), now() + make_interval(secs => e.delay), e.event
                FROM unnest(events, event_delays) WITH ORDINALITY AS e (event, delay, place) ORDER BY e.place
                RETURNING seq
            ) SELECT array_agg(seq ORDER BY seq) INTO seqs FROM put;
        END IF;
        -- Late, for many commits may wait for the same count.
        INSERT INTO shoal.count AS c (id1, atype, n)
        SELECT * FROM unnest(count_id1s, count_atypes, count_ns)
        ON CONFLICT (id1, atype) DO UPDATE SET n = c.n + excluded.n;
        IF cardinality(expected_ids) > 0 THEN
            SELECT count(*) = cardinality(expected_ids) INTO fits FROM (
                SELECT FROM shoal.object WHERE id = ANY (expected_ids) FOR KEY SHARE NOWAIT) AS found;
            IF NOT fits THEN
                RAISE EXCEPTION 'an object has gone' USING ERRCODE = 'SHOLD';
            END IF;
        END IF;
        IF cardinality(seen_id1s) > 0 AND EXISTS (
            SELECT FROM unnest(seen_id1s, seen_atypes, seen_id2s, seen_revisions) AS w (id1, atype, id2, revision)
            LEFT JOIN LATERAL (
                SELECT a.revision FROM shoal.association AS a
                WHERE a.id1 = w.id1 AND a.atype = w.atype AND a.id2 = w.id2 FOR SHARE NOWAIT
            ) AS stored ON true
            WHERE coalesce(stored.revision, 0) <> w.revision
        ) THEN
            RAISE EXCEPTION 'an association has changed' USING ERRCODE = 'SHOLD';
        END IF;
        IF cardinality(seen_names) > 0 AND EXISTS (
            SELECT FROM unnest(seen_spaces, seen_names, seen_key_revisions) AS w (space, name, revision)
            LEFT JOIN LATERAL (
                SELECT k.revision FROM shoal.key AS k WHERE k.space = w.space AND k.name = w.name FOR SHARE NOWAIT
            ) AS stored ON true
            WHERE coalesce(stored.revision, 0) <> w.revision
        ) THEN
            RAISE EXCEPTION 'a key has changed' USING ERRCODE = 'SHOLD';
        END IF;
        RETURN seqs;
    END $$;
"""

# The row of a key does not contain its shard, because `shoal.key_shard` computes the shard.
_COMMIT_BY_SHARD = (
    _COMMIT.replace("revision, source)", "revision)")
    .replace("key_revisions, key_sources)", "key_revisions)")
    .replace("_sources", "_shards")
)

# Each function refuses if the event log was turned on or off since, so that no commit is missing in it.
_COMMIT_UNLOGGED = _COMMIT_BY_SHARD.replace("WHERE id = owned_by)", "WHERE id = owned_by AND log = 0)")
_COMMIT_LOGGED = (
    _COMMIT_BY_SHARD.replace(
        "OR REPLACE FUNCTION shoal.commit(",
        """FUNCTION shoal.commit_logged(
        log_id bigint, log_kinds smallint[], log_subjects bigint[], log_objects bigint[], log_others bigint[],
        log_versions bigint[],""",
    )
    .replace("WHERE id = owned_by)", "WHERE id = owned_by AND log = log_id)")
    .replace(
        "        RETURN seqs;",
        """        IF cardinality(log_kinds) > 0 THEN
            PERFORM shoal.log(log_kinds, log_subjects, log_objects, log_others, log_versions);
        END IF;
        RETURN seqs;""",
    )
)

# Store the acknowledgments, and the progress of jobs to retry, before the claim: otherwise it could return the same jobs.
_CLAIM = """
    CREATE FUNCTION shoal.settle(
        done bigint[], seqs bigint[], steps integer[], marks bigint[], attempts integer[], delays double precision[],
        me bigint
    ) RETURNS void LANGUAGE plpgsql AS $$
    BEGIN
        IF cardinality(done) > 0 THEN
            DELETE FROM shoal.outbox WHERE seq = ANY (done);
        END IF;
        FOR i IN 1 .. cardinality(seqs) LOOP
            -- Whoever took the job over when the lease had ended goes on with it.
            UPDATE shoal.outbox
            SET step = steps[i], mark = marks[i], attempt = attempts[i], leased = false,
                ready_at = now() + make_interval(secs => delays[i])
            WHERE seq = seqs[i] AND holder IS NOT DISTINCT FROM me;
        END LOOP;
    END $$;
    CREATE FUNCTION shoal.claim(
        done bigint[], seqs bigint[], steps integer[], marks bigint[], attempts integer[], delays double precision[],
        me bigint, most integer, lease double precision
    ) RETURNS SETOF shoal.outbox LANGUAGE plpgsql AS $$
    BEGIN
        PERFORM shoal.settle(done, seqs, steps, marks, attempts, delays, me);
        RETURN QUERY
        WITH due AS (
            SELECT seq FROM shoal.outbox WHERE ready_at <= now()
            ORDER BY ready_at, seq LIMIT most FOR UPDATE SKIP LOCKED
        )
        UPDATE shoal.outbox
        SET ready_at = now() + make_interval(secs => lease), leased = true, holder = me,
            attempt = attempt + leased::integer
        WHERE seq = ANY (ARRAY (SELECT seq FROM due))
        RETURNING *;
    END $$;
"""

# Tombstones of types with a history are kept longer. They have a separate index, so that sweeps of the other types do not
# read them.
_HISTORY = Migration(
    (
        TableIndex("association_past", f"shoal.association (time) WHERE NOT alive AND atype IN {HISTORY_TYPES}"),
        TableIndex(
            "association_ended_by_time",
            f"shoal.association (id1, atype, time, id2) WHERE NOT alive AND atype IN {ENDED_LISTED_TYPES}",
        ),
        TableIndex(
            "association_ended_but_remembered",
            f"shoal.association (time) WHERE NOT alive AND atype NOT IN {HISTORY_TYPES}",
        ),
        """
        DROP INDEX shoal.association_ended;
        ALTER INDEX shoal.association_ended_but_remembered RENAME TO association_ended;
        """,
    )
)

# Tombstones of `positional` types (`AssocType`) are kept permanently. The index omits them, so that sweeps do not read them.
_SWEEPABLE = Migration(
    (
        TableIndex(
            "association_sweepable", f"shoal.association (time) WHERE NOT alive AND atype NOT IN {UNSWEPT_TYPES}"
        ),
        "DROP INDEX shoal.association_ended",
    ),
    # Older code can use the store, but sweeps more slowly, without an index.
    4,
)

# Entries of a list that were written at different times are on different pages of the table, but next to each other in its index.
# PostgreSQL reads only the index for pages that vacuum has marked as visible to all transactions. By default, vacuum would run
# only when a fifth of the table is new.
_COVERED = Migration(
    (
        TableIndex(
            "association_listed",
            f"shoal.association (id1, atype, time, id2) INCLUDE (data) WHERE alive AND atype {OF_INDEX[True]}",
        ),
        TableIndex(
            "association_by_time_of_others",
            f"shoal.association (id1, atype, time, id2) WHERE alive AND atype {OF_INDEX[False]}",
        ),
        f"""
        {DIVIDE_BY_LISTED}
        DROP INDEX shoal.association_by_time;
        ALTER INDEX shoal.association_by_time_of_others RENAME TO association_by_time;
        ALTER TABLE shoal.association SET (autovacuum_vacuum_insert_scale_factor = 0.02);
        """,
    )
)

MIGRATIONS: tuple[Migration, ...] = (
    short(_TABLES + _CLAIM),
    short(MOVING),
    short(RANKS),
    _HISTORY,
    short(_HISTORY_OF_EVENTS + _COMMIT, 4),
    _SWEEPABLE,
    short(BY_SHARD + _COMMIT_BY_SHARD),
    _COVERED,
    # Older code can use the store while its event log is off (`event_log.switch`).
    short(EVENT_LOG + _COMMIT_UNLOGGED + _COMMIT_LOGGED, 8),
    short(EXTERNAL_IDS_BY_NAME, 8),
)
"""Schema versions in order, append-only. The number of applied versions is the greatest number in `shoal.version`."""
