"""Every route of the API: who may call it, with what, and which function answers. The rows are in `routes/`, part by part."""

from __future__ import annotations

from types import ModuleType

from shoal.api.http.calls import Part, Route
from shoal.api.routes import (
    accounts,
    administration,
    blocklists,
    description,
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
    blocklists,
    administration,
    streaming,
)
"""In the order of `docs/api.md`."""


def parts(settings: Settings) -> tuple[Part, ...]:
    """The routes, part by part; the settings say how large an upload may be. The last part describes the others and itself."""
    made = tuple(_part(part, part.routes(settings)) for part in PARTS)
    return (*made, description.part(made))


def table(settings: Settings) -> tuple[Route, ...]:
    """The routes, in one row."""
    return tuple(route for part in parts(settings) for route in part.routes)


def _part(module: ModuleType, routes: tuple[Route, ...]) -> Part:
    return Part(module.__name__.rpartition(".")[2], (module.__doc__ or "").strip(), routes)
