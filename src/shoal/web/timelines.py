"""Timelines of a member: home, For you, the catch-up feed, saved and liked posts; and the front page for visitors.

Includes the tabs above the home timeline and the sidebar with suggested members and trending tags.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
from msgspec import Meta
from starlette.responses import Response

from shoal.commands import ranking
from shoal.commands.ranking import MOST_SEEN_AT_ONCE
from shoal.core.errors import Unavailable
from shoal.core.filters import FilterContext
from shoal.core.model import Member
from shoal.graph.cache.dependencies import do_not_cache
from shoal.graph.contract import Cursor
from shoal.graph.feed_lookup import feeds_of, followed_feeds
from shoal.graph.payloads.members import personalization_of
from shoal.graph.schema import BOOKMARKS, FOLLOWS_FEED, FOLLOWS_TAG, LIKES, OWNS_FEED, OWNS_LIST, AssocType
from shoal.http.params import Id
from shoal.queries import home as home_feed
from shoal.queries import lists, public_timelines, tags
from shoal.queries import posts as saved_feed
from shoal.queries.foryou import feed as for_you_feed
from shoal.queries.foryou.catchup import catch_up
from shoal.queries.foryou.feed import RankedEntry
from shoal.queries.foryou.ranking import decode_cursor
from shoal.queries.hydration import Entry, Row
from shoal.queries.pipeline import Page, filtered
from shoal.queries.public_timelines import TagQuery
from shoal.queries.suggestions import portfolios, suggestions
from shoal.web import routing
from shoal.web.explore import CloudWord, cloud_of
from shoal.web.onboarding import SuggestedPerson, people_of
from shoal.web.photo_grid import Listing, PhotoGrid, grid_of, photos_page, popular_then_newest
from shoal.web.ranking import why_of
from shoal.web.rendering import SIZE, BeforeQuery, feed_page, next_of, page, part
from shoal.web.request_context import Form, PageContext
from shoal.web.view_models import PostView, answered, face_of, post_of, suggested, tag_path, with_first_photo, with_time


async def saved(ctx: PageContext, query: BeforeQuery) -> Response:
    return await _saved_or_liked(ctx, query, BOOKMARKS, "saved", ctx.words.text("Saved"))


async def liked(ctx: PageContext, query: BeforeQuery) -> Response:
    return await _saved_or_liked(ctx, query, LIKES, "liked", ctx.words.text("Liked"))


async def _saved_or_liked(ctx: PageContext, query: BeforeQuery, atype: AssocType, tab: str, title: str) -> Response:
    member = ctx.member
    found = await saved_feed.saved_page(ctx.reads, member.id, atype, query.cursor())
    following = next_of(ctx, f"/{tab}", found.next)
    return await feed_page(ctx, "saved", found.entries, following, title=title, tab=tab)


_SIDEBAR_PEOPLE = 3
_TAGS = 8


async def sidebar(ctx: PageContext, _params: None) -> Response:
    """Return the sidebar for a script: suggested members, and trending tags or, if there are none, the most used tags."""
    member = ctx.member
    people, rising = await asyncio.gather(
        suggestions(ctx.reads, member.id, _SIDEBAR_PEOPLE), cloud_of(ctx, _TAGS, "rising")
    )
    used = () if rising else await cloud_of(ctx, _TAGS)
    return part(ctx, "sidebar_panels", people=[suggested(ctx, person) for person in people], rising=rising, used=used)


_MOST_LISTS = 5
_MOST_FEEDS = 5
_MOST_TAGS = 5


class Tab(NamedTuple):
    key: str
    path: str
    words: str


async def home_tabs(ctx: PageContext, own: str = "") -> list[Tab]:
    """Return the tabs of the home page: at most five lists, five named feeds and five tags, each oldest first.

    Costs one read that counts them, and at most two reads for each of these kinds that the member has; four for followed feeds.
    `own` is the key of the selected tab, which is always included if it is a list or feed of the member.
    """
    _, member = ctx.words.text, ctx.member
    fixed = [
        Tab("latest", ctx.url("/"), _("Latest")),
        Tab("for-you", ctx.url("/for-you"), _("For you")),
        Tab("catch-up", ctx.url("/catch-up"), _("Catch up")),
    ]
    try:
        counts = await ctx.graph.assoc_count((member.id,), (OWNS_LIST, OWNS_FEED, FOLLOWS_FEED, FOLLOWS_TAG))
        has = {atype for atype, found in counts.items() if found.get(member.id)}
        owned, own_feeds, followed_feeds_, followed = await asyncio.gather(
            lists.owned(ctx.graph, member.id) if OWNS_LIST in has else _none(),
            feeds_of(ctx.graph, member.id) if OWNS_FEED in has else _none(),
            followed_feeds(ctx.graph, member.id) if FOLLOWS_FEED in has else _none(),
            tags.followed(ctx.reads, member.id, Cursor(limit=_MOST_TAGS)) if FOLLOWS_TAG in has else _none(),
        )
    except Unavailable:
        do_not_cache()
        return fixed
    all_lists = [Tab(f"list-{list_.id}", ctx.url(f"/lists/{list_.id}"), list_.title) for list_ in owned]
    all_feeds = [
        Tab(f"feed-{feed.id}", ctx.url(f"/feeds/{feed.name or feed.id}"), feed.title)
        for feed in (*own_feeds, *followed_feeds_)
    ]
    names = [assoc.data.decode() for assoc in followed.tags] if followed else []
    return [
        *fixed,
        *_first_of(all_lists, _MOST_LISTS, own),
        *_first_of(all_feeds, _MOST_FEEDS, own),
        *(Tab(f"tag-{name}", tag_path(ctx, name), f"#{name}") for name in names),
    ]


def _first_of(tabs: list[Tab], most: int, own: str) -> list[Tab]:
    return [tab for at, tab in enumerate(tabs) if at < most or tab.key == own]


async def _none() -> list[Any]:
    return []


_FRONT_PHOTOS = 24
_IN_A_BEGINNING = 12
"""Number of photos below each heading of an empty home page."""
_IN_THE_CLOUD = 24
_PEOPLE = 4
"""Number of members suggested on an empty home page."""


class Beginning(NamedTuple):
    grids: list[tuple[str, PhotoGrid]]
    people: list[SuggestedPerson]


class HomeQuery(BeforeQuery, frozen=True, kw_only=True):
    show: Literal["all", "photos"] = "all"


async def start(ctx: PageContext, query: HomeQuery) -> Response:
    """Show the home page of the member or, to a visitor, the front page."""
    if ctx.viewer is None:
        return await _front_page(ctx)
    return await _home(ctx, ctx.viewer, query)


async def listing(ctx: PageContext, query: HomeQuery) -> Listing:
    """Return the posts of the member's home page or, for a visitor, the photos of the front page."""
    if ctx.viewer is None:
        return Listing((), "", await _front_photos(ctx))
    return await _home_listing(ctx, ctx.viewer, query)


async def _home_listing(ctx: PageContext, viewer: Member, query: HomeQuery) -> Listing:
    photos = query.show == "photos"
    found = await _home_page(ctx, viewer, query.cursor(), photos=photos)
    entries = await filtered(ctx.reads.graph, viewer.id, found.entries, FilterContext.HOME)
    return Listing(entries, next_of(ctx, "/", found.next, show="photos" if photos else ""))


async def _home(ctx: PageContext, viewer: Member, query: HomeQuery) -> Response:
    found = await _home_listing(ctx, viewer, query)
    empty = not (found.entries or found.next or query.before or query.show == "photos")
    beginning = await _beginning(ctx, viewer) if empty and not ctx.partial else None
    return await feed_page(
        ctx,
        "home",
        found.entries,
        found.next,
        title=ctx.words.text("Home"),
        show=query.show,
        replies=viewer.shows_replies,
        tab="latest",
        beginning=beginning,
        newcomer=not (viewer.display_name or viewer.note or found.next),
        tabs=[] if ctx.partial else await home_tabs(ctx),
        end=ctx.words.text("You've seen all posts of the people you follow."),
    )


async def _home_page(ctx: PageContext, viewer: Member, at: Cursor, *, photos: bool) -> Page:
    """Return a page of the home timeline without replies to others, unless the viewer shows them; with `photos`, of photos."""

    def admits(row: Row) -> bool:
        _, post, share = row
        answers_others = post.parent_id and share is None and post.parent_author_id not in {viewer.id, post.author_id}
        return not answers_others or post.author_id == viewer.id

    read = partial(home_feed.page, ctx.reads, viewer.id, direct=False, admits=None if viewer.shows_replies else admits)
    return await (photos_page(read, at) if photos else read(at))


async def _beginning(ctx: PageContext, viewer: Member) -> Beginning:
    """Return the content of the home page of a new member: photos by interest, popular photos, and suggested members."""
    # Suggestions change without an invalidation of the response cache, so do not cache the page.
    do_not_cache()
    reads, _ = ctx.reads, ctx.words.text
    picked = frozenset((await personalization_of(reads.graph, viewer.id)).feedback.picked)
    part = Cursor(limit=2 * _IN_A_BEGINNING)
    of_interest, popular, found = await asyncio.gather(
        public_timelines.tag_page(reads, viewer.id, TagQuery(picked, only_media=True), part) if picked else _no_page(),
        popular_then_newest(reads, viewer.id, 2 * _IN_A_BEGINNING),
        suggestions(reads, viewer.id, _PEOPLE),
    )
    photos = await portfolios(reads, viewer.id, [one.profile.member.id for one in found])
    interests = grid_of(ctx, await _unfiltered(ctx, viewer, of_interest.entries), limit=_IN_A_BEGINNING)
    shown = {one.path for one in interests.photos}
    others = [
        entry
        for entry in await _unfiltered(ctx, viewer, popular)
        if ctx.url(f"/@{entry.author.member.name}/{entry.post.id}") not in shown
    ]
    grids = [(_("From your interests"), interests), (_("Popular now"), grid_of(ctx, others, limit=_IN_A_BEGINNING))]
    return Beginning([(title, grid) for title, grid in grids if grid.photos], people_of(ctx, found, photos))


async def _no_page() -> Page:
    return Page([], None)


async def _unfiltered(ctx: PageContext, viewer: Member, entries: Sequence[Entry]) -> Sequence[Entry]:
    """Return the entries without those that match a filter of the viewer's home timeline."""
    found = await filtered(ctx.reads.graph, viewer.id, entries, FilterContext.HOME)
    return [entry for entry in found if not entry.filtered]


async def _front_photos(ctx: PageContext) -> PhotoGrid:
    if not ctx.settings.public_pages:
        return PhotoGrid()
    return grid_of(ctx, await popular_then_newest(ctx.reads, None, _FRONT_PHOTOS), limit=_FRONT_PHOTOS)


async def _front_page(ctx: PageContext) -> Response:
    settings = ctx.settings
    cloud: list[CloudWord] = []
    grid = PhotoGrid()
    if settings.public_pages:
        grid, cloud = await asyncio.gather(_front_photos(ctx), cloud_of(ctx, _IN_THE_CLOUD))
    demo_id = ctx.app.demo_member
    demo = (await ctx.graph.obj_get((demo_id,))).get(demo_id) if demo_id else None
    return await page(
        ctx,
        "front",
        grid=grid,
        cloud=cloud,
        rules=settings.rules,
        may_join=settings.registrations,
        shown=settings,
        demo=face_of(ctx, demo) if isinstance(demo, Member) else None,
    )


class RankedQuery(msgspec.Struct, frozen=True):
    cursor: Annotated[str, Meta(max_length=64)] = ""


class SeenForm(Form, frozen=True, kw_only=True):
    """The ids of posts that have been visible on the screen."""

    ids: Annotated[tuple[Id, ...], Meta(min_length=1, max_length=MOST_SEEN_AT_ONCE)]


async def for_you(ctx: PageContext, query: RankedQuery) -> Response:
    """List the posts of For you, best first, with the reasons for their rank."""
    member = ctx.member
    cursor = decode_cursor(query.cursor) if query.cursor else None
    found = await for_you_feed.page(ctx.reads, member.id, SIZE, cursor, explain=True)
    posts = await _ranked(ctx, found.entries)
    following = ctx.url("/for-you", cursor=found.next) if found.next else ""
    beginning = None if posts or cursor or ctx.partial else await _beginning(ctx, member)
    _ = ctx.words.text
    end = _("You're all caught up.")
    if ctx.partial:
        return part(ctx, "posts", posts=posts, next=following, end=end)
    return await page(
        ctx,
        "for_you",
        title=_("For you"),
        tab="for-you",
        tabs=await home_tabs(ctx),
        posts=posts,
        next=following,
        end=end,
        by_time=found.by_time,
        beginning=beginning,
        newcomer=not (member.display_name or member.note),
    )


async def caught_up(ctx: PageContext, _params: None) -> Response:
    """Show the best posts since the member's last visit, first the posts of followees who rarely post. The list is finite."""
    member, words = ctx.member, ctx.words
    found = await catch_up(ctx.reads, member.id, explain=True)
    quiet, best = [await _ranked(ctx, part_) for part_ in (found.quiet, found.best)]
    left_out = words.counted("%(n)s more post on Home.", "%(n)s more posts on Home.", found.left_out)
    return await page(
        ctx,
        "catch_up",
        title=words.text("Catch up"),
        tab="catch-up",
        tabs=await home_tabs(ctx),
        quiet=quiet,
        best=best,
        end=with_time(ctx, words.text("You've seen everything since %(when)s."), found.since),
        left_out=left_out if found.left_out else "",
    )


async def seen(ctx: PageContext, form: SeenForm) -> Response:
    member = ctx.checked(form)
    await ranking.add_seen_posts(ctx.writes, member.id, form.ids)
    return Response(status_code=204)


async def _ranked(ctx: PageContext, entries: Sequence[RankedEntry]) -> list[PostView]:
    parents = await answered(ctx, [one.entry for one in entries])
    return with_first_photo([post_of(ctx, one.entry, parents, why=why_of(ctx, one.why, one.entry)) for one in entries])


ROUTES = (
    routing.page("/", start, HomeQuery, cached=True),
    routing.page("/saved", saved, BeforeQuery),
    routing.page("/liked", liked, BeforeQuery),
    routing.page("/sidebar", sidebar),
    routing.page("/for-you", for_you, RankedQuery),
    routing.page("/catch-up", caught_up),
    routing.form("/seen", seen, SeenForm),
)
