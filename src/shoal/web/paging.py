"""Lists over several pages: what is asked for, and the address of the next page."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta
from starlette.responses import Response

from shoal.graph.contract import MAX_TIME, Cursor
from shoal.http.convert import CursorId
from shoal.queries.pipeline import Page
from shoal.web.rendering import page, part
from shoal.web.views.posts import posts_of
from shoal.web.visit import Visit

SIZE = 20
"""Posts on a page."""


class BeforeQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A page of a list."""

    before: CursorId = CursorId(0)
    """Id of the last entry of the page before."""

    def cursor(self, size: int = SIZE) -> Cursor:
        """Return the part of the list that is asked for."""
        return Cursor(self.before or MAX_TIME, 0, size)


class NamedQuery(BeforeQuery, frozen=True, kw_only=True):
    """A page of a list that has a name in its path."""

    name: Annotated[str, Meta(max_length=400)]


def next_of(visit: Visit, path: str, before: int | None, **query: object) -> str:
    """Return the address of the page that follows in a list, by the last id of this one; empty at its end, which has none."""
    return visit.url(path, **query, before=before) if before else ""


async def feed_page(
    visit: Visit, template: str, found: Page, following: str, *, title: str = "", end: str = "", **views: Any
) -> Response:
    """Return a page with posts, or, for a script that asks for more of them, those alone."""
    posts = await posts_of(visit, found.entries)
    if visit.partial:
        return part(visit, "posts", posts=posts, next=following, end=end)
    return await page(visit, template, title=title, posts=posts, next=following, end=end, **views)
