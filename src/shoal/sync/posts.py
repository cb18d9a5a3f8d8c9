"""Posts and comments: reading them, writing them, and the threads they make.

Made from `shoal.library.posts` by `python -m scripts.sync_library`.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import UNSET, UnsetType

from shoal.commands.polls import PollDraft
from shoal.core.model import Post, Revision, Visibility
from shoal.core.places import Place
from shoal.library import posts as awaited
from shoal.library.acting import AnyMedia, AnyPost, VisibilityName
from shoal.queries.hydration import Entry
from shoal.queries.pipeline import Page
from shoal.queries.threads import Thread
from shoal.sync.calling import Acting, Calling


class SeesPosts(Calling):
    """Posts as a viewer sees them."""

    _awaited: awaited.SeesPosts

    def read(self, post: AnyPost) -> Entry:
        """A post as this viewer sees it, with its counts. Raises `NotFound`."""
        return self._loop.call(self._awaited.read(post))

    def read_several(self, several: Sequence[AnyPost]) -> list[Entry]:
        """Posts in the order given, without those that this viewer may not see. Raises nothing for those."""
        return self._loop.call(self._awaited.read_several(several))

    def history(self, post: AnyPost) -> list[Revision]:
        """The former wordings of a post, oldest first. Raises `NotFound`."""
        return self._loop.call(self._awaited.history(post))

    def thread(self, post: AnyPost) -> Thread:
        """The posts that a post answers, and those that answer it. Raises `NotFound`."""
        return self._loop.call(self._awaited.thread(post))

    def replies(
        self,
        post: AnyPost,
        before: int | None = None,
        limit: int = 20,
        *,
        after: int | None = None,
        oldest_first: bool = False,
    ) -> Page:
        """A page of the comments on a post itself, newest first. Raises `NotFound`, and `InvalidInput` for a limit below 1."""
        return self._loop.call(self._awaited.replies(post, before, limit, after=after, oldest_first=oldest_first))


class WritesPosts(Acting):
    """Posts as their author writes them."""

    _awaited: awaited.WritesPosts

    def create(
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
        return self._loop.call(
            self._awaited.create(
                text,
                media=media,
                visibility=visibility,
                spoiler=spoiler,
                sensitive=sensitive,
                language=language,
                place=place,
                poll=poll,
                data=data,
                request=request,
            )
        )

    def comment(
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
        return self._loop.call(
            self._awaited.comment(
                post,
                text,
                media=media,
                visibility=visibility,
                spoiler=spoiler,
                sensitive=sensitive,
                language=language,
                place=place,
                poll=poll,
                data=data,
                request=request,
            )
        )

    def update(
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
        return self._loop.call(
            self._awaited.update(
                post,
                text,
                media=media,
                spoiler=spoiler,
                sensitive=sensitive,
                language=language,
                place=place,
                poll=poll,
                data=data,
                visibility=visibility,
            )
        )

    def delete(self, post: AnyPost) -> Post:
        """Delete an own post, and return it as it was. Raises `NotFound` for anybody else's."""
        return self._loop.call(self._awaited.delete(post))

    def pin(self, post: AnyPost) -> Post:
        """Show an own post first on the profile.

        Raises `InvalidInput` for a share, a direct post and one pin too many, and `NotFound` for anybody else's post.
        """
        return self._loop.call(self._awaited.pin(post))

    def unpin(self, post: AnyPost) -> Post:
        """Show it there no longer. Raises `NotFound` for anybody else's post."""
        return self._loop.call(self._awaited.unpin(post))

    def mute_thread(self, post: AnyPost) -> Post:
        """Get no more notifications of the thread that a post is part of. Raises `NotFound`."""
        return self._loop.call(self._awaited.mute_thread(post))

    def unmute_thread(self, post: AnyPost) -> Post:
        """Get notifications of the thread again. Raises `NotFound`."""
        return self._loop.call(self._awaited.unmute_thread(post))
