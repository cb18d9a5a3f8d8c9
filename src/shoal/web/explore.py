"""Explore: popular and new photos, the directory of members, and the tag cloud.

The directory lists only members who opted in.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Annotated, Literal, NamedTuple

import msgspec
from msgspec import Meta
from starlette.responses import Response

from shoal.core.errors import Unavailable
from shoal.core.filters import FilterContext
from shoal.graph.access import relations
from shoal.graph.cache.dependencies import do_not_cache
from shoal.mastodon_api.tag_cloud_image import Frame, LaidOutWord, NamedLevel, arranged
from shoal.queries import members, public_timelines, trends
from shoal.queries.hydration import Entry, Profile, profiles_by_id
from shoal.queries.pipeline import filtered
from shoal.queries.suggestions import most_followed
from shoal.search.indexing import is_listed
from shoal.tagcloud.cloud import SizedTag
from shoal.web import routing
from shoal.web.photo_grid import PHOTOS, Listing, PhotoGrid, grid_of, photos_page
from shoal.web.rendering import BeforeQuery, next_of, page, part
from shoal.web.request_context import PageContext
from shoal.web.view_models import people_of, tag_path

_SIZE = 24
_MOST = 2_000


class DirectoryPageQuery(msgspec.Struct, frozen=True, kw_only=True):
    order: Literal["followed", "active", "new"] = "followed"
    offset: Annotated[int, Meta(ge=0, le=_MOST)] = 0


async def people(ctx: PageContext, query: DirectoryPageQuery) -> Response:
    found, more = await _found(ctx, query)
    persons = await people_of(ctx, found)
    following = ctx.url("/explore/people", order=query.order, offset=query.offset + _SIZE) if more else ""
    if ctx.partial:
        return part(ctx, "people", people=persons, next=following)
    title = ctx.words.text("People")
    return await page(ctx, "directory", title=title, people=persons, next=following, order=query.order)


async def _found(ctx: PageContext, query: DirectoryPageQuery) -> tuple[list[Profile], bool]:
    reads, last = ctx.reads, query.offset + _SIZE > _MOST
    try:
        if query.order == "followed":
            return await _most_followed(ctx, query.offset, _SIZE)
        found = await members.directory_page(reads, ctx.viewer_id, query.order, _SIZE, query.offset)
    except Unavailable:
        do_not_cache()
        return [], False
    # A short page need not be the last, because some members are left out. Only an empty page shows the end of the list.
    return found, bool(found) and not last


async def _most_followed(ctx: PageContext, offset: int, limit: int) -> tuple[list[Profile], bool]:
    """Return a part of the most followed discoverable members whom the viewer may see, and whether more follow."""
    reads, viewer = ctx.reads, ctx.viewer_id
    every = await most_followed(reads)
    ids = every[offset : offset + limit]
    relations_by_id = await relations(reads.graph, viewer, ids)
    found = [
        profile
        for profile in await profiles_by_id(reads.graph, viewer, ids)
        if is_listed(profile.member)
        and not relations_by_id[profile.member.id].severed
        and not relations_by_id[profile.member.id].muting
    ]
    return found, offset + limit < len(every)


class CloudWord(NamedTuple):
    tag: str
    path: str
    size: int
    uses: str


class CloudTag(NamedTuple):
    """A word in an image of the tag cloud: link, label, CSS classes, and position and size in pixels."""

    path: str
    text: str
    label: str
    look: str
    x: float
    y: float
    size: float
    width: float


class CloudImage(NamedTuple):
    frame: Frame
    words: tuple[CloudTag, ...]


async def cloud_of(ctx: PageContext, limit: int, order: str = "all") -> list[CloudWord]:
    return _cloud(ctx, await _sized_tags(ctx, limit, order))


async def _sized_tags(ctx: PageContext, limit: int, order: str = "all") -> list[SizedTag]:
    """Return the tags of the cloud, the most used first; empty while the tag cloud is unavailable."""
    try:
        return await ctx.reads.tags.sized(order, limit)
    except Unavailable:
        return []


def _cloud(ctx: PageContext, words: Sequence[SizedTag]) -> list[CloudWord]:
    return [
        CloudWord(word.form, tag_path(ctx, word.name), word.level, ctx.words.number(word.uses))
        for word in sorted(words, key=lambda word: word.name)
    ]


async def _cloud_image(ctx: PageContext, words: Sequence[SizedTag]) -> CloudImage | None:
    """Return the tag cloud as an image; None without tags. Its layout takes 0.1 s and is therefore cached."""
    if not words:
        return None
    key = tuple(NamedLevel(word.name, word.form, word.level) for word in words)
    frame, placed = await asyncio.to_thread(_laid_out, key)
    return CloudImage(
        frame,
        tuple(
            CloudTag(
                tag_path(ctx, words[placed_word.place.at].name),
                placed_word.text,
                _label(ctx, words[placed_word.place.at]),
                f"c{placed_word.color} {placed_word.weight}",
                placed_word.place.x + placed_word.place.width / 2,
                placed_word.place.baseline,
                placed_word.place.size,
                placed_word.place.width,
            )
            for placed_word in placed
        ),
    )


@lru_cache(8)
def _laid_out(words: tuple[NamedLevel, ...]) -> tuple[Frame, tuple[LaidOutWord, ...]]:
    frame, placed = arranged(words)
    return frame, tuple(placed)


def _label(ctx: PageContext, word: SizedTag) -> str:
    return ctx.words.counted("#%(tag)s: %(n)s post", "#%(tag)s: %(n)s posts", word.uses, tag=word.form)


_MOST_POPULAR = 240
_CLOUD = 80
_RISING = 12


class ExploreQuery(BeforeQuery, frozen=True, kw_only=True):
    order: Literal["", "popular", "new"] = ""
    """The default is `popular` for members, and `new` for visitors: they see popular photos on the front page."""
    offset: Annotated[int, Meta(ge=0, le=_MOST_POPULAR)] = 0


async def explore(ctx: PageContext, query: ExploreQuery) -> Response:
    order, grid, following = await _photos(ctx, query)
    if ctx.partial:
        return part(ctx, "photo_rows", grid=grid, next=following)
    return await page(
        ctx,
        "explore",
        title=ctx.words.text("Explore"),
        grid=grid,
        next=following,
        order=order,
        rising=await cloud_of(ctx, _RISING, "rising"),
    )


async def listing(ctx: PageContext, query: ExploreQuery) -> Listing:
    """Return a page of popular or new photos."""
    _, grid, following = await _photos(ctx, query)
    return Listing((), following, grid)


async def _photos(ctx: PageContext, query: ExploreQuery) -> tuple[str, PhotoGrid, str]:
    """Return the order in which the photos are listed, a page of photos, and the URL of the next page."""
    order = query.order or ("popular" if ctx.viewer else "new")
    grid, following = await (_popular(ctx, query) if order == "popular" else _newest(ctx, query))
    if not (grid.photos or query.order or query.offset):
        order, (grid, following) = "new", await _newest(ctx, query)
    return order, grid, following


async def _popular(ctx: PageContext, query: ExploreQuery) -> tuple[PhotoGrid, str]:
    found = await trends.page(ctx.reads, ctx.viewer_id, PHOTOS, query.offset)
    last = query.offset + PHOTOS
    following = ctx.url("/explore", order="popular", offset=last) if found and last <= _MOST_POPULAR else ""
    return grid_of(ctx, await _filtered(ctx, found)), following


async def _newest(ctx: PageContext, query: ExploreQuery) -> tuple[PhotoGrid, str]:
    read = partial(public_timelines.public_page, ctx.reads, ctx.viewer_id)
    found = await photos_page(read, query.cursor(PHOTOS))
    return grid_of(ctx, await _filtered(ctx, found.entries)), next_of(ctx, "/explore", found.next, order="new")


async def _filtered(ctx: PageContext, entries: Sequence[Entry]) -> Sequence[Entry]:
    return await filtered(ctx.reads.graph, ctx.viewer_id, entries, FilterContext.PUBLIC)


async def tags(ctx: PageContext, _params: None) -> Response:
    words, rising = await asyncio.gather(_sized_tags(ctx, _CLOUD), cloud_of(ctx, _RISING, "rising"))
    return await page(
        ctx,
        "tags",
        title=ctx.words.text("Tags"),
        cloud=_cloud(ctx, words),
        cloud_image=await _cloud_image(ctx, words),
        rising=rising,
    )


ROUTES = (
    routing.page("/explore", explore, ExploreQuery, cached=True),
    routing.page("/explore/tags", tags, cached=True),
    routing.page("/explore/people", people, DirectoryPageQuery, cached=True),
)
