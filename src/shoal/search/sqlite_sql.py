"""Tables and SQL statements of the search index in SQLite. Tables: docs/data-layout.md.

Words are in contentless full-text tables: FTS5 stores their positions, and the row itself has the words for deletion. The
tokenizer splits at spaces only, because the words are prepared.

A statement that is needed for each post inserts many rows at once, because after each statement the writing thread waits for the
interpreter lock, half a millisecond if the event loop is busy. In these statements, `{rows}` becomes (?, ?), (?, ?) ...
(`graph.sqlite.sql.for_rows`).
"""

from __future__ import annotations

from shoal.graph.migrations import Migration, short

MIGRATIONS: tuple[Migration, ...] = (
    short("""
    CREATE TABLE post (
        id INTEGER PRIMARY KEY,
        author INTEGER NOT NULL,
        written INTEGER NOT NULL,
        public INTEGER NOT NULL,
        data BLOB NOT NULL
    );
    CREATE INDEX post_by_author ON post (author, id) WHERE public;
    CREATE TABLE member (
        id INTEGER PRIMARY KEY,
        name TEXT NOT NULL,
        joined INTEGER NOT NULL,
        active INTEGER NOT NULL,
        listed INTEGER NOT NULL,
        shy INTEGER NOT NULL,
        suspended INTEGER NOT NULL,
        data BLOB NOT NULL
    );
    CREATE INDEX member_by_activity ON member (active, id) WHERE listed;
    CREATE INDEX member_by_joining ON member (joined, id) WHERE listed;
    CREATE TABLE tag (
        name TEXT PRIMARY KEY,
        uses INTEGER NOT NULL
    ) WITHOUT ROWID;
    CREATE TABLE state (
        one INTEGER PRIMARY KEY CHECK (one = 1),
        form INTEGER NOT NULL,
        filled_to INTEGER NOT NULL
    );
    CREATE VIRTUAL TABLE post_words USING fts5 (words, content='', columnsize=0, tokenize="ascii tokenchars ':'");
    CREATE VIRTUAL TABLE member_words USING fts5 (names, note, content='', columnsize=0, tokenize="ascii tokenchars ':'")
    """),
    short("DROP INDEX post_by_author"),
    short("""
    CREATE TABLE lately (
        author INTEGER PRIMARY KEY,
        post INTEGER NOT NULL
    )
    """),
    # Without a prefix index, FTS5 merges the lists of all words that begin with the searched letters before it returns the first
    # member. After the deletion from `state`, the server fills the new table.
    short("""
    DROP TABLE member_words;
    CREATE VIRTUAL TABLE member_words USING fts5 (
        names, note, content='', columnsize=0, prefix='2 3 4 5', tokenize="ascii tokenchars ':'");
    DELETE FROM state
    """),
    # Only names are searched by prefix. Long prefixes are indexed too: a hundred thousand names may begin with the same six
    # letters, and a search by these would merge the lists of all these names.
    short("""
    DROP TABLE member_words;
    CREATE VIRTUAL TABLE member_names USING fts5 (
        words, content='', columnsize=0, prefix='2 3 4 5 6 7 8 9 10 11 12', tokenize="ascii tokenchars ':'");
    CREATE VIRTUAL TABLE member_notes USING fts5 (words, content='', columnsize=0, tokenize="ascii tokenchars ':'");
    DELETE FROM state
    """),
)
"""Schema versions in order; `PRAGMA user_version` counts the applied ones. Append only."""

HELD = "SELECT id, data FROM {table} WHERE id IN (SELECT value FROM json_each(?))"

WORDS_DROP = "INSERT INTO post_words (post_words, rowid, words) VALUES ('delete', ?, ?)"
WORDS_PUT = "INSERT INTO post_words (rowid, words) VALUES {rows}"
POST_DROP = "DELETE FROM post WHERE id = ?"
POST_PUT = "INSERT OR REPLACE INTO post (id, author, written, public, data) VALUES {rows}"
NAMES_DROP = "INSERT INTO member_names (member_names, rowid, words) VALUES ('delete', ?, ?)"
NAMES_PUT = "INSERT INTO member_names (rowid, words) VALUES (?, ?)"
NOTES_DROP = "INSERT INTO member_notes (member_notes, rowid, words) VALUES ('delete', ?, ?)"
NOTES_PUT = "INSERT INTO member_notes (rowid, words) VALUES (?, ?)"
MEMBER_DROP = "DELETE FROM member WHERE id = ?"
MEMBER_PUT = """
    INSERT OR REPLACE INTO member (id, name, joined, active, listed, shy, suspended, data)
    VALUES (?, ?, ?, 0, ?, ?, ?, ?)"""
# Updating the author's row for each post would write a page of the member table and of two indexes. Instead, the post is recorded
# in a small table, and `active` is updated for thousands of authors at once.
LATELY = """
    INSERT INTO lately (author, post) VALUES {rows}
    ON CONFLICT (author) DO UPDATE SET post = max(post, excluded.post)"""
LATELY_DROP = "DELETE FROM lately WHERE author = ?"
LATELY_SIZE = "SELECT count(*) FROM lately"
LATELY_CLEAR = "DELETE FROM lately"
ACTIVE = "UPDATE member SET active = max(active, l.post) FROM lately AS l WHERE l.author = member.id"
# The newest public post of a member is found by the index term of the author in `post_words`. The table `post` has no index by
# author, because each new post would write one more page. The index term of public posts is not matched: nearly all posts have it,
# so FTS5 would scan nearly all posts.
ACTIVE_RECOMPUTE = """
    UPDATE member SET active = coalesce((
        SELECT p.id FROM post_words AS w CROSS JOIN post AS p ON p.id = w.rowid
        WHERE post_words MATCH ?2 AND p.public ORDER BY w.rowid DESC LIMIT 1), 0)
    WHERE id = ?1"""
TAG_COUNT = "INSERT INTO tag (name, uses) VALUES {rows} ON CONFLICT (name) DO UPDATE SET uses = uses + excluded.uses"
TAGS_DROP = "DELETE FROM tag WHERE uses = 0 AND name IN (SELECT value FROM json_each(?))"

# FTS5 returns rows newest first, and stops at the limit.
POSTS = """
    SELECT w.rowid FROM post_words AS w CROSS JOIN post AS p ON p.id = w.rowid
    WHERE post_words MATCH :match AND w.rowid < :before AND w.rowid > :after
        AND p.written >= :since AND p.written < :until
        AND (:own OR NOT EXISTS (SELECT 1 FROM member AS m WHERE m.id = p.author AND m.shy))
    ORDER BY w.rowid DESC LIMIT :limit"""
_RANK = """
    ORDER BY substr(m.name, 1, length(:name)) = :name DESC, max(m.active, coalesce(l.post, 0)) DESC, m.id DESC LIMIT :limit"""
# `{words}` becomes `member_names` or `member_notes` (the words of profile texts).
MEMBERS_AMONG = f"""
    SELECT m.id FROM {{words}} AS w CROSS JOIN member AS m ON m.id = w.rowid LEFT JOIN lately AS l ON l.author = m.id
    WHERE {{words}} MATCH :match AND NOT m.suspended AND m.id IN (SELECT value FROM json_each(:among)) {_RANK}"""
MEMBERS_NEWEST = "SELECT rowid FROM {words} WHERE {words} MATCH ? ORDER BY rowid DESC LIMIT ?"
MEMBERS_RANKED = f"""
    SELECT m.id FROM json_each(:ids) AS w CROSS JOIN member AS m ON m.id = w.value LEFT JOIN lately AS l ON l.author = m.id
    WHERE m.listed {_RANK}"""
TAGS = """
    SELECT name, uses FROM tag WHERE name >= :prefix AND name < :end
    ORDER BY uses DESC, name LIMIT :limit"""
DIRECTORY = {
    # The inner LIMIT bounds how many members without recent posts are read.
    "active": """
    SELECT id FROM (
        SELECT m.id, max(m.active, l.post) AS active FROM lately AS l CROSS JOIN member AS m ON m.id = l.author
        WHERE m.listed
        UNION ALL SELECT id, active FROM (
            SELECT id, active FROM member WHERE listed AND NOT EXISTS (SELECT 1 FROM lately WHERE author = member.id)
            ORDER BY active DESC, id DESC LIMIT ?1 + ?2))
    ORDER BY active DESC, id DESC LIMIT ?1 OFFSET ?2""",
    "new": "SELECT id FROM member WHERE listed ORDER BY joined DESC, id DESC LIMIT ? OFFSET ?",
}
MEMBERS_LATEST = f"SELECT m.data FROM ({DIRECTORY['active']}) AS a CROSS JOIN member AS m ON m.id = a.id"
IDS = """
    SELECT id FROM (SELECT id FROM post WHERE id > :after ORDER BY id LIMIT :limit)
    UNION ALL SELECT id FROM (SELECT id FROM member WHERE id > :after ORDER BY id LIMIT :limit)
    ORDER BY id LIMIT :limit"""
STATE = "SELECT form, filled_to FROM state"
STATE_PUT = "INSERT OR REPLACE INTO state (one, form, filled_to) VALUES (1, ?, ?)"
CLEAR = (
    "DELETE FROM post",
    "DELETE FROM member",
    "DELETE FROM tag",
    "DELETE FROM state",
    LATELY_CLEAR,
    "INSERT INTO post_words (post_words) VALUES ('delete-all')",
    "INSERT INTO member_names (member_names) VALUES ('delete-all')",
    "INSERT INTO member_notes (member_notes) VALUES ('delete-all')",
)
