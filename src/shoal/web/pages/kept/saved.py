"""Posts that a member saved for later, and those that they like."""

from __future__ import annotations

from starlette.responses import Response

from shoal.graph.schema import BOOKMARKS, LIKES, AssocType
from shoal.queries import posts as feed
from shoal.queries.pipeline import Page
from shoal.web import rows
from shoal.web.paging import BeforeQuery, feed_page, next_of
from shoal.web.visit import Visit


async def saved(visit: Visit, query: BeforeQuery) -> Response:
    """A page of the posts that the member saved, the last saved first."""
    return await _kept(visit, query, BOOKMARKS, "saved", visit.words.text("Saved"))


async def liked(visit: Visit, query: BeforeQuery) -> Response:
    """A page of the posts that the member likes, the last liked first."""
    return await _kept(visit, query, LIKES, "liked", visit.words.text("Liked"))


async def _kept(visit: Visit, query: BeforeQuery, atype: AssocType, tab: str, title: str) -> Response:
    member = visit.member
    found = await feed.saved_page(visit.front.reads, member.id, atype, query.cursor())
    following = next_of(visit, f"/{tab}", found.next)
    return await feed_page(visit, "saved", Page(found.entries, found.next), following, title=title, tab=tab)


ROUTES = (rows.page("/saved", saved, BeforeQuery), rows.page("/liked", liked, BeforeQuery))
