"""Posts by relation to a member: authored, pinned, liked, bookmarked and scheduled posts, and the edit history of a post.

Authored posts and pins are ordered newest first. Liked and bookmarked posts are ordered by the time of the like or bookmark,
and scheduled posts by the time they were scheduled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import NamedTuple

from msgspec import structs

from shoal.core.model import Media, Node, Post, Revision, ScheduledPost, Visibility
from shoal.graph.access import access_post
from shoal.graph.contract import Assoc, Cursor, Reader
from shoal.graph.schema import PINS, POSTED, REVISED, SCHEDULES, AssocType
from shoal.queries.context import Reads
from shoal.queries.hydration import Entry, Row, Sight, hydrate, sight
from shoal.queries.pagination import RowReader, check_limit, objects_page, read_items, stored, unsifted
from shoal.queries.pipeline import Page, read_page


@dataclass(frozen=True, slots=True)
class MemberFeedQuery:
    """Which entries of a member are wanted."""

    only_media: bool = False
    no_comments: bool = False
    no_shares: bool = False
    tag: str = ""
    """Canonical; empty for any."""
    public_only: bool = False
    placed: bool = False
    """Only posts that have a place."""

    def admits(self, row: Row) -> bool:
        """Whether an entry is wanted. A comment on one's own post counts as a post: it continues it."""
        _, post, share = row
        if self.no_shares and share is not None:
            return False
        if self.no_comments and share is None and post.parent_id and post.parent_author_id != post.author_id:
            return False
        if self.public_only and post.visibility is not Visibility.PUBLIC:
            return False
        if (self.only_media and not post.media) or (self.placed and post.place is None):
            return False
        return not self.tag or self.tag in post.tags


ALL = MemberFeedQuery()


async def authored_page(
    reads: Reads, viewer: int | None, member: int, cursor: Cursor, query: MemberFeedQuery = ALL
) -> Page:
    """A page of what the member posted and shared, as the viewer may see it.

    Whoever asks for a member whom they mute gets them; others whom they mute still do not come by way of a share.
    """

    async def skeleton(at: Cursor) -> list[int]:
        return [entry.time for entry in await _posted(reads, member, at)]

    async def keep(seen: Sight, rows: Sequence[Row]) -> list[Row]:
        # Somebody else's post, whom the viewer mutes.
        return [row for row in rows if row[1].author_id == member or not seen.stands[row[1].author_id].muting]

    wanted = None if query == ALL else query.admits
    return await read_page(reads, viewer, cursor, skeleton, keep, wanted=wanted, unasked=False)


async def at_positions(reads: Reads, member: int, first: int, last: int) -> list[Entry]:
    """Return the posts and shares of a member at positions `first` to `last`, as the member may see them."""
    ids = await stored(reads.graph, {POSTED: [member]}, first, last)
    if not ids:
        return []
    part = Cursor(before=ids[0] + 1, after=ids[-1] - 1, limit=len(ids))
    return (await authored_page(reads, member, member, part)).entries


async def _posted(reads: Reads, member: int, at: Cursor) -> list[Assoc]:
    return await reads.graph.assoc_range(member, POSTED, at)


_MOST = 100
"""Pins that are read at most: more than a member may have now, as the limit may have been higher once."""


_EVERYWHERE = Cursor()


async def pinned(
    reads: Reads, viewer: int | None, member: int, cursor: Cursor = _EVERYWHERE, query: MemberFeedQuery = ALL
) -> list[Entry]:
    """Return all wanted pins between the ids of the cursor that the viewer may see.

    The cursor's limit is not applied: a member has only a few pins.
    """
    pins = await reads.graph.assoc_range(member, PINS, Cursor(limit=_MOST))
    seen = sight(reads.graph, viewer, unasked=False)
    ids = [pin.id2 for pin in pins if cursor.after < pin.id2 < cursor.before]
    return await seen.entries(await seen.look(ids, query.admits))


class Kept(NamedTuple):
    """A page of posts with the cursor of each (the time of the association); `next` is None at the end."""

    entries: list[Entry]
    times: list[int]
    next: int | None


async def saved_page(reads: Reads, member: int, atype: AssocType, cursor: Cursor) -> Kept:
    """A page of the posts that `LIKES` or `BOOKMARKS` of the member lead to; what they may no longer see is left out.

    Raises `InvalidInput` for a limit below 1.
    """

    async def read(at: Cursor) -> list[Assoc]:
        return await reads.graph.assoc_range(member, atype, at)

    async def show(found: Sequence[Assoc]) -> list[tuple[int, Entry]]:
        times = {assoc.id2: assoc.time for assoc in found}
        return [(times[entry.id], entry) for entry in await hydrate(reads.graph, member, list(times), unasked=False)]

    rows = RowReader(cursor, read, unsifted, _time)
    items, after = await read_items(cursor, rows, show, itemgetter(0))
    return Kept([entry for _, entry in items], [time for time, _ in items], after)


def _time(assoc: Assoc) -> int:
    return assoc.time


class Waiting(NamedTuple):
    """A page of scheduled posts. `next` is the `before` of the page that follows; None at the end."""

    posts: list[ScheduledPost]
    next: int | None


async def waiting(graph: Reader, member: int, cursor: Cursor) -> Waiting:
    """Return a page of the member's scheduled posts. Raises `InvalidInput` for a limit below 1."""
    check_limit(cursor)
    return Waiting(*await objects_page(graph, member, SCHEDULES, ScheduledPost, cursor))


MAX_REVISIONS = 1_000
"""Revisions that are shown; the oldest wordings of a post with more are left out."""


async def revisions(graph: Reader, viewer: int | None, post_id: int) -> list[Revision]:
    """Return the former wordings of a post (or of the post that a share shows), oldest first: the last `MAX_REVISIONS`.

    The present wording is not among them. Raises `NotFound` when the viewer may not see the post.
    """
    post = await access_post(graph, viewer, post_id)
    newest_first = await graph.assoc_range(post.id, REVISED, Cursor(limit=MAX_REVISIONS))
    nodes = await graph.obj_get([assoc.id2 for assoc in newest_first])
    return [node for assoc in reversed(newest_first) if isinstance(node := nodes.get(assoc.id2), Revision)]


def media_then(wording: Revision | Post, media: Mapping[int, Node]) -> dict[int, Media]:
    """Return the media of a wording by their ids, in order, described as they were then; those that are gone are left out."""
    former = wording.descriptions if isinstance(wording, Revision) else ()
    described = dict(zip(wording.media, former, strict=False))
    return {
        id_: structs.replace(node, description=described.get(id_, node.description))
        for id_ in wording.media
        if isinstance(node := media.get(id_), Media)
    }
