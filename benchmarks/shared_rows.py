"""Bulk writes to PostgreSQL stores by COPY, directly into the tables of `shoal.graph.postgres.schema`.

Each row is written to the store that owns it. Lists and counts are complete in both directions; members have no tokens.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import asyncpg
import numpy as np

from benchmarks.stores import Ints, ids_of, post_id
from shoal.core.model import Member, Post
from shoal.graph.redis.client import shards_of
from shoal.graph.schema import FOLLOWED_BY, FOLLOWS, POSTED, encode_node, user_name_key

_FOLLOWS_FROM = 1 << 50
_MILLISECOND = 23
"""Number of bits below the milliseconds of an id."""
_TEXT = "Low tide, number {}: the boats lie on the sand and wait, and the light goes gray over the harbour wall at six."
_COPIED = 50_000
_INDEX = "association_listed"


class Crowd(NamedTuple):
    """Rows of the stores. `follows` are rows of follower and followee, one per millisecond, newest last.

    All are ids, not positions. Followers without any other activity need not be among the members.
    """

    members: Ints
    names: Sequence[str]
    follows: Ints
    posts: Ints
    authors: Ints


def crowd(names: Sequence[str], follows: Ints, authors: Ints) -> Crowd:
    ids = ids_of(names)
    written_by = ids[authors] if len(authors) else np.empty(0, np.int64)
    posts = np.array([post_id(index, author) for index, author in enumerate(written_by.tolist())], np.int64)
    return Crowd(ids, names, ids[follows], posts, written_by)


async def fill(urls: Sequence[str], of: Crowd) -> int:
    """Write everything to empty stores, which share the data sources evenly and in order; return the number of rows."""

    def here(place: int) -> Callable[[Ints], Any]:
        # 128 logical shards per data source.
        return lambda ids: (shards_of(ids) >> 7) * len(urls) // 64 == place

    return sum(await asyncio.gather(*[_fill(url, of, here(place)) for place, url in enumerate(urls)]))


async def _fill(url: str, of: Crowd, here: Callable[[Ints], Any]) -> int:
    links = _links(of)
    links = links[here(links[:, 0])]
    pairs, numbers = np.unique(links[:, :2], axis=0, return_counts=True)
    members, posts = here(of.members), here(of.posts)
    connection = await asyncpg.connect(url)
    try:
        # Drop the index and build it again at the end: one sort is faster than inserting each row into the index.
        index = await connection.fetchval("SELECT indexdef FROM pg_indexes WHERE indexname = $1", _INDEX)
        await connection.execute(f"DROP INDEX shoal.{_INDEX}")
        await _copy(connection, "object", ("id", "version", "revision", "data"), _objects(of, members, posts))
        columns = ("id1", "atype", "id2", "time", "revision", "alive", "data")
        await _copy(connection, "association", columns, ((*link, 1, True, b"") for link in _listed(links)))
        counted = np.column_stack((pairs, numbers))
        await _copy(connection, "count", ("id1", "atype", "n"), _listed(counted))
        await _copy(connection, "key", ("space", "name", "id", "until", "revision"), _keys(of, members))
        await connection.execute(index)
        await connection.execute("VACUUM ANALYZE shoal.association, shoal.object, shoal.count, shoal.key")
        await connection.execute("CHECKPOINT")
    finally:
        await connection.close()
    return len(links) + len(counted) + 2 * int(members.sum()) + int(posts.sum())


def _links(of: Crowd) -> Ints:
    followers, followees = of.follows[:, 0], of.follows[:, 1]
    times = _FOLLOWS_FROM + (np.arange(len(of.follows), dtype=np.int64) << _MILLISECOND)
    parts = (
        (followers, FOLLOWS.number, followees, times),
        (followees, FOLLOWED_BY.number, followers, times),
        (of.authors, POSTED.number, of.posts, of.posts),
    )
    links = np.concatenate(
        [np.column_stack((id1, np.full(len(id1), atype), id2, time)) for id1, atype, id2, time in parts]
    ).astype(np.int64)
    return links[np.lexsort((links[:, 2], links[:, 1], links[:, 0]))]


def _listed(table: Ints) -> Iterator[tuple[int, ...]]:
    for first in range(0, len(table), _COPIED):
        yield from map(tuple, table[first : first + _COPIED].tolist())


def _objects(of: Crowd, members: Any, posts: Any) -> Iterator[tuple[Any, ...]]:
    for at in np.flatnonzero(members).tolist():
        id_ = int(of.members[at])
        yield id_, 1, 1, encode_node(Member(id=id_, name=of.names[at]))
    for at in np.flatnonzero(posts).tolist():
        id_ = int(of.posts[at])
        yield id_, 1, 1, encode_node(Post(id=id_, author_id=int(of.authors[at]), text=_TEXT.format(at)))


def _keys(of: Crowd, members: Any) -> Iterator[tuple[Any, ...]]:
    for at in np.flatnonzero(members).tolist():
        key = user_name_key(of.names[at])
        yield key.space, key.name, int(of.members[at]), 0, 1


async def _copy(connection: Any, table: str, columns: Sequence[str], rows: Iterator[tuple[Any, ...]]) -> None:
    await connection.copy_records_to_table(table, records=rows, columns=columns, schema_name="shoal")
