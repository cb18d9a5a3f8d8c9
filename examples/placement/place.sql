-- PostgreSQL: the placement of a name, as in docs/placement-conformance.csv. SELECT * FROM place('frunk');
-- The explicit collation lowercases names independently of the database's locale.
CREATE FUNCTION place(name text, OUT a int, OUT b int, OUT c int, OUT shard int, OUT path text)
LANGUAGE sql IMMUTABLE STRICT AS $$
    WITH small AS (
        SELECT lower(name COLLATE "und-x-icu") AS lowered
    ), digest AS (
        SELECT lowered, decode(md5(convert_to(lowered, 'UTF8')), 'hex') AS bytes FROM small
    ), levels AS (
        SELECT lowered, get_byte(bytes, 0) % 64 AS a, get_byte(bytes, 1) % 64 AS b, get_byte(bytes, 2) % 128 AS c FROM digest
    )
    SELECT a, b, c, a * 128 + c, concat_ws('/', a, b, c, lowered) FROM levels
$$;
