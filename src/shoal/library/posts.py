"""Posts and comments: reading them, writing them, and the threads they make."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import UNSET, UnsetType

from shoal.commands import posts, reactions
from shoal.commands.polls import PollDraft
from shoal.commands.posts import Draft
from shoal.core.errors import NotFound
from shoal.core.filters import FilterContext
from shoal.core.model import Post, Revision, Visibility
from shoal.core.places import Place
from shoal.graph.access import access_post, own_post
from shoal.library.acting import Acting, Seeing
from shoal.library.arguments import AnyMedia, AnyPost, VisibilityName, id_of, one_of, part, post_id
from shoal.queries import threads
from shoal.queries.hydration import Entry, hydrate
from shoal.queries.pipeline import Page, filtered, sieve_of
from shoal.queries.posts import revisions
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
