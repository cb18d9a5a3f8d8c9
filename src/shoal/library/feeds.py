"""Feeds: home, the public timeline, timelines of tags, of places and of one member."""

from __future__ import annotations

from collections.abc import Sequence

from shoal.core.errors import InvalidInput
from shoal.core.filters import FilterContext
from shoal.core.places import DEFAULT_RADIUS_KM, disk
from shoal.core.text import check_tag
from shoal.graph.access import access_member
from shoal.library.acting import Acting, AnyMember, Seeing
from shoal.library.arguments import part
from shoal.queries import home, posts, public_timelines
from shoal.queries.hydration import Entry
from shoal.queries.pipeline import Page, filtered

MAX_AT_ONCE = 2_000
"""The most positions of a list that are asked for at once."""


class SeesFeeds(Seeing):
    """Feeds that are there for everybody, as a viewer sees them."""

    async def public(
        self,
        before: int | None = None,
        limit: int = 20,
        *,
        after: int | None = None,
        oldest_first: bool = False,
        only_media: bool = False,
    ) -> Page:
        """A page of the public posts of everybody, newest first, without shares and comments on others' posts.

        Raises `InvalidInput` for a limit below 1.
        """
        cursor = part(before, limit, after, oldest_first=oldest_first)
        found = await public_timelines.public_page(self._reads, self._viewer, cursor, only_media=only_media)
        return await self._filtered(found, FilterContext.PUBLIC)

    async def tagged(
        self,
        tag: str,
        before: int | None = None,
        limit: int = 20,
        *,
        any_of: Sequence[str] = (),
        all_of: Sequence[str] = (),
        none_of: Sequence[str] = (),
        after: int | None = None,
        oldest_first: bool = False,
        only_media: bool = False,
    ) -> Page:
        """A page of the public posts under a tag, newest first: or under `any_of`, and under `all_of`, but `none_of`.

        Raises `InvalidInput` for text that is no tag, and for a limit below 1.
        """
        query = public_timelines.TagQuery(
            any_of=frozenset(map(check_tag, (tag, *any_of))),
            all_of=frozenset(map(check_tag, all_of)),
            none_of=frozenset(map(check_tag, none_of)),
            only_media=only_media,
        )
        cursor = part(before, limit, after, oldest_first=oldest_first)
        return await self._filtered(
            await public_timelines.tag_page(self._reads, self._viewer, query, cursor), FilterContext.PUBLIC
        )

    async def nearby(
        self,
        latitude: float,
        longitude: float,
        radius_km: float = DEFAULT_RADIUS_KM,
        before: int | None = None,
        limit: int = 20,
        *,
        after: int | None = None,
        oldest_first: bool = False,
        only_media: bool = False,
    ) -> Page:
        """A page of the public posts within 0.1 to 500 km of a place (degrees), newest first.

        Distances are those to the places of posts as they are stored: as exactly as their authors chose. Raises
        `InvalidInput` for a place off the globe, for another radius, and for a limit below 1.
        """
        cursor = part(before, limit, after, oldest_first=oldest_first)
        around = disk(latitude, longitude, radius_km)
        found = await public_timelines.nearby_page(self._reads, self._viewer, around, cursor, only_media=only_media)
        return await self._filtered(found, FilterContext.PUBLIC)

    async def posts_by(
        self,
        who: AnyMember,
        before: int | None = None,
        limit: int = 20,
        *,
        after: int | None = None,
        oldest_first: bool = False,
        only_media: bool = False,
        no_comments: bool = False,
        no_shares: bool = False,
        tag: str = "",
    ) -> Page:
        """A page of a member's posts and shares, newest first, as this viewer may see them.

        Raises `NotFound`, `Gone` for a suspended member, and `InvalidInput` for a limit below 1.
        """
        member = await access_member(self._reads.graph, await self._resolve(who))
        query = posts.MemberFeedQuery(
            only_media=only_media, no_comments=no_comments, no_shares=no_shares, tag=check_tag(tag) if tag else ""
        )
        cursor = part(before, limit, after, oldest_first=oldest_first)
        found = await posts.authored_page(self._reads, self._viewer, member.id, cursor, query)
        return await self._filtered(found, FilterContext.ACCOUNT)

    async def _filtered(self, page: Page, where: FilterContext) -> Page:
        return Page(await filtered(self._reads.graph, self._viewer, page.entries, where), page.next)


class HasFeeds(SeesFeeds, Acting):
    """A member's own feeds."""

    async def home(
        self,
        before: int | None = None,
        limit: int = 20,
        *,
        after: int | None = None,
        oldest_first: bool = False,
    ) -> Page:
        """A page of the home timeline, newest first; `before` is the `next` of the page before.

        Raises `InvalidInput` for a limit below 1.
        """
        return await home.page(self._reads, self.id, part(before, limit, after, oldest_first=oldest_first))

    async def posts(self, of: AnyMember | None = None, before: int | None = None, limit: int = 20) -> Page:
        """A page of the posts and shares of a member (by default this one), as `posts_by` without its choices.

        Raises `NotFound`, `Gone` for a suspended member, and `InvalidInput` for a limit below 1.
        """
        return await self.posts_by(self.id if of is None else of, before, limit)

    async def list_recent(self, a: int = 0, b: int = 19) -> list[Entry]:
        """The own posts and shares at positions `a` to `b` (both included; 0 is the newest), at the same price at any position.

        A position is that of a stored entry: a deleted post has none. A share of a post that this member may not see (any
        more) keeps its position and is left out, so there may be fewer entries; fewer than asked for are no sign of the end.
        Raises `InvalidInput` for more than 2,000 positions at once.
        """
        first, last = _positions(a, b)
        return await posts.at_positions(self._reads, self.id, first, last)

    async def list_public_feed(self, a: int = 0, b: int = 19) -> list[Entry]:
        """The home timeline at positions `a` to `b` (both included; 0 is the newest), at the same price at any position.

        A position is that of a stored entry of this member, of followees or under followed tags, one for each of these that
        brings it. What this member may not see, or home does not show (direct posts to others, hidden posts, talk with
        strangers, a share beside the post, filters), keeps its position and is left out: there may be fewer entries than
        asked for. `home` has full pages. Raises `InvalidInput` for more than 2,000 positions at once.
        """
        first, last = _positions(a, b)
        return await home.at_positions(self._reads, self.id, first, last)


def _positions(a: int, b: int) -> tuple[int, int]:
    if not 0 <= a <= b or b - a >= MAX_AT_ONCE:
        raise InvalidInput(f"positions: 0 <= a <= b < a + {MAX_AT_ONCE}, not {a} and {b}")
    return a, b
