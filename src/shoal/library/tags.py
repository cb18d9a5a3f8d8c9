"""Tags: the cloud and trends that everybody sees, and the tags that a member follows."""

from __future__ import annotations

from typing import Literal

from shoal.commands import relationships
from shoal.library.acting import Acting
from shoal.library.arguments import part
from shoal.queries import tags, trends
from shoal.queries.context import Reads
from shoal.queries.tags import FollowedTags
from shoal.tagcloud.cloud import MAX_WORDS, Counted, RelatedTag, Shown, Word

CloudOrder = Literal["all", "hour", "day", "week", "rising"]


class Tags:
    """The tag cloud, as everybody may see it."""

    def __init__(self, reads: Reads) -> None:
        self._reads = reads

    async def cloud(self, order: CloudOrder = "all", limit: int = MAX_WORDS) -> Shown:
        """The first tags (at most 200) by `all` uses, by those of the last `hour`, `day` or `week`, or `rising`.

        Raises `InvalidInput` for another order or limit.
        """
        return await self._reads.tags.cloud(order, limit)

    async def tag(self, name: str) -> Counted | None:
        """A tag in numbers; None for one that nobody uses. Raises `InvalidInput` for text that is no tag."""
        return await self._reads.tags.tag(name)

    async def related(self, name: str, limit: int = 20) -> list[RelatedTag]:
        """Tags that go with a tag, the most like first; at most 40. Raises `InvalidInput` for text that is no tag."""
        return await tags.related(self._reads, name, limit)

    async def trending(self, limit: int = 10, offset: int = 0) -> list[Word]:
        """Tags on the rise; those of the day, the week and all time where there are too few. Raises `Unavailable`."""
        return await trends.trending(self._reads, limit, offset)


class FollowsTags(Acting):
    """The tags of a member."""

    async def follow_tag(self, tag: str) -> str:
        """Follow a tag: its public posts come to the home timeline. Returns its canonical form.

        Raises `InvalidInput` for text that is no tag, and for one too many.
        """
        return await relationships.follow_tag(self._writes, self.id, tag)

    async def unfollow_tag(self, tag: str) -> str:
        """End the follow of a tag, and return its canonical form. Raises `InvalidInput` for text that is no tag."""
        return await relationships.unfollow_tag(self._writes, self.id, tag)

    async def followed_tags(self, before: int | None = None, limit: int = 100) -> FollowedTags:
        """A page of the tags that this member follows, the newest follow first. Raises `InvalidInput` for a limit below 1."""
        return await tags.followed(self._reads, self.id, part(before, limit))

    async def cloud(self, limit: int = MAX_WORDS) -> Shown:
        """The tag cloud as this member would have it; each word says why it is there.

        Raises `InvalidInput` for a limit that is not 1 to 200.
        """
        return await trends.for_you(self._reads, self.id, limit)
