"""Select the posts for a bulk action: by member, by tag, or from all posts, newest first, within a bounded number of reads."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from shoal.core.bulk_moderation import MAX_POSTS, BulkMatcher, BulkQuery, Verb
from shoal.core.errors import InvalidInput
from shoal.core.ids import floor_at, milliseconds_of
from shoal.core.model import Media, Post
from shoal.graph.access import get_object, objects_of, pages_of
from shoal.graph.contract import MAX_TIME, Store
from shoal.graph.schema import POSTED, TAG_OF, tag_id
from shoal.queries.moderation import SEARCH_SCANS, newest_objects

_PAGE = 500
_MOST_PAGES = 40
"""Maximum pages of a list that are read."""
_SECONDS = 30.0
"""Time after which a selection ends: a moderator waits for it."""


class Selection(NamedTuple):
    query: BulkQuery
    """The query in normalized form, with the blurhash of its picture."""
    post_ids: list[int]
    read: int
    """Number of posts that were read."""
    reached: int
    """The selection covers posts from this time on, in Unix milliseconds; 0 if it covers all posts of the query. Posts of the
    millisecond before may be selected, too: a query `until` this time selects the others."""


async def select(store: Store, query: BulkQuery, verb: Verb, *, seconds: float = _SECONDS) -> Selection:
    """Return up to 1,000 posts that match a query and that the action would change, newest first.

    After `seconds`, no further posts are read. Raises `InvalidInput` for an invalid query, and `NotFound` for unknown media.
    """
    query = query.checked()
    if query.media_id:
        media = await get_object(store, Media, query.media_id)
        if not media.blurhash:
            raise InvalidInput("media_id: this file has no picture to compare with", field="media_id")
        query = replace(query, blurhash=media.blurhash)
    matcher = BulkMatcher(query, verb)
    found: list[int] = []
    read, reached, until = 0, 0, time.monotonic() + seconds
    async for low, posts in _posts(store, query):
        read += len(posts)
        reached = low
        matching = await _matching(store, matcher, posts)
        if len(found) + len(matching) > MAX_POSTS:
            matching = matching[: MAX_POSTS - len(found)]
            return Selection(query, [*found, *matching], read, milliseconds_of([*found, *matching][-1]) + 1)
        found += matching
        if time.monotonic() > until:
            break
    return Selection(query, found, read, reached)


async def _posts(store: Store, query: BulkQuery) -> AsyncGenerator[tuple[int, list[Post]], None]:
    """Yield the posts to check, newest first, each page with the time (Unix ms) from which on all are read; 0 for all."""
    after = floor_at(query.since) - 1 if query.since else 0
    before = floor_at(query.until) if query.until else MAX_TIME
    if query.member_id or query.tag:
        source, atype = (query.member_id, POSTED) if query.member_id else (tag_id(query.tag), TAG_OF)
        pages = 0
        async for page in pages_of(store, source, atype, _PAGE, before=before, after=after):
            pages += 1
            posts = await objects_of(store, Post, [entry.id2 for entry in page])
            yield milliseconds_of(page[-1].time) + 1, posts
            if pages == _MOST_PAGES:
                return
        yield 0, []
        return
    async for low, here in newest_objects(store, before, after, SEARCH_SCANS):
        posts = [node for node in reversed(here) if isinstance(node, Post)]
        # Round up, because a range may begin within a millisecond.
        yield milliseconds_of(low - 1) + 1 if low > after + 1 else 0, posts


async def _matching(store: Store, matcher: BulkMatcher, posts: Sequence[Post]) -> list[int]:
    # In a thread, because many long texts take seconds, in which the event loop must answer others.
    candidates = await asyncio.to_thread(lambda: [post for post in posts if matcher.may_match(post)])
    if not matcher.query.media_id:
        return [post.id for post in candidates]
    media = await store.obj_get(list({id_ for post in candidates for id_ in post.media}))
    return [
        post.id
        for post in candidates
        if matcher.looks_alike(each.blurhash for id_ in post.media if isinstance(each := media.get(id_), Media))
    ]
