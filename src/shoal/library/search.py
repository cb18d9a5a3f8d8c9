"""Search, suggestions and the directory: members, posts and tags to look at."""

from __future__ import annotations

from typing import Literal, NamedTuple

from shoal.commands import relationships as dismissals
from shoal.library.acting import Acting, AnyMember, Seeing
from shoal.library.arguments import part
from shoal.queries import members, search, suggestions, trends
from shoal.queries.hydration import Entry, Profile
from shoal.queries.search import ResultRange
from shoal.queries.suggestions import Suggestion


class Searches(Seeing):
    """Searches that anybody may make."""

    async def search_members(
        self, text: str, limit: int = 20, offset: int = 0, *, following: bool = False
    ) -> list[Profile]:
        """Find members by name, exact matches first; with `following`, among the viewer's followees alone.

        Raises `Unavailable`.
        """
        asked = ResultRange(limit, offset)
        return await search.members(self._reads, self._viewer, text, asked, following=following)

    async def search_tags(self, text: str, limit: int = 20, offset: int = 0) -> list[str]:
        """Find tags by their beginning, the most used first. Raises `Unavailable`."""
        return await search.tags(self._reads, self._viewer, text, ResultRange(limit, offset))

    async def directory(
        self, order: Literal["active", "new"] = "active", limit: int = 40, offset: int = 0
    ) -> list[Profile]:
        """List members who want to be found: those who posted last, or joined last (`new`), come first.

        Raises `Unavailable`.
        """
        return await members.directory_page(self._reads, self._viewer, order, limit, offset)

    async def trending_posts(self, limit: int = 20, offset: int = 0) -> list[Entry]:
        """List posts that many like and share these days. Raises `Unavailable`."""
        return await trends.page(self._reads, self._viewer, limit, offset)


class Findings(NamedTuple):
    """Everything that a search found."""

    members: list[Profile]
    posts: list[Entry]
    tags: list[str]


class MemberSearches(Searches, Acting):
    """Searches that only a member may make."""

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
        """Find posts by their words, newest first: public ones, the member's own, and those that mention them.

        `text` may have the operators of the API (`from:ann`, `has:media`, `"a phrase"`, `-word`). Raises `NotFound` for
        an author whose name nobody has.
        """
        by = None if author is None else await self._resolve(author)
        cursor = part(before, limit, start=-1)
        return await search.posts(self._reads, self.id, text, cursor, offset=offset, author=by)

    async def suggestions(self, limit: int = 40) -> list[Suggestion]:
        """Suggest members to follow, the likeliest first, up to 80. Each has its reasons, with words. Raises `Unavailable`."""
        return await suggestions.suggestions(self._reads, self.id, limit)

    async def dismiss_suggestion(self, who: AnyMember) -> None:
        """Do not suggest this member again. Raises `NotFound`."""
        await dismissals.dismiss_suggestion(self._writes, self.id, await self._resolve(who))
