"""Search, suggestions and the directory: members, posts and tags to look at.

Made from `shoal.library.search` by `python -m scripts.sync_library`.
"""

from __future__ import annotations

from typing import Literal

from shoal.library import search as awaited
from shoal.library.acting import AnyMember
from shoal.library.search import Findings
from shoal.queries.hydration import Entry, Profile
from shoal.queries.suggestions import Suggestion
from shoal.sync.calling import Acting, Calling


class Searches(Calling):
    """Searches that anybody may make."""

    _awaited: awaited.Searches

    def search_members(self, text: str, limit: int = 20, offset: int = 0, *, following: bool = False) -> list[Profile]:
        """Find members by name, exact matches first; with `following`, among the viewer's followees alone.

        Raises `Unavailable`.
        """
        return self._loop.call(self._awaited.search_members(text, limit, offset, following=following))

    def search_tags(self, text: str, limit: int = 20, offset: int = 0) -> list[str]:
        """Find tags by their beginning, the most used first. Raises `Unavailable`."""
        return self._loop.call(self._awaited.search_tags(text, limit, offset))

    def directory(self, order: Literal["active", "new"] = "active", limit: int = 40, offset: int = 0) -> list[Profile]:
        """List members who want to be found: those who posted last, or joined last (`new`), come first.

        Raises `Unavailable`.
        """
        return self._loop.call(self._awaited.directory(order, limit, offset))

    def trending_posts(self, limit: int = 20, offset: int = 0) -> list[Entry]:
        """List posts that many like and share these days. Raises `Unavailable`."""
        return self._loop.call(self._awaited.trending_posts(limit, offset))


class MemberSearches(Searches, Acting):
    """Searches that only a member may make."""

    _awaited: awaited.MemberSearches

    def search(self, text: str, limit: int = 20) -> Findings:
        """Search for members, posts and tags at once, up to `limit` of each. Raises `Unavailable`."""
        return self._loop.call(self._awaited.search(text, limit))

    def search_posts(
        self, text: str, before: int | None = None, limit: int = 20, *, offset: int = 0, author: AnyMember | None = None
    ) -> list[Entry]:
        """Find posts by their words, newest first: public ones, the member's own, and those that mention them.

        `text` may have the operators of the API (`from:ann`, `has:media`, `"a phrase"`, `-word`). Raises `NotFound` for
        an author whose name nobody has.
        """
        return self._loop.call(self._awaited.search_posts(text, before, limit, offset=offset, author=author))

    def suggestions(self, limit: int = 40) -> list[Suggestion]:
        """Suggest members to follow, the likeliest first, up to 80. Each has its reasons, with words. Raises `Unavailable`."""
        return self._loop.call(self._awaited.suggestions(limit))

    def dismiss_suggestion(self, who: AnyMember) -> None:
        """Do not suggest this member again. Raises `NotFound`."""
        self._loop.call(self._awaited.dismiss_suggestion(who))
