"""The named SQL statements of moving logical shards between PostgreSQL stores, and their tables.

The table `shoal.moving` has the state of each shard in a move. `copying`: writes to it are recorded in the journal, because its
rows are, or were, in another store too. `frozen`: commits that write to it are refused, for a moment. `away`: commits that write
to it are refused permanently, because it belongs to another store. When the time limit (`until`) of a frozen or away shard passes,
its state becomes `copying`, so no shard stays blocked because a mover died.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

_TABLES = """
    ALTER TABLE shoal.moving DROP CONSTRAINT moving_state_check;
    ALTER TABLE shoal.moving ADD CONSTRAINT moving_state_check CHECK (state IN ('copying', 'frozen', 'away'));
    ALTER TABLE shoal.moving ADD COLUMN until timestamptz, ADD COLUMN mover bigint, ADD COLUMN peer text;
    ALTER TABLE shoal.journal ADD COLUMN source smallint NOT NULL DEFAULT 0;
    CREATE TABLE shoal.shard_map (
        version integer PRIMARY KEY,
        map jsonb NOT NULL
    );
    -- Who uses the store, until when that is sure, and by which map.
    CREATE TABLE shoal.process (
        id bigint PRIMARY KEY,
        seen_at timestamptz NOT NULL,
        map_version integer NOT NULL
    ) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);
"""
_WATCH = """
    CREATE OR REPLACE FUNCTION shoal.watch(
        objects bigint[], id1s bigint[], atypes smallint[], id2s bigint[], count_id1s bigint[], count_atypes smallint[],
        spaces text[], names text[], sources smallint[]
    ) RETURNS void LANGUAGE plpgsql AS $$
    DECLARE
        frozen text;
    BEGIN
        IF EXISTS (SELECT FROM shoal.moving WHERE until <= clock_timestamp()) THEN
            -- Written down, so that whoever froze it learns of it, whatever the clocks say then.
            UPDATE shoal.moving SET state = 'copying', until = NULL WHERE until <= clock_timestamp();
        END IF;
        WITH written (source, kind, a, b, c, space, name) AS (
            SELECT shoal.source_of(w.id), 'object', w.id, NULL::bigint, NULL::bigint, NULL::text, NULL::text
            FROM unnest(objects) AS w (id)
            UNION ALL
            SELECT shoal.source_of(w.id1), 'association', w.id1, w.atype, w.id2, NULL, NULL
            FROM unnest(id1s, atypes, id2s) AS w (id1, atype, id2)
            UNION ALL
            SELECT shoal.source_of(w.id1), 'count', w.id1, w.atype, NULL, NULL, NULL
            FROM unnest(count_id1s, count_atypes) AS w (id1, atype)
            UNION ALL
            SELECT w.source, 'key', NULL, NULL, NULL, w.space, w.name
            FROM unnest(spaces, names, sources) AS w (space, name, source)
        ), moved AS (
            SELECT w.*, m.state FROM written AS w JOIN shoal.moving AS m USING (source)
        ), noted AS (
            INSERT INTO shoal.journal (source, kind, a, b, c, space, name)
            SELECT source, kind, a, b, c, space, name FROM moved WHERE state = 'copying'
        )
        SELECT string_agg(DISTINCT source::text, ',') INTO frozen FROM moved WHERE state <> 'copying';
        IF frozen IS NOT NULL THEN
            RAISE EXCEPTION 'a data source is frozen' USING ERRCODE = 'SHFRZ', DETAIL = frozen;
        END IF;
    END $$;
"""
_BEAT = """
    -- The lock is held to the end, and a new map waits for it: by then, each process that read the old map is in the list.
    CREATE FUNCTION shoal.beat(me bigint, mine integer, joins boolean)
    RETURNS TABLE (version integer, map jsonb, peers text[]) LANGUAGE plpgsql AS $$
    BEGIN
        LOCK TABLE shoal.shard_map IN ACCESS SHARE MODE;
        IF joins THEN
            PERFORM set_config('synchronous_commit', 'on', true);
            DELETE FROM shoal.process AS p WHERE p.seen_at < clock_timestamp() - interval '1 hour';
        END IF;
        INSERT INTO shoal.process AS p (id, seen_at, map_version) VALUES (me, clock_timestamp(), mine)
        ON CONFLICT (id) DO UPDATE SET seen_at = excluded.seen_at, map_version = excluded.map_version;
        RETURN QUERY SELECT s.version, CASE WHEN s.version > mine THEN s.map END,
            ARRAY (SELECT DISTINCT m.peer FROM shoal.moving AS m WHERE m.state <> 'away' AND m.peer IS NOT NULL)
        FROM (VALUES (1)) AS one LEFT JOIN (
            SELECT * FROM shoal.shard_map AS m ORDER BY m.version DESC LIMIT 1) AS s ON true;
    END $$;
"""

MIGRATION = _TABLES + _WATCH + _BEAT


def _key_shard(spaces: Iterable[str]) -> str:
    """Return the function that computes the shard of a key: from its name in these spaces, and from its id in the others."""
    named = ", ".join(f"'{space}'" for space in spaces)
    return f"""
    CREATE OR REPLACE FUNCTION shoal.key_shard(space text, name text, id bigint) RETURNS smallint
    LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
        SELECT CASE WHEN space IN ({named}) THEN (
            ('x' || substr(md5(name), 1, 2))::bit(8)::integer % 64 * 128
            + ('x' || substr(md5(name), 5, 2))::bit(8)::integer % 128)::smallint
        ELSE shoal.shard_of(id) END $$;
"""


# Bits 10 to 22 of an id are its shard.
BY_SHARD = (
    """
    CREATE FUNCTION shoal.shard_of(id bigint) RETURNS smallint LANGUAGE sql IMMUTABLE PARALLEL SAFE AS
        'SELECT ((id >> 10) & 8191)::smallint';"""
    + _key_shard(("user_name", "email"))
    + """
    ALTER TABLE shoal.moving DROP CONSTRAINT moving_source_check;
    ALTER TABLE shoal.moving RENAME COLUMN source TO shard;
    -- First to negative numbers, because a shard may have the number of another row's data source.
    UPDATE shoal.moving SET shard = -1 - shard;
    INSERT INTO shoal.moving (shard, state, until, mover, peer)
    SELECT (-1 - shard) * 128 + c, state, until, mover, peer FROM shoal.moving, generate_series(0, 127) AS c;
    DELETE FROM shoal.moving WHERE shard < 0;
    ALTER TABLE shoal.moving ADD CONSTRAINT moving_shard_check CHECK (shard BETWEEN 0 AND 8191);
    -- Every commit and every heartbeat reads these rows, which are few, among many that are permanently away.
    CREATE INDEX moving_until ON shoal.moving (until) WHERE until IS NOT NULL;
    CREATE INDEX moving_peer ON shoal.moving (peer) WHERE state <> 'away';
    ALTER TABLE shoal.journal RENAME COLUMN source TO shard;
    UPDATE shoal.journal AS j SET shard = CASE kind
        WHEN 'key' THEN coalesce((
            SELECT shoal.key_shard(k.space, k.name, k.id) FROM shoal.key AS k
            WHERE k.space = j.space AND k.name = j.name), shard * 128)
        ELSE shoal.shard_of(a) END;
    ALTER TABLE shoal.key DROP COLUMN source;
    DROP FUNCTION shoal.source_of;
    DROP FUNCTION shoal.watch;
    DROP FUNCTION shoal.commit;
"""
    + _WATCH.replace("sources", "key_shards").replace("data source", "shard").replace("source", "shard")
)
# A new space in `bulk.NAMED_BY_PLACE` needs another migration like this.
EXTERNAL_IDS_BY_NAME = _key_shard(("user_name", "email", "external_id"))

BEAT = "SELECT version, map::text, peers FROM shoal.beat($1, $2, $3)"
# As `shoal.beat`, without registering the process.
LOOK = """
    SELECT s.version, CASE WHEN s.version > $1 THEN s.map::text END,
        ARRAY (SELECT DISTINCT m.peer FROM shoal.moving AS m WHERE m.state <> 'away' AND m.peer IS NOT NULL)
    FROM (VALUES (1)) AS one LEFT JOIN (
        SELECT * FROM shoal.shard_map AS m ORDER BY m.version DESC LIMIT 1) AS s ON true
"""
LEAVE = "DELETE FROM shoal.process WHERE id = $1"
OFFER = "INSERT INTO shoal.shard_map VALUES ($1, $2::jsonb) ON CONFLICT DO NOTHING"
# Does nothing unless the caller's map is the newest in this store: an older one may list a shard that has moved away since.
ADMIT = """
    UPDATE shoal.moving SET until = clock_timestamp() + make_interval(secs => $3)
    WHERE shard = ANY ($1::smallint[]) AND state = 'away' AND until IS NULL
        AND $2 = (SELECT max(version) FROM shoal.shard_map)"""
LAST_MAP = "SELECT version, map::text FROM shoal.shard_map ORDER BY version DESC LIMIT 1"
LAGGARDS = """
    SELECT count(*) FROM shoal.process
    WHERE map_version < $1 AND seen_at > clock_timestamp() - make_interval(secs => $2)"""

# The inner query is a string, which PostgreSQL parses only if the table exists: naming a missing table would be an error.
VERSION_OF = """
    SELECT CASE WHEN to_regclass('shoal.version') IS NOT NULL THEN
        (xpath('//n/text()', query_to_xml('SELECT max(applied) AS n FROM shoal.version', true, true, '')))[1]::text END"""
MOVER_LOCK = "SELECT pg_try_advisory_lock(hashtext('shoal.mover'))"
MOVING_LOCK = "LOCK TABLE shoal.moving IN ACCESS EXCLUSIVE MODE"
MAP_LOCK = "LOCK TABLE shoal.shard_map IN ACCESS EXCLUSIVE MODE"
# Other sessions may read the map, but none may write it.
MAP_KEEP = "LOCK TABLE shoal.shard_map IN SHARE MODE"
MARK = """
    INSERT INTO shoal.moving (shard, state, until, mover, peer)
    SELECT shard, $2, clock_timestamp() + make_interval(secs => $3), $4, $5 FROM unnest($1::smallint[]) AS w (shard)
    ON CONFLICT (shard) DO UPDATE
    SET state = excluded.state, until = excluded.until, mover = excluded.mover, peer = excluded.peer"""
FROZEN = """
    SELECT count(*) FROM shoal.moving
    WHERE shard = ANY ($1::smallint[]) AND mover = $2 AND state = 'frozen' AND until > clock_timestamp()"""
UNMARK = "DELETE FROM shoal.moving WHERE shard = ANY ($1::smallint[])"
STATES = """
    SELECT m.shard, m.state, m.peer, coalesce(j.n, 0)
    FROM shoal.moving AS m LEFT JOIN (
        SELECT shard, count(*) AS n FROM shoal.journal GROUP BY shard) AS j USING (shard)
    ORDER BY m.shard"""

JOURNAL_CLEAR = "DELETE FROM shoal.journal WHERE shard = ANY ($1::smallint[])"
JOURNAL_NEXT = """
    SELECT seq, kind, a, b, c, space, name FROM shoal.journal WHERE shard = ANY ($1::smallint[]) ORDER BY seq LIMIT $2"""
JOURNAL_DONE = "DELETE FROM shoal.journal WHERE seq = ANY ($1::bigint[])"
JOURNAL_NAMES = """
    SELECT DISTINCT kind, a, b, c, space, name FROM shoal.journal WHERE shard = ANY ($1::smallint[])"""

STRANGERS = """
    SELECT EXISTS (SELECT FROM shoal.object WHERE shoal.shard_of(id) <> ALL ($1::smallint[]))
        OR EXISTS (SELECT FROM shoal.association WHERE shoal.shard_of(id1) <> ALL ($1::smallint[]))
        OR EXISTS (SELECT FROM shoal.key WHERE shoal.key_shard(space, name, id) <> ALL ($1::smallint[]))"""


class Table:
    """One kind of row, with its SQL statements. `shard` is the SQL expression for the shard of a row."""

    def __init__(
        self, name: str, key: Sequence[str], key_types: Sequence[str], rest: Sequence[str], shard: str, digest: str
    ) -> None:
        types = dict(zip(key, key_types, strict=True)) | dict(part.split(" ") for part in rest)
        self.name = name
        self.columns = list(types)
        self.key = list(key)
        names, keys = ", ".join(types), ", ".join(key)
        key_rows = f"unnest({_arrays(key_types)}) AS w ({keys})"
        same = " AND ".join(f"t.{column} = w.{column}" for column in key)
        number = len(key)
        self.copy = f"SELECT {names} FROM shoal.{name} AS t WHERE {shard} IN ({{shards}}) ORDER BY {keys}"
        """The numbers of the shards are formatted into the statement: COPY takes no parameters."""
        self.digest = _digest(name, digest, f"FROM shoal.{name} AS t WHERE {shard} = ANY ($1::smallint[])")
        self.digest_of = _digest(name, digest, f"FROM {key_rows} JOIN shoal.{name} AS t ON {same}")
        self.get = (
            f"SELECT {', '.join(f't.{column}' for column in types)} FROM {key_rows} JOIN shoal.{name} AS t ON {same}"
        )
        self.drop = f"DELETE FROM shoal.{name} AS t USING {key_rows} WHERE {same}"
        self.put = f"INSERT INTO shoal.{name} ({names}) SELECT * FROM unnest({_arrays(list(types.values()))})"
        after = ", ".join(f"${number}::{type_}" for number, type_ in enumerate(key_types, 1))
        self.wipe = f"""
            WITH page AS (
                SELECT {keys} FROM shoal.{name} AS t
                WHERE ({keys}) > ({after}) AND {shard} = ANY (${number + 1}::smallint[]) ORDER BY {keys} LIMIT ${number + 2}
            ), gone AS (
                DELETE FROM shoal.{name} AS t USING page AS w WHERE {same} RETURNING {", ".join(f"t.{column}" for column in key)}
            ) SELECT {keys} FROM gone ORDER BY {keys}"""


def _arrays(types: Sequence[str]) -> str:
    return ", ".join(f"${number}::{type_}[]" for number, type_ in enumerate(types, 1))


def _digest(name: str, parts: str, rows: str) -> str:
    # Sum 64 bits of the MD5 of each row. MD5 is identical on all versions and machines, and a sum ignores the order of rows.
    each = f"('x' || substr(md5({parts}), 1, 16))::bit(64)::bigint"
    return f"SELECT count(*), coalesce(sum({each}), 0)::text {rows} /* {name} */"


TABLES: tuple[Table, ...] = (
    Table(
        "object", ["id"], ["bigint"], ["version integer", "revision integer", "data bytea"], "shoal.shard_of(t.id)",
        "int8send(t.id) || int4send(t.version) || int4send(t.revision) || t.data",
    ),
    Table(
        "association", ["id1", "atype", "id2"], ["bigint", "smallint", "bigint"],
        ["time bigint", "revision integer", "alive boolean", "data bytea"], "shoal.shard_of(t.id1)",
        "int8send(t.id1) || int2send(t.atype) || int8send(t.id2) || int8send(t.time) || int4send(t.revision)"
        " || boolsend(t.alive) || t.data",
    ),
    Table(
        "count", ["id1", "atype"], ["bigint", "smallint"], ["n bigint"], "shoal.shard_of(t.id1)",
        "int8send(t.id1) || int2send(t.atype) || int8send(t.n)",
    ),
    Table(
        "key", ["space", "name"], ["text", "text"], ["id bigint", "until bigint", "revision integer"],
        "shoal.key_shard(t.space, t.name, t.id)",
        "int8send(t.id) || int8send(t.until) || int4send(t.revision)"
        " || textsend(t.space) || '\\x00' || textsend(t.name)",
    ),
)  # fmt: skip
