"""Maps: public posts near a place, and the places where a member posted.

The map is an SVG: land, a graticule, and a point for each place or cluster of places. The projection is equirectangular and
true at the middle latitude, so small regions keep their shape. One unit is a hundredth of a degree, as in `static/land.svg`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import Annotated, Literal, NamedTuple

import msgspec
from msgspec import Meta
from starlette.responses import Response

from shoal import gazetteer
from shoal.core.errors import InvalidInput
from shoal.core.filters import FilterContext
from shoal.core.places import MAX_RADIUS_KM, Disk, Place, disk
from shoal.gazetteer import MOST_TYPED
from shoal.graph.contract import Cursor
from shoal.queries import posts
from shoal.queries import public_timelines as feed
from shoal.queries.hydration import Entry
from shoal.queries.pipeline import filtered
from shoal.web import routing
from shoal.web.form_errors import error_text
from shoal.web.photo_grid import PHOTOS, Listing, grid_of, photos_page
from shoal.web.place_names import place_typed, place_words
from shoal.web.profiles import head, member_of
from shoal.web.rendering import BeforeQuery, HandlePath, listing_page, next_of, page
from shoal.web.request_context import PageContext
from shoal.web.view_models import PostView, post_of

_UNIT = 100
_FULL_CIRCLE = 360 * _UNIT
_LEAST = 6.0
"""The smallest height of a map in degrees of latitude.

Smaller maps would show that the coastlines are accurate only to a few kilometers.
"""
_SHAPE = 1.6
"""Width of a map divided by its height."""
_MARGIN = 1.35
"""Width of a map divided by the width of the area that contains its points."""
_STEPS = (1, 2, 5, 10, 15, 30)
_LINES = 7
_TOGETHER = 1 / 26
"""Points whose distance is less than this fraction of the map's width are merged."""
_THUMBS = 12


class Line(NamedTuple):
    at: float
    label: str


class MapPoint(msgspec.Struct, frozen=True):
    x: float
    y: float
    radius: float
    number: str
    """The number of posts as text; empty for a single post."""
    name: str
    at: str
    posts: tuple[PostView, ...]
    more: int
    """Number of posts that are not in `posts`."""
    path: str
    """The path of the post if the point has only one. Otherwise, the anchor of the list of its posts below the map."""


class _Window(NamedTuple):
    left: float
    top: float
    width: float
    height: float
    squeeze: float
    """Length of a degree of longitude divided by the length of a degree of latitude."""


class MapView(msgspec.Struct, frozen=True):
    window: _Window
    lands: tuple[int, ...]
    """The offset of the coastlines in map units. A map across the date line has two offsets."""
    meridians: tuple[Line, ...]
    parallels: tuple[Line, ...]
    spots: tuple[MapPoint, ...]


def map_of(ctx: PageContext, entries: Sequence[Entry], here: str = "") -> MapView | None:
    """Return a map of the places of these posts; None if no post has a place.

    A point with several posts links to the list of these posts below the map (`#place-1` and so on). If the page lists
    all posts, `here` is the prefix of the ids of their elements, and such a point links to its newest post.
    """
    placed = [(entry, entry.post.place) for entry in entries if entry.post.place]
    if not placed:
        return None
    middle = _middle([place.longitude for _, place in placed])
    points = [(entry, _near(place.longitude, middle), place.latitude) for entry, place in placed]
    window = _window([(x, y) for _, x, y in points], middle)
    groups = _together(points, window)
    first, last = (
        math.floor((edge / window.squeeze + _FULL_CIRCLE / 2) / _FULL_CIRCLE)
        for edge in (window.left, window.left + window.width)
    )
    return MapView(
        window,
        lands=tuple(revolution * _FULL_CIRCLE - _FULL_CIRCLE // 2 for revolution in range(first, last + 1)),
        meridians=_meridians(ctx, window),
        parallels=_parallels(ctx, window),
        spots=tuple(_spot(ctx, n, group, window, here) for n, group in enumerate(groups, 1)),
    )


def _middle(longitudes: Sequence[float]) -> float:
    """Return the longitude opposite the widest gap between posts, so that posts around the Pacific fit on a small map."""
    ordered = sorted(longitudes)
    gaps = [(b - a, a) for a, b in pairwise(ordered)]
    gaps.append((ordered[0] + 360 - ordered[-1], ordered[-1]))
    width, start = max(gaps)
    return (start + width / 2 + 180 + 180) % 360 - 180


def _near(longitude: float, middle: float) -> float:
    """Return the longitude plus or minus 360 degrees if that is nearer to the middle. The result may exceed 180 degrees."""
    return middle + (longitude - middle + 180) % 360 - 180


def _window(points: Sequence[tuple[float, float]], middle: float) -> _Window:
    ys = [y for _, y in points]
    low, high = min(ys), max(ys)
    center = (low + high) / 2
    squeeze = max(0.2, math.cos(math.radians(center)))
    half = max(abs(x - middle) for x, _ in points) * squeeze
    height = max(_LEAST, (high - low) * _MARGIN, 2 * half * _MARGIN / _SHAPE)
    if height * _SHAPE > 360 * squeeze or height > 180:
        # The map would exceed the whole world, so show the whole world.
        squeeze, width, height, center = 1.0, 360.0, 180.0, 0.0
    else:
        width = height * _SHAPE
        center = min(max(center, -90 + height / 2), 90 - height / 2)
    left = (middle * squeeze - width / 2) * _UNIT
    return _Window(
        round(left, 1),
        round(-(center + height / 2) * _UNIT, 1),
        round(width * _UNIT, 1),
        round(height * _UNIT, 1),
        squeeze,
    )


def _together(points: Sequence[tuple[Entry, float, float]], window: _Window) -> list[list[tuple[Entry, float, float]]]:
    """Group points that would overlap on the map. The first point of a group has the newest post of the group."""
    near = window.width * _TOGETHER
    groups: list[list[tuple[Entry, float, float]]] = []
    for point in points:
        _, x, y = point
        for group in groups:
            _, other_x, other_y = group[0]
            if math.hypot((x - other_x) * window.squeeze, y - other_y) * _UNIT < near:
                group.append(point)
                break
        else:
            groups.append([point])
    return groups


def _spot(
    ctx: PageContext, number: int, group: Sequence[tuple[Entry, float, float]], window: _Window, here: str
) -> MapPoint:
    _, x, y = group[0]
    posts = tuple(post_of(ctx, entry) for entry, _, _ in group[:_THUMBS])
    grown = 1 + math.log2(len(group)) / 5
    return MapPoint(
        round(x * window.squeeze * _UNIT, 1),
        round(-y * _UNIT, 1),
        round(window.width / 62 * grown, 1),
        ctx.words.number(len(group)) if len(group) > 1 else "",
        place_words(ctx.words, Place(y, _near(x, 0))),
        f"{y:.4f},{_near(x, 0):.4f}",
        posts,
        len(group) - len(posts),
        f"#{here}{posts[0].entry_id}" if here else posts[0].path if len(group) == 1 else f"#place-{number}",
    )


def _degrees(first: float, last: float, scale: float = 1.0) -> range:
    """Return the degrees at which to draw lines of latitude or longitude. A greater `scale` gives fewer lines."""
    step = next((step for step in _STEPS if (last - first) * scale / step <= _LINES), _STEPS[-1])
    return range(math.ceil(first / step) * step, math.floor(last) + 1, step)


def _meridians(ctx: PageContext, window: _Window) -> tuple[Line, ...]:
    _ = ctx.words.text
    unit = window.squeeze * _UNIT
    lines = []
    for degrees in _degrees(window.left / unit, (window.left + window.width) / unit):
        shown = int(_near(degrees, 0))
        name = "%(n)s°" if shown % 180 == 0 else _("%(n)s° E") if shown > 0 else _("%(n)s° W")
        lines.append(Line(round(degrees * unit, 1), name % {"n": abs(shown)}))
    return tuple(lines)


def _parallels(ctx: PageContext, window: _Window) -> tuple[Line, ...]:
    _ = ctx.words.text
    # No line is at the bottom, where the degrees of longitude are.
    north, south = -window.top / _UNIT, -(window.top + 0.94 * window.height) / _UNIT
    lines = []
    for degrees in _degrees(south, north, _SHAPE):
        name = _("%(n)s° N") if degrees > 0 else _("%(n)s° S") if degrees < 0 else "%(n)s°"
        lines.append(Line(float(-degrees * _UNIT), name % {"n": abs(degrees)}))
    return tuple(lines)


_RADII = (1, 5, 25, 100)
_USUAL = 25.0


class NearbyPageQuery(BeforeQuery, frozen=True, kw_only=True):
    """A place as coordinates or the name of a town, and a radius in kilometers."""

    at: Annotated[str, Meta(max_length=MOST_TYPED)] = ""
    show: Literal["photos", "posts"] = "photos"
    km: Annotated[float, Meta(ge=0, le=MAX_RADIUS_KM)] = _USUAL


async def nearby(ctx: PageContext, query: NearbyPageQuery) -> Response:
    try:
        place = await place_typed(ctx.words, query.at)
    except InvalidInput as error:
        return await _ask(ctx, query.at, error_text(ctx.words, error, "place"))
    if place is None:
        return await _ask(ctx)
    area = disk(*place, query.km or _USUAL)
    found = await _listing(ctx, query, area)
    return await listing_page(
        ctx,
        "nearby",
        found,
        show="posts" if found.grid is None else "photos",
        title=ctx.words.text("Nearby"),
        at=_center(area),
        km=query.km,
        radii=_RADII,
        name=place_words(ctx.words, place),
        map=None if ctx.partial else map_of(ctx, found.entries, "p"),
        end=ctx.words.text("No more posts from around here."),
    )


async def listing(ctx: PageContext, query: NearbyPageQuery) -> Listing:
    """Return a page of the photos near a place; if there are none, or on request, of the posts."""
    place = await place_typed(ctx.words, query.at)
    return await _listing(ctx, query, disk(*place, query.km or _USUAL)) if place else Listing((), "")


async def _listing(ctx: PageContext, query: NearbyPageQuery, area: Disk) -> Listing:
    photos = query.show == "photos"
    read = partial(feed.nearby_page, ctx.reads, ctx.viewer_id, area)
    found = await (photos_page(read, query.cursor(PHOTOS)) if photos else read(query.cursor()))
    if not found.entries and not query.before and photos:
        photos, found = False, await read(query.cursor())
    entries = await filtered(ctx.reads.graph, ctx.viewer_id, found.entries, FilterContext.PUBLIC)
    parameters = {"at": _center(area), "km": f"{query.km:g}", "show": "" if photos else "posts"}
    following = next_of(ctx, "/explore/nearby", found.next, **parameters)
    return Listing(entries, following, grid_of(ctx, entries, everything=True) if photos else None)


def _center(area: Disk) -> str:
    return f"{area.latitude:g},{area.longitude:g}"


_RECENT = 60
"""Number of new photos whose places are on the map of the page without a place."""


async def _ask(ctx: PageContext, at: str = "", wrong: str = "") -> Response:
    """Show the form for a place and, unless it was refused, a map of the places of new photos."""
    recent: Sequence[Entry] = ()
    if not wrong:
        found = await feed.public_page(ctx.reads, ctx.viewer_id, Cursor(limit=_RECENT), only_media=True)
        placed = [entry for entry in found.entries if entry.post.place]
        recent = await filtered(ctx.reads.graph, ctx.viewer_id, placed, FilterContext.PUBLIC)
    return await page(
        ctx,
        "nearby_ask",
        title=ctx.words.text("Nearby"),
        at=at,
        wrong=wrong,
        names_places=gazetteer.installed() is not None,
        map=map_of(ctx, recent, "p"),
        grid=grid_of(ctx, recent, everything=True),
    )


_POSTS = 200


async def places(ctx: PageContext, path: HandlePath) -> Response:
    """Show a map of the member's posts that are visible to the viewer, and the posts by place below it."""
    member = await member_of(ctx, path.handle)
    reads = ctx.reads
    query = posts.MemberFeedQuery(no_shares=True, with_place=True)
    found = await posts.authored_page(reads, ctx.viewer_id, member.id, Cursor(limit=_POSTS), query)
    entries = await filtered(reads.graph, ctx.viewer_id, found.entries, FilterContext.ACCOUNT)
    shown = await head(ctx, member)
    return await page(
        ctx,
        "places",
        title=ctx.words.text("Places in posts by %(name)s") % {"name": shown.face.shown},
        head=shown,
        tab="about",
        map=map_of(ctx, entries),
        more=found.next is not None,
    )


ROUTES = (
    routing.page("/explore/nearby", nearby, NearbyPageQuery),
    routing.page("/@{handle}/places", places, HandlePath),
)
