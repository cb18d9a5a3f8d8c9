"""The column beside a feed on a wide screen: people to follow, tags on the rise."""

from __future__ import annotations

import asyncio

from starlette.responses import Response

from shoal.queries.suggestions import suggestions
from shoal.web import rows
from shoal.web.rendering import part
from shoal.web.views.explore import cloud_of
from shoal.web.views.people import suggested
from shoal.web.visit import Visit

_PEOPLE = 3
_TAGS = 8


async def beside(visit: Visit, _params: None) -> Response:
    """Return people to follow and tags on the rise (the most used where none is), which a script puts beside the feed."""
    member = visit.member
    people, rising = await asyncio.gather(
        suggestions(visit.front.reads, member.id, _PEOPLE), cloud_of(visit, _TAGS, "rising")
    )
    used = () if rising else await cloud_of(visit, _TAGS)
    return part(visit, "beside_panels", people=[suggested(visit, one) for one in people], rising=rising, used=used)


ROUTES = (rows.page("/beside", beside),)
