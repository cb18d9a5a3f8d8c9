"""Likes, shares, bookmarks, emoji and votes.

Made from `shoal.library.posts` by `python -m scripts.sync_library`.
"""

from __future__ import annotations

from shoal.core.model import Share, Visibility
from shoal.library import posts as awaited
from shoal.library.acting import AnyPoll, AnyPost, VisibilityName
from shoal.queries import members
from shoal.queries.hydration import PollView
from shoal.queries.members import EmojiReactors, Likers, MemberPage
from shoal.queries.posts import Kept
from shoal.sync.calling import Acting, Calling


class SeesReactions(Calling):
    """Reactions to posts as a viewer sees them."""

    _awaited: awaited.SeesReactions

    def likers(self, post: AnyPost, newest: int = 5) -> Likers:
        """Count the likes of a post, in O(1), with the newest few who like it. Raises `NotFound`."""
        return self._loop.call(self._awaited.likers(post, newest))

    def liked_by(self, post: AnyPost, before: int | None = None, limit: int = members.PAGE) -> MemberPage:
        """A page of the members who like a post, newest first. Raises `NotFound`, and `InvalidInput` for a limit below 1."""
        return self._loop.call(self._awaited.liked_by(post, before, limit))

    def shared_by(self, post: AnyPost, before: int | None = None, limit: int = members.PAGE) -> MemberPage:
        """A page of the members who shared a post, newest first. Raises `NotFound`, and `InvalidInput` for a limit below 1."""
        return self._loop.call(self._awaited.shared_by(post, before, limit))

    def reactions(self, post: AnyPost, newest: int = 5) -> list[EmojiReactors]:
        """Count the members who put each emoji on a post, in O(1) each, with the newest few of them. Raises `NotFound`."""
        return self._loop.call(self._awaited.reactions(post, newest))

    def reacted_by(self, post: AnyPost, emoji: str, before: int | None = None, limit: int = members.PAGE) -> MemberPage:
        """A page of the members who put an emoji on a post, newest first.

        Raises `NotFound`, and `InvalidInput` for what is no emoji or a limit below 1.
        """
        return self._loop.call(self._awaited.reacted_by(post, emoji, before, limit))

    def poll(self, poll: AnyPoll) -> PollView:
        """A poll with its votes, as this viewer sees it. Raises `NotFound`."""
        return self._loop.call(self._awaited.poll(poll))


class Reacts(SeesReactions, Acting):
    """Reactions of a member."""

    _awaited: awaited.Reacts

    def like(self, post: AnyPost) -> None:
        """Like a post. Raises `NotFound`."""
        self._loop.call(self._awaited.like(post))

    def unlike(self, post: AnyPost) -> None:
        """Take a like back. Raises `NotFound`."""
        self._loop.call(self._awaited.unlike(post))

    def share(self, post: AnyPost, *, visibility: Visibility | VisibilityName = Visibility.PUBLIC) -> Share:
        """Show a post to one's followers; a second time gives the same share.

        Raises `NotFound` where the post may not be shared, `InvalidInput`, and `Unavailable` while deliveries are behind.
        """
        return self._loop.call(self._awaited.share(post, visibility=visibility))

    def unshare(self, post: AnyPost) -> None:
        """Take a share back. Raises `NotFound`."""
        self._loop.call(self._awaited.unshare(post))

    def bookmark(self, post: AnyPost) -> None:
        """Keep a post for later. Raises `NotFound`."""
        self._loop.call(self._awaited.bookmark(post))

    def unbookmark(self, post: AnyPost) -> None:
        """Keep it no longer. Raises `NotFound`."""
        self._loop.call(self._awaited.unbookmark(post))

    def react(self, post: AnyPost, emoji: str) -> None:
        """Put an emoji on a post. Raises `NotFound`, and `InvalidInput` for what is no emoji, or one too many."""
        self._loop.call(self._awaited.react(post, emoji))

    def unreact(self, post: AnyPost, emoji: str) -> None:
        """Take an emoji off a post. Raises `NotFound`, and `InvalidInput` for what is no emoji."""
        self._loop.call(self._awaited.unreact(post, emoji))

    def vote(self, poll: AnyPoll, *choices: int) -> PollView:
        """Vote for options of a poll, by position; where several are allowed, again for others.

        Raises `NotFound`, and `InvalidInput` for a choice that there is not, a poll that is over or a second vote.
        """
        return self._loop.call(self._awaited.vote(poll, *choices))

    def likes(self, before: int | None = None, limit: int = 20) -> Kept:
        """A page of the posts that this member likes, the newest like first. Raises `InvalidInput` for a limit below 1."""
        return self._loop.call(self._awaited.likes(before, limit))

    def bookmarks(self, before: int | None = None, limit: int = 20) -> Kept:
        """A page of the posts that this member keeps, the newest first. Raises `InvalidInput` for a limit below 1."""
        return self._loop.call(self._awaited.bookmarks(before, limit))
