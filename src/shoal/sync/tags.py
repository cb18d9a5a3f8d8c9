"""Tags: the cloud and trends that everybody sees, and the tags that a member follows.

Made from `shoal.library.search` by `python -m scripts.sync_library`.
"""

from __future__ import annotations

from shoal.library import search as awaited
from shoal.library.search import CloudOrder
from shoal.queries.tags import FollowedTags
from shoal.sync.calling import Acting, Calling
from shoal.tagcloud.cloud import MAX_WORDS, Counted, RelatedTag, Shown, Word


class Tags(Calling):
    """The tag cloud, as everybody may see it."""

    _awaited: awaited.Tags

    def cloud(self, order: CloudOrder = "all", limit: int = MAX_WORDS) -> Shown:
        """The first tags (at most 200) by `all` uses, by those of the last `hour`, `day` or `week`, or `rising`.

        Raises `InvalidInput` for another order or limit.
        """
        return self._loop.call(self._awaited.cloud(order, limit))

    def tag(self, name: str) -> Counted | None:
        """A tag in numbers; None for one that nobody uses. Raises `InvalidInput` for text that is no tag."""
        return self._loop.call(self._awaited.tag(name))

    def related(self, name: str, limit: int = 20) -> list[RelatedTag]:
        """Tags that go with a tag, the most like first; at most 40. Raises `InvalidInput` for text that is no tag."""
        return self._loop.call(self._awaited.related(name, limit))

    def trending(self, limit: int = 10, offset: int = 0) -> list[Word]:
        """Tags on the rise; those of the day, the week and all time where there are too few. Raises `Unavailable`."""
        return self._loop.call(self._awaited.trending(limit, offset))


class FollowsTags(Acting):
    """The tags of a member."""

    _awaited: awaited.FollowsTags

    def follow_tag(self, tag: str) -> str:
        """Follow a tag: its public posts come to the home timeline. Returns its canonical form.

        Raises `InvalidInput` for text that is no tag, and for one too many.
        """
        return self._loop.call(self._awaited.follow_tag(tag))

    def unfollow_tag(self, tag: str) -> str:
        """End the follow of a tag, and return its canonical form. Raises `InvalidInput` for text that is no tag."""
        return self._loop.call(self._awaited.unfollow_tag(tag))

    def followed_tags(self, before: int | None = None, limit: int = 100) -> FollowedTags:
        """A page of the tags that this member follows, the newest follow first. Raises `InvalidInput` for a limit below 1."""
        return self._loop.call(self._awaited.followed_tags(before, limit))

    def cloud(self, limit: int = MAX_WORDS) -> Shown:
        """The tag cloud as this member would have it; each word says why it is there.

        Raises `InvalidInput` for a limit that is not 1 to 200.
        """
        return self._loop.call(self._awaited.cloud(limit))
