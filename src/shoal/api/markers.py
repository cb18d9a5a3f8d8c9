"""Markers: up to where the caller has read their home and their notifications."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import msgspec
from msgspec import Meta

from shoal.api import rows
from shoal.api.context import Context
from shoal.api.entities import presenter
from shoal.api.entities.notifications import Marker
from shoal.api.http.convert import Id
from shoal.api.listing import actor
from shoal.commands import notifications
from shoal.core.ids import milliseconds_of
from shoal.graph.payloads.members import HOME, NOTIFICATIONS, Mark, marks

TIMELINES = (HOME, NOTIFICATIONS)


class MarkersQuery(msgspec.Struct, frozen=True):
    """Timelines whose markers are asked for: `home` and `notifications`."""

    timeline: Annotated[tuple[Annotated[str, Meta(max_length=100)], ...], Meta(max_length=100)] = ()


class MarkerPosition(msgspec.Struct, frozen=True):
    """The newest that was read."""

    last_read_id: Id | None = None


class MarkerPositions(msgspec.Struct, frozen=True):
    """Markers to set, by timeline: how far the caller has read."""

    home: MarkerPosition | None = None
    notifications: MarkerPosition | None = None


async def show(context: Context, params: MarkersQuery) -> object:
    """The markers of these timelines; one that was never set is left out."""
    front = context.deps
    wanted = [name for name in TIMELINES if name in params.timeline]
    return _shown(await marks(front.graph, actor(context), wanted))


async def mark(context: Context, params: MarkerPositions) -> object:
    """Set markers; what they are now is the answer."""
    front = context.deps
    given = {HOME: params.home, NOTIFICATIONS: params.notifications}
    read = {name: place.last_read_id for name, place in given.items() if place and place.last_read_id is not None}
    return _shown(await notifications.set_markers(front.writes, actor(context), read))


def _shown(found: Mapping[str, Mark]) -> dict[str, Marker]:
    return {
        name: Marker(str(mark.last_read_id), mark.version, presenter.moment(milliseconds_of(mark.time)))
        for name, mark in found.items()
    }


ROUTES = (
    rows.route(
        "GET",
        "/api/v1/markers",
        show,
        scope="read:statuses",
        params=MarkersQuery,
        answer=dict[str, Marker],
    ),
    rows.route(
        "POST",
        "/api/v1/markers",
        mark,
        scope="write:statuses",
        params=MarkerPositions,
        answer=dict[str, Marker],
    ),
)
