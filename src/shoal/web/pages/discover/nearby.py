"""Public posts from around a place: the place of a post, of the browser, or one that was typed."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta
from starlette.responses import Response

from shoal.core.errors import InvalidInput
from shoal.core.filters import FilterContext
from shoal.core.places import MAX_RADIUS_KM, Disk, Place, disk
from shoal.queries import public_timelines as feed
from shoal.queries.pipeline import Page, filtered
from shoal.web import rows
from shoal.web.paging import BeforeQuery, feed_page, next_of
from shoal.web.rendering import page
from shoal.web.views.maps import map_of, place_words
from shoal.web.visit import Visit

_RADII = (1, 5, 25, 100)
"""Kilometres that are offered."""
_USUAL = 25.0


class NearbyPageQuery(BeforeQuery, frozen=True, kw_only=True):
    """A place as `latitude,longitude`, and how many kilometres around it."""

    at: Annotated[str, Meta(max_length=60)] = ""
    km: Annotated[float, Meta(ge=0, le=MAX_RADIUS_KM)] = _USUAL


async def nearby(visit: Visit, query: NearbyPageQuery) -> Response:
    """A page of the public posts from around a place, newest first, with a map of them."""
    title = visit.words.text("Nearby")
    if not query.at.strip():
        return await page(visit, "nearby_ask", title=title, at="", wrong="")
    try:
        around = _disk(query.at, query.km)
    except InvalidInput:
        wrong = visit.words.text("This is no place: write latitude and longitude in degrees, as in 45.44, 12.32.")
        return await page(visit, "nearby_ask", status=422, title=title, at=query.at, wrong=wrong)
    reads = visit.front.reads
    found = await feed.nearby_page(reads, visit.viewer_id, around, query.cursor())
    entries = await filtered(reads.graph, visit.viewer_id, found.entries, FilterContext.PUBLIC)
    at = f"{around.latitude:g},{around.longitude:g}"
    return await feed_page(
        visit,
        "nearby",
        Page(entries, found.next),
        next_of(visit, "/explore/nearby", found.next, at=at, km=f"{query.km:g}"),
        title=title,
        at=at,
        km=query.km,
        radii=_RADII,
        name=place_words(visit, Place(around.latitude, around.longitude)),
        map=None if visit.partial else map_of(visit, entries, "p"),
        end=visit.words.text("That is all from around here."),
    )


def _disk(at: str, km: float) -> Disk:
    """Return the disk that is asked for. Raises `InvalidInput`."""
    latitude, _, longitude = at.replace(";", ",").partition(",")
    try:
        return disk(float(latitude), float(longitude), km or _USUAL)
    except ValueError:
        raise InvalidInput("at: latitude and longitude", field="at") from None


ROUTES = (rows.page("/explore/nearby", nearby, NearbyPageQuery),)
