"""Posts and comments: reading, writing, scheduling, likes, shares, bookmarks, emoji reactions and votes."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import UNSET, UnsetType

from shoal.commands import polls, posts, reactions, scheduled_posts
from shoal.commands.polls import PollDraft
from shoal.commands.posts import Draft
from shoal.core.emoji import checked_emoji
from shoal.core.errors import NotFound
from shoal.core.filters import FilterContext
from shoal.core.licenses import License, LicenseName
from shoal.core.model import Post, Revision, ScheduledPost, Share, Visibility
from shoal.core.places import Place
from shoal.core.reactions import is_name
from shoal.graph.access import access_poll, access_post, own_object, own_post
from shoal.graph.schema import BOOKMARK, LIKED_BY, LIKES, SHARED_BY, AssocType
from shoal.library.acting import (
    Acting,
    AnyMedia,
    AnyMoment,
    AnyPoll,
    AnyPost,
    AnyScheduled,
    Owned,
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
from shoal.queries.pipeline import Page, content_filters_of, filtered
from shoal.queries.posts import SavedPage, Waiting, revisions, waiting
from shoal.queries.threads import Thread

_LONGEST = 4_096
"""Maximum number of ancestors, and of descendants, of a post in a thread."""


class SeesPosts(Seeing):
    """Posts as a viewer sees them."""

    async def read(self, post: AnyPost) -> Entry:
        """Return a post as this viewer sees it, with its counts. Raises `NotFound`."""
        found = await self.read_several((post,))
        if not found:
            raise NotFound("Record not found")
        return found[0]

    async def read_several(self, several: Sequence[AnyPost]) -> list[Entry]:
        """Return posts in the given order, omitting posts that this viewer may not see."""
        graph = self._reads.graph
        found = await hydrate(graph, self._viewer, [post_id(post) for post in several], unasked=False)
        return await filtered(graph, self._viewer, found, FilterContext.THREAD)

    async def history(self, post: AnyPost) -> list[Revision]:
        """Return the earlier versions of a post, oldest first. Raises `NotFound`."""
        return await revisions(self._network.store, self._viewer, post_id(post))

    async def thread(self, post: AnyPost) -> Thread:
        """Return the ancestors and descendants of a post. Raises `NotFound`."""
        found = await threads.thread(self._reads, self._viewer, post_id(post), above=_LONGEST, below=_LONGEST)
        content_filters = await content_filters_of(self._reads.graph, self._viewer, FilterContext.THREAD)
        return Thread(await content_filters.marked(found.above), await content_filters.marked(found.below), found.more)

    async def replies(
        self,
        post: AnyPost,
        before: int | None = None,
        limit: int = 20,
        *,
        after: int | None = None,
        oldest_first: bool = False,
    ) -> Page:
        """Return a page of direct comments on a post, newest first.

        With `oldest_first`, the page has the oldest comments newer than `after`, still newest first.
        Raises `NotFound`, and `InvalidInput` for a limit below 1.
        """
        cursor = part(before, limit, after, oldest_first=oldest_first)
        found = await threads.replies(self._reads, self._viewer, post_id(post), cursor)
        entries = await filtered(self._reads.graph, self._viewer, found.entries, FilterContext.THREAD)
        return Page(entries, found.next)


class WritesPosts(Acting):
    """Writing, editing and deleting a member's own posts."""

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
        kind: str = "",
        license: License | LicenseName | None = None,  # noqa: A002 (the builtin exists in interactive sessions only)
        downloads: bool | None = None,
        request: str = "",
    ) -> Post:
        """Create a post.

        Args:
            data: Any JSON of at most 64 KiB.
            kind: The name of a declared kind, whose schema `data` must match. It cannot be changed later.
            license: The license of the media; None applies the member's `default_license`.
            downloads: Whether the photos may be downloaded; None applies the member's `allows_downloads`.
            place: Stored with the precision that the member chose (`update_profile`).
            request: A key that makes the call idempotent: a repeated key within an hour returns the existing post.

        Raises `InvalidInput` (`TooLarge`) for values above the limits, `NotFound`, `NotAllowed` or `Unfit` for media that
        cannot be used, `Gone` if the author is suspended or the post of this `request` was deleted, and `Unavailable` while
        fan-out is too far behind.
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
            kind=kind,
            license=license,
            downloads=downloads,
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
        kind: str = "",
        license: License | LicenseName | None = None,  # noqa: A002 (the builtin exists in interactive sessions only)
        downloads: bool | None = None,
        request: str = "",
    ) -> Post:
        """Comment on a post. The default `visibility` is that of the post.

        Raises errors as `create` does, and `NotFound` for a post that this member may not see.
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
            kind=kind,
            license=license,
            downloads=downloads,
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
        license: License | LicenseName | None = None,  # noqa: A002 (the builtin exists in interactive sessions only)
        downloads: bool | None = None,
        visibility: Visibility | VisibilityName | None = None,
    ) -> Post:
        """Edit a post of this member. Omitted fields keep their values; None removes `place` or `data`.

        The `visibility` can be narrowed, from `public` to `unlisted`, `followers` and `direct`, but never widened.
        Raises errors as `create` does, `NotFound` for another member's post, and `Conflict` if it was edited concurrently.
        """
        stored = await own_post(self._network.store, self.id, post_id(post))
        draft = Draft(
            text=stored.text if text is None else text,
            media=stored.media if media is None else [id_of(file) for file in media],
            spoiler=stored.spoiler if spoiler is None else spoiler,
            sensitive=sensitive,
            language=stored.language if language is None else language,
            place=stored.place if isinstance(place, UnsetType) else place,
            poll=poll,
            data=stored.data if data is UNSET else data,
            license=None if license is None else one_of(License, license, "license"),
            downloads=downloads,
        )
        shown = None if visibility is None else one_of(Visibility, visibility, "visibility")
        return await posts.update(self._writes, self.id, stored.id, draft, visibility=shown)

    async def delete(self, post: AnyPost) -> Post:
        """Delete a post of this member, and return its last state. Raises `NotFound` for another member's post."""
        return await posts.delete(self._writes, self.id, post_id(post))

    async def pin(self, post: AnyPost) -> Post:
        """Pin a post of this member to the profile.

        Raises `InvalidInput` for a share, a direct post, or too many pins, and `NotFound` for another member's post.
        """
        return await reactions.pin(self._writes, self.id, post_id(post))

    async def unpin(self, post: AnyPost) -> Post:
        """Unpin a post. Raises `NotFound` for another member's post."""
        return await reactions.unpin(self._writes, self.id, post_id(post))

    async def mute_thread(self, post: AnyPost) -> Post:
        """Mute notifications about the thread of a post. Raises `NotFound`."""
        return await reactions.mute_thread(self._writes, self.id, post_id(post))

    async def unmute_thread(self, post: AnyPost) -> Post:
        """Undo `mute_thread`. Raises `NotFound`."""
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
    kind: str = "",
    license: License | LicenseName | None = None,  # noqa: A002 (the builtin exists in interactive sessions only)
    downloads: bool | None = None,
    parent_id: int = 0,
) -> Draft:
    """Return the arguments as a draft. Raises `InvalidInput` for an unknown visibility or license."""
    return Draft(
        text=text,
        media=[id_of(file) for file in media],
        visibility=one_of(Visibility, visibility, "visibility"),
        spoiler=spoiler,
        sensitive=sensitive,
        language=language,
        place=place,
        poll=poll,
        data=data,
        kind=kind,
        license=None if license is None else one_of(License, license, "license"),
        downloads=downloads,
        parent_id=parent_id,
    )


class SeesReactions(Seeing):
    """Reactions to posts as a viewer sees them."""

    async def likers(self, post: AnyPost, newest: int = 5) -> Likers:
        """Count the likes of a post, in O(1), and return the newest members who like it. Raises `NotFound`."""
        return await member_queries.likers(self._reads, self._viewer, post_id(post), newest)

    async def liked_by(self, post: AnyPost, before: int | None = None, limit: int = member_queries.PAGE) -> MemberPage:
        """Return a page of the members who like a post, newest first. Raises `NotFound`, and `InvalidInput` for a limit below 1."""
        return await self._reacting(post, LIKED_BY, before, limit)

    async def shared_by(self, post: AnyPost, before: int | None = None, limit: int = member_queries.PAGE) -> MemberPage:
        """Return a page of members who shared a post, newest first. Raises `NotFound`, and `InvalidInput` for a limit below 1."""
        return await self._reacting(post, SHARED_BY, before, limit)

    async def reactions(self, post: AnyPost, newest: int = 5) -> list[EmojiReactors]:
        """Count the members who reacted with each emoji and declared reaction, in O(1) each, and return the newest members.

        Raises `NotFound`.
        """
        return await member_queries.emoji_reactors(self._reads, self._viewer, post_id(post), newest)

    async def reacted_by(
        self, post: AnyPost, emoji: str, before: int | None = None, limit: int = member_queries.PAGE
    ) -> MemberPage:
        """Return a page of the members who reacted with an emoji or declared reaction, newest first.

        Raises `NotFound`, and `InvalidInput` for an invalid emoji or a limit below 1.
        """
        name = emoji if is_name(emoji) else checked_emoji(emoji)
        return (await member_queries.emoji_page(self._reads, self._viewer, post_id(post), name, part(before, limit)))[1]

    async def poll(self, poll: AnyPoll) -> PollView:
        """Return a poll with its votes, as this viewer sees it. Raises `NotFound`."""
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
        """Undo `like`. Raises `NotFound`."""
        await reactions.unlike(self._writes, self.id, post_id(post))

    async def share(self, post: AnyPost, *, visibility: Visibility | VisibilityName = Visibility.PUBLIC) -> Share:
        """Share a post with this member's followers. A repeated call returns the existing share.

        Raises `NotFound` if the post may not be shared, `InvalidInput` for an unknown visibility, and `Unavailable` while
        fan-out is too far behind.
        """
        self._writes.pressure.check()
        shown = one_of(Visibility, visibility, "visibility")
        return await reactions.share(self._writes, self.id, post_id(post), shown)

    async def unshare(self, post: AnyPost) -> None:
        """Undo `share`. Raises `NotFound`."""
        await reactions.unshare(self._writes, self.id, post_id(post))

    async def bookmark(self, post: AnyPost) -> None:
        """Bookmark a post. Raises `NotFound`."""
        await reactions.mark(self._writes, self.id, post_id(post), BOOKMARK)

    async def unbookmark(self, post: AnyPost) -> None:
        """Undo `bookmark`. Raises `NotFound`."""
        await reactions.unmark(self._writes, self.id, post_id(post), BOOKMARK)

    async def react(self, post: AnyPost, emoji: str) -> None:
        """React to a post with an emoji or a declared reaction, which replaces the member's other one of its group.

        Raises `NotFound`, also for a reaction that is not declared, and `InvalidInput` for an invalid emoji, too many emoji, and a
        reaction that is retired or does not apply to the post.
        """
        await reactions.react(self._writes, self.id, post_id(post), emoji)

    async def unreact(self, post: AnyPost, emoji: str) -> None:
        """Remove an emoji or declared reaction.

        Raises `NotFound`, also for a reaction that is not declared, and `InvalidInput` for an invalid emoji.
        """
        await reactions.unreact(self._writes, self.id, post_id(post), emoji)

    async def vote(self, poll: AnyPoll, *choices: int) -> PollView:
        """Vote for options of a poll, by position. In a multiple-choice poll, further calls add options.

        Raises `NotFound`, and `InvalidInput` for an unknown option, an expired poll, or a second vote.
        """
        await polls.vote(self._writes, self.id, poll_id(poll), choices)
        return await self.poll(poll)

    async def likes(self, before: int | None = None, limit: int = 20) -> SavedPage:
        """Return a page of the posts that this member likes, newest like first. Raises `InvalidInput` for a limit below 1."""
        return await post_queries.saved_page(self._reads, self.id, LIKES, part(before, limit))

    async def reacted(self, name: str, before: int | None = None, limit: int = 20) -> SavedPage:
        """Return a page of the posts to which this member reacted with a declared reaction, the last changed reaction first.

        Raises `NotFound` for an unknown reaction, and `InvalidInput` for a limit below 1.
        """
        return await post_queries.reacted_page(self._reads, self.id, name, part(before, limit))

    async def bookmarks(self, before: int | None = None, limit: int = 20) -> SavedPage:
        """Return a page of the bookmarked posts, newest bookmark first. Raises `InvalidInput` for a limit below 1."""
        return await post_queries.saved_page(self._reads, self.id, BOOKMARK.atype, part(before, limit))


class OwnScheduled(Owned):
    """The scheduled posts of a member."""

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
        kind: str = "",
        license: License | LicenseName | None = None,  # noqa: A002 (the builtin exists in interactive sessions only)
        downloads: bool | None = None,
        request: str = "",
    ) -> ScheduledPost | Post:
        """Schedule a post, or a comment on the post `answers`, at least five minutes ahead.

        A repeated `request` within an hour returns the existing scheduled post, or the post if it has been published since. Raises
        `InvalidInput` for an earlier moment and for too many scheduled posts, and other errors as `Handle.create` does.
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
            kind=kind,
            license=license,
            downloads=downloads,
            parent_id=0 if answers is None else post_id(answers),
        )
        return await scheduled_posts.schedule(self._writes, self._owner, draft, milliseconds(at, "at"), request=request)

    async def page(self, before: int | None = None, limit: int = 20) -> Waiting:
        """Return a page of scheduled posts, most recently created first. Raises `InvalidInput` for a limit below 1."""
        return await waiting(self._reads.graph, self._owner, part(before, limit))

    async def get(self, which: AnyScheduled) -> ScheduledPost:
        """Return a scheduled post. Raises `NotFound`."""
        return await own_object(self._reads.graph, ScheduledPost, self._owner, id_of(which))

    async def put_off(self, which: AnyScheduled, at: AnyMoment) -> ScheduledPost:
        """Change the time of a scheduled post. Raises `NotFound`, and `InvalidInput` for a time that `create` would refuse."""
        return await scheduled_posts.put_off(self._writes, self._owner, id_of(which), milliseconds(at, "at"))

    async def cancel(self, which: AnyScheduled) -> None:
        """Cancel a scheduled post. Raises `NotFound`."""
        await scheduled_posts.cancel(self._writes, self._owner, id_of(which))
