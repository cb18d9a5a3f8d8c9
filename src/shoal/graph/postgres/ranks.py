"""Ranks in lists of a PostgreSQL store in O(log n): entries are counted in blocks, as `graph/sqlite/ranks.py` describes.

Triggers update a block in the commit that changes an entry. The triggers and the creation of blocks first lock the list's count, so
whichever runs second sees what the first has stored: no entry is missed or counted twice.
"""

from __future__ import annotations

from shoal.graph.postgres.sql import OF_INDEX
from shoal.graph.schema import ASSOC_TYPES

BLOCK = 64
FAN = 64
OPEN = 4 * BLOCK
"""Maximum entries in one block, or after the last block. If there are more, they are split into blocks."""
AT_ONCE = 256 * BLOCK
"""Maximum entries put into blocks in one transaction, because new posts of the author wait for it."""
_LEVELS = (0, 1, 2)
_RANKED = ", ".join(str(atype.number) for atype in ASSOC_TYPES.values() if atype.ranked)


def _moved(row: str, by: str) -> str:
    return f"""
            UPDATE shoal.block SET n = n {by} 1
            WHERE id1 = {row}.id1 AND atype = {row}.atype AND (level, upto) IN (
                SELECT l.level, b.upto FROM generate_series(0, {_LEVELS[-1]}) AS l (level)
                CROSS JOIN LATERAL (
                    SELECT upto FROM shoal.block
                    WHERE id1 = {row}.id1 AND atype = {row}.atype AND level = l.level AND upto >= {row}.time
                    ORDER BY upto LIMIT 1) AS b);"""


def _last(level: int) -> str:
    return f"""coalesce((
            SELECT max(upto) FROM shoal.block AS b
            WHERE b.id1 = w.id1 AND b.atype = $2 AND b.level = {level} AND b.upto <= t.upto), 0) AS last{level}"""


def _closed() -> str:
    above = [*(f"last{level + 1}" for level in _LEVELS[:-1]), "0"]
    return " + ".join(
        f"""coalesce((
            SELECT sum(n) FROM shoal.block AS b
            WHERE b.id1 = a.id1 AND b.atype = $2 AND b.level = {level}
                AND b.upto > {above[level]} AND b.upto <= last{level}), 0)::bigint"""
        for level in _LEVELS
    )


MIGRATION = f"""
    CREATE TABLE shoal.block (
        id1 bigint NOT NULL,
        upto bigint NOT NULL,
        n bigint NOT NULL,
        atype smallint NOT NULL,
        level smallint NOT NULL,
        PRIMARY KEY (id1, atype, level, upto)
    );
    CREATE FUNCTION shoal.entry_moved() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF TG_OP = 'UPDATE' AND OLD.alive = NEW.alive AND OLD.time = NEW.time THEN
            RETURN NULL;
        END IF;
        IF TG_OP = 'DELETE' THEN
            PERFORM FROM shoal.count WHERE id1 = OLD.id1 AND atype = OLD.atype FOR UPDATE;
        ELSE
            PERFORM FROM shoal.count WHERE id1 = NEW.id1 AND atype = NEW.atype FOR UPDATE;
        END IF;
        IF TG_OP <> 'INSERT' AND OLD.alive THEN {_moved("OLD", "-")}
        END IF;
        IF TG_OP <> 'DELETE' AND NEW.alive THEN {_moved("NEW", "+")}
        END IF;
        RETURN NULL;
    END $$;
    CREATE TRIGGER entry_put AFTER INSERT OR UPDATE ON shoal.association
        FOR EACH ROW WHEN (NEW.atype IN ({_RANKED})) EXECUTE FUNCTION shoal.entry_moved();
    CREATE TRIGGER entry_gone AFTER DELETE ON shoal.association
        FOR EACH ROW WHEN (OLD.atype IN ({_RANKED}) AND OLD.alive) EXECUTE FUNCTION shoal.entry_moved();

    CREATE FUNCTION shoal.divide(
        list bigint, kind smallint, size integer, fan integer, most integer, at_once integer, afresh boolean
    ) RETURNS boolean LANGUAGE plpgsql AS $$
    DECLARE
        last bigint;
        times bigint[];
    BEGIN
        PERFORM FROM shoal.count WHERE id1 = list AND atype = kind FOR UPDATE;
        IF afresh AND EXISTS (SELECT FROM shoal.block WHERE id1 = list AND atype = kind AND level = 0 AND n > most) THEN
            DELETE FROM shoal.block WHERE id1 = list AND atype = kind;
        END IF;
        SELECT coalesce(max(upto), 0) INTO last FROM shoal.block WHERE id1 = list AND atype = kind AND level = 0;
        times := ARRAY (
            SELECT time FROM shoal.association WHERE id1 = list AND atype = kind AND alive AND time > last
            ORDER BY time LIMIT at_once + 1);
        -- The newest stays in no block: a list that grows at its end grows past them.
        INSERT INTO shoal.block (id1, atype, level, upto, n)
        SELECT list, kind, 0, e.upto, size FROM unnest(times) WITH ORDINALITY AS e (upto, place)
        WHERE e.place % size = 0 AND e.place < cardinality(times);
        FOR above IN 1 .. {_LEVELS[-1]} LOOP
            SELECT coalesce(max(upto), 0) INTO last
            FROM shoal.block WHERE id1 = list AND atype = kind AND level = above;
            INSERT INTO shoal.block (id1, atype, level, upto, n)
            SELECT list, kind, above, max(b.upto), sum(b.n)
            FROM (
                SELECT upto, n, (row_number() OVER (ORDER BY upto) - 1) / fan AS part
                FROM shoal.block WHERE id1 = list AND atype = kind AND level = above - 1 AND upto > last
            ) AS b GROUP BY b.part HAVING count(*) = fan;
        END LOOP;
        RETURN cardinality(times) > at_once;
    END $$;
"""
# All `ranked` types are `covered`, so this condition excludes no row. It lets PostgreSQL use the index of covered types.
DIVIDE_BY_LISTED = (
    MIGRATION[MIGRATION.index("CREATE FUNCTION shoal.divide") :]
    .replace("CREATE", "CREATE OR REPLACE", 1)
    .replace("AND alive AND time > last", f"AND atype {OF_INDEX[True]} AND alive AND time > last")
)

_ASKED = f"""
    WITH asked AS MATERIALIZED (
        SELECT w.id1, t.upto, t.place, {", ".join(map(_last, _LEVELS))}
        FROM unnest($1::bigint[]) AS w (id1)
        CROSS JOIN unnest($3::bigint[]) WITH ORDINALITY AS t (upto, place))"""
_BEHIND = f"coalesce((SELECT n FROM shoal.count WHERE id1 = a.id1 AND atype = $2), 0) - ({_closed()})"
RANKS = f"""{_ASKED}
    SELECT id1, place, {_BEHIND}, (
        SELECT count(*) FROM (
            SELECT FROM shoal.association AS e
            WHERE e.id1 = a.id1 AND e.atype = $2 AND e.atype {OF_INDEX[True]} AND e.alive
                AND e.time > last0 AND e.time <= a.upto LIMIT $4) AS walked)
    FROM asked AS a"""
"""For each list and time, two counts: entries after the last block that ends before the time, and how many of these are not newer.

The second count stops at a limit.
"""
WALKED = {
    covered: f"""
    SELECT w.id1, t.place, (
        SELECT count(*) FROM shoal.association AS e
        WHERE e.id1 = w.id1 AND e.atype = $2 AND e.atype {types} AND e.alive AND e.time > t.upto), 0
    FROM unnest($1::bigint[]) AS w (id1)
    CROSS JOIN unnest($3::bigint[]) WITH ORDINALITY AS t (upto, place)"""
    for covered, types in OF_INDEX.items()
}
"""Counts entries one by one, for lists without blocks. Keys: whether the type is `covered`."""
DIVIDE = "SELECT shoal.divide($1, $2, $3, $4, $5, $6, $7)"
DROP = "DELETE FROM shoal.block WHERE id1 = $1 AND atype = $2"
DROP_SHARDS = "DELETE FROM shoal.block WHERE shoal.shard_of(id1) = ANY ($1::smallint[])"
SCAN = """
    SELECT id1, atype, level, upto, n FROM shoal.block
    WHERE (id1, atype, level, upto) > ($1::bigint, $2::smallint, $3::smallint, $4::bigint)
    ORDER BY id1, atype, level, upto LIMIT $5"""
