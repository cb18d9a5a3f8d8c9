"""Tables and SQL statements of the search index in PostgreSQL. Tables: docs/data-layout.md.

They are in the schema `shoal`, next to the graph's if they share a database. Rows are passed as one array per column. Words
are passed with their positions, so no text search configuration is involved.
"""

from __future__ import annotations

from shoal.graph.migrations import Migration, TableIndex, short

MIGRATIONS: tuple[Migration, ...] = (
    short("""
    CREATE TABLE shoal.search_post (
        id bigint PRIMARY KEY,
        author bigint NOT NULL,
        written bigint NOT NULL,
        public boolean NOT NULL,
        words tsvector NOT NULL,
        data bytea NOT NULL
    );
    CREATE INDEX search_post_by_author ON shoal.search_post (author, id) WHERE public;
    CREATE INDEX search_post_words ON shoal.search_post USING gin (words);
    CREATE TABLE shoal.search_member (
        id bigint PRIMARY KEY,
        name text COLLATE "C" NOT NULL,
        joined bigint NOT NULL,
        active bigint NOT NULL,
        listed boolean NOT NULL,
        shy boolean NOT NULL,
        suspended boolean NOT NULL,
        names tsvector NOT NULL,
        note tsvector NOT NULL,
        data bytea NOT NULL
    );
    CREATE INDEX search_member_by_activity ON shoal.search_member (active, id) WHERE listed;
    CREATE INDEX search_member_by_joining ON shoal.search_member (joined, id) WHERE listed;
    CREATE INDEX search_member_names ON shoal.search_member USING gin (names);
    CREATE INDEX search_member_note ON shoal.search_member USING gin (note);
    CREATE TABLE shoal.search_tag (
        name text COLLATE "C" PRIMARY KEY,
        uses bigint NOT NULL
    );
    CREATE TABLE shoal.search_state (
        one boolean PRIMARY KEY DEFAULT true CHECK (one),
        form integer NOT NULL,
        filled_to bigint NOT NULL
    );
    """),
    # Searches exclude posts of shy authors, who opted out of search. Without this index the searches would read all members, which
    # takes two seconds for ten million.
    Migration((TableIndex("search_member_shy", "shoal.search_member (id) WHERE shy"),)),
    Migration((TableIndex("search_member_name", "shoal.search_member (name)"),)),
)
"""Schema versions in order; the maximum in `shoal.search_version` is the number applied. Append only."""


# Serialize writers: the effect of a change on tag counts depends on the previous rows.
LOCK = "SELECT pg_advisory_xact_lock(7166180123190117)"
POSTS_HELD = "SELECT id, data FROM shoal.search_post WHERE id = ANY ($1::bigint[])"
MEMBERS_HELD = "SELECT id, data FROM shoal.search_member WHERE id = ANY ($1::bigint[])"
POSTS_DROP = "DELETE FROM shoal.search_post WHERE id = ANY ($1::bigint[])"
MEMBERS_DROP = "DELETE FROM shoal.search_member WHERE id = ANY ($1::bigint[])"
POSTS_PUT = """
    INSERT INTO shoal.search_post (id, author, written, public, words, data)
    SELECT w.id, w.author, w.written, w.public, w.words::tsvector, w.data
    FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::boolean[], $5::text[], $6::bytea[])
        AS w (id, author, written, public, words, data)"""
MEMBERS_PUT = """
    INSERT INTO shoal.search_member (id, name, joined, active, listed, shy, suspended, names, note, data)
    SELECT w.id, w.name, w.joined, 0, w.listed, w.shy, w.suspended, w.names::tsvector, w.note::tsvector, w.data
    FROM unnest($1::bigint[], $2::text[], $3::bigint[], $4::boolean[], $5::boolean[], $6::boolean[], $7::text[],
        $8::text[], $9::bytea[]) AS w (id, name, joined, listed, shy, suspended, names, note, data)"""
ACTIVE = """
    UPDATE shoal.search_member AS m
    SET active = coalesce((SELECT max(p.id) FROM shoal.search_post AS p WHERE p.author = m.id AND p.public), 0)
    WHERE m.id = ANY ($1::bigint[])"""
TAGS_COUNT = """
    INSERT INTO shoal.search_tag AS held (name, uses) SELECT * FROM unnest($1::text[], $2::bigint[])
    ON CONFLICT (name) DO UPDATE SET uses = held.uses + excluded.uses"""
TAGS_DROP = "DELETE FROM shoal.search_tag WHERE uses = 0 AND name = ANY ($1::text[])"

_POSTS = """
    SELECT p.id FROM {among} AS p
    WHERE p.words @@ $1::text::tsquery AND p.id < $2 AND p.id > $3 AND p.written >= $4 AND p.written < $5
        AND ($6 OR NOT EXISTS (SELECT 1 FROM shoal.search_member AS m WHERE m.id = p.author AND m.shy))
    ORDER BY p.id {by} DESC LIMIT $7"""
# `+ 0` forces a lookup by words. The planner assumes that words occur independently, so it would scan all posts from the newest on
# and expect to find enough of them soon.
POSTS = _POSTS.format(among="shoal.search_post", by="+ 0")
# Finds posts with common words by a scan of the newest posts. Also returns the number of scanned posts.
NEWEST_POSTS = f"""
    WITH newest AS MATERIALIZED (
        SELECT id, author, written, words FROM shoal.search_post WHERE id < $2 AND id > $3 ORDER BY id DESC LIMIT $8
    )
    SELECT ARRAY ({_POSTS.format(among="newest", by="")}), (SELECT count(*) FROM newest)"""
# Conditions of the three groups of members: those who match by the prefix of the user name, by any name, or by the profile text.
BEGINNING = "m.names @@ $1::text::tsquery AND m.name >= $2 AND m.name < $3"
OTHERWISE = "m.names @@ $1::text::tsquery AND NOT (m.name >= $2 AND m.name < $3)"
IN_NOTE = "m.note @@ $1::text::tsquery AND NOT m.names @@ $2::text::tsquery AND $3::text IS NOT NULL"
# LATELY_ACTIVE scans the most recently active members. LISTED looks up the words in an index, which `+ 0` enforces as in POSTS.
LATELY_ACTIVE = """
    WITH lately AS MATERIALIZED (
        SELECT id, name, active, names, note FROM shoal.search_member
        WHERE listed ORDER BY active DESC, id DESC LIMIT $5
    )
    SELECT ARRAY (SELECT m.id FROM lately AS m WHERE {match} ORDER BY m.active DESC, m.id DESC LIMIT $4),
        (SELECT count(*) FROM lately)"""
LISTED = """
    SELECT m.id FROM shoal.search_member AS m
    WHERE m.listed AND {match} ORDER BY m.active + 0 DESC, m.id DESC LIMIT $4"""
AMONG = """
    SELECT m.id FROM shoal.search_member AS m
    WHERE NOT m.suspended AND m.id = ANY ($5::bigint[]) AND {match} ORDER BY m.active DESC, m.id DESC LIMIT $4"""
TAGS = """
    SELECT name, uses FROM shoal.search_tag WHERE name >= $1 AND name < $2 ORDER BY uses DESC, name LIMIT $3"""
DIRECTORY = {
    "active": "SELECT id FROM shoal.search_member WHERE listed ORDER BY active DESC, id DESC LIMIT $1 OFFSET $2",
    "new": "SELECT id FROM shoal.search_member WHERE listed ORDER BY joined DESC, id DESC LIMIT $1 OFFSET $2",
}
IDS = """
    SELECT id FROM (SELECT id FROM shoal.search_post WHERE id > $1 ORDER BY id LIMIT $2) AS posts
    UNION ALL SELECT id FROM (SELECT id FROM shoal.search_member WHERE id > $1 ORDER BY id LIMIT $2) AS members
    ORDER BY id LIMIT $2"""
STATE = "SELECT form, filled_to FROM shoal.search_state"
STATE_PUT = """
    INSERT INTO shoal.search_state (form, filled_to) VALUES ($1, $2)
    ON CONFLICT (one) DO UPDATE SET form = excluded.form, filled_to = excluded.filled_to"""
CLEAR = "TRUNCATE shoal.search_post, shoal.search_member, shoal.search_tag, shoal.search_state"
