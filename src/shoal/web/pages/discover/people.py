"""The directory: members who want to be found."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta
from starlette.responses import Response

from shoal.core.errors import Unavailable
from shoal.graph.access import relations
from shoal.graph.cache.dependencies import not_noted
from shoal.queries import members
from shoal.queries.hydration import Profile, profiles_by_id
from shoal.queries.suggestions import most_followed
from shoal.search.indexing import is_listed
from shoal.web import rows
from shoal.web.rendering import page, part
from shoal.web.views.people import people_of
from shoal.web.visit import Visit

_SIZE = 24
_MOST = 2_000


class DirectoryPageQuery(msgspec.Struct, frozen=True, kw_only=True):
    """An order of the directory, and where in it a page begins."""

    order: Literal["followed", "active", "new"] = "followed"
    offset: Annotated[int, Meta(ge=0, le=_MOST)] = 0


async def people(visit: Visit, query: DirectoryPageQuery) -> Response:
    """A page of members: the most followed, those who posted lately, or those who joined lately."""
    found, more = await _found(visit, query)
    persons = await people_of(visit, found)
    following = visit.url("/explore/people", order=query.order, offset=query.offset + _SIZE) if more else ""
    if visit.partial:
        return part(visit, "people", people=persons, next=following)
    title = visit.words.text("People")
    return await page(visit, "directory", title=title, people=persons, next=following, order=query.order)


async def _found(visit: Visit, query: DirectoryPageQuery) -> tuple[list[Profile], bool]:
    """Return a page of members, and whether more follow."""
    reads, last = visit.front.reads, query.offset + _SIZE > _MOST
    try:
        if query.order == "followed":
            return await followed_most(visit, query.offset, _SIZE)
        found = await members.directory_page(reads, visit.viewer_id, query.order, _SIZE, query.offset)
    except Unavailable:
        not_noted()
        return [], False
    # Some may be left out of a page that is not the last: the next one says whether anybody follows.
    return found, bool(found) and not last


async def followed_most(visit: Visit, offset: int, limit: int) -> tuple[list[Profile], bool]:
    """Return some of the most followed members who want to be found, without those whom the viewer does not meet, and
    whether more follow.
    """
    reads, viewer = visit.front.reads, visit.viewer_id
    every = await most_followed(reads)
    ids = every[offset : offset + limit]
    stands = await relations(reads.graph, viewer, ids)
    found = [
        one
        for one in await profiles_by_id(reads.graph, viewer, ids)
        if is_listed(one.member) and not stands[one.member.id].severed and not stands[one.member.id].muting
    ]
    return found, offset + limit < len(every)


ROUTES = (rows.page("/explore/people", people, DirectoryPageQuery, remembered=True),)
