"""Scheduled posts: written now, published at a moment to come."""

from __future__ import annotations

from collections.abc import Sequence

from shoal.commands import scheduled_posts
from shoal.commands.polls import PollDraft
from shoal.core.model import Post, ScheduledPost, Visibility
from shoal.core.places import Place
from shoal.library.arguments import (
    AnyMedia,
    AnyMoment,
    AnyPost,
    AnyScheduled,
    VisibilityName,
    id_of,
    milliseconds,
    part,
    post_id,
)
from shoal.library.posts import draft_of
from shoal.queries.posts import Waiting, waiting
from shoal.wiring import Network


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
        return await scheduled_posts.own_scheduled(self._reads.graph, self._owner, id_of(which))

    async def put_off(self, which: AnyScheduled, at: AnyMoment) -> ScheduledPost:
        """Publish it at another moment instead. Raises `NotFound`, and `InvalidInput` as `create`."""
        return await scheduled_posts.put_off(self._writes, self._owner, id_of(which), milliseconds(at, "at"))

    async def cancel(self, which: AnyScheduled) -> None:
        """Cancel a scheduled post. Raises `NotFound`."""
        await scheduled_posts.cancel(self._writes, self._owner, id_of(which))
