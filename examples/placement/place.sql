-- PostgreSQL: where a name is placed, as docs/placement-conformance.csv has it. SELECT * FROM place('frunk');
-- The collation says how letters become small whatever the locale of the database is.
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
