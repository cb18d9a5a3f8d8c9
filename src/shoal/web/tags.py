"""A tag: its newest posts, its use over the past week, its trend and related tags; follow it, and feature it on the profile."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Literal, NamedTuple

import msgspec
from babel.dates import format_date
from starlette.responses import Response

from shoal.commands import relationships
from shoal.commands import tags as verbs
from shoal.commands.context import Writes
from shoal.core.errors import InvalidInput, NotFound, Unavailable
from shoal.core.filters import FilterContext
from shoal.core.text import check_tag
from shoal.graph.schema import FEATURES_TAG, FOLLOWS_TAG, tag_id
from shoal.queries import public_timelines, tags
from shoal.queries.pipeline import Page, filtered
from shoal.tagcloud.cloud import DailyUses, RelatedTag, TagSummary, Trend
from shoal.tagcloud.contract import DAY_MS
from shoal.web import routing, syndication
from shoal.web.pending_actions import PendingAction
from shoal.web.photo_grid import PHOTOS, Listing, grid_of, photos_page
from shoal.web.rendering import BeforeQuery, listing_page, next_of, part
from shoal.web.request_context import Form, PageContext, TagName
from shoal.web.timelines import home_tabs
from shoal.web.view_models import tag_path

_HIGH = 60
"""Height of the highest bar, in the units of `DayBar.height`."""
_LEAST = 1.5
_LARGE = 0.4
"""If one member wrote at least this fraction of a tag's recent uses, the page says so."""
_TRENDS = {
    Trend.UP: ("trending-up", "Trending"),
    Trend.MORE: ("trending-up", "Used slightly more often than usual"),
    Trend.STEADY: ("chart-no-axes-column", "Used as often as usual"),
    Trend.LESS: ("chart-no-axes-column", "Used slightly less often than usual"),
    Trend.DOWN: ("chart-no-axes-column", "Used less often than usual"),
}


class DayBar(NamedTuple):
    name: str
    """The abbreviated weekday."""
    uses: str
    height: float


class TagView(msgspec.Struct, frozen=True):
    name: str
    form: str
    path: str
    following: bool
    featured: bool
    uses: str
    trend: str
    icon: str
    days: tuple[DayBar, ...]
    reasons: tuple[str, ...]
    merged: tuple[str, ...]
    alike: tuple[tuple[str, str], ...]


def _tag_view(
    ctx: PageContext, name: str, bonds: tuple[bool, bool], found: TagSummary | None, alike: Sequence[RelatedTag] = ()
) -> TagView:
    words = ctx.words
    icon, label = _TRENDS[found.trend] if found else ("hash", "")
    return TagView(
        name,
        found.form if found else name,
        tag_path(ctx, name),
        *bonds,
        words.counted("%(n)s post", "%(n)s posts", found.uses) if found else "",
        words.text(label) if label else "",
        icon,
        tuple(_days(ctx, found)) if found else (),
        tuple(_reasons(ctx, found)) if found else (),
        found.merged if found else (),
        tuple((related.form, tag_path(ctx, related.name)) for related in alike),
    )


def _days(ctx: PageContext, tag: DailyUses) -> Iterator[DayBar]:
    most = max(1, *(day.uses for day in tag.days))
    for day in reversed(tag.days):
        at = datetime.fromtimestamp(day.day * DAY_MS / 1000, UTC)
        height = max(_LEAST, round(_HIGH * day.uses / most, 1)) if day.uses else _LEAST
        yield DayBar(format_date(at, "EEE", locale=ctx.words.code), ctx.words.number(day.uses), height)


def _reasons(ctx: PageContext, tag: TagSummary) -> Iterator[str]:
    words, _ = ctx.words, ctx.words.text
    if tag.recent_uses:
        yield words.counted(
            "Used %(n)s time since yesterday; %(by)s.",
            "Used %(n)s times since yesterday; %(by)s.",
            tag.recent_uses,
            by=words.counted("%(n)s person used this tag", "%(n)s people used this tag", tag.members),
        )
    else:
        yield _("This tag has not been used since yesterday.")
    if tag.recent_uses > 1 and tag.members > 1 and tag.loudest >= _LARGE:
        yield _("One person made %(n)s %% of these uses, so all of them count less toward trends.") % {
            "n": round(100 * tag.loudest)
        }
    if tag.rising:
        yield _("The tag is used more than usual for this week, so it is trending.")
    else:
        yield _("The tag is not used more than usual for this week, so it is not trending.")


_ALIKE = 8


class TagPath(BeforeQuery, frozen=True, kw_only=True):
    name: TagName
    show: Literal["photos", "posts"] = "photos"


class TagForm(Form, frozen=True, kw_only=True):
    name: TagName
    do: Literal["follow", "unfollow", "feature", "unfeature"]


async def tag(ctx: PageContext, path: TagPath) -> Response:
    stem, ending = syndication.ending_of(path.name)
    name = _checked(stem)
    if ending:
        return await syndication.of_tag(ctx, name, ending)
    found = await listing(ctx, path)
    if ctx.partial:
        return await listing_page(ctx, "tag", found)
    shown = await _shown(ctx, name)
    return await listing_page(
        ctx,
        "tag",
        found,
        title=f"#{shown.form}",
        tag=shown,
        show="posts" if found.grid is None else "photos",
        tab=f"tag-{name}",
        tabs=await home_tabs(ctx) if shown.following else [],
    )


async def listing(ctx: PageContext, path: TagPath) -> Listing:
    """Return a page of the photos with a tag; if there are none, or on request, of the posts."""
    name, show = _checked(path.name), path.show
    found = await _posts(ctx, name, path, only_media=show == "photos")
    if not found.entries and not path.before and show == "photos":
        show, found = "posts", await _posts(ctx, name, path, only_media=False)
    entries = await filtered(ctx.reads.graph, ctx.viewer_id, found.entries, FilterContext.PUBLIC)
    following = next_of(ctx, f"/tags/{path.name}", found.next, show="" if show == "photos" else show)
    return Listing(entries, following, grid_of(ctx, entries, everything=True) if show == "photos" else None)


async def _posts(ctx: PageContext, name: str, path: TagPath, *, only_media: bool) -> Page:
    read = partial(public_timelines.tag_page, ctx.reads, ctx.viewer_id, public_timelines.TagQuery(frozenset((name,))))
    return await (photos_page(read, path.cursor(PHOTOS)) if only_media else read(path.cursor()))


_VERBS: Mapping[str, Callable[[Writes, int, str], Awaitable[object]]] = {
    "follow": relationships.follow_tag,
    "unfollow": relationships.unfollow_tag,
    "feature": verbs.feature,
    "unfeature": verbs.unfeature,
}


async def follow(ctx: PageContext, asked: TagForm) -> Response:
    name = _checked(asked.name)
    member = ctx.checked(asked, PendingAction("follow_tag", text=name).at if asked.do == "follow" else None)
    await _VERBS[asked.do](ctx.writes, member.id, name)
    if ctx.partial:
        return part(ctx, "follow_tag", tag=_tag_view(ctx, name, await _bonds(ctx, name), None))
    return ctx.back(asked, f"/tags/{name}")


async def _shown(ctx: PageContext, name: str) -> TagView:
    found, alike, bonds = await asyncio.gather(_summary(ctx, name), _alike(ctx, name), _bonds(ctx, name))
    # A denied tag is not in the cloud, so neither its number of uses nor related tags are shown.
    return _tag_view(ctx, name, bonds, found, alike if found else ())


async def _summary(ctx: PageContext, name: str) -> TagSummary | None:
    """Return the statistics of a tag; None if the tag is denied or unused, or if the tag cloud is unavailable."""
    try:
        return await ctx.reads.tags.summary(name)
    except Unavailable:
        return None


async def _alike(ctx: PageContext, name: str) -> list[RelatedTag]:
    try:
        return await tags.related(ctx.reads, name, _ALIKE)
    except Unavailable:
        return []


async def _bonds(ctx: PageContext, name: str) -> tuple[bool, bool]:
    """Return whether the viewer follows a tag, and whether their profile features it."""
    if ctx.viewer_id is None:
        return False, False
    bonds = await ctx.graph.assoc_get(ctx.viewer_id, (FOLLOWS_TAG, FEATURES_TAG), (tag_id(name),))
    return tag_id(name) in bonds[FOLLOWS_TAG], tag_id(name) in bonds[FEATURES_TAG]


def _checked(name: str) -> str:
    try:
        return check_tag(name)
    except InvalidInput:
        raise NotFound("There is no such tag") from None


ROUTES = (
    routing.page("/tags/{name}", tag, TagPath, cached=True),
    routing.form("/tags/{name}/follow", follow, TagForm),
)
