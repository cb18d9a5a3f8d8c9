"""Scheduled posts: written now, published at a moment to come.

Made from `shoal.library.posts` by `python -m scripts.sync_library`.
"""

from __future__ import annotations

from collections.abc import Sequence

from shoal.commands.polls import PollDraft
from shoal.core.model import Post, ScheduledPost, Visibility
from shoal.core.places import Place
from shoal.library import posts as awaited
from shoal.library.acting import AnyMedia, AnyMoment, AnyPost, AnyScheduled, VisibilityName
from shoal.queries.posts import Waiting
from shoal.sync.calling import Calling


class OwnScheduled(Calling):
    """The scheduled posts of a member."""

    _awaited: awaited.OwnScheduled

    def create(
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
        return self._loop.call(
            self._awaited.create(
                text,
                at=at,
                answers=answers,
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

    def page(self, before: int | None = None, limit: int = 20) -> Waiting:
        """Return a page of scheduled posts, the last one scheduled first. Raises `InvalidInput` for a limit below 1."""
        return self._loop.call(self._awaited.page(before, limit))

    def get(self, which: AnyScheduled) -> ScheduledPost:
        """Return a scheduled post as it is now. Raises `NotFound`."""
        return self._loop.call(self._awaited.get(which))

    def put_off(self, which: AnyScheduled, at: AnyMoment) -> ScheduledPost:
        """Publish it at another moment instead. Raises `NotFound`, and `InvalidInput` as `create`."""
        return self._loop.call(self._awaited.put_off(which, at))

    def cancel(self, which: AnyScheduled) -> None:
        """Cancel a scheduled post. Raises `NotFound`."""
        self._loop.call(self._awaited.cancel(which))
