"""Timelines."""

from __future__ import annotations

from shoal.api import timelines
from shoal.api.entities.statuses import Status
from shoal.api.http.calls import Route
from shoal.api.rows import seen, statuses_page
from shoal.settings import Settings


def routes(_settings: Settings) -> tuple[Route, ...]:
    """The rows."""
    return (
        statuses_page("GET", "/api/v1/timelines/home", timelines.home, scope="read:statuses"),
        seen(
            "GET",
            "/api/v1/timelines/public",
            timelines.public,
            scope="read:statuses",
            params=timelines.Public,
            answer=list[Status],
        ),
        seen(
            "GET",
            "/api/v1/timelines/tag/{tag}",
            timelines.tag,
            scope="read:statuses",
            params=timelines.Tagged,
            answer=list[Status],
        ),
    )
