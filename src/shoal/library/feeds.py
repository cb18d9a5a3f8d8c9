"""Feeds: home, public, tag, place and member timelines, the ranked feed with its recipe, and live updates."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

import msgspec

from shoal.app.paths import base_url
from shoal.commands import ranking
from shoal.core.errors import InvalidInput
from shoal.core.filters import FilterContext
from shoal.core.model import MemberList
from shoal.core.places import DEFAULT_RADIUS_KM, disk
from shoal.core.ranking.preferences import Wishes
from shoal.core.ranking.recipes import PRESETS, Recipe, recipe_link, recipe_of, recipe_of_link
from shoal.core.text import check_tag
from shoal.graph.access import access_member, own_object
from shoal.graph.payloads.members import tastes_of
from shoal.graph.schema import tag_id
from shoal.library.acting import Acting, AnyMember, AnyMoment, AnyPost, Seeing, milliseconds, part, post_id
from shoal.library.lists import AnyList
from shoal.queries import home, posts, public_timelines, streaming
from shoal.queries.foryou import feed
from shoal.queries.foryou.catchup import CatchUp, catch_up
from shoal.queries.foryou.feed import ForYou, Verdict
from shoal.queries.foryou.preview import Effect, effect_of
from shoal.queries.foryou.ranking import decode_cursor
from shoal.queries.hydration import Entry
from shoal.queries.pipeline import Page, filtered
from shoal.queries.streaming import News, OfViewer
from shoal.queries.tags import TagOffer, offers
from shoal.streaming.subscriptions import CONVERSATIONS, NOTIFICATIONS, Everybody, Interest, Listed, TagInterest

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


class ReadsForYou(Acting):
    """A member's ranked feed, and all that they may decide about it."""

    async def for_you(self, limit: int = 20, cursor: str = "", *, explain: bool = False) -> ForYou:
        """A page of the feed ranked by interest; `cursor` is the `next` of the page before.

        With `explain` on the first page, every entry says which terms make its score. A page that could not be ranked (in time)
        is one of the home timeline, and `by_time` says so. Raises `InvalidInput` for a limit below 1 and for text that is no
        cursor.
        """
        at = decode_cursor(cursor) if cursor else None
        return await feed.page(self._reads, self.id, limit, at, explain=explain)

    async def catch_up(self, since: AnyMoment | None = None, limit: int = 20, *, explain: bool = False) -> CatchUp:
        """The best of what followees posted and shared since a moment, by default since the newest post read at home.

        Friends who post rarely come first. Raises `InvalidInput` for a limit below 1, for a `datetime` without a zone, and for a
        moment that is still to come.
        """
        at = None if since is None else milliseconds(since, "since")
        return await catch_up(self._reads, self.id, at, limit, explain=explain)

    async def why_not(self, post: AnyPost) -> Verdict:
        """Where a post would stand if the feed were ranked now, or the stage and the rule that keep it out. Raises `NotFound`."""
        return await feed.why_not(self._reads, self.id, post_id(post))

    async def recipe(self) -> Recipe:
        """The weights by which posts are ranked for this member: their own, or those of the server."""
        return feed.recipe_for(self._reads, await tastes_of(self._reads.graph, self.id))

    async def set_recipe(self, recipe: Recipe | str | None) -> Recipe:
        """Rank by other weights: `Recipe(weights=Weights(friends=4.0))`, the name of a preset, or a link to a recipe; None: by the
        server's again.

        A link is what `recipe_link` returns, on any server. Raises `InvalidInput`, which names the field and what is allowed in it.
        """
        await ranking.set_recipe(self._writes, self.id, _recipe(recipe))
        return await self.recipe()

    async def recipe_link(self) -> str:
        """A link that carries this member's recipe, for others to look at and to rank by."""
        return recipe_link(base_url(self._network.settings), await self.recipe())

    async def switch_ranking(self, *, on: bool) -> None:
        """Have posts ranked, or turn all ranking off: then `for_you` answers the home timeline."""
        await ranking.switch(self._writes, self.id, off=not on)

    async def interests(self, limit: int = 40) -> list[TagOffer]:
        """Tags to pick as interests, each with a picture: those picked, then those used most of late.

        Raises `InvalidInput` for a limit outside 1 to 200.
        """
        return await offers(self._reads, self.id, limit)

    async def pick_interests(self, *tags: str) -> list[str]:
        """Keep these tags as interests, in place of those before; they count in ranked feeds, and are not followed.

        Returns them in their canonical form. Raises `InvalidInput` for more than 50, and for text that is no tag.
        """
        return list(await ranking.pick_tags(self._writes, self.id, tags))

    async def more_like(self, post: AnyPost, tag: str = "") -> Effect:
        """Ask for more like a post: by its author, or under one of its tags. The answer says what that moves.

        Up to five times. Raises `NotFound`, and `InvalidInput` for a tag that the post does not have and for an own post.
        """
        return await self._tap(post, 1, tag)

    async def less_like(self, post: AnyPost, tag: str = "") -> Effect:
        """Ask for less like a post, as `more_like` does for more. Raises `NotFound` and `InvalidInput`."""
        return await self._tap(post, -1, tag)

    async def forget_feedback(self, post: AnyPost, tag: str = "") -> Effect:
        """Forget what was asked for about the author of a post, or one of its tags. Raises `NotFound` and `InvalidInput`."""
        return await self._tap(post, 0, tag)

    async def _tap(self, post: AnyPost, step: int, tag: str) -> Effect:
        return await effect_of(
            self._reads, self.id, *await ranking.tap_post(self._writes, self.id, post_id(post), step, tag)
        )

    async def feedback(self) -> Wishes:
        """All that was asked for: taps by author and by tag, and the picked tags."""
        return (await tastes_of(self._reads.graph, self.id)).wishes

    async def forget_all_feedback(self) -> None:
        """Forget everything that was asked more or less of; picked tags stay."""
        await ranking.forget_taps(self._writes, self.id)

    async def mark_seen(self, *posts: AnyPost) -> None:
        """Say that the member has seen these posts once more, so that they stand lower. Raises `InvalidInput` for more than 200."""
        await ranking.add_seen_posts(self._writes, self.id, [post_id(post) for post in posts])


def _recipe(given: Recipe | str | None) -> Recipe | None:
    if given is None:
        return None
    if isinstance(given, Recipe):
        # A value that was made here has not been checked.
        return recipe_of(msgspec.to_builtins(given))
    if given in PRESETS:
        return PRESETS[given]
    if "=" in str(given):
        return recipe_of_link(given)
    raise InvalidInput(f"recipe: one of {', '.join(PRESETS)}, or a link to a recipe, not {given!r:.64}", field="recipe")


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
        held = await own_object(self._reads.graph, self.id, which if isinstance(which, int) else which.id, MemberList)
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
