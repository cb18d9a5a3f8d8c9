"""Feeds: home, public, tag, place and member timelines, the ranked feed with its recipe, and live updates."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from types import MappingProxyType

import msgspec

from shoal.app.paths import base_url
from shoal.commands import kinds, ranking
from shoal.core.errors import InvalidInput
from shoal.core.filters import FilterContext
from shoal.core.model import MemberList
from shoal.core.places import DEFAULT_RADIUS_KM, disk
from shoal.core.ranking.preferences import Feedback
from shoal.core.ranking.recipes import PRESETS, Recipe, recipe_link, recipe_of, recipe_of_link
from shoal.core.text import check_tag
from shoal.graph.access import access_member, own_object
from shoal.graph.feed_lookup import readable_feed
from shoal.graph.payloads.members import personalization_of
from shoal.graph.schema import POSTED, tag_id
from shoal.library.acting import Acting, AnyMember, AnyMoment, AnyPost, Seeing, id_of, milliseconds, part, post_id
from shoal.library.lists import AnyList
from shoal.library.named_feeds import AnyFeed, reference_of
from shoal.queries import home, posts, public_timelines, streaming
from shoal.queries.foryou import feed
from shoal.queries.foryou.catchup import CatchUp, catch_up
from shoal.queries.foryou.feed import FeedExplanation, ForYou
from shoal.queries.foryou.preview import Effect, effect_of
from shoal.queries.foryou.ranking import decode_cursor
from shoal.queries.hydration import Entry
from shoal.queries.kinds import posts_page
from shoal.queries.pagination import read_by_page
from shoal.queries.pipeline import Page, filtered
from shoal.queries.streaming import News, OfViewer
from shoal.queries.tags import TagOffer, offers
from shoal.streaming.subscriptions import (
    CONVERSATIONS,
    NOTIFICATIONS,
    Everybody,
    FeedInterest,
    Interest,
    Listed,
    TagInterest,
)

MAX_AT_ONCE = 2_000
"""Maximum number of positions of a list per call."""
MOST_POSITION = 1 << 40
"""The end of the positions: more than a list can have entries."""


class SeesFeeds(Seeing):
    """Public feeds as a viewer sees them."""

    async def public(
        self,
        before: int | None = None,
        limit: int = 20,
        *,
        after: int | None = None,
        oldest_first: bool = False,
        only_media: bool = False,
    ) -> Page:
        """Return a page of all public posts, newest first, without shares and comments on others' posts.

        With `oldest_first`, the page has the oldest posts newer than `after`, still newest first.
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
        """Return a page of the public posts with a tag (or any of `any_of`), newest first.

        Only posts with all tags in `all_of` and none in `none_of` are returned. With `oldest_first`, the page has the oldest posts
        newer than `after`, still newest first.

        Raises `InvalidInput` for an invalid tag, and for a limit below 1.
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
        """Return a page of the public posts within 0.1 to 500 km of a place (degrees), newest first.

        Distances are measured to the places as stored, with the precision that each author chose.
        With `oldest_first`, the page has the oldest posts newer than `after`, still newest first.
        Raises `InvalidInput` for invalid coordinates, a radius outside 0.1 to 500 km, or a limit below 1.
        """
        cursor = part(before, limit, after, oldest_first=oldest_first)
        area = disk(latitude, longitude, radius_km)
        found = await public_timelines.nearby_page(self._reads, self._viewer, area, cursor, only_media=only_media)
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
        """Return a page of a member's posts and shares that this viewer may see, newest first.

        With `oldest_first`, the page has the oldest entries newer than `after`, still newest first.
        Raises `NotFound`, `Gone` for a suspended member, and `InvalidInput` for a limit below 1.
        """
        cursor = part(before, limit, after, oldest_first=oldest_first)
        showing = ((POSTED, read_by_page(cursor)),)
        member = await access_member(self._reads.graph, await self._resolve(who), showing=showing)
        query = posts.MemberFeedQuery(
            only_media=only_media, no_comments=no_comments, no_shares=no_shares, tag=check_tag(tag) if tag else ""
        )
        found = await posts.authored_page(self._reads, self._viewer, member.id, cursor, query)
        return await self._filtered(found, FilterContext.ACCOUNT)

    async def posts_of_kind(
        self,
        name: str,
        where: Mapping[str, object] = MappingProxyType({}),
        before: int | None = None,
        limit: int = 20,
        *,
        author: AnyMember | None = None,
        after: int | None = None,
        oldest_first: bool = False,
    ) -> Page:
        """Return a page of the public posts of a kind, newest first.

        Args:
            where: Values of one indexed path, or of both paths of a declared pair. A value, a list of up to 10 values, a pair of
                limits for a number or time (None for no limit), or a `Disk` for a place: `{"minutes": (10, 30)}`. A time is a
                `datetime`, or text such as "2026-01-31".
            author: Only posts by this member, whatever their visibility, that this viewer may see.
            oldest_first: The page has the oldest entries newer than `after`, still newest first.

        Raises `NotFound` for an unknown kind or author, `InvalidInput` for a path without an index and an invalid value, and
        `Unfit` while the index is being built.
        """
        cursor = part(before, limit, after, oldest_first=oldest_first)
        kind = await kinds.get(self._reads.graph, name)
        filters = kind.filters(where)
        author_id = 0
        if author is not None:
            author_id = (await access_member(self._reads.graph, await self._resolve(author))).id
        found = await posts_page(self._reads, self._viewer, kind, filters, cursor, author_id=author_id)
        return await self._filtered(found, FilterContext.PUBLIC)

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
        """Return a page of the home timeline, newest first. `before` is the `next` of the previous page.

        With `oldest_first`, the page has the oldest entries newer than `after`, still newest first.
        Raises `InvalidInput` for a limit below 1.
        """
        return await home.page(self._reads, self.id, part(before, limit, after, oldest_first=oldest_first))

    async def posts(self, of: AnyMember | None = None, before: int | None = None, limit: int = 20) -> Page:
        """Return a page of the posts and shares of a member, by default this one.

        Raises `NotFound`, `Gone` for a suspended member, and `InvalidInput` for a limit below 1.
        """
        return await self.posts_by(self.id if of is None else of, before, limit)

    async def list_recent(self, a: int = 0, b: int = 19) -> list[Entry]:
        """Return the member's own posts and shares at positions `a` to `b` (inclusive; 0 is the newest).

        Costs O(log n + b - a) for a member with n entries, wherever the positions are; the first call beyond position 128
        costs O(n). Positions count stored entries; deleted posts have none. A share of a post that this member may no longer
        see keeps its position but is omitted, so fewer entries than requested do not mean the end of the list. Raises
        `InvalidInput` for more than 2,000 positions.
        """
        first, last = _positions(a, b)
        return await posts.at_positions(self._reads, self.id, first, last)

    async def list_public_feed(self, a: int = 0, b: int = 19) -> list[Entry]:
        """Return the home timeline at positions `a` to `b` (inclusive; 0 is the newest).

        Costs O(f log n + b - a) for f followees and followed tags with n entries, because each list is counted; `home` is
        cheaper. The first entries (128, or 6 for each followee if that is more) cost O(f + b - a): they are read from the ends
        of the lists.

        Positions count the stored entries of this member, of followees and of followed tags. An entry with several of these
        sources counts once for each. Entries that this member may not see, or that home does not show (direct posts to others,
        hidden posts, comments on strangers' posts, a share next to its post, filtered posts), keep their positions but are
        omitted: there may be fewer entries than requested. `home` returns full pages. Raises `InvalidInput` for more than 2,000
        positions.
        """
        first, last = _positions(a, b)
        return await home.at_positions(self._reads, self.id, first, last)


def _positions(a: int, b: int) -> tuple[int, int]:
    if not (type(a) is int and type(b) is int and 0 <= a <= b < min(a + MAX_AT_ONCE, MOST_POSITION)):
        raise InvalidInput(
            f"positions: must be integers with 0 <= a <= b < a + {MAX_AT_ONCE} and below {MOST_POSITION:,} (got {a!r} and {b!r})"
        )
    return a, b


class ReadsForYou(Acting):
    """A member's ranked feed and its settings."""

    async def for_you(self, limit: int = 20, cursor: str = "", *, explain: bool = False) -> ForYou:
        """Return a page of the feed ranked by interest. `cursor` is the `next` of the previous page.

        With `explain` on the first page, each entry lists the terms of its score. A page that could not be ranked in time is a
        page of the home timeline, with `by_time` set. Raises `InvalidInput` for a limit below 1 and an invalid cursor.
        """
        at = decode_cursor(cursor) if cursor else None
        return await feed.page(self._reads, self.id, limit, at, explain=explain)

    async def catch_up(self, since: AnyMoment | None = None, limit: int = 20, *, explain: bool = False) -> CatchUp:
        """Return the best posts and shares of followees since a moment, by default since the newest post read at home.

        Friends who post rarely come first. Raises `InvalidInput` for a limit below 1, a `datetime` without a time zone, and a
        moment in the future.
        """
        at = None if since is None else milliseconds(since, "since")
        return await catch_up(self._reads, self.id, at, limit, explain=explain)

    async def why_not(self, post: AnyPost) -> FeedExplanation:
        """Return the rank a post would have now, or the stage and rule by which ranking would exclude it. Raises `NotFound`."""
        return await feed.why_not(self._reads, self.id, post_id(post))

    async def recipe(self) -> Recipe:
        """Return the recipe of this member's ranked feed: their own, or the server's."""
        return feed.recipe_for(self._reads, await personalization_of(self._reads.graph, self.id))

    async def set_recipe(self, recipe: Recipe | str | None) -> Recipe:
        """Set this member's recipe: `Recipe(weights=Weights(friends=4.0))`, the name of a preset, or a recipe link.

        None selects the server's recipe. A link is the result of `recipe_link` on any server. Raises `InvalidInput`, which
        names the field and its allowed values.
        """
        await ranking.set_recipe(self._writes, self.id, _recipe(recipe))
        return await self.recipe()

    async def recipe_link(self) -> str:
        """Return a link that contains this member's recipe, for others to view and use."""
        return recipe_link(base_url(self._network.settings), await self.recipe())

    async def switch_ranking(self, *, on: bool) -> None:
        """Turn ranking on or off. While it is off, `for_you` returns the home timeline."""
        await ranking.switch(self._writes, self.id, off=not on)

    async def interests(self, limit: int = 40) -> list[TagOffer]:
        """Return tags to pick as interests, each with a picture: picked tags first, then the most used recent ones.

        Raises `InvalidInput` for a limit outside 1 to 200.
        """
        return await offers(self._reads, self.id, limit)

    async def pick_interests(self, *tags: str) -> list[str]:
        """Replace this member's interests with these tags, which affect ranked feeds but are not followed.

        Returns their canonical forms. Raises `InvalidInput` for more than 50, and for an invalid tag.
        """
        return list(await ranking.pick_tags(self._writes, self.id, tags))

    async def more_like(self, post: AnyPost, tag: str = "") -> Effect:
        """Request more posts by the author of a post, or with one of its tags, and return the effect on the feed.

        The effects of up to five requests add up. Raises `NotFound`, and `InvalidInput` for a tag that the post lacks and for a
        post of this member.
        """
        return await self._tap(post, 1, tag)

    async def less_like(self, post: AnyPost, tag: str = "") -> Effect:
        """Request fewer posts by the author of a post, or with one of its tags; the counterpart of `more_like`.

        Raises `NotFound`, and `InvalidInput` for a tag that the post lacks and for the member's own post.
        """
        return await self._tap(post, -1, tag)

    async def forget_feedback(self, post: AnyPost, tag: str = "") -> Effect:
        """Reset the feedback on the author of a post, or on one of its tags. Raises `NotFound` and `InvalidInput`."""
        return await self._tap(post, 0, tag)

    async def _tap(self, post: AnyPost, step: int, tag: str) -> Effect:
        return await effect_of(
            self._reads, self.id, *await ranking.tap_post(self._writes, self.id, post_id(post), step, tag)
        )

    async def feedback(self) -> Feedback:
        """Return the member's feedback on authors and tags, and the tags picked as interests."""
        return (await personalization_of(self._reads.graph, self.id)).feedback

    async def forget_all_feedback(self) -> None:
        """Reset all feedback. The tags picked as interests stay."""
        await ranking.forget_taps(self._writes, self.id)

    async def mark_seen(self, *posts: AnyPost) -> None:
        """Count another view of these posts, which lowers their rank. Raises `InvalidInput` for more than 200."""
        await ranking.add_seen_posts(self._writes, self.id, [post_id(post) for post in posts])


def _recipe(given: Recipe | str | None) -> Recipe | None:
    if given is None:
        return None
    if isinstance(given, Recipe):
        # A `Recipe` that the application created has not been validated yet.
        return recipe_of(msgspec.to_builtins(given))
    if given in PRESETS:
        return PRESETS[given]
    if "=" in str(given):
        return recipe_of_link(given)
    raise InvalidInput(
        f"recipe: expected one of {', '.join(PRESETS)} or a link to a recipe (got {given!r:.64})", field="recipe"
    )


class Listens(Acting):
    """Live updates of a member. A later call resumes after the `position` of an item.

    No item is lost, except before a `Refresh`. An item may be repeated after the failure of a process, and a new post also after a
    follow or a change of a list, but not in `live_feed`.
    """

    def live(self, after: str | None = None) -> AsyncGenerator[News, None]:
        """Iterate over changes of the home timeline, from now on or after the `position` of an earlier item.

        Items are `Arrived` and `Edited` (with an `entry`), `Removed` (with an `id`), and `Refresh`: items may have been missed,
        so read `home` again. Ends when the network closes. Raises `Unavailable`.
        """
        return streaming.news(self._reads, self._network.hub, self.id, after)

    def live_public(
        self, after: str | None = None, *, only_media: bool = False
    ) -> AsyncGenerator[News | OfViewer, None]:
        """Iterate over changes of the public timeline, with the items of `live`. Raises `Unavailable`."""
        return self._live_updates(Everybody(only_media=only_media), after)

    def live_tag(self, tag: str, after: str | None = None) -> AsyncGenerator[News | OfViewer, None]:
        """Iterate over changes of the posts with a tag, with the items of `live`.

        Raises `InvalidInput` for an invalid tag, and `Unavailable`.
        """
        return self._live_updates(TagInterest(tag_id(check_tag(tag))), after)

    async def live_list(self, which: AnyList, after: str | None = None) -> AsyncGenerator[News | OfViewer, None]:
        """Iterate over changes of one of the member's lists, with the items of `live`. Raises `NotFound` and `Unavailable`."""
        member_list = await own_object(self._reads.graph, MemberList, self.id, id_of(which))
        async with aclosing(self._live_updates(Listed(member_list.id), after)) as updates:
            async for update in updates:
                yield update

    async def live_feed(self, which: AnyFeed, after: str | None = None) -> AsyncGenerator[News | OfViewer, None]:
        """Iterate over changes of a named feed that the member may read, with the items of `live`.

        A ranked feed has `Newer` instead of `Arrived`: read the feed again to see its newer posts. An edited post may be new in the
        feed. `FeedChanged` reports a change of the feed; if it has `deleted`, the member may no longer read the feed, and the
        iterator ends. A post arrives once, even if the feed or a follow changes; after a failure of a process, updates may be
        repeated.

        Raises `NotFound`, `Unavailable`, and `TooMany` if the member has more than 50 live feeds, or this process too many.
        """
        feed = await readable_feed(self._reads.graph, self.id, reference_of(which))
        async with aclosing(self._live_updates(FeedInterest(feed.id), after)) as updates:
            async for update in updates:
                yield update

    def live_notifications(self, after: str | None = None) -> AsyncGenerator[News | OfViewer, None]:
        """Iterate over new notifications. The `time` of a `Notified` identifies the notification. Raises `Unavailable`."""
        return self._live_updates(NOTIFICATIONS, after)

    def live_conversations(self, after: str | None = None) -> AsyncGenerator[News | OfViewer, None]:
        """Iterate over new direct posts. A `Conversed` has the id of the conversation. Raises `Unavailable`."""
        return self._live_updates(CONVERSATIONS, after)

    def _live_updates(self, to: Interest, after: str | None) -> AsyncGenerator[News | OfViewer, None]:
        return streaming.everything(self._reads, self._network.hub, self.id, to, after)
