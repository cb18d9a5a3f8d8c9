"""The start page: for members what those they follow post, and for strangers what this network is like."""

from __future__ import annotations

import asyncio

from starlette.responses import Response

from shoal.core.filters import FilterContext
from shoal.core.model import Member
from shoal.feeds import home as home_feed
from shoal.feeds import public
from shoal.feeds.discover import popular
from shoal.feeds.filtering import filtered
from shoal.feeds.pipeline import Page
from shoal.graph.contract import Cursor
from shoal.web import rows
from shoal.web.paging import BeforeQuery, feed_page, next_of
from shoal.web.rendering import page
from shoal.web.views.explore import CloudWord, WallPhoto, cloud_of, wall_of
from shoal.web.views.people import Face, face_of
from shoal.web.views.tabs import home_tabs
from shoal.web.visit import Visit

_ON_THE_WALL = 24
"""Photos that a stranger is shown."""
_IN_THE_CLOUD = 24


async def start(visit: Visit, query: BeforeQuery) -> Response:
    """The home of the member who is logged in; for others, the front page."""
    if visit.viewer is None:
        return await _front(visit)
    return await _home(visit, visit.viewer, query)


async def _home(visit: Visit, viewer: Member, query: BeforeQuery) -> Response:
    reads = visit.front.reads
    found = await home_feed.page(reads, viewer.id, query.cursor())
    entries = await filtered(reads.graph, viewer.id, found.entries, FilterContext.HOME)
    empty = not entries and not query.before
    others = await popular.page(reads, viewer.id, _ON_THE_WALL) if empty else []
    return await feed_page(
        visit,
        "home",
        Page(entries, found.next),
        next_of(visit, "/", found.next),
        title=visit.words.text("Home"),
        tab="latest",
        wall=wall_of(visit, others),
        tabs=[] if visit.partial else await home_tabs(visit),
        end=visit.words.text("That is all that the people you follow have posted."),
    )


async def _front(visit: Visit) -> Response:
    wall, cloud = await _from_here(visit) if visit.front.settings.public_pages else ([], [])
    settings = visit.front.settings
    return await page(
        visit,
        "front",
        wall=wall,
        cloud=cloud,
        rules=settings.rules,
        may_join=settings.registrations,
        shown=settings,
        lent=await _lent(visit),
    )


async def _from_here(visit: Visit) -> tuple[list[WallPhoto], list[CloudWord]]:
    """Return photos and tags that strangers are shown."""
    reads = visit.front.reads
    trending, newest, cloud = await asyncio.gather(
        popular.page(reads, None, _ON_THE_WALL),
        public.page(reads, None, Cursor(limit=_ON_THE_WALL), only_media=True),
        cloud_of(visit, _IN_THE_CLOUD),
    )
    return wall_of(visit, [*trending, *newest.entries])[:_ON_THE_WALL], cloud


async def _lent(visit: Visit) -> Face | None:
    """Return the member whom a demo lends to everybody."""
    lent = visit.front.demo_member
    member = (await visit.front.graph.obj_get((lent,))).get(lent) if lent else None
    return face_of(visit, member) if isinstance(member, Member) else None


ROUTES = (rows.page("/", start, BeforeQuery, remembered=True),)
