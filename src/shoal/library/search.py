"""Search, suggestions, the directory, trends, the tag cloud and followed tags."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Literal, NamedTuple

from shoal.commands import relationships
from shoal.library.acting import Acting, AnyMember, Seeing, part
from shoal.queries import members, search, suggestions, tags, trends
from shoal.queries.context import Reads
from shoal.queries.hydration import Entry, Profile
from shoal.queries.search import ResultRange
from shoal.queries.suggestions import Suggestion
from shoal.queries.tags import FollowedTags
from shoal.tagcloud.cloud import MAX_WORDS, Counted, RelatedTag, Shown, Word


class Searches(Seeing):
    """Searches that do not need a login."""

    async def search_members(
        self, text: str, limit: int = 20, offset: int = 0, *, following: bool = False
    ) -> list[Profile]:
        """Find members by name, exact matches first; with `following`, only among the viewer's followees.

        Raises `Unavailable`.
        """
        asked = ResultRange(limit, offset)
        return await search.members(self._reads, self._viewer, text, asked, following=following)

    async def search_tags(self, text: str, limit: int = 20, offset: int = 0) -> list[str]:
        """Find tags by prefix, most used first. Raises `Unavailable`."""
        return await search.tags(self._reads, self._viewer, text, ResultRange(limit, offset))

    async def directory(
        self, order: Literal["active", "new"] = "active", limit: int = 40, offset: int = 0
    ) -> list[Profile]:
        """List discoverable members, ordered by their last post (`active`) or by when they joined (`new`).

        Raises `Unavailable`.
        """
        return await members.directory_page(self._reads, self._viewer, order, limit, offset)

    async def trending_posts(self, limit: int = 20, offset: int = 0) -> list[Entry]:
        """List posts with many recent likes and shares. Raises `Unavailable`."""
        return await trends.page(self._reads, self._viewer, limit, offset)


class Findings(NamedTuple):
    """The results of a search."""

    members: list[Profile]
    posts: list[Entry]
    tags: list[str]


class MemberSearches(Searches, Acting):
    """Searches by a member."""

    async def search(self, text: str, limit: int = 20) -> Findings:
        """Search for members, posts and tags at once, up to `limit` of each. Raises `Unavailable`."""
        return Findings(
            await self.search_members(text, limit),
            await self.search_posts(text, limit=limit),
            await self.search_tags(text, limit),
        )

    async def search_posts(
        self,
        text: str,
        before: int | None = None,
        limit: int = 20,
        *,
        offset: int = 0,
        author: AnyMember | None = None,
    ) -> list[Entry]:
        """Find posts by words, newest first: public posts, the member's own, and posts that mention them.

        `text` may use the operators of the API (`from:ann`, `has:media`, `"a phrase"`, `-word`). Raises `NotFound` for an unknown
        author.
        """
        by = None if author is None else await self._resolve(author)
        cursor = part(before, limit, start=-1)
        return await search.posts(self._reads, self.id, text, cursor, offset=offset, author=by)

    async def suggestions(self, limit: int = 40) -> list[Suggestion]:
        """Suggest up to 80 members to follow, best first, each with its reasons. Raises `Unavailable`."""
        return await suggestions.suggestions(self._reads, self.id, limit)

    async def dismiss_suggestion(self, who: AnyMember) -> None:
        """Stop suggesting a member. Raises `NotFound`."""
        await relationships.dismiss_suggestion(self._writes, self.id, await self._resolve(who))


CloudOrder = Literal["all", "hour", "day", "week", "rising"]


class Tags:
    """The public tag cloud."""

    def __init__(self, reads: Reads) -> None:
        self._reads = reads

    async def cloud(self, order: CloudOrder = "all", limit: int = MAX_WORDS) -> Shown:
        """Return at most 200 tags of the cloud, ordered by `all` uses, those of the last `hour`, `day` or `week`, or `rising`.

        Raises `InvalidInput` for an unknown order, or a limit outside 1 to 200.
        """
        return await self._reads.tags.cloud(order, limit)

    async def tag(self, name: str) -> Counted | None:
        """Return the counts of a tag; None for an unused tag. Raises `InvalidInput` for an invalid tag."""
        return await self._reads.tags.tag(name)

    async def related(self, name: str, limit: int = 20) -> list[RelatedTag]:
        """Return at most 40 related tags, most similar first. Raises `InvalidInput` for an invalid tag."""
        return await tags.related(self._reads, name, limit)

    def live(self) -> AsyncGenerator[int, None]:
        """Iterate over the versions of the cloud, from the current one on, so that a program need not poll.

        Of several versions in quick succession, only the last one may be yielded. Ends when the network closes. Raises
        `Unavailable`.
        """
        return self._reads.tags.versions()

    async def trending(self, limit: int = 10, offset: int = 0) -> list[Word]:
        """Return the rising tags, followed by the top tags of the day, the week and all time. Raises `Unavailable`."""
        return await trends.trending(self._reads, limit, offset)


class FollowsTags(Acting):
    """The tags that a member follows."""

    async def follow_tag(self, tag: str) -> str:
        """Follow a tag, whose public posts then appear in the home timeline. Return its canonical form.

        Raises `InvalidInput` for an invalid tag, and for too many tags.
        """
        return await relationships.follow_tag(self._writes, self.id, tag)

    async def unfollow_tag(self, tag: str) -> str:
        """Unfollow a tag, and return its canonical form. Raises `InvalidInput` for an invalid tag."""
        return await relationships.unfollow_tag(self._writes, self.id, tag)

    async def followed_tags(self, before: int | None = None, limit: int = 100) -> FollowedTags:
        """Return a page of the followed tags, newest follow first. Raises `InvalidInput` for a limit below 1."""
        return await tags.followed(self._reads, self.id, part(before, limit))

    async def cloud(self, limit: int = MAX_WORDS) -> Shown:
        """Return the tag cloud for this member, with a reason for each tag.

        Raises `InvalidInput` for a limit outside 1 to 200.
        """
        return await trends.for_you(self._reads, self.id, limit)
