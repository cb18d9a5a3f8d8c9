"""All comments on a post, page by page: its own page shows some of them."""

from __future__ import annotations

from starlette.responses import Response

from shoal.core.filters import FilterContext
from shoal.http.convert import Id
from shoal.queries import threads
from shoal.queries.pipeline import Page, filtered
from shoal.web import rows
from shoal.web.pages.posts import post_with_id
from shoal.web.paging import BeforeQuery, feed_page, next_of
from shoal.web.views.posts import post_of
from shoal.web.visit import Visit


class CommentsPath(BeforeQuery, frozen=True, kw_only=True):
    """A post, and a page of its comments."""

    id: Id


async def comments(visit: Visit, path: CommentsPath) -> Response:
    """A page of the comments on a post, newest first."""
    reads = visit.front.reads
    entry = await post_with_id(visit, path.id)
    found = await threads.replies(reads, visit.viewer_id, entry.post.id, path.cursor())
    entries = await filtered(reads.graph, visit.viewer_id, found.entries, FilterContext.THREAD)
    return await feed_page(
        visit,
        "comments",
        Page(entries, found.next),
        next_of(visit, f"/posts/{entry.post.id}/comments", found.next),
        title=visit.words.text("Comments"),
        about=post_of(visit, entry),
        end=visit.words.text("These are all comments."),
    )


ROUTES = (rows.page("/posts/{id}/comments", comments, CommentsPath, remembered=True),)
