"""Posts by relation to a member: authored, pinned, liked, bookmarked and scheduled posts, and the edit history of a post.

Authored posts and pins are ordered newest first. Liked and bookmarked posts are ordered by the time of the like or bookmark,
and scheduled posts by the time they were scheduled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter, itemgetter
from typing import NamedTuple

from msgspec import structs

from shoal.core.model import Media, Node, Post, Revision, ScheduledPost, Visibility
from shoal.graph.access import access_post, declared_reactions, objects_of
from shoal.graph.contract import Assoc, Cursor, Reader
from shoal.graph.payloads.posts import chosen_of
from shoal.graph.schema import PINS, POSTED, REACTS, REVISED, SCHEDULES, AssocType
from shoal.queries.context import Reads
from shoal.queries.hydration import Entry, Row, ViewerState, hydrate, viewer_state
from shoal.queries.pagination import RowReader, check_limit, objects_page, read_items
from shoal.queries.pipeline import Page, read_page
from shoal.queries.positions import stored


@dataclass(frozen=True, slots=True)
class MemberFeedQuery:
    only_media: bool = False
    no_comments: bool = False
    no_shares: bool = False
    tag: str = ""
    """Canonical; empty for any."""
    public_only: bool = False
    with_place: bool = False
    only_replies: bool = False
    """Only comments on posts of others."""
    no_direct: bool = False

    def admits(self, row: Row) -> bool:
        """Return whether a row matches the query.

        An author's comment on their own post counts as a post, since it continues that post.
        """
        _, post, share = row
        if self.no_shares and share is not None:
            return False
        replies = share is None and bool(post.parent_id) and post.parent_author_id != post.author_id
        if (self.no_comments and replies) or (self.only_replies and not replies):
            return False
        if self.public_only and post.visibility is not Visibility.PUBLIC:
            return False
        if self.no_direct and post.visibility is Visibility.DIRECT:
            return False
        if (self.only_media and not post.media) or (self.with_place and post.place is None):
            return False
        return not self.tag or self.tag in post.tags


ALL = MemberFeedQuery()


async def authored_page(
    reads: Reads, viewer: int | None, member: int, cursor: Cursor, query: MemberFeedQuery = ALL
) -> Page:
    """Return a page of a member's posts and shares, as the viewer may see them.

    A muted member's own page shows their entries, but shares of other muted members remain hidden.
    """

    async def skeleton(at: Cursor) -> list[int]:
        return [entry.time for entry in await reads.graph.assoc_range(member, POSTED, at)]

    async def keep(seen: ViewerState, rows: Sequence[Row]) -> list[Row]:
        # Remove shares of posts by authors whom the viewer mutes, other than `member`.
        return [row for row in rows if row[1].author_id == member or not seen.relationships[row[1].author_id].muting]

    row_filter = None if query == ALL else query.admits
    return await read_page(reads, viewer, cursor, skeleton, keep, row_filter=row_filter, unasked=False)


async def at_positions(reads: Reads, member: int, first: int, last: int) -> list[Entry]:
    """Return the posts and shares of a member at positions `first` to `last`, as the member may see them."""
    ids = await stored(reads.graph, {POSTED: [member]}, first, last)
    if not ids:
        return []
    part = Cursor(before=ids[0] + 1, after=ids[-1] - 1, limit=len(ids))
    return (await authored_page(reads, member, member, part)).entries


_MOST = 100
"""Maximum pins that are read. Members may have more than the current limit if it was higher before."""
_EVERYWHERE = Cursor()


async def pinned(
    reads: Reads, viewer: int | None, member: int, cursor: Cursor = _EVERYWHERE, query: MemberFeedQuery = ALL
) -> list[Entry]:
    """Return the member's pinned posts that the viewer may see and the query matches, with ids in the cursor's range.

    The cursor's limit is not applied: a member has only a few pins.
    """
    pins = await reads.graph.assoc_range(member, PINS, Cursor(limit=_MOST))
    seen = viewer_state(reads.graph, viewer, unasked=False)
    ids = [pin.id2 for pin in pins if cursor.after < pin.id2 < cursor.before]
    return await seen.entries(await seen.look(ids, query.admits))


class SavedPage(NamedTuple):
    """A page of liked or bookmarked posts, each with a cursor (the time of the like or bookmark); `next` is None at the end."""

    entries: list[Entry]
    times: list[int]
    next: int | None


async def saved_page(
    reads: Reads, member: int, atype: AssocType, cursor: Cursor, sift: Callable[[Assoc], bool] = lambda _: True
) -> SavedPage:
    """Return a page of the member's liked (`LIKES`) or bookmarked (`BOOKMARKS`) posts that they may still see.

    Raises `InvalidInput` for a limit below 1.
    """

    async def sifted(found: Sequence[Assoc]) -> list[Assoc]:
        return list(filter(sift, found))

    async def show(found: Sequence[Assoc]) -> list[tuple[int, Entry]]:
        times = {assoc.id2: assoc.time for assoc in found}
        return [(times[entry.id], entry) for entry in await hydrate(reads.graph, member, list(times), unasked=False)]

    rows = RowReader(cursor, partial(reads.graph.assoc_range, member, atype), sifted, attrgetter("time"))
    items, after = await read_items(cursor, rows, show, itemgetter(0))
    return SavedPage([entry for _, entry in items], [time for time, _ in items], after)


async def reacted_page(reads: Reads, member: int, name: str, cursor: Cursor) -> SavedPage:
    """Return a page of the posts to which the member reacted with a declared reaction, and that they may still see.

    The posts are in the order of the member's last change of their reactions. Raises `NotFound` for an unknown reaction, and
    `InvalidInput` for a limit below 1.
    """
    (await declared_reactions(reads.graph)).get(name)
    return await saved_page(
        reads, member, REACTS, cursor, lambda assoc: any(each.emoji == name for each in chosen_of(assoc))
    )


class Waiting(NamedTuple):
    """A page of scheduled posts. `next` is the `before` parameter of the next page; None at the end."""

    posts: list[ScheduledPost]
    next: int | None


async def waiting(graph: Reader, member: int, cursor: Cursor) -> Waiting:
    """Return a page of the member's scheduled posts. Raises `InvalidInput` for a limit below 1."""
    check_limit(cursor)
    return Waiting(*await objects_page(graph, member, SCHEDULES, ScheduledPost, cursor))


MAX_REVISIONS = 1_000
"""Maximum revisions that are returned; the oldest are dropped."""


async def revisions(graph: Reader, viewer: int | None, post_id: int) -> list[Revision]:
    """Return the revisions of a post (or of the post that a share shares), oldest first, without the current version.

    Raises `NotFound` if the viewer may not see the post.
    """
    post = await access_post(graph, viewer, post_id)
    newest_first = await graph.assoc_range(post.id, REVISED, Cursor(limit=MAX_REVISIONS))
    return await objects_of(graph, Revision, [assoc.id2 for assoc in reversed(newest_first)])


def media_then(wording: Revision | Post, media: Mapping[int, Node]) -> dict[int, Media]:
    """Return the existing media of a former version of a post, by id and in order, with the descriptions of that version."""
    former = wording.descriptions if isinstance(wording, Revision) else ()
    described = dict(zip(wording.media, former, strict=False))
    return {
        id_: structs.replace(node, description=described.get(id_, node.description))
        for id_ in wording.media
        if isinstance(node := media.get(id_), Media)
    }
