"""Polls and scheduled statuses."""

from __future__ import annotations

from shoal.api import polls, scheduled
from shoal.api.entities.scheduled import ScheduledStatus
from shoal.api.entities.statuses import Poll
from shoal.api.http.calls import Route
from shoal.api.listing import One
from shoal.api.rows import one, page, route, seen
from shoal.settings import Settings


def routes(_settings: Settings) -> tuple[Route, ...]:
    """The rows."""
    return (
        seen("GET", "/api/v1/polls/{id}", polls.one, scope="read:statuses", params=One, answer=Poll),
        route("POST", "/api/v1/polls/{id}/votes", polls.vote, scope="write:statuses", params=polls.Votes, answer=Poll),
        page(
            "GET",
            "/api/v1/scheduled_statuses",
            scheduled.several,
            scope="read:statuses",
            answer=list[ScheduledStatus],
        ),
        one("GET", "/api/v1/scheduled_statuses/{id}", scheduled.one, scope="read:statuses", answer=ScheduledStatus),
        route(
            "PUT",
            "/api/v1/scheduled_statuses/{id}",
            scheduled.move,
            scope="write:statuses",
            params=scheduled.Moved,
            answer=ScheduledStatus,
        ),
        one("DELETE", "/api/v1/scheduled_statuses/{id}", scheduled.cancel, scope="write:statuses", answer=dict),
    )
