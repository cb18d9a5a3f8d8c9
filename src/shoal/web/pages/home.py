"""The start page: for members what those they follow post, and for strangers what this network is like."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from starlette.responses import Response

from shoal.core.filters import FilterContext
from shoal.core.model import Member
from shoal.graph.cache.dependencies import not_noted
from shoal.graph.contract import Cursor
from shoal.graph.payloads.members import tastes_of
from shoal.queries import home as home_feed
from shoal.queries import public_timelines, trends
from shoal.queries.hydration import Entry
from shoal.queries.pipeline import Page, filtered
from shoal.queries.public_timelines import TagQuery
from shoal.queries.suggestions import portfolios, suggestions
from shoal.web import rows
from shoal.web.paging import BeforeQuery, feed_page, next_of
from shoal.web.rendering import page
from shoal.web.views.explore import CloudWord, WallPhoto, cloud_of, wall_of
from shoal.web.views.people import Face, face_of
from shoal.web.views.tabs import home_tabs
from shoal.web.views.welcome import SuggestedPerson, people_of
from shoal.web.visit import Visit

_ON_THE_WALL = 24
"""Photos that a stranger is shown."""
_IN_A_BEGINNING = 12
"""Photos under each heading of an empty home."""
_IN_THE_CLOUD = 24
_PEOPLE = 4
"""Members who are suggested in an empty home."""


class Beginning(NamedTuple):
    """What an empty home offers: photos under a heading each, and members to follow."""

    walls: list[tuple[str, list[WallPhoto]]]
    people: list[SuggestedPerson]


async def start(visit: Visit, query: BeforeQuery) -> Response:
    """The home of the member who is logged in; for others, the front page."""
    if visit.viewer is None:
        return await _front(visit)
    return await _home(visit, visit.viewer, query)


async def _home(visit: Visit, viewer: Member, query: BeforeQuery) -> Response:
    reads = visit.front.reads
    found = await home_feed.page(reads, viewer.id, query.cursor(), direct=False)
    entries = await filtered(reads.graph, viewer.id, found.entries, FilterContext.HOME)
    empty = not entries and not query.before
    beginning = await _beginning(visit, viewer) if empty and not visit.partial else None
    return await feed_page(
        visit,
        "home",
        Page(entries, found.next),
        next_of(visit, "/", found.next),
        title=visit.words.text("Home"),
        tab="latest",
        beginning=beginning,
        tabs=[] if visit.partial else await home_tabs(visit),
        end=visit.words.text("That is all that the people you follow have posted."),
    )


async def _beginning(visit: Visit, viewer: Member) -> Beginning:
    """Return photos of the picked interests, photos that many like, and members to follow."""
    # Suggestions change without a mark.
    not_noted()
    reads, _ = visit.front.reads, visit.words.text
    picked = frozenset((await tastes_of(reads.graph, viewer.id)).wishes.picked)
    part = Cursor(limit=2 * _IN_A_BEGINNING)
    of_interest, liked, newest, found = await asyncio.gather(
        public_timelines.tag_page(reads, viewer.id, TagQuery(picked, only_media=True), part) if picked else _nothing(),
        trends.page(reads, viewer.id, 2 * _IN_A_BEGINNING),
        public_timelines.public_page(reads, viewer.id, part, only_media=True),
        suggestions(reads, viewer.id, _PEOPLE),
    )
    photos = await portfolios(reads, viewer.id, [one.profile.member.id for one in found])
    interests = wall_of(visit, await _unfiltered(visit, viewer, of_interest.entries))[:_IN_A_BEGINNING]
    shown = {one.path for one in interests}
    others = wall_of(visit, await _unfiltered(visit, viewer, [*liked, *newest.entries]))
    others = [one for one in others if one.path not in shown][:_IN_A_BEGINNING]
    walls = [(_("From your interests"), interests), (_("Popular now"), others)]
    return Beginning([wall for wall in walls if wall[1]], people_of(visit, found, photos))


async def _nothing() -> Page:
    return Page([], None)


async def _unfiltered(visit: Visit, viewer: Member, entries: Sequence[Entry]) -> Sequence[Entry]:
    """Return the entries that no filter of the viewer's home matches."""
    found = await filtered(visit.front.reads.graph, viewer.id, entries, FilterContext.HOME)
    return [entry for entry in found if not entry.filtered]


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
        trends.page(reads, None, _ON_THE_WALL),
        public_timelines.public_page(reads, None, Cursor(limit=_ON_THE_WALL), only_media=True),
        cloud_of(visit, _IN_THE_CLOUD),
    )
    return wall_of(visit, [*trending, *newest.entries])[:_ON_THE_WALL], cloud


async def _lent(visit: Visit) -> Face | None:
    """Return the member whom a demo lends to everybody."""
    lent = visit.front.demo_member
    member = (await visit.front.graph.obj_get((lent,))).get(lent) if lent else None
    return face_of(visit, member) if isinstance(member, Member) else None


ROUTES = (rows.page("/", start, BeforeQuery, remembered=True),)
