"""All settings at a glance."""

from __future__ import annotations

from starlette.responses import Response

from shoal.web import rows
from shoal.web.pages.settings.frame import settings_page
from shoal.web.views.people import face_of
from shoal.web.visit import Visit


async def show(visit: Visit, _params: None) -> Response:
    """Everything that can be set, in groups."""
    member = visit.member
    since = visit.words.day(member.created_at)
    return await settings_page(visit, "", template="overview", face=face_of(visit, member), since=since)


ROUTES = (rows.page("/settings", show),)
