"""Posts and comments: reading, writing, scheduling, likes, shares, bookmarks, emoji reactions and votes."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import UNSET, UnsetType

from shoal.app.network import Network
from shoal.commands import polls, posts, reactions, scheduled_posts
from shoal.commands.polls import PollDraft
from shoal.commands.posts import Draft
from shoal.core.emoji import checked_emoji
from shoal.core.errors import NotFound
from shoal.core.filters import FilterContext
from shoal.core.model import Post, Revision, ScheduledPost, Share, Visibility
from shoal.core.places import Place
from shoal.graph.access import access_poll, access_post, own_object, own_post
from shoal.graph.schema import BOOKMARKS, LIKED_BY, LIKES, SHARED_BY, AssocType
from shoal.library.acting import (
    Acting,
    AnyMedia,
    AnyMoment,
    AnyPoll,
    AnyPost,
    AnyScheduled,
    Seeing,
    VisibilityName,
    id_of,
    milliseconds,
    one_of,
    part,
    poll_id,
    post_id,
)
from shoal.queries import members as member_queries
from shoal.queries import posts as post_queries
from shoal.queries import threads
from shoal.queries.hydration import Entry, PollView, hydrate
from shoal.queries.members import EmojiReactors, Likers, MemberPage
from shoal.queries.pipeline import Page, filtered, sieve_of
from shoal.queries.posts import Kept, Waiting, revisions, waiting
from shoal.queries.threads import Thread

_LONGEST = 4_096
"""Entries of a thread above a post, and below it."""


class SeesPosts(Seeing):
    """Posts as a viewer sees them."""

    async def read(self, post: AnyPost) -> Entry:
        """A post as this viewer sees it, with its counts. Raises `NotFound`."""
        found = await self.read_several((post,))
        if not found:
            raise NotFound("Record not found")
        return found[0]

    async def read_several(self, several: Sequence[AnyPost]) -> list[Entry]:
        """Posts in the order given, without those that this viewer may not see. Raises nothing for those."""
        graph = self._reads.graph
        found = await hydrate(graph, self._viewer, [post_id(post) for post in several], unasked=False)
        return await filtered(graph, self._viewer, found, FilterContext.THREAD)

    async def history(self, post: AnyPost) -> list[Revision]:
        """The former wordings of a post, oldest first. Raises `NotFound`."""
        return await revisions(self._network.store, self._viewer, post_id(post))

    async def thread(self, post: AnyPost) -> Thread:
        """The posts that a post answers, and those that answer it. Raises `NotFound`."""
        found = await threads.thread(self._reads, self._viewer, post_id(post), above=_LONGEST, below=_LONGEST)
        sieve = await sieve_of(self._reads.graph, self._viewer, FilterContext.THREAD)
        return Thread(await sieve.marked(found.above), await sieve.marked(found.below), found.more)

    async def replies(
        self,
        post: AnyPost,
        before: int | None = None,
        limit: int = 20,
        *,
        after: int | None = None,
        oldest_first: bool = False,
    ) -> Page:
        """A page of the comments on a post itself, newest first. Raises `NotFound`, and `InvalidInput` for a limit below 1."""
        cursor = part(before, limit, after, oldest_first=oldest_first)
        found = await threads.replies(self._reads, self._viewer, post_id(post), cursor)
        entries = await filtered(self._reads.graph, self._viewer, found.entries, FilterContext.THREAD)
        return Page(entries, found.next)


class WritesPosts(Acting):
    """Posts as their author writes them."""

    async def create(
        self,
        text: str = "",
        *,
        media: Sequence[AnyMedia] = (),
        visibility: Visibility | VisibilityName = Visibility.PUBLIC,
        spoiler: str = "",
        sensitive: bool = False,
        language: str = "",
        place: Place | tuple[float, float] | None = None,
        poll: PollDraft | None = None,
        data: object = None,
        request: str = "",
    ) -> Post:
        """Write a post. `data` is any JSON of at most 64 KiB; the same `request` within an hour gives the same post.
        `place` is stored as exactly as the member chose (`update_profile`).

        Raises `InvalidInput` (`TooLarge`) for what the limits do not allow, `NotFound`, `NotAllowed` or `Unfit` for
        media that cannot be used, `Gone` for a suspended author or where the post of the request was deleted, and
        `Unavailable` while deliveries are behind.
        """
        self._writes.pressure.check()
        draft = draft_of(
            text,
            media=media,
            visibility=visibility,
            spoiler=spoiler,
            sensitive=sensitive,
            language=language,
            place=place,
            poll=poll,
            data=data,
        )
        return await posts.create(self._writes, self.id, draft, request=request)

    async def comment(
        self,
        post: AnyPost,
        text: str = "",
        *,
        media: Sequence[AnyMedia] = (),
        visibility: Visibility | VisibilityName | None = None,
        spoiler: str = "",
        sensitive: bool = False,
        language: str = "",
        place: Place | tuple[float, float] | None = None,
        poll: PollDraft | None = None,
        data: object = None,
        request: str = "",
    ) -> Post:
        """Comment on a post, for those who may see the post unless `visibility` says otherwise.

        Raises as `create`, and `NotFound` for a post that this member may not see.
        """
        self._writes.pressure.check()
        parent = await access_post(self._network.store, self.id, post_id(post))
        draft = draft_of(
            text,
            media=media,
            visibility=parent.visibility if visibility is None else visibility,
            spoiler=spoiler,
            sensitive=sensitive,
            language=language,
            place=place,
            poll=poll,
            data=data,
            parent_id=parent.id,
        )
        return await posts.create(self._writes, self.id, draft, request=request)

    async def update(
        self,
        post: AnyPost,
        text: str | None = None,
        *,
        media: Sequence[AnyMedia] | None = None,
        spoiler: str | None = None,
        sensitive: bool | None = None,
        language: str | None = None,
        place: Place | tuple[float, float] | UnsetType | None = UNSET,
        poll: PollDraft | None = None,
        data: object = UNSET,
        visibility: Visibility | VisibilityName | None = None,
    ) -> Post:
        """Edit an own post. Fields that are not given stay; None takes `place` or `data` away. The `visibility` can be
        narrowed, from `public` over `unlisted` and `followers` to `direct`, and never widened.

        Raises as `create`, `NotFound` for anybody else's post, and `Conflict` when it was edited from elsewhere.
        """
        held = await own_post(self._network.store, self.id, post_id(post))
        draft = Draft(
            text=held.text if text is None else text,
            media=held.media if media is None else [id_of(one) for one in media],
            spoiler=held.spoiler if spoiler is None else spoiler,
            sensitive=sensitive,
            language=held.language if language is None else language,
            place=held.place if isinstance(place, UnsetType) else place,
            poll=poll,
            data=held.data if data is UNSET else data,
        )
        shown = None if visibility is None else one_of(Visibility, visibility, "visibility")
        return await posts.update(self._writes, self.id, held.id, draft, visibility=shown)

    async def delete(self, post: AnyPost) -> Post:
        """Delete an own post, and return it as it was. Raises `NotFound` for anybody else's."""
        return await posts.delete(self._writes, self.id, post_id(post))

    async def pin(self, post: AnyPost) -> Post:
        """Show an own post first on the profile.

        Raises `InvalidInput` for a share, a direct post and one pin too many, and `NotFound` for anybody else's post.
        """
        return await reactions.pin(self._writes, self.id, post_id(post))

    async def unpin(self, post: AnyPost) -> Post:
        """Show it there no longer. Raises `NotFound` for anybody else's post."""
        return await reactions.unpin(self._writes, self.id, post_id(post))

    async def mute_thread(self, post: AnyPost) -> Post:
        """Get no more notifications of the thread that a post is part of. Raises `NotFound`."""
        return await reactions.mute_thread(self._writes, self.id, post_id(post))

    async def unmute_thread(self, post: AnyPost) -> Post:
        """Get notifications of the thread again. Raises `NotFound`."""
        return await reactions.unmute_thread(self._writes, self.id, post_id(post))


def draft_of(
    text: str,
    *,
    media: Sequence[AnyMedia],
    visibility: Visibility | VisibilityName,
    spoiler: str,
    sensitive: bool,
    language: str,
    place: Place | tuple[float, float] | None,
    poll: PollDraft | None,
    data: object,
    parent_id: int = 0,
) -> Draft:
    """A draft of what a caller gave. Raises `InvalidInput` for a visibility that does not exist."""
    return Draft(
        text=text,
        media=[id_of(one) for one in media],
        visibility=one_of(Visibility, visibility, "visibility"),
        spoiler=spoiler,
        sensitive=sensitive,
        language=language,
        place=place,
        poll=poll,
        data=data,
        parent_id=parent_id,
    )


class SeesReactions(Seeing):
    """Reactions to posts as a viewer sees them."""

    async def likers(self, post: AnyPost, newest: int = 5) -> Likers:
        """Count the likes of a post, in O(1), with the newest few who like it. Raises `NotFound`."""
        return await member_queries.likers(self._reads, self._viewer, post_id(post), newest)

    async def liked_by(self, post: AnyPost, before: int | None = None, limit: int = member_queries.PAGE) -> MemberPage:
        """A page of the members who like a post, newest first. Raises `NotFound`, and `InvalidInput` for a limit below 1."""
        return await self._reacting(post, LIKED_BY, before, limit)

    async def shared_by(self, post: AnyPost, before: int | None = None, limit: int = member_queries.PAGE) -> MemberPage:
        """A page of the members who shared a post, newest first. Raises `NotFound`, and `InvalidInput` for a limit below 1."""
        return await self._reacting(post, SHARED_BY, before, limit)

    async def reactions(self, post: AnyPost, newest: int = 5) -> list[EmojiReactors]:
        """Count the members who put each emoji on a post, in O(1) each, with the newest few of them. Raises `NotFound`."""
        return await member_queries.emoji_reactors(self._reads, self._viewer, post_id(post), newest)

    async def reacted_by(
        self, post: AnyPost, emoji: str, before: int | None = None, limit: int = member_queries.PAGE
    ) -> MemberPage:
        """A page of the members who put an emoji on a post, newest first.

        Raises `NotFound`, and `InvalidInput` for what is no emoji or a limit below 1.
        """
        found = part(before, limit)
        return (await member_queries.emoji_page(self._reads, self._viewer, post_id(post), checked_emoji(emoji), found))[
            1
        ]

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
        return await member_queries.page(self._reads, self._viewer, node.id, atype, part(before, limit))


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
        return await post_queries.saved_page(self._reads, self.id, LIKES, part(before, limit))

    async def bookmarks(self, before: int | None = None, limit: int = 20) -> Kept:
        """A page of the posts that this member keeps, the newest first. Raises `InvalidInput` for a limit below 1."""
        return await post_queries.saved_page(self._reads, self.id, BOOKMARKS, part(before, limit))


class OwnScheduled:
    """The scheduled posts of a member."""

    def __init__(self, network: Network, owner: int) -> None:
        self._writes = network.writes
        self._reads = network.reads
        self._owner = owner

    async def create(
        self,
        text: str = "",
        *,
        at: AnyMoment,
        answers: AnyPost | None = None,
        media: Sequence[AnyMedia] = (),
        visibility: Visibility | VisibilityName = Visibility.PUBLIC,
        spoiler: str = "",
        sensitive: bool = False,
        language: str = "",
        place: Place | tuple[float, float] | None = None,
        poll: PollDraft | None = None,
        data: object = None,
        request: str = "",
    ) -> ScheduledPost | Post:
        """Schedule a post, or the comment that `answers` one, for a moment at least five minutes ahead.

        The same `request` within an hour returns the same scheduled post again, or the post if it has been published since.
        Raises `InvalidInput` for another moment and for one too many, and as `Handle.create`.
        """
        draft = draft_of(
            text,
            media=media,
            visibility=visibility,
            spoiler=spoiler,
            sensitive=sensitive,
            language=language,
            place=place,
            poll=poll,
            data=data,
            parent_id=0 if answers is None else post_id(answers),
        )
        return await scheduled_posts.schedule(self._writes, self._owner, draft, milliseconds(at, "at"), request=request)

    async def page(self, before: int | None = None, limit: int = 20) -> Waiting:
        """Return a page of scheduled posts, the last one scheduled first. Raises `InvalidInput` for a limit below 1."""
        return await waiting(self._reads.graph, self._owner, part(before, limit))

    async def get(self, which: AnyScheduled) -> ScheduledPost:
        """Return a scheduled post as it is now. Raises `NotFound`."""
        return await own_object(self._reads.graph, self._owner, id_of(which), ScheduledPost)

    async def put_off(self, which: AnyScheduled, at: AnyMoment) -> ScheduledPost:
        """Publish it at another moment instead. Raises `NotFound`, and `InvalidInput` as `create`."""
        return await scheduled_posts.put_off(self._writes, self._owner, id_of(which), milliseconds(at, "at"))

    async def cancel(self, which: AnyScheduled) -> None:
        """Cancel a scheduled post. Raises `NotFound`."""
        await scheduled_posts.cancel(self._writes, self._owner, id_of(which))
