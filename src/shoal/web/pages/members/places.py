"""Where a member's posts were made, as a map."""

from __future__ import annotations

from starlette.responses import Response

from shoal.core.filters import FilterContext
from shoal.graph.contract import Cursor
from shoal.queries import posts
from shoal.queries.pipeline import filtered
from shoal.web import rows
from shoal.web.pages.profile import HandlePath, head, member_of
from shoal.web.rendering import page
from shoal.web.views.maps import map_of
from shoal.web.visit import Visit

_POSTS = 200
"""Newest posts with a place that are on a map."""


async def places(visit: Visit, path: HandlePath) -> Response:
    """The map of a member's posts, as far as the viewer may see them, and the posts by place below it."""
    member = await member_of(visit, path.handle)
    reads = visit.front.reads
    query = posts.MemberFeedQuery(no_shares=True, placed=True)
    found = await posts.authored_page(reads, visit.viewer_id, member.id, Cursor(limit=_POSTS), query)
    entries = await filtered(reads.graph, visit.viewer_id, found.entries, FilterContext.ACCOUNT)
    shown = await head(visit, member)
    return await page(
        visit,
        "places",
        title=visit.words.text("Places of %(name)s") % {"name": shown.face.shown},
        head=shown,
        tab="places",
        map=map_of(visit, entries),
        more=found.next is not None,
    )


ROUTES = (rows.page("/@{handle}/places", places, HandlePath),)
