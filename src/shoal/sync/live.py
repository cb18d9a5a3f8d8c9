"""Live updates: what happens in a member's feeds while the member listens.

Made from `shoal.library.feeds` by `python -m scripts.sync_library`.
"""

from __future__ import annotations

from collections.abc import Generator

from shoal.library import feeds as awaited
from shoal.library.lists import AnyList
from shoal.queries.streaming import News, OfViewer
from shoal.sync.calling import Acting


class Listens(Acting):
    """Streams of a member. News have a `position`, after which a later call goes on; the same may be told twice."""

    _awaited: awaited.Listens

    def live(self, after: str | None = None) -> Generator[News, None, None]:
        """Tell what happens in the home timeline, from the first step on or since the `position` of earlier news.

        Ends when the network closes. News are `Arrived` and `Edited`, which have an `entry`, `Removed`, which has an `id`, and
        `Refresh`: something may have been missed, so read `home` again. Raises `Unavailable`.
        """
        return self._loop.each(self._awaited.live(after))

    def live_public(
        self, after: str | None = None, *, only_media: bool = False
    ) -> Generator[News | OfViewer, None, None]:
        """Tell what happens in the public timeline, as `live`. Raises `Unavailable`."""
        return self._loop.each(self._awaited.live_public(after, only_media=only_media))

    def live_tag(self, tag: str, after: str | None = None) -> Generator[News | OfViewer, None, None]:
        """Tell what is posted under a tag, as `live`. Raises `InvalidInput` for text that is no tag, and `Unavailable`."""
        return self._loop.each(self._awaited.live_tag(tag, after))

    def live_list(self, which: AnyList, after: str | None = None) -> Generator[News | OfViewer, None, None]:
        """Tell what the members of an own list post, as `live`. Raises `NotFound` and `Unavailable`."""
        return self._loop.each(self._awaited.live_list(which, after))

    def live_notifications(self, after: str | None = None) -> Generator[News | OfViewer, None, None]:
        """Tell of notifications: `Notified` has the `time` by which each is read. Raises `Unavailable`."""
        return self._loop.each(self._awaited.live_notifications(after))

    def live_conversations(self, after: str | None = None) -> Generator[News | OfViewer, None, None]:
        """Tell of direct posts: `Conversed` has the id of the conversation. Raises `Unavailable`."""
        return self._loop.each(self._awaited.live_conversations(after))
