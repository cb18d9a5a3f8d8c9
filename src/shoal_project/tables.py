"""The tables of a projection: their columns, which the reference documents, and the internal tables with the progress.

A change of a public table that readers notice increments `SCHEMA_VERSION`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

SCHEMA_VERSION: Final = 3

ID, TEXT, FLAG, TIME, DATE, NUMBER, REAL = "id", "text", "boolean", "time", "date", "integer", "real"

ENGINES: Final = ("postgresql", "sqlite", "duckdb")
SQL_TYPES: Final[Mapping[str, tuple[str, str, str]]] = {
    ID: ("BIGINT", "INTEGER", "BIGINT"),
    TEXT: ("TEXT", "TEXT", "VARCHAR"),
    FLAG: ("BOOLEAN", "BOOLEAN", "BOOLEAN"),
    TIME: ("TIMESTAMPTZ", "TEXT", "TIMESTAMP"),
    DATE: ("DATE", "TEXT", "DATE"),
    NUMBER: ("BIGINT", "INTEGER", "BIGINT"),
    REAL: ("DOUBLE PRECISION", "REAL", "DOUBLE"),
}
"""SQL types by engine. SQLite stores times as `2026-11-30T07:00:00.000Z`; those of DuckDB are in UTC."""


def sql_type(kind: str, engine: str) -> str:
    return SQL_TYPES[kind][ENGINES.index(engine)]


class Column(NamedTuple):
    name: str
    type: str
    about: str = ""
    optional: bool = False


class Table(NamedTuple):
    name: str
    about: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    indexes: tuple[str, ...] = ()

    def ddl(self, engine: str) -> Iterator[str]:
        """Yield the statements that create the table and its indexes."""
        columns = [
            f"{each.name} {sql_type(each.type, engine)}{'' if each.optional else ' NOT NULL'}" for each in self.columns
        ]
        yield f"CREATE TABLE {self.name} ({', '.join(columns)}, PRIMARY KEY ({', '.join(self.key)}))"
        for name in self.indexes:
            yield f"CREATE INDEX {self.name}_{name} ON {self.name} ({name})"


_CREATED = (Column("created_at", TIME), Column("created_on", DATE, "The day of `created_at` in UTC."))
_VERSION = Column("version", NUMBER, "Grows with each change.")

MEMBERS = Table(
    "members",
    "Members, without suspended and pending ones.",
    (
        Column("id", ID),
        Column("name", TEXT, "The user name, which never changes."),
        Column("display_name", TEXT),
        Column("note", TEXT, "The text of the profile, as typed."),
        Column("bot", FLAG),
        Column("locked", FLAG, "Whether follows need the member's approval."),
        Column("discoverable", FLAG),
        Column("indexable", FLAG, "Whether others may find the member's public posts by full-text search."),
        Column("limited", FLAG, "Whether moderators removed the member's posts from public lists. Do not publish it."),
        Column("hides_connections", FLAG, "Whether the member's follows and followers are private."),
        *_CREATED,
        _VERSION,
    ),
    ("id",),
    ("created_on",),
)
POSTS = Table(
    "posts",
    "Posts and comments whose authors are in `members`.",
    (
        Column("id", ID),
        Column("author_id", ID, "In `members`."),
        Column("text", TEXT, "The text as typed."),
        Column("content_warning", TEXT),
        Column("sensitive", FLAG),
        Column("visibility", TEXT, "`public` or `unlisted`; with `--include` also `followers` and `direct`."),
        Column("language", TEXT, "A language code such as `de`; empty if unknown."),
        Column("edited_at", TIME, optional=True),
        Column("in_reply_to_id", ID, "Null for a post that is no comment.", optional=True),
        Column("latitude", REAL, "Where the post was written, in degrees.", optional=True),
        Column("longitude", REAL, optional=True),
        Column("held", FLAG, "Whether reports removed the post from public lists. Do not publish it."),
        Column("kind", TEXT, "The kind that an application declared, such as `recipe`; empty for other posts."),
        Column("data", TEXT, "The JSON value that an application stored with the post.", optional=True),
        *_CREATED,
        _VERSION,
    ),
    ("id",),
    ("author_id", "kind", "created_on"),
)
COMMENTS = Table(
    "comments",
    "The posts that are comments, with their places in threads.",
    (
        Column("post_id", ID, "The comment, in `posts`."),
        Column("author_id", ID, "In `members`."),
        Column("parent_id", ID, "The post on which it comments. It may be deleted."),
        Column("parent_author_id", ID, optional=True),
        Column("thread_id", ID, "The first post of the thread.", optional=True),
        *_CREATED,
    ),
    ("post_id",),
    ("parent_id", "author_id", "created_on"),
)
TAGS = Table(
    "tags",
    "Tags of posts.",
    (
        Column("post_id", ID, "In `posts`."),
        Column("tag", TEXT, "Canonical form: lower case, without `#`."),
        Column("author_id", ID, "In `members`."),
        Column("created_on", DATE, "The day of the post."),
    ),
    ("post_id", "tag"),
    ("tag", "created_on"),
)
POST_FIELDS = Table(
    "post_fields",
    "The first 100 values in `data` of each post, except null: texts, booleans, and numbers up to 1.8e308.",
    (
        Column("post_id", ID, "In `posts`."),
        Column(
            "path", TEXT, "The keys that lead to the value, such as `price` or `steps.minutes`, at most 200 characters."
        ),
        Column("position", NUMBER, "0 for the first value with this path in the post; more are in lists."),
        Column("text", TEXT, optional=True),
        Column("number", REAL, optional=True),
        Column("flag", FLAG, optional=True),
        Column("created_on", DATE, "The day of the post."),
    ),
    ("post_id", "path", "position"),
    ("path", "created_on"),
)
MEDIA = Table(
    "media",
    "Pictures, videos and sounds of posts.",
    (
        Column("post_id", ID, "In `posts`."),
        Column("position", NUMBER, "0 for the first file of the post."),
        Column("id", ID),
        Column("kind", TEXT, "`image`, `video`, `gifv` or `audio`."),
        Column("state", TEXT, "`ready`, `processing` or `failed`."),
        Column("content_type", TEXT),
        Column("url", TEXT, "Null until the file is ready.", optional=True),
        Column("width", NUMBER),
        Column("height", NUMBER),
        Column("duration", REAL, "Seconds; 0 for a picture."),
        Column("description", TEXT),
        Column("created_on", DATE, "The day of the post."),
    ),
    ("post_id", "position"),
    ("id",),
)
FOLLOWS = Table(
    "follows",
    "Follows between members. Those of members with `hides_connections` are missing without `--include connections`.",
    (Column("follower_id", ID, "In `members`."), Column("followee_id", ID, "In `members`."), *_CREATED),
    ("follower_id", "followee_id"),
    ("followee_id", "created_on"),
)
LIKES = Table(
    "likes",
    "Likes of posts.",
    (Column("member_id", ID, "In `members`."), Column("post_id", ID, "In `posts`."), *_CREATED),
    ("member_id", "post_id"),
    ("post_id", "created_on"),
)
REACTIONS = Table(
    "reactions",
    "Reactions to posts with emoji and declared reactions.",
    (
        Column("member_id", ID, "In `members`."),
        Column("post_id", ID, "In `posts`."),
        Column("reaction", TEXT, "An emoji, or the name of a declared reaction such as `cooked`."),
        Column("created_at", TIME, "When the member last changed their reactions to the post."),
        Column("created_on", DATE, "The day of `created_at` in UTC."),
    ),
    ("member_id", "post_id", "reaction"),
    ("post_id", "reaction", "created_on"),
)
SHARES = Table(
    "shares",
    "Shares (boosts) of posts.",
    (
        Column("id", ID),
        Column("member_id", ID, "In `members`."),
        Column("post_id", ID, "In `posts`."),
        *_CREATED,
    ),
    ("id",),
    ("member_id", "post_id", "created_on"),
)
_COUNTED = ("members", "posts", "comments", "likes", "shares", "follows")
DAILY = Table(
    "daily",
    "The number of rows by day of creation in UTC. `posts` does not include comments. Days without any are missing.",
    (Column("day", DATE), *(Column(name, NUMBER) for name in _COUNTED)),
    ("day",),
)
TABLES: Final = (MEMBERS, POSTS, POST_FIELDS, COMMENTS, TAGS, MEDIA, FOLLOWS, LIKES, REACTIONS, SHARES, DAILY)

PROGRESS = Table(
    "shoal_projection",
    "One row: what the tables contain, and how far they have been brought.",
    (
        Column("schema_version", NUMBER),
        Column("includes", TEXT, "What `--include` added."),
        Column("cursor_text", TEXT, "The position in the event log."),
        Column("revision", NUMBER, "Grows with each transaction."),
        Column("rebuilding", FLAG, "Whether the current state is still being read, so rows are missing."),
    ),
    ("schema_version",),
)
EDGES = Table(
    "shoal_edges",
    "Follows, likes, reactions and shares, also deleted ones and those of which an end is missing.",
    (
        Column("kind", TEXT),
        Column("id1", ID),
        Column("id2", ID),
        Column("version", NUMBER),
        Column("deleted", FLAG),
        Column("fresh", FLAG),
        Column("member_id", ID, optional=True),
        Column("object_id", ID, optional=True),
        Column("created_at", TIME, optional=True),
        Column("created_on", DATE, optional=True),
        Column("detail", TEXT, "The emoji and names of a member's reactions to a post.", optional=True),
    ),
    ("kind", "id1", "id2"),
    ("member_id", "object_id"),
)
CHANGED = Table(
    "shoal_changed",
    "Edges of the current transaction; empty otherwise.",
    (Column("kind", TEXT), Column("id1", ID), Column("id2", ID)),
    ("kind", "id1", "id2"),
)
READING = Table(
    "shoal_reading",
    "The states that are being read: that of a member, or of the whole network (0), and the next page.",
    (Column("member_id", ID), Column("place", TEXT)),
    ("member_id",),
)
STALE = Table(
    "shoal_stale",
    "Months of tables whose Parquet files have to be written.",
    (Column("table_name", TEXT), Column("month", TEXT)),
    ("table_name", "month"),
)
INTERNAL: Final = (PROGRESS, EDGES, CHANGED, READING, STALE)
