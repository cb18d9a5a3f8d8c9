"""The user timeline: what one member posted and shared, newest first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from shoal.core.model import Visibility
from shoal.feeds.hydrate import Entry, Row, Sight
from shoal.feeds.merging.positions import stored
from shoal.feeds.pipeline import Page, read_page
from shoal.feeds.reads import Reads
from shoal.graph.contract import Assoc, Cursor
from shoal.graph.schema import POSTED


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


async def page(reads: Reads, viewer: int | None, member: int, cursor: Cursor, query: MemberFeedQuery = ALL) -> Page:
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
    return (await page(reads, member, member, part)).entries


async def _posted(reads: Reads, member: int, at: Cursor) -> list[Assoc]:
    return await reads.graph.assoc_range(member, POSTED, at)
