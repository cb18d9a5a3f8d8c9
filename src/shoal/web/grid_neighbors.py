"""The posts before and after a post in the photo grid or feed that a visitor came from, for the links of its page.

The grid is read by the function that its own page uses, so its order, filters and permissions are those of the page. Search results
and places nearby have no neighbors, because their paths contain words and coordinates of the visitor.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import cache
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec

from shoal.core.errors import ShoalError
from shoal.graph.cache.dependencies import do_not_cache
from shoal.http.application import Trie, parameters
from shoal.http.params import convert
from shoal.http.rate_limits import RateKey, address_of
from shoal.web import albums, explore, profiles, tags, timelines
from shoal.web.photo_grid import Listing
from shoal.web.rendering import HandlePath
from shoal.web.request_context import PageContext, address, is_local
from shoal.web.view_models import PostView


class Neighbors(NamedTuple):
    grid: str = ""
    """URL of the post in the grid; empty if there is no such grid."""
    previous: str = ""
    """URL of the previous post; empty at the beginning of a page of the grid."""
    following: str = ""


class _GridPage(NamedTuple):
    """A kind of page with the photos of several posts. The paths of these pages are also in `request_context.grid_query`."""

    read: Callable[[PageContext, Any], Awaitable[Listing]]
    params: type[msgspec.Struct]
    names: tuple[str, ...]
    """Names of the parameters in its path."""


@cache
def _pages() -> Trie[_GridPage]:
    pages: Trie[_GridPage] = Trie()
    readers: tuple[tuple[str, Callable[[PageContext, Any], Awaitable[Listing]], type[msgspec.Struct]], ...] = (
        ("/", timelines.listing, timelines.HomeQuery),
        ("/explore", explore.listing, explore.ExploreQuery),
        ("/tags/{name}", tags.listing, tags.TagPath),
        ("/@{handle}", profiles.listing, profiles.ProfilePath),
        ("/@{handle}/portfolio", profiles.portfolio_listing, HandlePath),
        ("/@{handle}/albums/{id}", albums.listing, albums.AlbumPath),
    )
    for path, read, params in readers:
        pages.add("GET", path, _GridPage(read, params, parameters(path)))
    return pages


async def neighbors_of(ctx: PageContext, grid: str, post: PostView) -> Neighbors:
    """Return the neighbors of a post in the grid at a path; none for a visitor at the rate limit of pages.

    Costs the reads of the page at that path and, for the last post of that page, the reads of the next page. The limit counts
    both as if the visitor had opened them.
    """
    listing = await _listing(ctx, grid) if grid else None
    posts = _paths(ctx, listing)
    if listing is None or post.path not in posts:
        return Neighbors()
    at, following, page = posts.index(post.path), "", grid
    next_page = listing.next.removeprefix(ctx.app.at.path)
    if at + 1 < len(posts):
        following = posts[at + 1]
    elif next_page and (further := _paths(ctx, await _listing(ctx, next_page))):
        following, page = further[0], next_page
    return Neighbors(
        f"{ctx.url(grid)}#p{post.id}",
        address("", posts[at - 1], grid=grid) if at else "",
        address("", following, grid=page) if following else "",
    )


def _paths(ctx: PageContext, listing: Listing | None) -> list[str]:
    """Return the URLs of the posts with photos in a grid or feed, in order."""
    if listing is None:
        return []
    if listing.grid is not None:
        return list(dict.fromkeys(photo.path for photo in listing.grid.photos))
    with_photos = [entry for entry in listing.entries if entry.post.media]
    return list(dict.fromkeys(ctx.url(f"/@{entry.author.member.name}/{entry.post.id}") for entry in with_photos))


async def _listing(ctx: PageContext, path: str) -> Listing | None:
    """Return the listing of the page at a path; None if the page has no grid or the viewer may not open it."""
    if not is_local(path):
        return None
    try:
        parts = urlsplit(path)
    except ValueError:
        return None
    found = _pages().find(unquote(parts.path))
    if found is None:
        return None
    who = address_of(ctx.request.scope) if ctx.viewer_id is None else ctx.viewer_id
    window = await ctx.app.limiter.take(RateKey("pages", who))
    if window is not None and window.wait:
        do_not_cache()
        return None
    page, values = found[0]["GET"], found[1]
    try:
        query = {**dict(parse_qsl(parts.query)), **dict(zip(page.names, values, strict=True))}
        return await page.read(ctx, convert(query, page.params))
    except ShoalError:
        return None
