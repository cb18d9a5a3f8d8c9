"""The posts before and after a post in the photo grid or feed that a visitor came from, for the links of its page.

The grid is read by the handler of its own page, so its order, filters and permissions are those of the page. Search results and
places nearby have no neighbors, because their paths contain words and coordinates of the visitor.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec
from starlette.requests import Request

from shoal.core.errors import ShoalError
from shoal.graph.cache.dependencies import do_not_cache
from shoal.http.application import Trie, parameters
from shoal.http.params import convert
from shoal.http.rate_limits import RateKey, address_of
from shoal.web import albums, explore, profiles, tags, timelines
from shoal.web.photo_grid import PhotoGrid
from shoal.web.rendering import HandlePath
from shoal.web.request_context import PageContext, address, is_local
from shoal.web.routing import PageHandler
from shoal.web.view_models import PostView


class Neighbors(NamedTuple):
    grid: str = ""
    """URL of the post in the grid; empty if there is no such grid."""
    previous: str = ""
    """URL of the previous post; empty at the beginning of a page of the grid."""
    following: str = ""


class _GridPage(NamedTuple):
    """A page with the photos of several posts; `request_context.grid_query` knows their paths."""

    handler: PageHandler[Any]
    params: type[msgspec.Struct]
    names: tuple[str, ...]
    """Names of the parameters in its path."""


class _Shown(NamedTuple):
    posts: list[str]
    """URLs of the posts of a grid, in order."""
    next: str
    """Path of the next page of the grid; empty on the last one."""


@cache
def _pages() -> Trie[_GridPage]:
    pages: Trie[_GridPage] = Trie()
    handlers: tuple[tuple[str, PageHandler[Any], type[msgspec.Struct]], ...] = (
        ("/", timelines.start, timelines.HomeQuery),
        ("/explore", explore.explore, explore.ExploreQuery),
        ("/tags/{name}", tags.tag, tags.TagPath),
        ("/@{handle}", profiles.show, profiles.ProfilePath),
        ("/@{handle}/portfolio", profiles.portfolio, HandlePath),
        ("/@{handle}/albums/{id}", albums.one, albums.AlbumPath),
    )
    for path, handler, params in handlers:
        pages.add("GET", path, _GridPage(handler, params, parameters(path)))
    return pages


async def neighbors_of(ctx: PageContext, grid: str, post: PostView) -> Neighbors:
    """Return the neighbors of a post in the grid at a path; none for a visitor who has reached the rate limit of pages.

    Costs the reads of the page at that path and, for the last post of that page, the reads of the next page. The limit counts
    both as if the visitor had opened them.
    """
    shown = await _shown(ctx, grid) if grid else None
    if shown is None or post.path not in shown.posts:
        return Neighbors()
    at, following, page = shown.posts.index(post.path), "", grid
    if at + 1 < len(shown.posts):
        following = shown.posts[at + 1]
    elif shown.next and (further := await _shown(ctx, shown.next)) and further.posts:
        following, page = further.posts[0], shown.next
    return Neighbors(
        f"{ctx.url(grid)}#p{post.id}",
        address("", shown.posts[at - 1], grid=grid) if at else "",
        address("", following, grid=page) if following else "",
    )


async def _shown(ctx: PageContext, grid: str) -> _Shown | None:
    """Return what the page at a path shows; None if it has no grid or the viewer may not open it."""
    if not is_local(grid):
        return None
    try:
        parts = urlsplit(grid)
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
    scope = {**ctx.request.scope, "path": unquote(parts.path), "query_string": parts.query.encode()}
    # Request only the grid, as the script does that loads the next photos.
    headers = [(name, value) for name, value in scope["headers"] if not name.startswith(b"hx-")]
    scope["headers"] = [*headers, (b"hx-request", b"true")]
    views: dict[str, object] = {}
    try:
        params = convert({**dict(parse_qsl(parts.query)), **dict(zip(page.names, values, strict=True))}, page.params)
        await page.handler(replace(ctx, request=Request(scope), views=views), params)
    except ShoalError:
        return None
    grid_view, feed = views.get("grid"), views.get("posts")
    posts = [photo.path for photo in grid_view.photos] if isinstance(grid_view, PhotoGrid) else []
    if isinstance(feed, list):
        posts += [post.path for post in feed if post.photos]
    return _Shown(list(dict.fromkeys(posts)), str(views.get("next", "")).removeprefix(ctx.app.at.path))
