"""Every route of the API: who may call it, with what, and which function answers. The rows are in `routes/`, part by part."""

from __future__ import annotations

from shoal.api.calls import Route
from shoal.api.routes import (
    accounts,
    discovery,
    filters,
    lists,
    media,
    moderation,
    notifications,
    polls,
    search,
    sessions,
    statuses,
    streaming,
    tags,
    timelines,
)
from shoal.settings import Settings

PARTS = (
    discovery,
    sessions,
    accounts,
    statuses,
    polls,
    media,
    timelines,
    lists,
    tags,
    search,
    notifications,
    filters,
    moderation,
    streaming,
)
"""In the order of `docs/api.md`."""


def table(settings: Settings) -> tuple[Route, ...]:
    """The routes; the settings say how large an upload may be."""
    return tuple(route for part in PARTS for route in part.routes(settings))
