"""Live updates: what happens in a member's feeds while the member listens."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from shoal.core.text import check_tag
from shoal.graph.access import own_list
from shoal.graph.schema import tag_id
from shoal.library.acting import Acting
from shoal.library.lists import AnyList
from shoal.queries import streaming
from shoal.queries.streaming import News, OfViewer
from shoal.streaming.subscriptions import CONVERSATIONS, NOTIFICATIONS, Everybody, Interest, Listed, TagInterest


class Listens(Acting):
    """Streams of a member. News have a `position`, after which a later call goes on; the same may be told twice."""

    def live(self, after: str | None = None) -> AsyncGenerator[News, None]:
        """Tell what happens in the home timeline, from the first step on or since the `position` of earlier news.

        Ends when the network closes. News are `Arrived` and `Edited`, which have an `entry`, `Removed`, which has an `id`, and
        `Refresh`: something may have been missed, so read `home` again. Raises `Unavailable`.
        """
        return streaming.news(self._reads, self._network.hub, self.id, after)

    def live_public(
        self, after: str | None = None, *, only_media: bool = False
    ) -> AsyncGenerator[News | OfViewer, None]:
        """Tell what happens in the public timeline, as `live`. Raises `Unavailable`."""
        return self._told(Everybody(only_media=only_media), after)

    def live_tag(self, tag: str, after: str | None = None) -> AsyncGenerator[News | OfViewer, None]:
        """Tell what is posted under a tag, as `live`. Raises `InvalidInput` for text that is no tag, and `Unavailable`."""
        return self._told(TagInterest(tag_id(check_tag(tag))), after)

    async def live_list(self, which: AnyList, after: str | None = None) -> AsyncGenerator[News | OfViewer, None]:
        """Tell what the members of an own list post, as `live`. Raises `NotFound` and `Unavailable`."""
        held = await own_list(self._reads.graph, self.id, which if isinstance(which, int) else which.id)
        async with aclosing(self._told(Listed(held.id), after)) as told:
            async for one in told:
                yield one

    def live_notifications(self, after: str | None = None) -> AsyncGenerator[News | OfViewer, None]:
        """Tell of notifications: `Notified` has the `time` by which each is read. Raises `Unavailable`."""
        return self._told(NOTIFICATIONS, after)

    def live_conversations(self, after: str | None = None) -> AsyncGenerator[News | OfViewer, None]:
        """Tell of direct posts: `Conversed` has the id of the conversation. Raises `Unavailable`."""
        return self._told(CONVERSATIONS, after)

    def _told(self, to: Interest, after: str | None) -> AsyncGenerator[News | OfViewer, None]:
        return streaming.everything(self._reads, self._network.hub, self.id, to, after)
