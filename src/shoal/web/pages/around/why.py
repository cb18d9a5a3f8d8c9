"""Where a post stands in the member's ranked feed, or what keeps it out."""

from __future__ import annotations

import msgspec
from starlette.responses import Response

from shoal.graph.cache.coherence import one_request
from shoal.http.convert import Id
from shoal.queries.foryou import feed
from shoal.queries.hydration import Entry
from shoal.web import rows
from shoal.web.pages.posts import post_with_id
from shoal.web.rendering import page
from shoal.web.views.posts import post_of
from shoal.web.views.ranking import why_of
from shoal.web.views.standings import FeedStanding, out_of, placed_at
from shoal.web.visit import Visit

_PATIENCE = 3.0
"""Seconds that ranking may take here: somebody asked for just this."""


class WhyPath(msgspec.Struct, frozen=True):
    """A post."""

    id: Id


async def why(visit: Visit, path: WhyPath) -> Response:
    """Say in words where a post stands in For you, with its reasons, or why it does not stand there."""
    member = visit.member
    entry = await post_with_id(visit, path.id)
    with one_request():
        standing, reasons = await _standing(visit, member.id, entry)
    return await page(
        visit,
        "why",
        title=visit.words.text("Its place in For you"),
        post=post_of(visit, entry, why=reasons),
        standing=standing,
    )


async def _standing(visit: Visit, member_id: int, entry: Entry) -> tuple[FeedStanding, object]:
    reading = await feed.new_reading(visit.front.reads, member_id, explain=True, deadline=_PATIENCE)
    place = None if isinstance(reading, str) else reading.place_of(entry.post.id)
    if isinstance(reading, str) or place is None:
        return out_of(visit, await feed.why_not(visit.front.reads, member_id, entry.post.id)), None
    (why,) = reading.why(place, place + 1)
    return placed_at(visit, place + 1, len(reading)), why_of(visit, why, entry)


ROUTES = (rows.page("/posts/{id}/why", why, WhyPath),)
