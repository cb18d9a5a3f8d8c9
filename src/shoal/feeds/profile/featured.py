"""The tags that a member follows, and those on their profile with how much they posted under each."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from shoal.core.model import Post
from shoal.feeds.object_lists import entries_page
from shoal.feeds.reads import Reads
from shoal.graph.contract import MAX_TIME, Assoc, Cursor, Reader
from shoal.graph.schema import FEATURES_TAG, FOLLOWS_TAG, POSTED, TAG_OF, tag_id

_FEATURED = 100
"""More than anybody may have."""
_PAGE = 1_000
_PAGES = 10
"""Pages of a member's newest entries that are counted."""
_RECENT = 200
"""Newest entries from which tags are suggested."""


class Featured(NamedTuple):
    """A tag on a profile."""

    place: int
    """Place in the list, by which it is identified there."""
    name: str
    posts: int
    """Open posts of the member under the tag, among their newest 10,000 entries."""
    newest: int
    """When the newest of those was written (Unix milliseconds); 0 when there is none."""


class FollowedTags(NamedTuple):
    """A page of the tags that a member follows; `next` is None at the end."""

    tags: Sequence[Assoc]
    """The associations; the data of each is the tag's name."""
    next: int | None


async def followed(reads: Reads, member_id: int, cursor: Cursor) -> FollowedTags:
    """Return a page of the tags that a member follows, the newest follow first."""
    return FollowedTags(*await entries_page(reads.graph, member_id, FOLLOWS_TAG, cursor))


async def featured(graph: Reader, member_id: int) -> list[Featured]:
    """Return the tags that a member features, the most recently featured first."""
    held = await graph.assoc_range(member_id, FEATURES_TAG, Cursor(limit=_FEATURED))
    return await counted(graph, member_id, held)


async def names(graph: Reader, member_id: int) -> list[str]:
    """Return the tags that a member features by their names alone, the most recently featured first; one read."""
    held = await graph.assoc_range(member_id, FEATURES_TAG, Cursor(limit=_FEATURED))
    return [assoc.data.decode() for assoc in held]


async def counted(graph: Reader, member_id: int, held: Sequence[Assoc]) -> list[Featured]:
    """Return these of the member's featured tags with their counts."""
    names = [assoc.data.decode() for assoc in held]
    found = await _posts_under(graph, member_id, names) if names else {}
    return [
        Featured(assoc.time, name, len(found[name]), max((post.created_at for post in found[name]), default=0))
        for assoc, name in zip(held, names, strict=True)
    ]


async def suggested(reads: Reads, member_id: int, most: int = 10) -> list[str]:
    """Suggest tags to feature: those that the member's newest posts use most, without those featured already."""
    posted = await reads.graph.assoc_range(member_id, POSTED, Cursor(limit=_RECENT))
    nodes = await reads.graph.obj_get([entry.time for entry in posted])
    used = Counter(tag for node in nodes.values() if isinstance(node, Post) and node.open for tag in node.tags)
    held = {assoc.id2 for assoc in await reads.graph.assoc_range(member_id, FEATURES_TAG, Cursor(limit=_FEATURED))}
    return [name for name, _ in used.most_common() if tag_id(name) not in held][:most]


async def _posts_under(graph: Reader, member_id: int, names: Sequence[str]) -> dict[str, list[Post]]:
    found: dict[str, list[Post]] = {name: [] for name in names}
    before = MAX_TIME
    for _ in range(_PAGES):
        page = [entry.time for entry in await graph.assoc_range(member_id, POSTED, Cursor(before=before, limit=_PAGE))]
        under = await asyncio.gather(*[graph.assoc_get(tag_id(name), (TAG_OF,), page) for name in names])
        nodes = await graph.obj_get(list({id_ for answer in under for id_ in answer[TAG_OF]}))
        posts = [node for node in nodes.values() if isinstance(node, Post) and node.open]
        for name in names:
            # A list of a tag may be behind an edit; the post itself is not.
            found[name] += [post for post in posts if name in post.tags]
        if len(page) < _PAGE:
            break
        before = page[-1]
    return found
