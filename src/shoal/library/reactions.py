"""Likes, shares, bookmarks, emoji and votes."""

from __future__ import annotations

from shoal.commands import polls, reactions
from shoal.core.emoji import checked_emoji
from shoal.core.errors import NotFound
from shoal.core.model import Share, Visibility
from shoal.graph.access import access_poll, access_post
from shoal.graph.schema import BOOKMARKS, LIKED_BY, LIKES, SHARED_BY, AssocType
from shoal.library.acting import Acting, Seeing
from shoal.library.arguments import AnyPoll, AnyPost, VisibilityName, one_of, part, poll_id, post_id
from shoal.queries import members, posts
from shoal.queries.hydration import PollView, hydrate
from shoal.queries.members import EmojiReactors, Likers, MemberPage
from shoal.queries.posts import Kept


class SeesReactions(Seeing):
    """Reactions to posts as a viewer sees them."""

    async def likers(self, post: AnyPost, newest: int = 5) -> Likers:
        """Count the likes of a post, in O(1), with the newest few who like it. Raises `NotFound`."""
        return await members.likers(self._reads, self._viewer, post_id(post), newest)

    async def liked_by(self, post: AnyPost, before: int | None = None, limit: int = members.PAGE) -> MemberPage:
        """A page of the members who like a post, newest first. Raises `NotFound`, and `InvalidInput` for a limit below 1."""
        return await self._reacting(post, LIKED_BY, before, limit)

    async def shared_by(self, post: AnyPost, before: int | None = None, limit: int = members.PAGE) -> MemberPage:
        """A page of the members who shared a post, newest first. Raises `NotFound`, and `InvalidInput` for a limit below 1."""
        return await self._reacting(post, SHARED_BY, before, limit)

    async def reactions(self, post: AnyPost, newest: int = 5) -> list[EmojiReactors]:
        """Count the members who put each emoji on a post, in O(1) each, with the newest few of them. Raises `NotFound`."""
        return await members.emoji_reactors(self._reads, self._viewer, post_id(post), newest)

    async def reacted_by(
        self, post: AnyPost, emoji: str, before: int | None = None, limit: int = members.PAGE
    ) -> MemberPage:
        """A page of the members who put an emoji on a post, newest first.

        Raises `NotFound`, and `InvalidInput` for what is no emoji or a limit below 1.
        """
        found = part(before, limit)
        return (await members.emoji_page(self._reads, self._viewer, post_id(post), checked_emoji(emoji), found))[1]

    async def poll(self, poll: AnyPoll) -> PollView:
        """A poll with its votes, as this viewer sees it. Raises `NotFound`."""
        node = await access_poll(self._reads.graph, self._viewer, poll_id(poll))
        found = await hydrate(self._reads.graph, self._viewer, (node.post_id,), unasked=False)
        view = found[0].poll if found else None
        if view is None:
            raise NotFound("Record not found")
        return view

    async def _reacting(self, post: AnyPost, atype: AssocType, before: int | None, limit: int) -> MemberPage:
        node = await access_post(self._reads.graph, self._viewer, post_id(post))
        return await members.page(self._reads, self._viewer, node.id, atype, part(before, limit))


class Reacts(SeesReactions, Acting):
    """Reactions of a member."""

    async def like(self, post: AnyPost) -> None:
        """Like a post. Raises `NotFound`."""
        await reactions.like(self._writes, self.id, post_id(post))

    async def unlike(self, post: AnyPost) -> None:
        """Take a like back. Raises `NotFound`."""
        await reactions.unlike(self._writes, self.id, post_id(post))

    async def share(self, post: AnyPost, *, visibility: Visibility | VisibilityName = Visibility.PUBLIC) -> Share:
        """Show a post to one's followers; a second time gives the same share.

        Raises `NotFound` where the post may not be shared, `InvalidInput`, and `Unavailable` while deliveries are behind.
        """
        self._writes.pressure.check()
        shown = one_of(Visibility, visibility, "visibility")
        return await reactions.share(self._writes, self.id, post_id(post), shown)

    async def unshare(self, post: AnyPost) -> None:
        """Take a share back. Raises `NotFound`."""
        await reactions.unshare(self._writes, self.id, post_id(post))

    async def bookmark(self, post: AnyPost) -> None:
        """Keep a post for later. Raises `NotFound`."""
        await reactions.bookmark(self._writes, self.id, post_id(post))

    async def unbookmark(self, post: AnyPost) -> None:
        """Keep it no longer. Raises `NotFound`."""
        await reactions.unbookmark(self._writes, self.id, post_id(post))

    async def react(self, post: AnyPost, emoji: str) -> None:
        """Put an emoji on a post. Raises `NotFound`, and `InvalidInput` for what is no emoji, or one too many."""
        await reactions.react(self._writes, self.id, post_id(post), emoji)

    async def unreact(self, post: AnyPost, emoji: str) -> None:
        """Take an emoji off a post. Raises `NotFound`, and `InvalidInput` for what is no emoji."""
        await reactions.unreact(self._writes, self.id, post_id(post), emoji)

    async def vote(self, poll: AnyPoll, *choices: int) -> PollView:
        """Vote for options of a poll, by position; where several are allowed, again for others.

        Raises `NotFound`, and `InvalidInput` for a choice that there is not, a poll that is over or a second vote.
        """
        await polls.vote(self._writes, self.id, poll_id(poll), choices)
        return await self.poll(poll)

    async def likes(self, before: int | None = None, limit: int = 20) -> Kept:
        """A page of the posts that this member likes, the newest like first. Raises `InvalidInput` for a limit below 1."""
        return await posts.saved_page(self._reads, self.id, LIKES, part(before, limit))

    async def bookmarks(self, before: int | None = None, limit: int = 20) -> Kept:
        """A page of the posts that this member keeps, the newest first. Raises `InvalidInput` for a limit below 1."""
        return await posts.saved_page(self._reads, self.id, BOOKMARKS, part(before, limit))
