"""The user timeline: what one member posted and shared, newest first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from shoal.core.model import Visibility
from shoal.feeds.hydrate import Entry
from shoal.feeds.pipeline import Page, read_page
from shoal.feeds.pull import Cursor
from shoal.feeds.reads import Reads
from shoal.graph.contract import Assoc
from shoal.graph.schema import POSTED


@dataclass(frozen=True, slots=True)
class Wish:
    """Which entries of a member are wanted."""

    only_media: bool = False
    no_comments: bool = False
    no_shares: bool = False
    tag: str = ""
    """Canonical; empty for any."""
    public_only: bool = False

    def admits(self, entry: Entry) -> bool:
        """Whether an entry is wanted. A comment on one's own post counts as a post: it continues it."""
        post = entry.post
        if self.no_shares and entry.share is not None:
            return False
        if self.no_comments and entry.share is None and post.parent_id and post.parent_author_id != post.author_id:
            return False
        if self.public_only and post.visibility is not Visibility.PUBLIC:
            return False
        if self.only_media and not entry.media:
            return False
        return not self.tag or self.tag in post.tags


ALL = Wish()


async def page(reads: Reads, viewer: int | None, member: int, cursor: Cursor, wish: Wish = ALL) -> Page:
    """A page of what the member posted and shared, as the viewer may see it.

    Whoever asks for a member whom they mute gets them; others whom they mute still do not come by way of a share.
    """

    async def skeleton(at: Cursor) -> list[int]:
        return [entry.time for entry in await _posted(reads, member, at)]

    async def keep(found: Sequence[Entry]) -> list[Entry]:
        return [entry for entry in found if wish.admits(entry) and not _muted_guest(member, entry)]

    return await read_page(reads.graph, viewer, cursor, skeleton, keep, unasked=False)


def _muted_guest(member: int, entry: Entry) -> bool:
    """A post by somebody else than the member, whom the viewer mutes."""
    return entry.post.author_id != member and entry.relation.muting


async def _posted(reads: Reads, member: int, at: Cursor) -> list[Assoc]:
    return await reads.graph.assoc_range(
        member, POSTED, before=at.before, after=at.after, limit=at.limit, oldest_first=at.oldest_first
    )
